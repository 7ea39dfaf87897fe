"""`CuPyExecutor`: programs, products and formulas of plans as launches into memory of the plan, and these launches."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from burnpy.backend.dtypes import dtype_of, float32, float64, kind_of
from burnpy.backend.plans.epilogues import MOST_ROUNDED
from burnpy.backend.plans.executor import (
    INDEXED,
    Computation,
    Executor,
    Joined,
    Launch,
    ListsComputation,
    NodeLaunch,
    Number,
    as_formula,
    lists_of,
)
from burnpy.backend.plans.group_program import Signature
from burnpy.backend.plans.recording import Node, Ref, refs_in
from burnpy.backend.plans.source import Source
from burnpy.backend.primitives import DType, Shape
from burnpy.backend.programs import Program
from burnpy_array.array_base import is_half
from burnpy_cupy import gemm
from burnpy_cupy.epilogues import BIAS, SUM, FinishedProduct
from burnpy_cupy.kernels.elementwise_kernel import contiguous, copied
from burnpy_cupy.kernels.foreach import ForeachKernel, cast_to, foreach_kernel
from burnpy_cupy.kernels.foreach_tables import SUMMED, THREADS, NormKernels, named_tables, norm_kernels
from burnpy_cupy.kernels.launch import Geometry, along, flat, matrix, transposed
from burnpy_cupy.kernels.programs import Kernel, chunks_of, total_of
from burnpy_cupy.number_formulas import formula_kernel, formula_source
from burnpy_cupy.replays import Argument, KernelCall, LaunchSequence, Part, ProductCall, Table

_PRODUCTS = ("matmul", "matmul_nt", "matmul_tn")


def _matrices(ref: Ref, turned: bool = False) -> tuple[Shape, Shape]:
    """Return the shape and the strides in bytes of a C-contiguous array of matrices, or of their transposes."""
    shape = ref.shape
    strides = [math.prod(shape[k + 1 :]) * ref.dtype.itemsize for k in range(len(shape))]
    if turned:
        shape, strides = (*shape[:-2], *shape[:-3:-1]), [*strides[:-2], *strides[:-3:-1]]
    return shape, tuple(strides)


def _rows(ref: Ref) -> Ref:
    """Return a value as a matrix whose rows are all but the last dimension."""
    return Ref(ref.number, (math.prod(ref.shape[:-1]), ref.shape[-1]), ref.dtype)


def _product_of(node: Node) -> gemm.Product | None:
    """Return the product of a node; None if it is not cuBLAS's."""
    x, y, out = *node.args, node.results
    if x.dtype is not y.dtype or kind_of(x.dtype) != "float" or len(x.shape) < 2 or len(y.shape) < 2:
        return None
    by_x, by_y = (_matrices(ref, node.name == name) for ref, name in ((x, "matmul_tn"), (y, "matmul_nt")))
    product = gemm.Product(by_x, by_y, _matrices(out), x.dtype, out.dtype)
    return product if product.possible else None


