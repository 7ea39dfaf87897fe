"""`NumPyExecutor`: programs and products of plans, by kernels and OpenBLAS into memory of the plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from burnpy.backend.dtypes import dtype_of, float32, float64
from burnpy.backend.plans.epilogues import WRITTEN
from burnpy.backend.plans.executor import (
    INDEXED,
    INTEGER_PRODUCTS,
    Executor,
    Joined,
    Launch,
    NodeLaunch,
    as_formula,
    lists_of,
)
from burnpy.backend.plans.group_program import Signature
from burnpy.backend.plans.loops import Place
from burnpy.backend.plans.recording import Node, Ref, refs_in
from burnpy.backend.primitives import DType, Key, Shape
from burnpy.backend.programs import Program
from burnpy_numpy.allocator import return_freed_memory
from burnpy_numpy.kernels.kernel import LEAST, TRANSPOSED, contiguous, family_kernels, program_kernel
from burnpy_numpy.kernels.packed_weights import packed_weights
from burnpy_numpy.matmul import MAX_SINGLE_THREADED, shares_products
from burnpy_numpy.numpy_calls import quietly, run
from burnpy_numpy.plans.convolutions import CONVOLUTIONS, convolution, finished_convolution, has_convolution
from burnpy_numpy.plans.launches import (
    AttentionGradientsLaunch,
    ListsLaunch,
    MaxPoolLaunch,
    PlanesLaunch,
    ProductKernelLaunch,
    ProductLaunch,
    ProgramLaunch,
    RowsLaunch,
    UnrolledLaunch,
)
from burnpy_numpy.programs import row_plan

if TYPE_CHECKING:
    from burnpy_numpy.kernels.products.products import Product
    from burnpy_numpy.kernels.products.quantized import IntegerWindows

_array: Any = np.asarray
_ndarray = np.ndarray
_LARGE_BYTES = 1 << 20
"""The size in bytes of a large block."""
_OWN_MEMORY = 0x1 | 0x4 | 0x400
"""NumPy's flags C_CONTIGUOUS, OWNDATA and WRITEABLE."""


_QUICK_IN_NUMPY = frozenset({"log", "log2", "log10", "signbit"})
"""The operations that by themselves take less time as calls of NumPy than as kernels."""
_MIN_QUICK_KERNEL = 1 << 14
"""The number of elements from which they do."""
_PRODUCTS = ("matmul", "matmul_nt", "matmul_tn", "linear")


def _product(node: Node, values: Mapping[int, Any]) -> NodeLaunch | None:
    """Return the launch of a product with a matrix, or of ints; None for another one, or one that OpenBLAS would
    share."""
    if node.name in INTEGER_PRODUCTS:
        ints = _integer_product(node)
        return None if ints is None else ProductKernelLaunch(node, ints[0], values, windows=ints[1])
    x, y = node.args[:2]
    dtype, shapes = x.dtype, (x.shape, y.shape)
    usual = all(ref.dtype == dtype for ref in refs_in(node.args)) and dtype in (float32, float64)
    if not usual or 0 in (*x.shape, *y.shape) or not _with_matrix(node.name, *shapes):
        return None
    sizes, biased = _sizes(node), node.name == "linear"
    product = _kernel_product(node, sizes)
    if product is not None:
        return ProductKernelLaunch(node, product, values)
    large = math.prod(sizes) > MAX_SINGLE_THREADED and shares_products()
    return None if biased else ProductLaunch(node, sizes, large)


def _sizes(node: Node) -> tuple[int, int, int]:
    """Return the rows, the inner dimension and the columns of a product with a matrix."""
    y = node.args[1].shape
    inner, columns = y if len(y) == 2 else (*y, 1)
    if node.name == "matmul_nt":
        inner, columns = columns, inner
    return math.prod(node.results.shape) // columns, inner, columns


def _kernel_product(node: Node, sizes: tuple[int, int, int], rows: bool = False) -> Product | None:
    """Return the description of a product for the kernel of products; None if that does not compute it."""
    kernels = family_kernels("products.products")
    if kernels is None or (node.name == "linear" and node.args[2].shape != sizes[2:]):
        return None
    turned = node.name == "matmul_tn", node.name == "matmul_nt"
    found: Product | None = kernels.contiguous_product(
        dtype_of(node.results.dtype.name), sizes, turned, node.name == "linear", rows
    )
    return found


