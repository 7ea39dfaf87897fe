"""`CuPyExecutor`: programs, products and formulas of plans as launches into memory of the plan."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from burnpy.backend.dtypes import float32, float64, kind_of
from burnpy.backend.plans.executor import INDEXED, Executor, Joined, Launch, NodeLaunch, as_formula, lists_of
from burnpy.backend.plans.recording import Node, Ref, refs_in
from burnpy.backend.plans.signature import Signature
from burnpy.backend.primitives import DType, Shape
from burnpy.backend.programs import Program
from burnpy_cupy import gemm
from burnpy_cupy.epilogues import BIAS, SUM, FinishedProduct
from burnpy_cupy.kernels.foreach import foreach_kernel
from burnpy_cupy.kernels.foreach_tables import norm_kernels
from burnpy_cupy.kernels.row_geometry import along, flat, matrix
from burnpy_cupy.launch_sequence import LaunchSequence
from burnpy_cupy.launches import ListsLaunch, NormLaunch, NumbersLaunch, ProductLaunch, ProgramLaunch, RowsLaunch
from burnpy_cupy.number_formulas import formula_kernel, formula_source

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

    def __init__(self, device: Any) -> None:
        self._device = device

    def program(self, program: Program, rows: int, columns: int) -> Launch | None:
        """Return the launches of a program's kernels; None if kernels are off, or not for so few long rows."""
        geometry = flat(rows * columns) if program.elementwise else matrix(rows, columns)
        if not rows * columns or not (program.elementwise or geometry.occupies):
            return None
        kernel = self._device._program_kernel(program)
        return None if kernel is None else ProgramLaunch(self._device, kernel, geometry)

    def launch(self, node: Node, bounds: Mapping[int, tuple[int, int]]) -> NodeLaunch | None:
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
        node = as_formula(node)
        return self._lists(node) if node.name == "foreach" else None

    def _product(self, node: Node) -> NodeLaunch | None:
        product = _product_of(node)
        return None if product is None else ProductLaunch(self._device, product, node.args)

    def _gradients(self, node: Node) -> NodeLaunch | None:
        """Return the launch of the gradients of a linear layer by weight and bias."""
        grad, x = node.args
        product = _product_of(Node("matmul_tn", (_rows(x), _rows(grad)), node.results[0], False, ()))
        return self._with_epilogue(product, SUM, (x, grad))

    def _with_epilogue(self, product: gemm.Product | None, epilogue: int, operands: Sequence[Ref]) -> NodeLaunch | None:
        """Return the launch of a product with an epilogue; None if cuBLASLt has none."""
        if product is None:
            return None
        both = FinishedProduct(self._device.xp, product, epilogue)
        possible = self._device._call(both.possible)
        return ProductLaunch(self._device, both, operands) if possible else None

    def _rows(self, node: Node, bounds: Mapping[int, tuple[int, int]]) -> NodeLaunch | None:
        """Return the launch of an operation with an index for each row, if the index was checked."""
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
        kernel = self._device._operation_kernel(name, extents, x.dtype, rest)
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

    def finished(self, node: Node, signature: Signature) -> NodeLaunch | None:
        """Return the launch of a product with the bias that is added to it; None for others."""
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
        """Return memory of so many bytes, which CuPy aligns."""
        return self._device._call(self._device.xp.empty, size, "uint8")

    def is_contiguous(self, x: Any) -> bool:
        """Return whether an array is C-contiguous."""
        return bool(x._c_contiguous)

    def contiguous(self, x: Any) -> Any:
        """Return an array, or a copy of it, that is C-contiguous."""
        return x if x._c_contiguous else self._device._call(self._device.xp.ascontiguousarray, x)

    def empty(self, shape: Shape, dtype: DType) -> Any:
        """Return new memory."""
        return self._device._call(self._device.xp.empty, shape, dtype)

    def add(self, x: Any, y: Any, out: Any) -> None:
        """Write a sum into memory."""
        self._device._call(self._device.xp.add, x, y, out)

    def put(self, x: Any, owned: bool, dim: int, index: Any, src: Any) -> Any:
        """Compute `Backend.index_put`, in the memory of x if it is ``owned``."""
        device = self._device
        src = device._last_writer(src, dim, index, x.shape[dim])
        out = x if owned else device._call(device.xp.array, x, order="C")
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