class CuPyExecutor(Executor):
    """The computations of CuPy that plans give memory.

    Args:
        device: the device, a `CuPy`.
    """

    adds_bias: ClassVar[bool] = False
    multiplies_pixels: ClassVar[bool] = False
    rounds: ClassVar[bool] = True

    def __init__(self, device: Any) -> None:
        self._device = device

    def program(self, program: Program, rows: int, columns: int) -> Launch | None:
        """Return the launches of a program's kernels; None if kernels are off, or not for so few long rows."""
        geometry = flat(rows * columns) if program.elementwise else matrix(rows, columns)
        if not rows * columns or not (program.elementwise or geometry.occupies):
            return None
        kernel = self._device._program_kernel(program)
        return None if kernel is None else ProgramLaunch(self._device, kernel, geometry)

    def launch(self, node: Node, values: Mapping[int, Any], bounds: Mapping[int, tuple[int, int]]) -> NodeLaunch | None:
        """Return the launch of a product, of cross entropy, or of a formula of lists; None for others."""
        if node.name in _PRODUCTS:
            return self._product(node)
        if node.name == "linear_backward":
            return self._gradients(node)
        if node.name in INDEXED:
            return self._rows(node, bounds)
        if node.name == "on_host":
            return self._numbers(node)
        if node.name == "total_norm":
            return self._norm(node)
        if node.name == "foreach_cast":
            return self._casts(node)
        node = as_formula(node)
        return self._lists(node) if node.name == "foreach" else None

    def _product(self, node: Node) -> NodeLaunch | None:
        product = _product_of(node)
        return None if product is None else ProductLaunch(self._device, product, node.args)

    def _gradients(self, node: Node) -> NodeLaunch | None:
        """Return the launch of the gradients of a linear layer by weight and bias."""
        grad, x = node.args
        product = _product_of(node.replacement("matmul_tn", (_rows(x), _rows(grad)), node.results[0]))
        return self._with_epilogue(product, SUM, (x, grad))

    def _with_epilogue(self, product: gemm.Product | None, epilogue: int, operands: Sequence[Ref]) -> NodeLaunch | None:
        """Return the launch of a product with an epilogue; None if cuBLASLt has none."""
        if product is None:
            return None
        both = FinishedProduct(self._device.xp, product, epilogue)
        possible = self._device._call(both.possible)
        return ProductLaunch(self._device, both, operands) if possible else None

    def _rows(self, node: Node, bounds: Mapping[int, tuple[int, int]], dtype: DType | None = None) -> NodeLaunch | None:
        """Return the launch of an operation with an index for each row, if the index was checked. It rounds its result
        to ``dtype``, unless that is None."""
        refs = refs_in(node.args)
        x, index = refs[-2 if node.name == "cross_entropy" else 1], refs[-1]
        low, high = bounds.get(index.number, (-1, 0))
        floats = {ref.dtype for ref in (*refs[:-1], *refs_in(node.results))}
        geometry = along(x.shape, (node.args[-1],)) if x.shape else None
        rows = 0 if geometry is None else geometry.rows
        alike = all(math.prod(ref.shape) == rows for ref in refs if ref is not x)
        if geometry is None or not alike or low < 0 or high >= geometry.columns or len(floats) > 1:
            return None
        name, extents, rest = INDEXED[node.name]
        kernel = self._device._operation_kernel(name, extents, x.dtype, rest if dtype is None else (*rest, dtype))
        return None if kernel is None else RowsLaunch(self._device, kernel, geometry, refs)

    def _lists(self, node: Node) -> NodeLaunch | None:
        """Return the launch of a formula of lists of one dtype."""
        formula, lists, numbers, flags, *_ = node.args
        members = lists_of(node)
        if members is None or members[0].dtype not in (float32, float64):
            return None
        held = tuple([x.dtype if x.__class__ is Ref else None for x in numbers])
        dtypes_of_lists = (members[0].dtype,) * len(lists)
        kernel = foreach_kernel(self._device.xp, formula, dtypes_of_lists, held, flags, False)
        return None if kernel is None else ListsLaunch(self._device, node, kernel)

    def _casts(self, node: Node) -> NodeLaunch | None:
        """Return the launch that converts many arrays; an operation reads few of one shape where they lie."""
        xs, dtype = node.args
        if len(xs) <= MOST_ROUNDED and len({x.shape for x in xs}) == 1:
            return None
        formula = (cast_to(dtype.name), (xs,), (), (), False, None)
        return self._lists(node.replacement("foreach", formula, (node.results,)))

    def _norm(self, node: Node) -> NodeLaunch | None:
        """Return the launches of the norm of arrays of one dtype."""
        xs, p = node.args
        dtypes = {x.dtype for x in xs}
        if p not in (1, 2, math.inf) or dtypes not in ({float32}, {float64}) or any(0 in x.shape for x in xs):
            return None
        return NormLaunch(self._device, node, norm_kernels(self._device.xp, float(p), xs[0].dtype, node.results.dtype))

    def _numbers(self, node: Node) -> NodeLaunch | None:
        """Return the launch of a formula of numbers that arithmetic alone computes."""
        formula, numbers = node.args
        refs = refs_in(numbers)
        given = [None if x.__class__ is Ref else x for x in numbers]
        source = formula_source(formula, given, [ref.dtype.name for ref in refs]) if refs else None
        return None if source is None else NumbersLaunch(self._device, node, formula_kernel(self._device.xp, source))

    def finished(
        self, node: Node, signature: Signature, values: Mapping[int, Any], bounds: Mapping[int, tuple[int, int]]
    ) -> NodeLaunch | None:
        """Return the launch of a product with its bias, or of an operation with indices with its result in 16 bits."""
        if node.name in INDEXED:
            alone = [each.name for each in signature.group.nodes] == ["cast"]
            return self._rows(node, bounds, signature.outputs[0].dtype) if alone else None
        others = [ref for ref in signature.arrays if ref.number != node.results.number]
        if node.name not in _PRODUCTS or [each.name for each in signature.group.nodes] != ["add"]:
            return None
        dtypes = {ref.dtype for ref in (*node.args, node.results, *others, *signature.outputs)}
        if len(dtypes) > 1 or [ref.shape for ref in others] != [node.results.shape[-1:]]:
            return None
        return self._with_epilogue(_product_of(node), BIAS, (*node.args, *others))

    def joined(self, calls: Sequence[Any], given: Sequence[str]) -> Joined:
        """Return the launches as one call."""
        return LaunchSequence(self._device, calls, given)

    def memory(self, size: int) -> Any:
        """Return memory of this many bytes, which CuPy aligns."""
        return self._device._call(self._device.xp.empty, size, "uint8")

    def is_contiguous(self, x: Any) -> bool:
        """Return whether an array is C-contiguous."""
        return bool(x._c_contiguous)

    def contiguous(self, x: Any) -> Any:
        """Return an array, or a copy of it, that is C-contiguous."""
        return self._device._call(contiguous, self._device.xp, x)

    def empty(self, shape: Shape, dtype: DType) -> Any:
        """Return new memory."""
        return self._device._call(self._device.xp.empty, shape, dtype)

    def add(self, x: Any, y: Any, out: Any) -> None:
        """Write a sum into memory."""
        kernel = "burnpy_add" if hasattr(y, "dtype") else "burnpy_add_float"
        self._device._call(self._device._kernels[kernel], x, y, out)

    def put(self, x: Any, owned: bool, dim: int, index: Any, src: Any) -> Any:
        """Compute `Backend.index_put`, in the memory of x if it is ``owned``."""
        device = self._device
        src = device._last_writer(src, dim, index, x.shape[dim])
        out = x if owned else device._call(copied, device.xp, x)
        device._call(operator.setitem, out, (*(slice(None),) * dim, index), src)
        return out

    def copy(self, x: Any, out: Any) -> None:
        """Write an array into memory."""
        self._device._call(self._device.xp.copyto, out, x)

    def fill(self, out: Any, value: float) -> None:
        """Write a number into all of memory."""
        self._device._call(out.fill, value)

    def may_overwrite(self, x: Any) -> bool:
        """Return whether an array is C-contiguous memory of its own."""
        if x.base is not None or not x._c_contiguous:
            return False
        return bool(x.shape) or self._device._host_values.of(x) is None


