"""Pooling and resampling by kernels, or block by block, on all threads for large inputs.

Results are written where they belong. Resampling takes, weighs and adds the elements at the places of a tap while they
are in the cache; sums of elements at places are kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, int64
from burnpy.backend.operations.convolution import Pair, inside, padded_shape, window_counts
from burnpy.backend.operations.pooling import adaptive_windows
from burnpy.backend.operations.resampling import Sampling, Taps, taps, transposed_taps
from burnpy.backend.primitives import DType, Shape
from burnpy_array import ArrayBackend
from burnpy_array.array_base import is_half
from burnpy_numpy.cpu_threads import BLOCK, shared
from burnpy_numpy.kernels.kernel import family_kernels
from burnpy_numpy.numpy_calls import BITS

_MAXIMUM: Any = np.maximum
_LEAST = 16
"""The least number of elements for which kernels are used, which NumPy's several calls take longer than."""
_MOST_KEPT = 1 << 16
"""The largest number of elements of a matrix that is kept for the next call."""


class NumPyPooling(ArrayBackend):
    """Pooling by kernels, else max pooling (its gradient without padding and overlap) in blocks.

    Other cases use the implementation of `burnpy_array`. Adaptive averages are matrix products, in which an infinity or
    NaN would be multiplied by the zeros of other windows: if the result is not finite, it is computed again by that
    implementation.
    """

    def max_pool2d(self, x: Any, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil_mode: bool) -> Any:
        if is_half(x.dtype):
            return self._in_float32(self.max_pool2d, x, kernel, stride, padding, dilation, ceil_mode)[0]
        counts = window_counts(x.shape, kernel, stride, padding, dilation, ceil_mode)
        if x.size >= _LEAST and (kernels := family_kernels("pooling")):
            out = kernels.run_max_pool(x, counts, kernel, stride, padding, dilation)
            if out is not None:
                return out
        if 0 in (x.size, *counts):
            return super().max_pool2d(x, kernel, stride, padding, dilation, ceil_mode)
        whole = padded_shape(x.shape, kernel, stride, padding, dilation, counts)
        if whole != x.shape:
            padded = np.full(whole, -math.inf, x.dtype)
            padded[inside(x.shape, padding)] = x
            x = padded
        return self._call(_forward, x, counts, kernel, stride, dilation)

    def max_pool2d_indices(
        self, x: Any, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil_mode: bool
    ) -> Any:
        if is_half(x.dtype):
            return self._in_float32(self.max_pool2d_indices, x, kernel, stride, padding, dilation, ceil_mode)[0]
        if x.size >= _LEAST and (kernels := family_kernels("pooling")):
            counts = window_counts(x.shape, kernel, stride, padding, dilation, ceil_mode)
            out = kernels.run_max_pool_indices(x, counts, kernel, stride, padding, dilation)
            if out is not None:
                return out
        return super().max_pool2d_indices(x, kernel, stride, padding, dilation, ceil_mode)

    def max_pool2d_backward(
        self, grad: Any, x: Any, out: Any, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
    ) -> Any:
        if is_half(grad.dtype):
            return self._in_float32(self.max_pool2d_backward, grad, x, out, kernel, stride, padding, dilation)[0]
        if x.size >= _LEAST and (kernels := family_kernels("pooling")):
            total = kernels.run_max_pool_backward(grad, x, out, kernel, stride, padding, dilation)
            if total is not None:
                return total
        rests = [_rest(x.shape, out.shape[2:], kernel, stride, (1, 1), n) for n in (0, 1)]
        apart = stride[0] >= kernel[0] and stride[1] >= kernel[1] and dilation == (1, 1)
        if x.size and padding == (0, 0) and apart and min(rests) >= 0:
            return self._call(_backward, grad, x, out, kernel, stride, stride == kernel and rests == [0, 0])
        return super().max_pool2d_backward(grad, x, out, kernel, stride, padding, dilation)

    def avg_pool2d(
        self,
        x: Any,
        kernel: Pair,
        stride: Pair,
        padding: Pair,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor: int | None,
    ) -> Any:
        if x.size >= _LEAST and (kernels := family_kernels("pooling")):
            counts = window_counts(x.shape, kernel, stride, padding, (1, 1), ceil_mode)
            out = kernels.run_avg_pool(x, counts, kernel, stride, padding, count_include_pad, divisor)
            if out is not None:
                return out
        return super().avg_pool2d(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor)

    def avg_pool2d_backward(
        self,
        grad: Any,
        shape: Shape,
        kernel: Pair,
        stride: Pair,
        padding: Pair,
        count_include_pad: bool,
        divisor: int | None,
    ) -> Any:
        if math.prod(shape) >= _LEAST and (kernels := family_kernels("pooling")):
            total = kernels.run_avg_pool_backward(grad, shape, kernel, stride, padding, count_include_pad, divisor)
            if total is not None:
                return total
        return super().avg_pool2d_backward(grad, shape, kernel, stride, padding, count_include_pad, divisor)

    def adaptive_avg_pool2d(self, x: Any, size: Pair) -> Any:
        if size == (1, 1):
            return self.mean(x, (2, 3), True)
        if is_half(x.dtype):
            return self._in_float32(self.adaptive_avg_pool2d, x, size)[0]
        (rows, _), (_, columns) = (_averages(n, k, x.dtype) for n, k in zip(x.shape[2:], size, strict=True))
        out = self._weighted(rows, x, columns)
        return out if np.isfinite(out).all() else super().adaptive_avg_pool2d(x, size)

    def adaptive_avg_pool2d_backward(self, grad: Any, shape: Shape) -> Any:
        if is_half(grad.dtype):
            return self._in_float32(self.adaptive_avg_pool2d_backward, grad, shape)[0]
        counts = grad.shape[2:]
        (_, rows), (columns, _) = (_averages(n, k, grad.dtype) for n, k in zip(shape[2:], counts, strict=True))
        out = self._weighted(rows, grad, columns)
        return out if np.isfinite(out).all() else super().adaptive_avg_pool2d_backward(grad, shape)

    def _weighted(self, rows: Any, x: Any, columns: Any) -> Any:
        """Return rows @ x @ columns in new memory; a square matrix has ones on its diagonal, and zeros."""
        fewer = rows.shape[0] != rows.shape[1]
        out = self.matmul(rows, x) if fewer else x
        return out if fewer and columns.shape[0] == columns.shape[1] else self.matmul(out, columns)

    def adaptive_max_pool2d_indices(self, x: Any, size: Pair) -> Any:
        if is_half(x.dtype):
            return self._in_float32(self.adaptive_max_pool2d_indices, x, size)[0]
        if x.size >= _LEAST and (kernels := family_kernels("resampling")):
            out = kernels.run_adaptive_maxima(x, size)
            if out is not None:
                return out
        return super().adaptive_max_pool2d_indices(x, size)


