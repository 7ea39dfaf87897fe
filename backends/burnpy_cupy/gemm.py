"""Matrix products by cuBLAS: operands of 16, 32 or 64 bits, results of the same dtype or of float32.

Sums are never accumulated in 16 bits, not even those of parts of a product that cuBLAS divides among blocks.

cuBLAS reads an operand row by row or column by column, with any distance between the rows or columns and between the
matrices of a batch. So transposed views, parts of matrices and broadcast batches are multiplied where they lie; only
operands that it cannot address so are copied first. The arguments of a call depend on shapes, strides and dtypes alone,
and are worked out once for each.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.dtypes import DTYPES, complex64, complex128, float32, float64
from burnpy.backend.primitives import DType, Shape
from burnpy_cupy.kernels.elementwise_kernel import copied
from burnpy_cupy.runtime import empty

_IN_FLOAT32, _IN_TF32, _IN_FLOAT64 = 68, 77, 70
"""cublasComputeType_t: CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32 and CUBLAS_COMPUTE_64F."""

_DEFAULT_ALGORITHM = -1

NO_REDUCED_PRECISION = 16
"""cublasMath_t: CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION, without which cuBLAS may add
partial sums of a product with a 16-bit result in 16 bits."""

_CANNOT_ALLOCATE = (1, 3)
"""cublasStatus_t of a handle that cannot be made: CUBLAS_STATUS_NOT_INITIALIZED and CUBLAS_STATUS_ALLOC_FAILED."""

_HANDLE_BYTES = 32 << 20
"""About the memory that a handle takes."""

_NUMBERS = {dtype: (np.array(1, dtype), np.array(0, dtype)) for dtype in (float32, float64, complex64, complex128)}
"""The factors of the product and of the result's previous content, which cuBLAS reads on the CPU."""

_ADDRESSES = {dtype: (one.ctypes.data, zero.ctypes.data) for dtype, (one, zero) in _NUMBERS.items()}

_uses_tf32: ContextVar[bool] = ContextVar("burnpy_cupy_tf32", default=False)


class Library(NamedTuple):
    """A handle of cuBLAS, and the functions `cublasGemmEx` and `cublasGemmStridedBatchedEx` with their C arguments."""

    handle: int
    single: Callable[..., Any]
    batched: Callable[..., Any]


captured_by: ContextVar[Library | None] = ContextVar("burnpy_cupy_captured_by", default=None)
"""The library for products while a CUDA graph is captured, when CuPy's own binding of cuBLAS refuses every call."""


class _Libraries(threading.local):
    """CuPy's binding of cuBLAS by the handles of this thread that have their mode, one for each device."""

    def __init__(self) -> None:
        self.by_handle: dict[int, Library] = {}


_libraries = _Libraries()


@contextmanager
def tf32(enabled: bool = True) -> Generator[None, None, None]:
    """Return a context manager in whose block products of float32 are computed in TF32 on GPUs that have it."""
    token = _uses_tf32.set(enabled)
    try:
        yield
    finally:
        _uses_tf32.reset(token)


class _Layout(NamedTuple):
    """How cuBLAS addresses an operand, with distances in elements."""

    transposed: bool  #: whether columns, not rows, are contiguous
    line: int  #: from one row (or column) to the next
    matrix: int  #: from one matrix of a batch to the next


class _Call(NamedTuple):
    """The arguments of cuBLAS that depend on layouts alone: those before, between and after the three addresses."""

    batched: bool
    sizes: tuple[int, ...]
    y: tuple[int, ...]
    x: tuple[int, ...]
    out: tuple[int, ...]