class _Launch(Computation, ABC):
    """A launch by calls that can be joined with others."""

    def __init__(self, device: Any) -> None:
        self._device = device

    @abstractmethod
    def calls(
        self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]
    ) -> Sequence[KernelCall | ProductCall]:
        """Return its launches."""

    def write(self, source: Source, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> None:
        """Write the launches as a call of their own, which finds all addresses anew."""
        names = [*dict.fromkeys([*arrays, *[number.name for number in numbers], *scratch])]
        sequence = LaunchSequence(self._device, self.calls(arrays, numbers, scratch), names)
        launched = source.bind(sequence.run, "f")
        source.write(f"{launched}({', '.join(names)})")


class ProgramLaunch(_Launch):
    """The kernels of a program, for fixed numbers of rows and columns."""

    def __init__(self, device: Any, kernel: Kernel, geometry: Geometry) -> None:
        super().__init__(device)
        self._kernel, self._geometry = kernel, geometry
        self._turned = transposed(geometry.rows, geometry.columns)
        self._sums = kernel.passes.is_sum.count(True)
        program, self._chunks = kernel.passes.by_columns, 1
        scratch = list[
            tuple[Shape, DType]
        ]()  # for the values of each row that sums over rows need, and for their parts
        if kernel.passes.by_rows is not None:
            first = kernel.passes.by_rows
            carried = first.outputs[kernel.passes.is_sum.count(False) :]
            scratch += [((geometry.rows, 1), dtype_of(first.instructions[k].dtype)) for k in carried]
        self._carried = len(scratch)
        if program is not None:
            self._chunks = chunks_of(self._turned)
            dtype = dtype_of(program.instructions[program.outputs[0]].dtype)
            self._wide = float32 if is_half(dtype) else dtype
            if self._chunks > 1:
                scratch.append(((self._sums, self._chunks, self._turned.rows), self._wide))
        self.scratch = scratch

    def calls(
        self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]
    ) -> Sequence[KernelCall | ProductCall]:
        """Return up to two launches, and one for each sum of the parts of sums over rows."""
        passes = self._kernel.passes
        count = len(arrays) - len(passes.is_sum)
        given, results = arrays[:count], arrays[count:]
        carried, held = scratch[: self._carried], tuple([number.dtype.name for number in numbers])
        names = [number.name for number in numbers]
        calls = list[KernelCall]()
        if passes.by_rows is not None:
            made = [name for name, is_sum in zip(results, passes.is_sum, strict=True) if not is_sum]
            calls.append(self._call(passes.by_rows, [*given, *made, *carried, *names], self._geometry, 1, held))
        if passes.by_columns is None:
            return calls
        sums = [name for name, is_sum in zip(results, passes.is_sum, strict=True) if is_sum]
        if self._chunks == 1:
            return [*calls, self._call(passes.by_columns, [*given, *carried, *sums, *names], self._turned, 1, held)]
        size = self._chunks * self._turned.rows
        parts = [Part(scratch[-1], k * size * self._wide.itemsize) for k in range(len(sums))]
        arguments = [*given, *carried, *parts, *names]
        calls.append(self._call(passes.by_columns, arguments, self._turned, self._chunks, held))
        dtype = passes.by_columns.instructions[passes.by_columns.outputs[0]].dtype
        total = total_of(self._wide.name, dtype)
        columns = transposed(self._chunks, self._turned.rows)
        return [*calls, *[self._call(total, pair, columns, 1) for pair in zip(parts, sums, strict=True)]]

    def _call(
        self, program: Program, arguments: Sequence[Any], geometry: Geometry, chunks: int, held: tuple[str, ...] = ()
    ) -> KernelCall:
        stride = geometry.rows if chunks > 1 else 0
        source, grid, block, sizes = self._kernel.prepared(program, geometry, chunks, stride, held)
        return KernelCall(source.launch, grid, block, [*arguments, *sizes])