def _integer_product(node: Node, rows: bool = False) -> tuple[Product, IntegerWindows | None] | None:
    """Return the description of a product or a convolution of ints of 8 bits, and the windows that it copies; None if
    the kernel of products does not compute it. With ``rows``, the parts are whole rows."""
    kernels, windows, ints = family_kernels("products.products"), None, {"int8", "uint8"}
    x, y = node.args[:2]
    if kernels is None or not {x.dtype.name, y.dtype.name} <= ints or 0 in (*x.shape, *y.shape):
        return None
    left, right = x.shape, y.shape
    if node.name == "integer_conv":
        quantized, where = family_kernels("products.quantized"), node.args[-4:]
        windows = quantized.integer_windows(x.shape, y.shape[2:], *where)
        if windows is None and not quantized.are_pixels(y.shape[2:], *where[:3]):
            return None
        x, y, left = y, x, (y.shape[0], math.prod(y.shape[1:]))
        right = (y.shape[0], left[1], math.prod(y.shape[2:])) if windows is None else windows.columns
    elif len(right) == 2 < len(left):
        left = (math.prod(left[:-1]), left[-1])
    arrays = (np.empty(shape, dtype_of(ref.dtype.name)) for shape, ref in ((left, x), (right, y)))
    found = kernels.product_of(*arrays, rows=rows)
    return (found, windows) if isinstance(found, kernels.Product) else None


def _finished_product(node: Node, signature: Signature, values: Mapping[int, Any]) -> NodeLaunch | None:
    """Return the launch of a product and the group that follows it; None without a kernel for both."""
    if not isinstance(_product(node, {}), ProductKernelLaunch) or signature.program is None:
        return None
    ints = _integer_product(node, True) if node.name in INTEGER_PRODUCTS else None
    columns = _sizes(node)[2] if ints is None else ints[0].shape[-1]
    rows, kernel = math.prod(node.results.shape) // columns, program_kernel(signature.program)
    product = _kernel_product(node, _sizes(node), True) if ints is None else ints[0]
    if kernel is None or product is None:
        return None
    following = family_kernels("products.products").following(kernel, rows)
    by_rows = not kernel.layout.flat and signature.group.sizes != (rows, columns)
    made, result = node.results.dtype, signature.outputs[0].dtype
    if following is None or by_rows or (ints is None and made != result):
        return None
    others = [None if ref.number == node.results.number else ref for ref in signature.arrays]
    apart = ((rows, columns), made) if made.itemsize != result.itemsize else None
    windows = None if ints is None else ints[1]
    launch = ProductKernelLaunch(node, product, values, following, others, windows, apart)
    launch.repeated = dict.fromkeys(signature.repeated, rows)
    return launch


def _rows(node: Node, bounds: Mapping[int, tuple[int, int]]) -> NodeLaunch | None:
    """Return the launch of an operation with an index for each row, if the index was checked."""
    refs, (name, extents, rest) = refs_in(node.args), INDEXED[node.name]
    dtypes = [dtype_of(ref.dtype.name) for ref in refs]
    plan = row_plan((name, extents, rest, (node.args[-1],), *[ref.shape for ref in refs], *dtypes))
    low, high = bounds.get(refs[-1].number, (-1, 0))
    if plan is None or low < 0 or high >= plan[2]:
        return None
    return RowsLaunch(plan[0], plan[1], plan[2], refs)


_NORMS = ("normalize", "normalize_relu", "normalize_backward", "normalize_relu_backward")


def _planes(node: Node) -> NodeLaunch | None:
    """Return the launch of a normalization of planes, or of its gradients; None for another one."""
    kernels = family_kernels("normalization")
    refs, backward = refs_in(node.args), "backward" in node.name
    x, weight, bias = refs[1:3] + refs[2:3] if backward else refs[:3]
    dims, eps = node.args[5:7] if backward else node.args[3:5]
    alike = all(ref.dtype == x.dtype for ref in refs) and x.dtype in (float32, float64) and bias.shape == weight.shape
    full = not backward or refs[0].shape == x.shape
    groups = kernels.plane_groups(x.shape, weight.shape, dims) if kernels is not None and alike and full else None
    if kernels is None or groups is None:
        return None
    kernel = kernels.planes_kernel(dtype_of(x.dtype.name), eps, backward, "relu" in node.name)
    return None if kernel is None else PlanesLaunch(node, kernel, groups)