def multiply(xp: Any, x: Any, y: Any, out: Any) -> Any:
    """Write the matrix products of x (…, m, k) and y (…, k, n) into ``out`` (…, m, n), and return it.

    Args:
        xp: the module cupy.
        x: an array of a float dtype, whose leading dimensions broadcast to those of ``out``.
        y: an array of the same dtype, whose leading dimensions do, too.
        out: an array with contiguous rows, of the dtype of x or, if that has 16 bits, of float32.
    """
    tf32 = _uses_tf32.get()
    call = _call(x.shape, x.strides, y.shape, y.strides, out.shape, out.strides, x.dtype, out.dtype, tf32)
    if call is None:
        return _multiply_copies(xp, x, y, out)
    cublas = library(xp)
    gemm = cublas.batched if call.batched else cublas.single
    gemm(cublas.handle, *call.sizes, y.data.ptr, *call.y, x.data.ptr, *call.x, out.data.ptr, *call.out)
    return out


class Product(NamedTuple):
    """A product of operands whose layouts are known, at any addresses."""

    x: tuple[Shape, Shape]  #: shape and strides in bytes
    y: tuple[Shape, Shape]
    out: tuple[Shape, Shape]
    dtype: DType  #: of the operands
    out_dtype: DType

    @property
    def possible(self) -> bool:
        """False if there is nothing to multiply, or if cuBLAS cannot address an operand."""
        return _call(*self.x, *self.y, *self.out, self.dtype, self.out_dtype, False) is not None

    @property
    def layouts(self) -> tuple[Any, ...]:
        """The arguments of `_call`, in this context."""
        return (*self.x, *self.y, *self.out, self.dtype, self.out_dtype, uses_tf32())

    def call(self, library: Library, stream: int, x: int, y: int, out: int) -> tuple[Any, tuple[Any, ...]]:
        """Return cuBLAS's function and its arguments, given addresses; its products go to the library's stream."""
        call = _call(*self.layouts)
        assert call is not None  # as it is possible
        gemm = library.batched if call.batched else library.single
        return gemm, (library.handle, *call.sizes, y, *call.y, x, *call.x, out, *call.out)


def uses_tf32() -> bool:
    """Return whether products of float32 are rounded to TF32 in this context."""
    return _uses_tf32.get()


def _multiply_copies(xp: Any, x: Any, y: Any, out: Any) -> Any:
    """`multiply` for a product without elements or terms, and for operands that cuBLAS cannot address."""
    if not out.size:
        return out
    if not x.shape[-1]:
        out.fill(0)
        return out
    x, y = (a if _layout(a.shape, a.strides, a.itemsize) else copied(xp, a) for a in (x, y))
    lead = out.shape[:-2]
    if _operand(x.shape, x.strides, x.itemsize, lead) is None:  # of a batch that broadcasts in its middle
        x = copied(xp, xp.broadcast_to(x, (*lead, *x.shape[-2:])))
    if _operand(y.shape, y.strides, y.itemsize, lead) is None:
        y = copied(xp, xp.broadcast_to(y, (*lead, *y.shape[-2:])))
    return multiply(xp, x, y, out)


@lru_cache(4096)
def _call(
    x_shape: Shape,
    x_strides: Shape,
    y_shape: Shape,
    y_strides: Shape,
    out_shape: Shape,
    out_strides: Shape,
    dtype: DType,
    out_dtype: DType,
    tf32: bool,
) -> _Call | None:
    """Return the arguments of a product; None if there is nothing to multiply, or if an operand has to be copied."""
    *lead, rows, columns = out_shape
    size, batch = x_shape[-1], math.prod(lead)
    if not (batch and rows and columns and size):
        return None
    by_x = _operand(x_shape, x_strides, dtype.itemsize, tuple(lead))
    by_y = _operand(y_shape, y_strides, dtype.itemsize, tuple(lead))
    into = _layout(out_shape, out_strides, out_dtype.itemsize)
    if by_x is None or by_y is None:
        return None
    assert into is not None, "the memory of a product has one stride for its batch"
    assert not into.transposed, "the memory of a product has contiguous rows"
    steps = rows * by_x.line, rows * into.line
    if batch > 1 and by_y.matrix == 0 and not by_x.transposed and steps == (by_x.matrix, into.matrix):
        rows, batch = rows * batch, 1  # one large product instead of many small ones
    one, zero = _ADDRESSES[float32 if out_dtype.itemsize == 2 else out_dtype]
    compute = (
        _IN_FLOAT64 if out_dtype in (float64, complex128) else _IN_TF32 if tf32 and dtype is float32 else _IN_FLOAT32
    )
    kind, count = (DTYPES[dtype.name].cuda,), 1 if batch > 1 else 0
    # cuBLAS counts columns first, so it computes the transposed product, outᵀ = yᵀ xᵀ.
    return _Call(
        batch > 1,
        (int(by_y.transposed), int(by_x.transposed), columns, rows, size, one),
        (*kind, *by_y[1 : 2 + count]),
        (*kind, *by_x[1 : 2 + count], zero),
        (DTYPES[out_dtype.name].cuda, *into[1 : 2 + count], *(batch,) * count, compute, _DEFAULT_ALGORITHM),
    )


