"""Matrix products by cuBLAS: operands of 16, 32 or 64 bits, results of the same dtype or of float32.

Sums are never accumulated in 16 bits, not even those of parts of a product that cuBLAS divides among blocks.

cuBLAS reads an operand row by row or column by column, with any distance between the rows or columns and between the
matrices of a batch. So transposed views, parts of matrices and broadcast batches are multiplied where they lie; only
operands that it cannot address so are copied first.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.primitives import DType, Shape

_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
"""cudaDataType_t by the name of the dtype."""

_IN_FLOAT32, _IN_TF32, _IN_FLOAT64 = 68, 77, 70
"""cublasComputeType_t: CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32 and CUBLAS_COMPUTE_64F."""

_DEFAULT_ALGORITHM = -1

_NO_REDUCED_PRECISION = 16
"""cublasMath_t: CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION, without which cuBLAS may add
partial sums of a product with a 16-bit result in 16 bits."""

_CANNOT_ALLOCATE = (1, 3)
"""cublasStatus_t of a handle that cannot be made: CUBLAS_STATUS_NOT_INITIALIZED and CUBLAS_STATUS_ALLOC_FAILED."""

_HANDLE_BYTES = 32 << 20
"""About the memory that a handle takes."""

_set_up = threading.local()
"""The devices whose handles of this thread have their mode. CuPy keeps a handle for each thread and device, too."""

_NUMBERS = {dtype: (np.array(1, dtype), np.array(0, dtype)) for dtype in (float32, float64)}
"""The factors of the product and of the result's previous content, which cuBLAS reads on the CPU."""

_uses_tf32: ContextVar[bool] = ContextVar("burnpy_cupy_tf32", default=False)


@contextmanager
def tf32(enabled: bool = True) -> Generator[None, None, None]:
    """Within the context, round float32 operands of products to TF32 (10 bits of precision) on GPUs that support it."""
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


def multiply(xp: Any, x: Any, y: Any, out: Any) -> Any:
    """Write the matrix products of x (…, m, k) and y (…, k, n) into ``out`` (…, m, n), and return it.

    Args:
        xp: the module cupy.
        x: an array of a float dtype, whose leading dimensions broadcast to those of ``out``.
        y: an array of the same dtype, whose leading dimensions do, too.
        out: an array with contiguous rows, of the dtype of x or, if that has 16 bits, of float32.
    """
    *lead, rows, columns = out.shape
    size = x.shape[-1]
    if not out.size:
        return out
    if not size:
        out.fill(0)
        return out
    x, by_x = _addressed(xp, x, tuple(lead))
    y, by_y = _addressed(xp, y, tuple(lead))
    into = _layout(out)
    assert into is not None, "the memory of a product has one stride for its batch"
    assert not into.transposed, "the memory of a product has contiguous rows"
    factor, nothing = _NUMBERS[float64 if out.dtype is float64 else float32]
    compute = _IN_FLOAT64 if out.dtype is float64 else _IN_TF32 if _tf32_applies(x.dtype) else _IN_FLOAT32
    # cuBLAS counts columns first, so it computes the transposed product, outᵀ = yᵀ xᵀ.
    sizes = (int(by_y.transposed), int(by_x.transposed), columns, rows, size, factor.ctypes.data)
    operand, type_y, type_out = _TYPES[x.dtype.name], _TYPES[y.dtype.name], _TYPES[out.dtype.name]
    handle, cublas = _handle(xp, out.device.id), xp.cuda.cublas
    batch = out.size // (rows * columns)
    if batch == 1:
        cublas.gemmEx(
            handle,
            *sizes,
            *(y.data.ptr, type_y, by_y.line),
            *(x.data.ptr, operand, by_x.line),
            *(nothing.ctypes.data, out.data.ptr, type_out, into.line),
            *(compute, _DEFAULT_ALGORITHM),
        )
    else:
        cublas.gemmStridedBatchedEx(
            handle,
            *sizes,
            *(y.data.ptr, type_y, by_y.line, by_y.matrix),
            *(x.data.ptr, operand, by_x.line, by_x.matrix),
            *(nothing.ctypes.data, out.data.ptr, type_out, into.line, into.matrix),
            *(batch, compute, _DEFAULT_ALGORITHM),
        )
    return out


