"""The launches of plans on NumPy: programs, products, convolutions, norms, pooling and formulas into given memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import burnpy_numpy.cpu_threads as threads
from burnpy.backend.dtypes import float32, float64, uint8
from burnpy.backend.plans.executor import Computation, ListsComputation, Number
from burnpy.backend.plans.recording import Node, Ref, refs_in
from burnpy.backend.plans.source import Source
from burnpy.backend.primitives import DType, Shape
from burnpy.backend.programs import Extent
from burnpy_numpy.kernels.launch import sum_of_rows
from burnpy_numpy.kernels.packed_weights import with_kept_panels
from burnpy_numpy.matmul import dot, product_into
from burnpy_numpy.numpy_calls import quietly, run
from burnpy_numpy.openblas import cblas

if TYPE_CHECKING:
    from burnpy_numpy.kernels.compiler.entry import Entry
    from burnpy_numpy.kernels.launch import Kernel, TemplateKernel
    from burnpy_numpy.kernels.normalization import PlaneGroups
    from burnpy_numpy.kernels.plans import KernelCall
    from burnpy_numpy.kernels.pooling import Pool
    from burnpy_numpy.kernels.products.products import Following, Product
    from burnpy_numpy.kernels.products.quantized import IntegerWindows
    from burnpy_numpy.kernels.programs import ForeachKernel

_SHARED = 1 << 18
"""The least number of elements for which a kernel runs on several threads."""
_PADDING = 64


class NumPyLaunch(Computation):
    """A computation by calls of compiled code, into memory of its own."""

    def calls(
        self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]
    ) -> Sequence[KernelCall] | None:
        """Return the calls of kernels and of OpenBLAS; None if they would run on several threads."""
        if threads.COUNT > 1 and self._work() >= _SHARED:
            return None
        return self._calls(arrays, numbers, scratch)

    def _work(self) -> float:
        """Return the number of elements, which decides whether threads share the work."""
        return 0.0

    def _calls(
        self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]
    ) -> Sequence[KernelCall] | None:
        """Return the calls for one thread; None if Python makes them."""
        raise NotImplementedError


class ProgramLaunch(NumPyLaunch):
    """A kernel of a program, for fixed numbers of rows and columns."""

    in_place = True  # a row of an input is read before the same row of a result is written

    def __init__(self, kernel: Kernel, rows: int, columns: int) -> None:
        self._kernel, self._rows, self._columns = kernel, rows, columns
        outputs = [kernel.program.instructions[k] for k in kernel.program.outputs]
        self._partial = [
            ((-(-rows // 128), columns if step.extent is Extent.ROW else 1), np.dtype(step.dtype)) if partial else None
            for step, partial in zip(outputs, kernel.layout.partial, strict=True)
        ]

        sums: list[tuple[Shape, DType]] = [part for part in self._partial if part is not None]
        kept = kernel.layout.scratch  # values of a row
        self.scratch = [*sums, ((kept * (columns + _PADDING),), float64)] if kept else sums

    def _work(self) -> float:
        return self._rows * self._columns * self._kernel.each

    def _calls(self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> Sequence[KernelCall]:
        """Return the call of the kernel, with the sums over rows before and after it."""
        from burnpy_numpy.kernels.plans import program_call, sum_call, zeros_call

        rows, columns = self._rows, self._columns
        given, added, room = self._given(arrays, scratch)
        size = rows * columns
        sizes = (0, size, 1, size) if self._kernel.layout.flat else (0, rows, rows, columns)
        zeros = [zeros_call(name, math.prod(shape) * dtype.itemsize) for name, _, (shape, dtype) in added]
        sums = [sum_call(name, out, dtype, (shape[0], shape[1])) for name, out, (shape, dtype) in added]
        return [*zeros, program_call(self._kernel.function, [*given, *room], numbers, sizes), *sums]

    def write(self, source: Source, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> None:
        """Write the call of the kernel on several threads, with the sums over rows before and after it."""
        given, added, _ = self._given(arrays, scratch)
        for name, _, _ in added:
            source.write(f"{name}.fill(0.0)")
        call, values = source.bind(self._kernel.into, "f"), "".join(f"{number.name}.item(), " for number in numbers)
        source.write(f"{call}(({', '.join(given)},), ({values}), {self._rows}, {self._columns})")
        for name, out, (shape, _) in added:
            source.write(f"{source.bind(add_up, 'f')}({name}, {out}.reshape({shape[1]}))")

    def _given(
        self, arrays: Sequence[str], scratch: Sequence[str]
    ) -> tuple[list[str], list[tuple[str, str, tuple[Shape, DType]]], list[str]]:
        """Return the arrays of the kernel; for each sum over rows its memory and its result; and further memory."""
        count, parts = len(arrays) - len(self._partial), iter(scratch)
        given, added = [*arrays[:count]], list[tuple[str, str, tuple[Shape, DType]]]()
        for result, part in zip(arrays[count:], self._partial, strict=True):
            if part is None:
                given.append(result)
                continue
            given.append(next(parts))
            added.append((given[-1], result, part))
        return given, added, [*parts]


class RowsLaunch(ProgramLaunch):
    """An operation of rows as one program."""

    def __init__(self, kernel: Kernel, rows: int, columns: int, operands: Sequence[Ref]) -> None:
        super().__init__(kernel, rows, columns)
        self.operands = operands


class ListsLaunch(ListsComputation, NumPyLaunch):
    """A formula of lists, by a kernel."""

    def __init__(self, node: Node, kernel: ForeachKernel) -> None:
        super().__init__(node)
        self._kernel = kernel

    def _work(self) -> float:
        return sum(self._sizes) * self._kernel.each

    def _calls(self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> Sequence[KernelCall]:
        from burnpy_numpy.kernels.plans import template_call

        parts, which, starts, stops, _ = self._kernel.parts(self._sizes)
        count = len(self.lists[0])
        table = tuple([name for k in range(count) for name in arrays[k::count]])
        named = iter(numbers)
        values = [next(named) if x.__class__ is Ref else (float(x), float64) for x in self.given]
        given, sizes = [table, which, starts, stops], (len(arrays) // count, 0)
        return [template_call(self._kernel.function, given, sizes, 0, parts, self._work(), values)]

    def write(self, source: Source, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> None:
        """Write the call of the threads that share it."""
        named = iter(numbers)
        values = "".join(f"{next(named).name if x.__class__ is Ref else source.bind(float(x))}, " for x in self.given)
        source.write(f"{source.bind(self._run, 'f')}(({', '.join(arrays)},), ({values}))")

    def _run(self, arrays: Sequence[Any], numbers: tuple[Any, ...]) -> None:
        """Run the kernel for arrays, the operands and the memory for the results."""
        count = len(self.lists[0])
        ids = np.array([id(x) for k in range(count) for x in arrays[k::count]], np.int64)
        self._kernel(ids, len(arrays) // count, self._sizes, tuple([float(x) for x in numbers]))

    @property
    def _sizes(self) -> tuple[int, ...]:
        """The number of elements at each position."""
        return tuple([math.prod(ref.shape) for ref in self.lists[0]])


class PlanesLaunch(NumPyLaunch):
    """A normalization of planes, or its gradients, with relu where it is part of it."""

    def __init__(self, node: Node, kernel: TemplateKernel, groups: PlaneGroups) -> None:
        self.operands = refs_in(node.args)
        self._kernel, self._groups, self._backward = kernel, groups, "backward" in node.name
        x, weight = self.operands[1:3] if self._backward else self.operands[:2]
        self._dtype, self._parts = x.dtype, (x.shape[0], math.prod(weight.shape))
        self.scratch = [(self._parts, x.dtype)] * (2 if self._backward else 0)

    def _work(self) -> float:
        return float(self._groups.count * self._groups.each)

    def _calls(self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> Sequence[KernelCall]:
        """Return the call of the kernel, and the sums over the members."""
        from burnpy_numpy.kernels.plans import sum_call, template_call

        groups = self._groups
        table = [*self._table(arrays, scratch), *groups.tables]
        sums = [sum_call(x, out, self._dtype, self._parts) for x, out in self._sums(arrays, scratch)]
        return [template_call(self._kernel.function, table, groups.sizes, 0, groups.count, self._work()), *sums]

    def write(self, source: Source, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> None:
        """Write the call of the kernel on several threads, and the sums."""
        source.write(f"{source.bind(self._run, 'f')}(({', '.join(self._table(arrays, scratch))}))")
        for x, out in self._sums(arrays, scratch):
            source.write(f"{source.bind(add_up, 'f')}({x}, {out}.reshape({self._parts[1]}))")

    def _table(self, arrays: Sequence[str], scratch: Sequence[str]) -> list[str]:
        """Return the arrays in the order of the kernel: with relu, the last operand is the last one."""
        if not self._backward:
            return [*arrays]
        return [*arrays[:5], arrays[len(self.operands)], *scratch, *arrays[5 : len(self.operands)]]

    def _sums(self, arrays: Sequence[str], scratch: Sequence[str]) -> list[tuple[str, str]]:
        """Return the memory of the gradients of weight and bias of each member, and the memory of their sums."""
        return [*zip(scratch, arrays[-2:], strict=True)] if self._backward else []

    def _run(self, arrays: tuple[Any, ...]) -> None:
        self._groups.run(self._kernel, arrays)


class MaxPoolLaunch(NumPyLaunch):
    """Max pooling over windows that cover all elements, each once, or its gradient."""

    def __init__(self, node: Node, kernel: TemplateKernel, pool: Pool) -> None:
        self._kernel, self._pool, self.operands = kernel, pool, refs_in(node.args)
        if len(self.operands) == 3:  # as the kernel takes them
            grad, x, out = self.operands
            self.operands = [grad, out, x]

    def _work(self) -> float:
        return self._pool.planes * self._pool.elements

    def _calls(self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> Sequence[KernelCall]:
        from burnpy_numpy.kernels.plans import template_call

        return [template_call(self._kernel.function, arrays, self._pool.sizes, 0, self._pool.planes, self._work())]

    def write(self, source: Source, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> None:
        """Write the call of the kernel on several threads."""
        run, kernel = source.bind(self._pool.run, "f"), source.bind(self._kernel)
        source.write(f"{run}({kernel}, {', '.join(arrays)})")


class AttentionGradientsLaunch(NumPyLaunch):
    """The gradients of attention with respect to queries, keys and values, which are slices of the result."""

    strided = True

    def __init__(self, node: Node, run: Callable[..., Any]) -> None:
        self.operands, self._gradients = refs_in(node.args), run
        self._offset, self._scale, self._keys = node.args[7:]

    def calls(self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> None:
        """Return None: Python finds where the heads begin."""

    def write(self, source: Source, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> None:
        """Write the call of the threads that share it."""
        source.write(f"{source.bind(self._run, 'f')}({', '.join(arrays)})")

    def _run(self, *arrays: Any) -> None:
        grad, q, k, v, _, logsumexp, *mask, out = arrays
        parts = [out[key] for key in self._keys]
        self._gradients(grad, q, k, v, logsumexp, mask[0] if mask else None, self._offset, self._scale, parts)


class ProductLaunch(NumPyLaunch):
    """A product of C-contiguous matrices, or of a matrix and a vector, into memory: by OpenBLAS."""

    def __init__(self, node: Node, sizes: tuple[int, int, int], large: bool) -> None:
        self.operands = refs_in(node.args)
        self._name, self._dtype, self._large = node.name, node.results.dtype, large
        self._rows, self._inner, self._columns = sizes
        self._vectors = any(len(ref.shape) == 1 for ref in node.args[:2])

    def _work(self) -> float:
        return math.inf if self._large else 0.0

    def _calls(
        self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]
    ) -> Sequence[KernelCall] | None:
        from burnpy_numpy.kernels.plans import gemm_call, gemv_call

        rows, columns, inner = self._rows, self._columns, self._inner
        left, right = self._name == "matmul_tn", self._name == "matmul_nt"
        single, (x, y, out) = self._dtype == float32, arrays
        vector = columns == 1 or rows == 1
        blas = cblas("gemv" if vector else "gemm", single)
        if blas is None:
            return None
        if columns == 1:
            sizes = (inner, rows) if left else (rows, inner)
            return [gemv_call(blas, self._dtype, (x, y, out), sizes, left)]
        if rows == 1:
            sizes = (columns, inner) if right else (inner, columns)
            return [gemv_call(blas, self._dtype, (y, x, out), sizes, not right)]
        return [gemm_call(blas, self._dtype, arrays, (rows, columns, inner), (left, right))]

    def write(self, source: Source, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> None:
        """Write the call of NumPy's product, or of the threads that share it."""
        rows, columns, inner = self._rows, self._columns, self._inner
        left, right, out = arrays
        left = f"{left}.reshape({inner}, {rows}).T" if self._name == "matmul_tn" else f"{left}.reshape({rows}, {inner})"
        if self._name == "matmul_nt":
            right = f"{right}.T"
        elif self._vectors:
            right = f"{right}.reshape({inner}, {columns})"
        function = source.bind(product_into if self._large else write_product, "f")
        source.write(f"{function}({left}, {right}, {out}.reshape({rows}, {columns}))")