_POOLING = ("max_pool2d", "max_pool2d_backward")


def _pooling(node: Node) -> NodeLaunch | None:
    """Return the launch of max pooling, or of its gradient, over windows that cover all elements; None for others."""
    kernels, backward = family_kernels("pooling"), node.name == "max_pool2d_backward"
    x, out, *windows = [*node.args[1:]] if backward else [node.args[0], node.results, *node.args[1:5]]
    if kernels is None or any(ref.dtype != x.dtype for ref in refs_in(node.args)) or 0 in x.shape:
        return None
    pool = kernels.pool_of(x.shape, dtype_of(x.dtype.name), out.shape[2:], *windows)
    kernel = pool.max_kernel(backward) if pool.covers else None
    return None if kernel is None else MaxPoolLaunch(node, kernel, pool)


def _attention_gradients(node: Node) -> NodeLaunch | None:
    """Return the launch of the gradients of attention as slices of an array; None for sizes without a kernel."""
    grad, q, k, v, _, logsumexp, mask, offset, *_ = node.args
    kernels = family_kernels("attention")
    if kernels is None or math.prod(q.shape) * k.shape[-2] < LEAST * q.shape[-1]:
        return None
    arrays = [np.broadcast_to(np.empty((), dtype_of(x.dtype.name)), x.shape) for x in (q, k, v, grad, logsumexp)]
    found = kernels.attention_kernel(kernels.attention_backward, tuple(arrays), mask, offset)
    return None if found is None else AttentionGradientsLaunch(node, kernels.run_attention_backward)


def _lists(node: Node) -> NodeLaunch | None:
    """Return the launch of a formula of lists of one dtype."""
    formula, lists, numbers, flags, *_ = node.args
    members = lists_of(node)
    plain = all(x.dtype in (float32, float64) for x in refs_in(numbers))
    kernels = None if members is None or not plain else family_kernels("programs")
    if members is None or kernels is None:
        return None
    kernel = kernels.foreach_kernel(formula, len(lists), len(numbers), members[0].dtype, flags)
    return None if kernel is None else ListsLaunch(node, kernel)


def _with_matrix(name: str, x: Shape, y: Shape) -> bool:
    """Return whether an operation is a product with one matrix, and none for each of many."""
    if name == "matmul" and len(x) + len(y) == 3:
        return True
    return len(y) == 2 <= len(x) and not (name == "matmul_tn" and len(x) != 2)


def _index(key: Key) -> str:
    """Return a key as it is written in brackets, with dots so that one element is a 0-d array."""
    parts = [
        ":".join("" if part is None else str(part) for part in (item.start, item.stop, item.step))
        if isinstance(item, slice)
        else str(item)
        for item in key
    ]
    return ", ".join([*parts, "..."])


