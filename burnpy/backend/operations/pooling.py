"""Pooling over windows of the last two dimensions of x (batch, channels, height, width)."""

from __future__ import annotations

import math

import numpy as np

from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.operations.windows import Pair, inside, padded, padded_shape, window_counts, window_keys
from burnpy.backend.primitives import DType, Float, Shape
from burnpy.backend.schema import Algebra, derived

LINEAR, GENERAL = Algebra.LINEAR, Algebra.GENERAL


class Pooling(OperationsBase):
    """``kernel``, ``stride``, ``padding`` and ``dilation`` are pairs; padding is at most half of the kernel."""

    @derived(GENERAL)
    def max_pool2d(self, x: Float, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil_mode: bool) -> Float:
        """The largest element of each window, NaN if there is one; padding is never it."""
        counts = window_counts(x.shape, kernel, stride, padding, dilation, ceil_mode)
        whole = padded(self, x, padded_shape(x.shape, kernel, stride, padding, dilation, counts), padding, -math.inf)
        first, *rest = [self.slice(whole, key) for key in window_keys(kernel, stride, dilation, counts)]
        out = self.add(first, 0.0) if not rest else first
        for part in rest:
            out = self.maximum(out, part)
        return out

    @derived(GENERAL)
    def max_pool2d_backward(
        self, grad: Float, x: Float, out: Float, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
    ) -> Float:
        """grad where the window's first largest element was, row by row; added up where windows overlap."""
        counts: Pair = out.shape[2:]
        shape = padded_shape(x.shape, kernel, stride, padding, dilation, counts)
        whole = padded(self, x, shape, padding, -math.inf)
        total, d = self.full(shape, 0.0, grad.dtype), self.discrete
        free = None
        for key in window_keys(kernel, stride, dilation, counts):
            hit = d.bitwise_not(self.lt(self.slice(whole, key), out))
            chosen = hit if free is None else d.bitwise_and(hit, free)
            free = d.bitwise_not(hit) if free is None else d.bitwise_and(free, d.bitwise_not(hit))
            total = self.accumulate_slice(total, key, self.where(chosen, grad, 0.0))
        return total if shape == x.shape else self.add(self.slice(total, inside(x.shape, padding)), 0.0)

    @derived(LINEAR)
    def avg_pool2d(
        self, x: Float, kernel: Pair, stride: Pair, padding: Pair, ceil_mode: bool, count_include_pad: bool
    ) -> Float:
        """The mean of each window; of its elements that are no padding, where that does not count."""
        counts = window_counts(x.shape, kernel, stride, padding, (1, 1), ceil_mode)
        whole = padded(self, x, padded_shape(x.shape, kernel, stride, padding, (1, 1), counts), padding, 0.0)
        first, *rest = [self.slice(whole, key) for key in window_keys(kernel, stride, (1, 1), counts)]
        for part in rest:
            first = self.add(first, part)
        return _shares(self, first, x.shape, kernel, stride, padding, count_include_pad)

    @derived(LINEAR)
    def avg_pool2d_backward(
        self, grad: Float, shape: Shape, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool
    ) -> Float:
        """The gradient of `avg_pool2d` by its x of ``shape``."""
        counts: Pair = grad.shape[2:]
        share = _shares(self, grad, shape, kernel, stride, padding, count_include_pad)
        whole = padded_shape(shape, kernel, stride, padding, (1, 1), counts)
        total = self.full(whole, 0.0, grad.dtype)
        for key in window_keys(kernel, stride, (1, 1), counts):
            total = self.accumulate_slice(total, key, share)
        return total if whole == shape else self.add(self.slice(total, inside(shape, padding)), 0.0)

    @derived(LINEAR)
    def adaptive_avg_pool2d(self, x: Float, size: Pair) -> Float:
        """Means over ``size`` windows that cover height and width evenly; windows overlap where they must."""
        if size == (1, 1):
            return self.mean(x, (2, 3), True)
        rows, columns = (_averages(n, k, x.dtype) for n, k in zip(x.shape[2:], size, strict=True))
        return self.matmul(self.matmul(self.from_numpy(rows), x), self.from_numpy(np.ascontiguousarray(columns.T)))


def _shares(
    b: Pooling, x: Float, shape: Shape, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool
) -> Float:
    """x over the number of elements of each window that count."""
    high, wide = window_sizes(shape, kernel, stride, padding, x.shape[2:], count_include_pad)
    if (high == kernel[0]).all() and (wide == kernel[1]).all():
        return b.mul(x, 1 / (kernel[0] * kernel[1]))
    return b.mul(x, b.from_numpy((1 / np.multiply.outer(high, wide)).astype(x.dtype)))


def window_sizes(
    shape: Shape, kernel: Pair, stride: Pair, padding: Pair, counts: Shape, count_include_pad: bool
) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int64]], ...]:
    """For each window along the height and along the width, how many of its elements count."""
    found = []
    for n, k, s, p, count in zip(shape[2:], kernel, stride, padding, counts, strict=True):
        start = np.arange(count, dtype=np.int64) * s - p
        low, high = (-p, n + p) if count_include_pad else (0, n)
        found.append(np.minimum(start + k, high) - np.maximum(start, low))
    return tuple(found)


def _averages(n: int, k: int, dtype: DType) -> np.ndarray[tuple[int, ...], DType]:
    """The matrix that takes n numbers to k means of neighbours."""
    position = np.arange(n)
    starts = np.arange(k) * n // k
    stops = -(-(np.arange(k) + 1) * n // k)
    member = (position >= starts[:, None]) & (position < stops[:, None])
    return (member / (stops - starts)[:, None]).astype(dtype)