class _NodeLaunch(_Launch):
    """The computation of a node by arrays of its own."""

    def __init__(self, device: Any, node: Node) -> None:
        super().__init__(device)
        self.operands: Sequence[Ref] = refs_in(node.args)


class RowsLaunch(ProgramLaunch):
    """An operation of rows as one program."""

    def __init__(self, device: Any, kernel: Kernel, geometry: Geometry, operands: Sequence[Ref]) -> None:
        super().__init__(device, kernel, geometry)
        self.operands = operands


class ProductLaunch(_Launch):
    """A product, perhaps with an epilogue.

    Args:
        device: the device, a `CuPy`.
        product: the product.
        operands: what it reads: the factors, in their order, and a bias.
    """

    def __init__(self, device: Any, product: gemm.Product | FinishedProduct, operands: Sequence[Ref]) -> None:
        super().__init__(device)
        self._product, self.operands = product, operands

    def calls(self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> Sequence[ProductCall]:
        """Return the call of cuBLAS or cuBLASLt, which takes the vector of an epilogue last."""
        x, y, *rest = arrays
        vector, out = ([rest[0]], rest[1]) if len(self.operands) == 3 else (rest[1:], rest[0])
        return [ProductCall(self._product, (x, y, out, *vector))]


class ListsLaunch(ListsComputation, _Launch):
    """A formula of lists, by a kernel."""

    def __init__(self, device: Any, node: Node, kernel: ForeachKernel) -> None:
        super().__init__(node)
        self._device, self._kernel = device, kernel

    def calls(self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> Sequence[KernelCall]:
        """Return the launches of the kernel, one for each table of arrays."""
        count, named = len(self.lists[0]), iter(numbers)
        values: list[Any] = []
        for x in self.given:
            values += [next(named).name, 0] if x.__class__ is Ref else [float(x)]
        rows, sizes = [arrays[k::count] for k in range(count)], [math.prod(x.shape) for x in self.lists[0]]
        return [
            KernelCall(self._kernel.function, (parts, 1), (THREADS, 1), [*values, Table(content, named)])
            for content, named, parts in named_tables(rows, sizes)
        ]


class NormLaunch(_NodeLaunch):
    """The norm of all elements of arrays of one dtype."""

    def __init__(self, device: Any, node: Node, kernels: NormKernels) -> None:
        super().__init__(device, node)
        self._kernels, self._sizes = kernels, [math.prod(x.shape) for x in self.operands]
        self._parts = sum(table.parts for table in named_tables([("",)] * len(self._sizes), self._sizes))
        self._blocks = -(-self._parts // SUMMED)  # that add up parts, where these are many
        self.scratch = [((3 * (self._parts + self._blocks),), float64)]

    def calls(self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> Sequence[KernelCall]:
        """Return the launches of the norms of parts, one for each table of arrays, and of their norm."""
        *given, out = arrays
        calls, start = list[KernelCall](), 0
        for table in named_tables([(name,) for name in given], self._sizes):
            part = Part(scratch[0], 3 * start * float64.itemsize)
            arguments: list[Argument] = [part, Table(table.content, table.arrays)]
            calls.append(KernelCall(self._kernels.parts, (table.parts, 1), (THREADS, 1), arguments))
            start += table.parts
        parts, count = Part(scratch[0], 0), self._parts
        if self._blocks > 1:
            sums = Part(scratch[0], 3 * count * float64.itemsize)
            calls.append(KernelCall(self._kernels.sums, (self._blocks, 1), (THREADS, 1), [parts, count, sums]))
            parts, count = sums, self._blocks
        return [*calls, KernelCall(self._kernels.total, (1, 1), (THREADS, 1), [parts, count, out])]


class NumbersLaunch(_NodeLaunch):
    """A formula of numbers that are on the GPU."""

    def __init__(self, device: Any, node: Node, kernel: Any) -> None:
        super().__init__(device, node)
        self._kernel = kernel
        self.operands, self.numbers = (), refs_in(node.args)

    def calls(self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> Sequence[KernelCall]:
        """Return the launch of one thread."""
        return [KernelCall(self._kernel, (1, 1), (1, 1), [*[number.name for number in numbers], *arrays])]