class NumPyExecutor(Executor):
    """The computations of NumPy that plans give memory.

    Args:
        device: the device, a `NumPy`.
    """

    adds_bias: ClassVar[bool] = True
    multiplies_pixels: ClassVar[bool] = True
    ints: ClassVar[bool] = True

    def __init__(self, device: Any) -> None:
        self._device = device

    def convolves_pixels(self, node: Node) -> bool:
        """Return whether a convolution by windows of one element has a kernel that is faster than the product."""
        return has_convolution(node)

    def program(self, program: Program, rows: int, columns: int) -> Launch | None:
        """Return the launch of a program's kernel; None if kernels are off, or NumPy takes less time."""
        if program.name in _QUICK_IN_NUMPY and rows * columns >= _MIN_QUICK_KERNEL:
            return None
        kernel = program_kernel(program)
        return None if kernel is None else ProgramLaunch(kernel, rows, columns)

    def launch(self, node: Node, values: Mapping[int, Any], bounds: Mapping[int, tuple[int, int]]) -> NodeLaunch | None:
        """Return the launch of a node for which there is a kernel that writes into given memory; None for others."""
        if node.name in _PRODUCTS or node.name in INTEGER_PRODUCTS:
            return _product(node, values)
        if node.name in INDEXED:
            return _rows(node, bounds)
        if node.name in _NORMS:
            return _planes(node)
        if node.name in _POOLING:
            return _pooling(node)
        if node.name in CONVOLUTIONS:
            return convolution(self._device, node, values)
        if node.name == WRITTEN["attention_backward"]:
            return _attention_gradients(node)
        node = as_formula(node)
        return _lists(node) if node.name == "foreach" else None

    def unrolled(
        self, program: Program, operands: Sequence[Ref], inputs: Sequence[Place], outputs: Sequence[Place]
    ) -> NodeLaunch | None:
        """Return the launch of a program of numbers; None if kernels are off."""
        kernels = family_kernels("plans")
        if kernels is None:
            return None
        arrays = len(operands), outputs[-1].array + 1 if outputs else 0
        function = kernels.unrolled_kernel(program, inputs, outputs, arrays)
        return None if function is None else UnrolledLaunch(function, operands, len(program.instructions))

    def finished(
        self, node: Node, signature: Signature, values: Mapping[int, Any], bounds: Mapping[int, tuple[int, int]]
    ) -> NodeLaunch | None:
        """Return the launch of a convolution or a product and the group that follows it; None for others."""
        if node.name in _PRODUCTS or node.name in INTEGER_PRODUCTS:
            return _finished_product(node, signature, values)
        return finished_convolution(self._device, node, signature, values) if node.name in CONVOLUTIONS else None

    def activates(self, node: Node) -> bool:
        """Return whether a normalization is one of planes, by a kernel."""
        return _planes(node) is not None

    def joined(self, calls: Sequence[Any], given: Sequence[str]) -> Joined | None:
        """Return calls of launches as one; None if kernels are off."""
        from burnpy_numpy.kernels.plans import CallSequence, sequence_entry

        entry = sequence_entry()
        return None if entry is None else CallSequence(entry, calls, given)

    def memory(self, size: int) -> Any:
        """Return memory that begins at a multiple of 64 bytes.

        A large block does not fit in what a recording has freed, which is returned to the system first.
        """
        if size >= _LARGE_BYTES:
            return_freed_memory()
        block = np.empty(size + 64, np.uint8)
        start = -block.ctypes.data % 64
        return block[start : start + size]

    def is_contiguous(self, x: Any) -> bool:
        """Return whether an array is C-contiguous."""
        return bool(x.flags.c_contiguous)

    def contiguous(self, x: Any) -> Any:
        """Return an array, or a copy of it, that is C-contiguous."""
        return contiguous(x)

    def number(self, x: Any) -> Any:
        """Return an array of one element, or a scalar of NumPy, as an array."""
        return _array(x)

    def empty(self, shape: Shape, dtype: DType) -> Any:
        """Return new memory."""
        return np.empty(shape, dtype)

    def copy(self, x: Any, out: Any) -> None:
        """Write an array into memory."""
        out[...] = x

    def fill(self, out: Any, value: float, /) -> None:
        """Write a number into all of memory."""
        out.fill(value)

    def add(self, x: Any, y: Any, out: Any) -> None:
        """Write a sum into memory, without warnings."""
        try:
            run(np.add, x, y, out)
        except RuntimeError:
            quietly(np.add, x, y, out)

    def put(self, x: Any, owned: bool, dim: int, index: Any, src: Any) -> Any:
        """Compute `Backend.index_put`, in the memory of x if it is ``owned``."""
        out = x if owned else np.array(x, order="C")
        out[(*(slice(None),) * dim, index)] = src
        return out

    def view(self, node: Node, name: str, contiguous: bool = False) -> str | None:
        """Return the expression of a slice, a permutation or a reshaped array."""
        if node.name == "slice":
            return f"{name}[{_index(node.args[1])}]"
        if node.name == "permute":
            return f"{name}.transpose({tuple(node.args[1])})"
        if node.name != "reshape" or (math.prod(node.results.shape) >= TRANSPOSED and not contiguous):
            return None  # a transposed array is copied by a kernel
        return f"{name}.reshape({tuple(node.args[1])})"

    def may_overwrite(self, x: Any) -> bool:
        """Return whether an array is C-contiguous memory of its own that can be written to."""
        return type(x) is _ndarray and x.flags.num & _OWN_MEMORY == _OWN_MEMORY

    def overwrite(self, replay: Callable[..., Any], inputs: Sequence[Any], own: Set[int]) -> Any:
        """Return the outputs of a replay, in which no packed form is kept of an array that it overwrites."""
        changing = {id(inputs[k]) for k in own}
        packed_weights.changing.update(changing)
        try:
            return replay(*inputs, own)
        finally:
            packed_weights.changing.difference_update(changing)