def _averages(n: int, k: int, dtype: DType) -> tuple[Any, Any]:
    """Return the matrix, (k, n), that maps n numbers to the means of k windows, and its transpose; keep small ones."""
    return (_kept_averages if n * k <= _MOST_KEPT else _new_averages)(n, k, dtype)


def _new_averages(n: int, k: int, dtype: DType) -> tuple[Any, Any]:
    out = np.zeros((k, n), dtype)
    for line, (start, stop) in zip(out, adaptive_windows(n, k), strict=True):
        line[start:stop] = 1 / (stop - start)
    both = out, np.ascontiguousarray(out.T)
    for matrix in both:
        matrix.flags.writeable = False
    return both


_kept_averages = lru_cache(64)(_new_averages)


def _rest(shape: Any, counts: Any, kernel: Pair, stride: Pair, dilation: Pair, n: int) -> int:
    """Return the number of elements of the height (n = 0) or width (n = 1) after the last window."""
    return int(shape[2 + n] - (counts[n] - 1) * stride[n] - dilation[n] * (kernel[n] - 1) - 1)


def _blocks(begin: int, end: int, plane: int) -> Iterator[slice]:
    step = max(1, BLOCK // plane)
    for start in range(begin, end, step):
        yield slice(start, min(start + step, end))


def _along(offset: int, count: int, step: int) -> slice:
    """Return the slice of the elements at ``offset`` in each window."""
    return slice(offset, offset + (count - 1) * step + 1, step)


def _forward(x: Any, counts: Pair, kernel: Pair, stride: Pair, dilation: Pair) -> Any:
    planes = x.reshape((-1, *x.shape[2:]))
    out = np.empty((planes.shape[0], *counts), x.dtype)

    def work(begin: int, end: int) -> None:
        for block in _blocks(begin, end, planes[0].size):
            lines = _largest([planes[block, _along(k * dilation[0], counts[0], stride[0])] for k in range(kernel[0])])
            _largest([lines[:, :, _along(k * dilation[1], counts[1], stride[1])] for k in range(kernel[1])], out[block])

    shared(work, planes.shape[0], planes[0].size / 2)
    return out.reshape((*x.shape[:2], *counts))


def _largest(parts: list[Any], out: Any = None) -> Any:
    """Return the elementwise maximum of several arrays, in ``out`` or in new memory; a single array without ``out``
    itself."""
    if len(parts) == 1:
        if out is None:
            return parts[0]
        out[...] = parts[0]
        return out
    result = _MAXIMUM(parts[0], parts[1], out=out)
    for part in parts[2:]:
        _MAXIMUM(result, part, out=result)
    return result


def _backward(grad: Any, x: Any, out: Any, kernel: Pair, stride: Pair, covered: bool) -> Any:
    high, wide = out.shape[2:]
    bits = BITS[x.dtype.itemsize]
    planes, tops = x.reshape((-1, *x.shape[2:])), out.reshape((-1, high, wide))
    grads = np.ascontiguousarray(grad).reshape(tops.shape).view(bits)  # as ints, since 0 times any int is 0
    total = (np.empty if covered else np.zeros)(planes.shape, x.dtype)
    sums = total.view(bits)
    keys = [
        (slice(None), _along(row, high, stride[0]), _along(column, wide, stride[1]))
        for row in range(kernel[0])
        for column in range(kernel[1])
    ]

    def work(begin: int, end: int) -> None:
        for block in _blocks(begin, end, planes[0].size):
            part, top, grad_part, sum_part = planes[block], tops[block], grads[block], sums[block]
            free: Any = np.ones(top.shape, np.bool_)
            smaller, chosen = np.empty_like(free), np.empty_like(free)
            top_is_nan = np.isnan(top) if np.isnan(top.max()) else None
            for key in keys:
                np.less(part[key], top, smaller)
                if top_is_nan is not None:
                    np.greater(top_is_nan, np.isnan(part[key]), smaller, where=top_is_nan)
                np.greater(free, smaller, chosen)
                np.logical_and(free, smaller, free)
                np.multiply(grad_part, chosen, sum_part[key])

    shared(work, planes.shape[0], planes[0].size / 2)
    return total.reshape(x.shape)


_MIN_PRODUCTS = 16
"""The least number of products for which kernels are used."""


class NumPyResampling(ArrayBackend):
    """Resampling in blocks, and sums of elements at places, times weights, by kernels; 16-bit floats in float32."""

    def resample(self, x: Any, dim: int, size: int, how: Sampling) -> Any:
        return self._taken(x, dim, taps(x.shape[dim], size, how))

    def resample_backward(self, grad: Any, dim: int, size: int, how: Sampling) -> Any:
        return self._taken(grad, dim, transposed_taps(size, grad.shape[dim], how))

    def _taken(self, x: Any, dim: int, table: Taps) -> Any:
        if is_half(x.dtype) and table.weights is not None:
            return self._in_float32(self._taken, x, dim, table)[0]
        return self._call(_resampled, x, dim, table)

    def weighted_gather(self, x: Any, places: Any, weights: Any) -> Any:
        out = None
        if _suits(x, places, weights) and x.shape[2] and (kernels := family_kernels("resampling")):
            out = kernels.run_weighted_gather(x, places, weights)
        return super().weighted_gather(x, places, weights) if out is None else out

    def weighted_scatter(self, grad: Any, places: Any, weights: Any, size: int) -> Any:
        out = None
        if _suits(grad, places, weights) and size and (kernels := family_kernels("resampling")):
            out = kernels.run_weighted_scatter(grad, places, weights, size)
        return super().weighted_scatter(grad, places, weights, size) if out is None else out

    def gathered_products(self, grad: Any, x: Any, places: Any) -> Any:
        out = None
        if _suits(grad, places, x) and x.shape[2] and (kernels := family_kernels("resampling")):
            out = kernels.run_gathered_products(grad, x, places)
        return super().gathered_products(grad, x, places) if out is None else out


def _suits(x: Any, places: Any, y: Any) -> bool:
    """Return whether kernels are used for two arrays of the usual dtypes and these places."""
    return (
        places.size * x.shape[1] >= _MIN_PRODUCTS
        and (x.dtype is float32 or x.dtype is float64)
        and y.dtype is x.dtype
        and places.dtype is int64
    )


def _resampled(x: Any, dim: int, table: Taps) -> Any:
    places, weights = table
    shape: Shape = (*x.shape[:dim], places.shape[1], *x.shape[dim + 1 :])
    if weights is None:
        return x.take(places[0], dim)
    outer, inner = math.prod(shape[:dim]), math.prod(shape[dim + 1 :])
    planes = np.ascontiguousarray(x).reshape((outer, x.shape[dim], inner))
    out = np.empty((outer, shape[dim], inner), x.dtype)
    if inner == 1:  # of runs of one element, taking from the last dim of a matrix is faster
        planes, out = planes[:, :, 0], out[:, :, 0]
    factors = [w.astype(x.dtype).reshape((-1, *(1,) * (planes.ndim - 2))) for w in weights]
    step = max(1, BLOCK // max(1, shape[dim] * inner))

    def work(begin: int, end: int) -> None:
        memory = np.empty((min(step, end - begin), *out.shape[1:]), x.dtype)
        for start in range(begin, end, step):
            block = slice(start, min(start + step, end))
            part, total = planes[block], out[block]
            more = memory[: len(part)]
            part.take(places[0], 1, total, "clip")
            np.multiply(total, factors[0], total)
            for index, factor in zip(places[1:], factors[1:], strict=True):
                part.take(index, 1, more, "clip")
                np.multiply(more, factor, more)
                np.add(total, more, total)

    shared(work, outer, shape[dim] * inner * len(places))
    return out.reshape(shape)