class Product:
    """A product of C-contiguous matrices, or of as many of them as the result has, of float32 or float64.

    Args:
        xp: the module cupy.
        dtype: the dtype.
        sizes: the rows, the columns and the inner size of a product.
        transposed: whether the first and the second matrices are given as their transposes.
        batch: the number of products.
    """

    def __init__(
        self,
        xp: Any,
        dtype: DType,
        sizes: tuple[int, int, int],
        transposed: tuple[bool, bool],
        batch: int = 1,
    ) -> None:
        self._xp, self._dtype, self._batch = xp, dtype, batch
        rows, columns, inner = sizes
        self._factors = _NUMBERS[float64 if dtype is float64 else float32]
        left, right = transposed
        self._sizes = (int(right), int(left), columns, rows, inner, self._factors[0].ctypes.data)
        self._lines = (rows if left else inner, inner if right else columns, columns)
        self._steps = (rows * inner, inner * columns, rows * columns)

    def call(self, x: int, y: int, out: int) -> tuple[Any, tuple[Any, ...]]:
        """Return cuBLAS's function and its arguments in this thread and context, given addresses."""
        cublas, handle = self._xp.cuda.cublas, _handle(self._xp, self._xp.cuda.runtime.getDevice())
        kind, (by_x, by_y, into) = _TYPES[self._dtype.name], self._lines
        compute = _IN_FLOAT64 if self._dtype is float64 else _IN_TF32 if _tf32_applies(self._dtype) else _IN_FLOAT32
        zero, rest = self._factors[1].ctypes.data, (compute, _DEFAULT_ALGORITHM)
        if self._batch == 1:
            arguments = (*self._sizes, y, kind, by_y, x, kind, by_x, zero, out, kind, into, *rest)
            return cublas.gemmEx, (handle, *arguments)
        step_x, step_y, step = self._steps
        batched = (y, kind, by_y, step_y, x, kind, by_x, step_x, zero, out, kind, into, step, self._batch, *rest)
        return cublas.gemmStridedBatchedEx, (handle, *self._sizes, *batched)


def _handle(xp: Any, device: int) -> Any:
    """Return cuBLAS's handle of this thread for the current device, which adds partial sums in full precision.

    Raises:
        cupy.cuda.memory.OutOfMemoryError: the GPU has no memory left for a new one.
    """
    try:
        handle = xp.cuda.device.get_cublas_handle()
    except xp.cuda.cublas.CUBLASError as error:
        if error.status not in _CANNOT_ALLOCATE:
            raise
        raise xp.cuda.memory.OutOfMemoryError(_HANDLE_BYTES, -1) from error
    devices = vars(_set_up).setdefault("devices", set())
    if device not in devices:
        xp.cuda.cublas.setMathMode(handle, _NO_REDUCED_PRECISION)
        devices.add(device)
    return handle


def product(xp: Any, x: Any, y: Any, dtype: DType) -> Any:
    """Return the matrix products of two arrays of one float dtype, with at least one dimension, as ``dtype``."""
    if x.ndim == 1:
        return product(xp, x.reshape((1, -1)), y, dtype).squeeze(-1 if y.ndim == 1 else -2)
    if y.ndim == 1:
        return product(xp, x, y.reshape((-1, 1)), dtype).squeeze(-1)
    if y.ndim == 2 and x.ndim > 2 and x.size and x.flags.c_contiguous:  # one large product instead of many small ones
        flat = product(xp, x.reshape((-1, x.shape[-1])), y, dtype)
        return flat.reshape((*x.shape[:-1], y.shape[-1]))
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2]) if x.ndim > 2 or y.ndim > 2 else ()
    if x.shape[-1] != y.shape[-2]:
        raise ValueError(f"matrices of the shapes {x.shape} and {y.shape} cannot be multiplied")
    return multiply(xp, x, y, xp.empty((*lead, x.shape[-2], y.shape[-1]), dtype))


def uses_tf32() -> bool:
    """Return whether products of float32 are rounded to TF32 in this context."""
    return _uses_tf32.get()


def _tf32_applies(dtype: DType) -> bool:
    return dtype is float32 and _uses_tf32.get()


def _addressed(xp: Any, x: Any, lead: Shape) -> tuple[Any, _Layout]:
    """Return x with the leading dimensions ``lead``, or a copy that cuBLAS can address, and its layout."""
    if x.shape[:-2] != lead:
        x = xp.broadcast_to(x, (*lead, *x.shape[-2:]))
    layout = _layout(x)
    if layout is None:
        x = xp.array(x, order="C")
        layout = _layout(x)
        assert layout is not None
    return x, layout


def _layout(x: Any) -> _Layout | None:
    """The layout of x; None if cuBLAS cannot address it."""
    *outer, line, element = [stride // x.itemsize for stride in x.strides]
    *lead, rows, columns = x.shape
    matrix = batch_stride(lead, outer)
    if matrix is None or matrix < 0:
        return None
    if (columns == 1 or element == 1) and (rows == 1 or line >= columns):
        return _Layout(False, columns if rows == 1 else line, matrix)
    if (rows == 1 or line == 1) and (columns == 1 or element >= rows):
        return _Layout(True, rows if columns == 1 else element, matrix)
    return None


def batch_stride(shape: list[int], strides: list[int]) -> int | None:
    """The one stride that steps through the leading dimensions in row-major order; None if there is none."""
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