def library(xp: Any) -> Library:
    """Return cuBLAS, whose products go to the current stream, and whose partial sums have full precision."""
    capturing = captured_by.get()
    if capturing is not None:
        return capturing
    cublas = xp.cuda.cublas
    try:
        handle: int = xp.cuda.device.get_cublas_handle()
    except cublas.CUBLASError as error:
        if error.status not in _CANNOT_ALLOCATE:
            raise
        raise xp.cuda.memory.OutOfMemoryError(_HANDLE_BYTES, -1) from error
    found = _libraries.by_handle.get(handle)
    if found is None:
        cublas.setMathMode(handle, NO_REDUCED_PRECISION)
        found = _libraries.by_handle[handle] = Library(handle, cublas.gemmEx, cublas.gemmStridedBatchedEx)
    return found


def product(xp: Any, x: Any, y: Any, dtype: DType) -> Any:
    """Return the matrix products of two arrays of one float dtype, with at least one dimension, as ``dtype``."""
    if x.ndim == 1:
        return product(xp, x.reshape((1, -1)), y, dtype).squeeze(-1 if y.ndim == 1 else -2)
    if y.ndim == 1:
        return product(xp, x, y.reshape((-1, 1)), dtype).squeeze(-1)
    return multiply(xp, x, y, empty(xp, _product_shape(x.shape, y.shape), dtype))


@lru_cache(4096)
def _product_shape(x: Shape, y: Shape) -> Shape:
    lead = np.broadcast_shapes(x[:-2], y[:-2])
    if x[-1] != y[-2]:
        raise ValueError(f"matrices of the shapes {x} and {y} cannot be multiplied")
    return (*lead, x[-2], y[-1])


def _operand(shape: Shape, strides: Shape, itemsize: int, lead: Shape) -> _Layout | None:
    """Return the layout of an operand whose leading dimensions broadcast to ``lead``."""
    missing = len(lead) - len(shape) + 2
    spread = [0 if n != m else stride for n, m, stride in zip(shape, lead[missing:], strides, strict=False)]
    return _layout((*lead, *shape[-2:]), (*(0,) * missing, *spread, *strides[-2:]), itemsize)


def _layout(shape: Shape, strides: Shape, itemsize: int) -> _Layout | None:
    """Return the layout of an array; None if cuBLAS cannot address it."""
    *outer, line, element = [stride // itemsize for stride in strides]
    *lead, rows, columns = shape
    matrix = batch_stride(lead, outer)
    if matrix is None or matrix < 0:
        return None
    if (columns == 1 or element == 1) and (rows == 1 or line >= columns):
        return _Layout(False, columns if rows == 1 else line, matrix)
    if (rows == 1 or line == 1) and (columns == 1 or element >= rows):
        return _Layout(True, rows if columns == 1 else element, matrix)
    return None


def batch_stride(shape: list[int], strides: list[int]) -> int | None:
    """Return the one stride that steps through the leading dimensions in row-major order; None if there is none."""
    common = None
    reach = 0
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 1:
            continue
        if common is None:
            common = stride
        elif stride != reach:
            return None
        reach = stride * size
    return 0 if common is None else common
