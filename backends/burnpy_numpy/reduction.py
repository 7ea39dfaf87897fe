"""Reductions: sums as products with vectors of ones, in a third of the time."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.reduction import divisor
from burnpy.backend.primitives import Dims, DType, Shape
from burnpy_array import ArrayBackend
from burnpy_array.array_base import is_half
from burnpy_array.reduction import SAFE
from burnpy_numpy.cpu_threads import alone
from burnpy_numpy.kernels.kernel import (
    LEAST,
    LONGEST,
    MANY,
    contiguous,
    elementwise_kernel,
    family_kernels,
    has_kernels,
    operation_kernel,
)
from burnpy_numpy.numpy_calls import inverse, memory_order, quietly, run

_MIN_BY_PRODUCT, _MAX_BY_PRODUCT, _TOTAL_PART = 512, 8192, 1024
"""The least number of elements that gains by a product, the longest sum over some dimensions that is one, and the
length of the parts that a sum of everything adds, which is as exact as pairwise summation."""

_ROWS_IN_TURN = 256
"""The number of rows that are added one after the other."""

_COLUMNS_APART = 128
"""The number of columns of a row that are multiplied beside each other."""

_MAX_UNSHARED = 9216
"""The size above which OpenBLAS divides a product with a vector among its threads."""

_add: Any = np.add.reduce
_multiply: Any = np.multiply


@lru_cache(64)
def row(value: int, length: int, dtype: DType) -> Any:
    """Return a cached read-only vector with one value in all elements."""
    vector = np.full(length, value, dtype)
    vector.flags.writeable = False
    return vector


FEW = 512
"""The number of elements below which a sum takes less time than choosing the fastest way to compute it."""
_MIN_SQUARES = 64
"""The least number of elements for which a sum of squares is a kernel, which needs rows: below, it is two calls."""
_SQUARES_PART = 1 << 12
"""The number of squares that a kernel adds up of an array that is longer than a row may be."""
_NUMBERS_PART = 1 << 9
"""The same of numbers, whose errors can add up in one direction."""
_MIN_NUMPY_COLUMNS = 256
"""The least number of columns for which NumPy takes less time for products of rows that are divided."""


class NumPyReduction(ArrayBackend):
    """Sums as products with a vector of ones; products, and sums of functions of the elements, by kernels."""

    def sum(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        dtype = x.dtype
        if (dtype is float32 or dtype is float64) and x.size <= _MAX_UNSHARED:
            add = few if x.size < FEW else _total
            try:
                return run(add, x, dims, keepdim)
            except RuntimeError:
                return quietly(add, x, dims, keepdim)
        if x.size >= FEW and is_half(dtype):
            return self.cast(self.sum(self.cast(x, float32), dims, keepdim), dtype)
        return super().sum(x, dims, keepdim)

    def sum_to(self, x: Any, shape: Shape) -> Any:
        if len(shape) == 1 and x.ndim == 2 and shape[0] == x.shape[1] != 1:  # the gradient of a bias
            return self.sum(x, (0,), False)
        return super().sum_to(x, shape)

    def mean(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        dtype, size = x.dtype, x.size
        if size and (dtype is float32 or dtype is float64):
            if size < FEW:
                try:
                    return run(_mean_of_few, x, dims, keepdim)
                except RuntimeError:
                    return quietly(_mean_of_few, x, dims, keepdim)
            out = self.sum(x, dims, keepdim)
            return self.div(out, size / out.size)
        if size >= FEW and is_half(dtype):
            return self.cast(self.mean(self.cast(x, float32), dims, keepdim), dtype)
        return super().mean(x, dims, keepdim)

    def _total(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        if x.dtype.kind == "c":  # times ones, an infinity in one part would be NaN in the other
            return _add(x, dims, None, None, keepdim)
        return total(x, dims, keepdim)

    def nansum(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        if x.size >= MANY and is_half(x.dtype):
            return self._in_float32(self.nansum, x, dims, keepdim)[0]
        ordered = in_memory_order(self.nansum, x, dims, keepdim)
        if ordered is not None:
            return ordered
        out = _sum_of("sum_of_numbers", x, dims, keepdim, (_NUMBERS_PART,), _SQUARES_PART)
        leading = bool(dims) and dims[-1] == len(dims) - 1 < x.ndim - 1
        if out is None and leading and x.size >= MANY and (x.dtype is float32 or x.dtype is float64):
            kernel = operation_kernel("sums_of_numbers", ("full",), x.dtype, ())
            if kernel is not None:
                rows = math.prod([x.shape[d] for d in dims])
                (out,) = kernel([x], (), rows, x.size // rows)
                out = out.reshape(_reduced(x.shape, dims, keepdim))
        return super().nansum(x, dims, keepdim) if out is None else out

    def _sum_of_squares(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        ordered = in_memory_order(self._sum_of_squares, x, dims, keepdim)
        if ordered is not None:
            return ordered
        small = x.size < _MIN_SQUARES
        out = None if small else _sum_of("sum_of_squares", x, dims, keepdim, (x.size, _SQUARES_PART), LONGEST)
        return super()._sum_of_squares(x, dims, keepdim) if out is None else out

    def var(self, x: Any, dims: Dims, keepdim: bool, correction: float) -> Any:
        if is_half(x.dtype):
            return self._in_float32(self.var, x, dims, keepdim, correction)[0]
        out = _variance(x, dims, keepdim, correction)
        return super().var(x, dims, keepdim, correction) if out is None else out

    def std(self, x: Any, dims: Dims, keepdim: bool, correction: float) -> Any:
        if is_half(x.dtype):
            return self._in_float32(self.std, x, dims, keepdim, correction)[0]
        out = _variance(x, dims, keepdim, correction)
        if out is not None and out.size:
            least, most = SAFE[x.dtype]
            if out.min() > least and out.max() < most:
                return np.sqrt(out)
        return super().std(x, dims, keepdim, correction)

    def prod(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        if dims and x.size >= MANY and is_half(x.dtype):
            return self._in_float32(self.prod, x, dims, keepdim)[0]
        if not dims or x.size < MANY or not (x.dtype is float32 or x.dtype is float64):
            return super().prod(x, dims, keepdim)
        ordered = in_memory_order(self.prod, x, dims, keepdim)
        if ordered is not None:
            return ordered
        kernels = family_kernels("scans_and_losses") if dims[0] == x.ndim - len(dims) else None
        shape = _reduced(x.shape, dims, keepdim)
        out = None if kernels is None else kernels.last_dims_product(x, dims)
        if out is not None:
            return (out if out.size == math.prod(shape) else self._call(out.prod)).reshape(shape)
        if dims == (x.ndim - 1,) and x.shape[-1] >= _MIN_NUMPY_COLUMNS:
            return self._call(row_products, x.reshape((-1, x.shape[-1]))).reshape(shape)
        return super().prod(x, dims, keepdim)

    def argmax(self, x: Any, dim: int, keepdim: bool) -> Any:
        return super().argmax(self._widened(x), dim, keepdim)

    def argmin(self, x: Any, dim: int, keepdim: bool) -> Any:
        return super().argmin(self._widened(x), dim, keepdim)

    def _widened(self, x: Any) -> Any:
        """Return a large array of 16-bit floats in float32, which NumPy compares by vectors; others as they are."""
        return self.cast(x, float32) if x.itemsize == 2 and x.size >= MANY and is_half(x.dtype) else x

    def prod_backward(self, grad: Any, x: Any, dims: Dims) -> Any:
        out = None
        usual = x.dtype is grad.dtype and (x.dtype is float32 or x.dtype is float64) and x.size >= MANY
        if usual and dims and dims[-1] - dims[0] == len(dims) - 1 and (kernels := family_kernels("scans_and_losses")):
            length = math.prod([x.shape[d] for d in dims])
            inner = math.prod(x.shape[dims[-1] + 1 :])
            if length == x.size and length % _TOTAL_PART == 0:  # the factor of a part is the product of the others
                parts = x.reshape((-1, _TOTAL_PART))
                length = _TOTAL_PART
                grad = super().prod_backward(grad.reshape((1, 1)), self.prod(parts, (1,), True), (0,))
            out = kernels.run_products_of_others(grad, x, length, inner)
        return super().prod_backward(grad, x, dims) if out is None else out


def in_memory_order(method: Callable[..., Any], x: Any, dims: Dims, keepdim: bool) -> Any:
    """Return a reduction of a large array whose dims lie in another order in memory, computed in that order. None for
    other arrays."""
    if x.flags.c_contiguous or x.size < MANY or (axes := memory_order((x,))) is None:
        return None
    out = method(x.transpose(axes), tuple(sorted([axes.index(d) for d in dims])), True)
    return out.transpose(inverse(axes)).reshape(_reduced(x.shape, dims, keepdim))


def extreme_of_rows(name: str, x: Any, dims: Dims, keepdim: bool) -> Any:
    """Return "amax" or "amin" over the last dims of an array that is not empty; None without a kernel for it."""
    kept = x.ndim - len(dims)
    if dims != tuple(range(kept, x.ndim)) or not dims or not has_kernels(x.dtype):
        return None
    kernel = operation_kernel(f"{name}_of_rows", ("full",), x.dtype, ())
    if kernel is None:
        return None
    rows = math.prod(x.shape[:kept])
    return kernel.outputs((x,), (_reduced(x.shape, dims, keepdim),), rows, x.size // rows)[0]


def _variance(x: Any, dims: Dims, keepdim: bool, correction: float) -> Any:
    """Return the variance over dims; None without a kernel for it. A small array is copied if its rows lie apart."""
    dtype, shape = x.dtype, x.shape
    if not (dtype is float32 or dtype is float64) or x.size < LEAST or not dims:
        return None
    columns = math.prod([shape[d] for d in dims])
    if columns > LONGEST and columns == x.size and (x.flags.c_contiguous or x.flags.f_contiguous):
        found = _variance_of_all(x.reshape(-1) if x.flags.c_contiguous else x.T.reshape(-1), correction)
        return None if found is None else dtype.type(found).reshape(_reduced(shape, dims, keepdim))
    if columns > LONGEST or not columns:
        return None
    if dims[0] != x.ndim - len(dims):
        if x.size >= MANY:
            return None
        x = x.transpose([*[d for d in range(x.ndim) if d not in dims], *dims])
    kernel = operation_kernel("variance_of_rows", ("full", "scalar"), dtype, ())
    if kernel is None:
        return None
    count = divisor(shape, dims, correction)
    return kernel.outputs((x,), (_reduced(shape, dims, keepdim),), x.size // columns, columns, (count,))[0]


def _variance_of_all(x: Any, correction: float) -> float | None:
    """Return the variance of a vector from its deviations from the rounded mean. None without a kernel, or where they
    do not give it exactly: of equal elements, and beyond the range of squares."""
    kernel = operation_kernel("deviations_of_rows", ("full", "scalar"), x.dtype, ())
    if kernel is None:
        return None
    count, whole = x.size, x.size - x.size % _SQUARES_PART
    with np.errstate(all="ignore"):
        mean = float(total(x, (0,), False)) / count
        results = kernel([x[:whole]], (mean,), whole // _SQUARES_PART, _SQUARES_PART)
        if whole < count:
            results = [*results, *kernel([x[whole:]], (mean,), 1, count - whole)]
        level = sum(float(part.sum(dtype=float64)) for part in results[::2])
        squares = sum(float(part.sum(dtype=float64)) for part in results[1::2])
        error = level * level / count  # of the mean, whose square is a small part of the variance
        exact = 4 * error < squares < math.inf
        return float(np.float64(squares - error) / divisor(x.shape, (0,), correction)) if exact else None


def few(x: Any, dims: Dims, keepdim: bool) -> Any:
    """Return the sum of fewer than `FEW` float32 or float64 elements over ``dims``, with the least overhead."""
    shape = x.shape
    if len(shape) == len(dims) == 1:
        if not keepdim:
            return x.dot(row(1, shape[0], x.dtype))
    elif len(shape) == 2 and x.size:
        if len(dims) == 1:
            if dims[0]:
                out = x.dot(row(1, shape[1], x.dtype))
                return out.reshape((shape[0], 1)) if keepdim else out
            out = row(1, shape[0], x.dtype).dot(x)
            return out.reshape((1, shape[1])) if keepdim else out
        if dims and not keepdim and x.flags.c_contiguous:
            return x.reshape(-1).dot(row(1, x.size, x.dtype))
    return _add(x, dims, None, None, keepdim)


def _mean_of_few(x: Any, dims: Dims, keepdim: bool) -> Any:
    """Return the mean of fewer than `FEW` float32 or float64 elements over ``dims``, at least one."""
    out = few(x, dims, keepdim)
    return out / (x.size / out.size)


def total(x: Any, dims: Dims, keepdim: bool) -> Any:
    """Return the sum of a float32 or float64 array over ``dims``."""
    with alone(x.size > _MAX_UNSHARED):
        return _total(x, dims, keepdim)


def _total(x: Any, dims: Dims, keepdim: bool) -> Any:
    """Return the sum of an array, over one group of neighbouring dimensions after the other."""
    if x.size < _MIN_BY_PRODUCT or not dims:
        return _add(x, dims, None, None, keepdim)
    if len(dims) == x.ndim and not keepdim and x.flags.c_contiguous:
        return _everything(x.reshape(-1))
    length = math.prod([x.shape[d] for d in dims])
    if not x.flags.c_contiguous:
        if x.flags.f_contiguous:
            return _total(x.T, tuple([x.ndim - 1 - d for d in reversed(dims)]), keepdim).T
        if repeated := [d for d, step in enumerate(x.strides) if step == 0 and x.shape[d] > 1]:
            return _of_repeated(x, repeated, dims, keepdim)
        if length <= _TOTAL_PART:
            return _add(x, dims, None, None, keepdim)
        x = contiguous(x)
    group = next(k for k in range(len(dims)) if dims[-1] - dims[k] == len(dims) - 1 - k)
    if group and length > _TOTAL_PART:
        out = _total(_total(x, dims[group:], True), dims[:group], True)
    else:
        out = None if group else _over_neighbours(x, dims, length)
    if out is None:
        return _add(x, dims, None, None, keepdim)
    shape = _reduced(x.shape, dims, keepdim)
    return out if out.shape == shape else out.reshape(shape)


def _over_neighbours(x: Any, dims: Dims, length: int) -> Any:
    """Return the sum of a C-contiguous array over neighbouring dimensions, in some shape; None to leave it to NumPy.
    ``length`` is the number of elements of a sum."""
    if len(dims) == x.ndim:
        return _everything(x.reshape(-1))
    if length < 2:
        return None
    if dims[-1] == x.ndim - 1:  # NumPy adds neighbours in pairs
        return None if length > _MAX_BY_PRODUCT else x.reshape((-1, length)).dot(row(1, length, x.dtype))
    before = math.prod(x.shape[: dims[0]])
    if length > _TOTAL_PART:
        return _columns(x.reshape((before, length, -1)))
    if dims[0] == 0:
        return row(1, length, x.dtype).dot(x.reshape((length, -1)))
    return np.matmul(row(1, length, x.dtype), x.reshape((before, length, -1)))


def _of_repeated(x: Any, repeated: list[int], dims: Dims, keepdim: bool) -> Any:
    """Return the sum of an array that some dimensions repeat without memory of their own."""
    once = x[tuple([slice(1) if d in repeated else slice(None) for d in range(x.ndim)])]
    out = _total(once, dims, True) * math.prod([x.shape[d] for d in repeated if d in dims])
    whole = [1 if d in dims else n for d, n in enumerate(x.shape)]
    return np.broadcast_to(out, whole).reshape(_reduced(x.shape, dims, keepdim)).copy()


def _columns(x: Any) -> Any:
    """Return the sums over the second of three dimensions, by parts. NumPy adds the rows one after the other, so that
    the error grows with their number: the sum of 20 million ones would be 16,777,216 in float32."""
    count = x.shape[1] // _ROWS_IN_TURN
    if not count:
        return _add(x, 1)
    whole = count * _ROWS_IN_TURN
    parts = x[:, :whole].reshape((x.shape[0], count, _ROWS_IN_TURN, x.shape[2]))
    out = _columns(np.matmul(row(1, _ROWS_IN_TURN, x.dtype), parts))
    return out if whole == x.shape[1] else np.add(out, _add(x[:, whole:], 1), out)


def _everything(x: Any) -> Any:
    whole = x.size - x.size % _TOTAL_PART
    rest = _add(x[whole:])
    return _add(x[:whole].reshape((-1, _TOTAL_PART)).dot(row(1, _TOTAL_PART, x.dtype))) + rest if whole else rest


def row_products(x: Any) -> Any:
    """Return the product of each row of a matrix: NumPy multiplies neighbours one after the other, columns beside each
    other. So the columns `_COLUMNS_APART` apart are multiplied first."""
    rows, columns = x.shape
    whole = columns // _COLUMNS_APART * _COLUMNS_APART
    part = x[:, :whole].reshape((rows, whole // _COLUMNS_APART, _COLUMNS_APART)).prod(1)
    while part.shape[1] > 16:  # halves are beside each other, too
        half = part.shape[1] // 2
        part = _multiply(part[:, :half], part[:, half:])
    out = part.prod(1)
    return out if whole == columns else _multiply(out, x[:, whole:].prod(1), out)


def _sum_of(name: str, x: Any, dims: Dims, keepdim: bool, parts: tuple[int, ...], longest: int) -> Any:
    """Return the sum of a function of the elements over the last dimensions; None if there is no kernel for it."""
    if not dims or not x.size or is_half(x.dtype):
        return None
    columns = math.prod([x.shape[d] for d in dims])
    whole = columns == x.size
    if whole:
        columns = next((n for n in parts if n <= longest and x.size % n == 0), parts[-1])
    if dims[0] != x.ndim - len(dims) or columns > longest:
        return None
    kernel = elementwise_kernel(name, (), x)
    if kernel is None:
        return None
    if whole:
        flat, rest = x.reshape(-1), x.size % columns
        out = kernel([flat[: x.size - rest]], (), x.size // columns, columns)[0].sum()
        if rest:
            out = out + kernel([flat[x.size - rest :]], (), 1, rest)[0].sum()
    else:
        (out,) = kernel([x], (), x.size // columns, columns)
    return out.reshape(_reduced(x.shape, dims, keepdim))


def _reduced(shape: Shape, dims: Dims, keepdim: bool) -> Shape:
    return tuple([1 if d in dims else n for d, n in enumerate(shape) if keepdim or d not in dims])