class ProductKernelLaunch(NumPyLaunch):
    """A product of C-contiguous matrices, with a bias if there is one, by the kernel of products.

    Args:
        node: the product, or a convolution of ints, which is one of the weight and the windows.
        product: its description.
        values: the primitives that are the same in each replay, by the numbers of their values.
        following: the program that follows it, if one does.
        others: the arrays of that program, None in the place of the product.
        windows: the windows of a convolution, if they are copied.
        apart: the shape and dtype of memory for the product, if the program's result has elements of another size.
    """

    def __init__(
        self,
        node: Node,
        product: Product,
        values: Mapping[int, Any],
        following: Following | None = None,
        others: Sequence[Ref | None] = (),
        windows: IntegerWindows | None = None,
        apart: tuple[Shape, DType] | None = None,
    ) -> None:
        given = refs_in(node.args)
        self._convolves = node.name == "integer_conv"
        self._panels: Any = None  # of the second matrix, if it is the same in each replay
        if product.keeps and not self._convolves and given[1].number in values:
            product, self._panels = with_kept_panels(product, np.ascontiguousarray(values[given.pop(1).number]), True)
        self.operands, self._count = [*given, *(ref for ref in others if ref is not None)], len(given)
        self._product, self._following, self._others, self._windows = product, following, others, windows
        self.scratch = [((-(-product.scratch // 8),), float64), *([apart] if apart else [])]
        self._apart = apart is not None
        if windows is not None:
            self.scratch += [(windows.columns, uint8), ((windows.scratch,), uint8)]

    def _work(self) -> float:
        return math.inf if self._product.parts > 1 else 0.0

    def _calls(
        self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]
    ) -> Sequence[KernelCall] | None:
        from burnpy_numpy.kernels.plans import template_call

        if self._product.keeps:  # Python looks for the panels
            return None
        x, y, *bias = self._matrices(arrays, self._panels)
        windows, out = self._windows, self._total(arrays, scratch)
        calls: list[KernelCall] = []
        if windows is not None:
            y = scratch[-2]
            given, work = windows.table(arrays[0], arrays[2], *scratch[-2:]), windows.planes * windows.each
            calls.append(template_call(windows.kernel.function, given, windows.sizes, 0, windows.planes, work))
        table = self._table(arrays, out) or 0
        described = self._product.call(x, y, out, bias[0] if bias else None, scratch[0], self._following, table)
        function, parts = self._product.kernel.function, self._product.parts
        return [*calls, template_call(function, *described, 0, parts, parts * self._product.each)]

    def _matrices(self, arrays: Sequence[str], panels: Any) -> Sequence[Any]:
        """Return the two matrices, and the bias if there is one; a convolution multiplies the weight by windows."""
        if panels is None:
            return (arrays[1], arrays[0]) if self._convolves else arrays[: self._count]
        return [arrays[0], panels, *arrays[1 : self._count]]

    def _total(self, arrays: Sequence[str], scratch: Sequence[str]) -> str:
        """Return the memory of the product, which is the memory of the result if there is no other."""
        return scratch[1] if self._apart else arrays[-1]

    def _table(self, arrays: Sequence[str], total: str) -> tuple[str, ...]:
        """Return the arrays of the program that follows."""
        if self._following is None:
            return ()
        others = iter(arrays[self._count : -1])
        return (*(total if ref is None else next(others) for ref in self._others), arrays[-1])

    def write(self, source: Source, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> None:
        """Write the call of the threads that share it."""
        x, y, *bias = self._matrices(arrays, None if self._panels is None else source.bind(self._panels))
        total = self._total(arrays, scratch)
        if self._windows is not None:
            y = f"{source.bind(self._windows.run, 'f')}({arrays[0]}, {arrays[2]})"
        given = [x, y, total, *(bias or ["None"])]
        if self._following is None:
            source.write(f"{source.bind(self._product.run, 'f')}({', '.join(given)})")
        else:
            table = ", ".join(self._table(arrays, total))
            source.write(f"{source.bind(self._run, 'f')}(({', '.join(given)}), {table})")

    def _run(self, given: Sequence[Any], *arrays: Any) -> None:
        """Run the kernel with the program that follows it."""
        x, y, out, bias = given
        self._product.run(x, y, out, bias, self._following, np.array([*map(id, arrays)], np.int64))


class UnrolledLaunch(NumPyLaunch):
    """A kernel that reads and writes single elements of arrays.

    Args:
        function: the kernel.
        operands: the arrays that it reads.
        instructions: the number of its instructions.
    """

    in_place = True

    def __init__(self, function: Entry, operands: Sequence[Ref], instructions: int) -> None:
        self._function, self.operands, self._instructions = function, operands, instructions

    def _calls(self, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> Sequence[KernelCall]:
        from burnpy_numpy.kernels.plans import template_call

        return [template_call(self._function, arrays, (), 0, 1, self._instructions)]

    def write(self, source: Source, arrays: Sequence[str], numbers: Sequence[Number], scratch: Sequence[str]) -> Any:
        """Write the call of the kernel."""
        source.write(f"{source.bind(self._function, 'f')}(0, 1, {len(arrays)}, {', '.join(arrays)})")


def write_product(x: Any, y: Any, out: Any) -> None:
    """Write the product of two matrices into memory, without warnings."""
    try:
        run(dot, x, y, out)
    except RuntimeError:
        quietly(dot, x, y, out)


def add_up(x: Any, out: Any) -> None:
    """Write the sum of the rows of a matrix into memory, without warnings; see `sum_of_rows`."""
    try:
        out[...] = run(sum_of_rows, x)
    except RuntimeError:
        out[...] = quietly(sum_of_rows, x)
