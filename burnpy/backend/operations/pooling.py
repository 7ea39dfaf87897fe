"""Pooling over windows of the last two dimensions of x (batch, channels, height, width)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, int64
from burnpy.backend.operations import OperationsBase
from burnpy.backend.operations.convolution import Pair, inside, padded, padded_shape, window_counts, window_keys
from burnpy.backend.primitives import Bool, Float, Int, Key, Shape
from burnpy.backend.rules import Folded
from burnpy.backend.schema import GENERAL, LINEAR, NONDIFFERENTIABLE, derived


def max_pool2d_jvp(
    i: Any, t: Float, x: Float, out: Float, kernel: Any, stride: Any, padding: Any, dilation: Any
) -> Float:
    """Return the tangent of each window's first largest element, or of its first NaN."""
    tangents = padded(i, t, padded_shape(x.shape, kernel, stride, padding, dilation, out.shape[2:]), padding, 0.0)
    picked = i.full(out.shape, 0.0, out.dtype)
    for key, chosen in chosen_in_windows(i, x, out, kernel, stride, padding, dilation):
        picked = i.where(chosen, i.slice(tangents, key), picked)
    return picked


def avg_pool2d_backward_vjp(
    i: Any, g: Float, grad_shape: Any, kernel: Any, stride: Any, padding: Any, count_include_pad: bool, divisor: Any
) -> Float:
    """Return the transpose of the backward operation: the average pool itself. The shape tells if the last window
    reached beyond the padding (``ceil_mode``)."""
    out = i.avg_pool2d(g, kernel, stride, padding, False, count_include_pad, divisor)
    return (
        out if out.shape == grad_shape else i.avg_pool2d(g, kernel, stride, padding, True, count_include_pad, divisor)
    )


def adaptive_avg_pool2d_vjp(i: Any, g: Float, x_shape: Shape) -> Float:
    """Return the gradient of each mean, divided evenly among its elements."""
    if g.shape[2:] == (1, 1):
        return i.expand(i.div(g, float(x_shape[2] * x_shape[3])), x_shape)
    return i.adaptive_avg_pool2d_backward(g, x_shape)


class Pooling(OperationsBase):
    """Pooling. ``kernel``, ``stride``, ``padding`` and ``dilation`` are pairs; padding is at most half the kernel."""

    @derived(
        GENERAL,
        flops=lambda x: prod(x),
        vjp=lambda i, g, x, out, kernel, stride, padding, dilation: i.max_pool2d_backward(
            g, x, out, kernel, stride, padding, dilation
        ),
        jvp=max_pool2d_jvp,
        batch=Folded(("x",)),
        onnx="products.max_pool",
    )
    def max_pool2d(self, x: Float, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil_mode: bool) -> Float:
        """2-d max pooling: the maximum of each window, which is never padding; NaN if any element is NaN."""
        counts = window_counts(x.shape, kernel, stride, padding, dilation, ceil_mode)
        whole = padded(self, x, padded_shape(x.shape, kernel, stride, padding, dilation, counts), padding, -math.inf)
        first, *rest = [self.slice(whole, key) for key in window_keys(kernel, stride, dilation, counts)]
        out = self.add(first, 0.0) if not rest else first
        for part in rest:
            out = self.maximum(out, part)
        return out

    @derived(GENERAL, like="x", flops=lambda x: prod(x), batch=Folded(("grad", "x", "out")))
    def max_pool2d_backward(
        self, grad: Float, x: Float, out: Float, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
    ) -> Float:
        """Gradient of `max_pool2d`: grad added at the first NaN or else the first maximum of each window, row-major."""
        shape = padded_shape(x.shape, kernel, stride, padding, dilation, out.shape[2:])
        total = self.full(shape, 0.0, grad.dtype)
        for key, chosen in chosen_in_windows(self, x, out, kernel, stride, padding, dilation):
            total = self.accumulate_slice(total, key, self.where(chosen, grad, 0.0))
        return total if shape == x.shape else self.add(self.slice(total, inside(x.shape, padding)), 0.0)

    @derived(NONDIFFERENTIABLE, flops=lambda x: prod(x), batch=Folded(("x",)))
    def max_pool2d_indices(
        self, x: Float, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil_mode: bool
    ) -> Int:
        """Row-major index, within its (height, width) plane, of the element that `max_pool2d` selects per window."""
        out = self.max_pool2d(x, kernel, stride, padding, dilation, ceil_mode)
        d, width = self.discrete, x.shape[3]
        high, wide = (np.arange(n) * s - pad for n, s, pad in zip(out.shape[2:], stride, padding, strict=True))
        within = d.full(out.shape, 0, int64)
        elements = chosen_in_windows(self, x, out, kernel, stride, padding, dilation)
        for (row, column), (_, chosen) in zip(np.ndindex(kernel), elements, strict=True):
            place = row * dilation[0] * width + column * dilation[1]
            within = d.where(d.bitwise_not(chosen), within, place)
        return d.add(within, d.from_numpy(np.add.outer(high * width, wide)))

    @derived(
        LINEAR,
        flops=lambda x: prod(x),
        vjp=lambda i, g, x_shape, kernel, stride, padding, count_include_pad, divisor: i.avg_pool2d_backward(
            g, x_shape, kernel, stride, padding, count_include_pad, divisor
        ),
        batch=Folded(("x",)),
        onnx="products.avg_pool",
    )
    def avg_pool2d(
        self,
        x: Float,
        kernel: Pair,
        stride: Pair,
        padding: Pair,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor: int | None,
    ) -> Float:
        """2-d average pooling: the sum of each window over ``divisor``, or over the number of its elements if None.

        Padding counts as elements only with ``count_include_pad``.
        """
        if x.dtype.itemsize == 2:
            wide = self.cast(x, float32)
            out = self.avg_pool2d(wide, kernel, stride, padding, ceil_mode, count_include_pad, divisor)
            return self.cast(out, x.dtype)
        counts = window_counts(x.shape, kernel, stride, padding, (1, 1), ceil_mode)
        whole = padded(self, x, padded_shape(x.shape, kernel, stride, padding, (1, 1), counts), padding, 0.0)
        first, *rest = [self.slice(whole, key) for key in window_keys(kernel, stride, (1, 1), counts)]
        for part in rest:
            first = self.add(first, part)
        return _shares(self, first, x.shape, kernel, stride, padding, count_include_pad, divisor)

    @derived(LINEAR, flops=lambda out: prod(out), vjp=avg_pool2d_backward_vjp, batch=Folded(("grad", "shape")))
    def avg_pool2d_backward(
        self,
        grad: Float,
        shape: Shape,
        kernel: Pair,
        stride: Pair,
        padding: Pair,
        count_include_pad: bool,
        divisor: int | None,
    ) -> Float:
        """Gradient of `avg_pool2d` with respect to x of the given shape."""
        if grad.dtype.itemsize == 2:
            wide = self.cast(grad, float32)
            total = self.avg_pool2d_backward(wide, shape, kernel, stride, padding, count_include_pad, divisor)
            return self.cast(total, grad.dtype)
        counts: Pair = grad.shape[2:]
        share = _shares(self, grad, shape, kernel, stride, padding, count_include_pad, divisor)
        whole = padded_shape(shape, kernel, stride, padding, (1, 1), counts)
        total = self.full(whole, 0.0, grad.dtype)
        for key in window_keys(kernel, stride, (1, 1), counts):
            total = self.accumulate_slice(total, key, share)
        return total if whole == shape else self.add(self.slice(total, inside(shape, padding)), 0.0)

    @derived(
        LINEAR,
        flops=lambda x: prod(x),
        vjp=adaptive_avg_pool2d_vjp,
        batch=Folded(("x",)),
        onnx="products.mean_of_planes",
    )
    def adaptive_avg_pool2d(self, x: Float, size: Pair) -> Float:
        """2-d adaptive average pooling to ``size``: means of windows i·n//s … ⌈(i+1)·n/s⌉ along each dimension.

        n is the size of the input and s the size of the output; windows overlap where s does not divide n.
        """
        if size == (1, 1):
            return self.mean(x, (2, 3), True)
        for dim, count in zip((2, 3), size, strict=True):
            keys = [_window(x.shape, dim, bounds) for bounds in adaptive_windows(x.shape[dim], count)]
            x = self.cat([self.mean(self.slice(x, key), (dim,), True) for key in keys], dim)
        return x

    @derived(
        LINEAR,
        flops=lambda out: prod(out),
        vjp=lambda i, g, grad_shape: i.adaptive_avg_pool2d(g, grad_shape[2:]),
        batch=Folded(("grad", "shape")),
    )
    def adaptive_avg_pool2d_backward(self, grad: Float, shape: Shape) -> Float:
        """Gradient of `adaptive_avg_pool2d` with respect to x of the given shape."""
        for dim in (3, 2):
            whole = (*grad.shape[:dim], shape[dim], *grad.shape[dim + 1 :])
            total = self.full(whole, 0.0, grad.dtype)
            for k, (start, stop) in enumerate(adaptive_windows(shape[dim], grad.shape[dim])):
                share = self.div(self.slice(grad, _window(grad.shape, dim, (k, k + 1))), float(stop - start))
                key = _window(whole, dim, (start, stop))
                total = self.accumulate_slice(total, key, self.expand(share, self.slice(total, key).shape))
            grad = total
        return grad

    @derived(NONDIFFERENTIABLE, flops=lambda x: prod(x), batch=Folded(("x",)))
    def adaptive_max_pool2d_indices(self, x: Float, size: Pair) -> Int:
        """Row-major index, within its (height, width) plane, of the maximum of each window of `adaptive_avg_pool2d`.

        Of equal maxima the first is selected, and of NaNs, which are above all numbers.
        """
        d, width = self.discrete, x.shape[3]
        starts: list[Any] = []
        lengths: list[int] = []
        for dim, count in zip(
            (2, 3), size, strict=True
        ):  # windows one after the other, which repeat their last element
            bounds = np.array(adaptive_windows(x.shape[dim], count))
            longest = int((bounds[:, 1] - bounds[:, 0]).max())
            places = np.minimum(np.add.outer(bounds[:, 0], np.arange(longest)), bounds[:, 1:] - 1)
            starts.append(bounds[:, 0])
            lengths.append(longest)
            if places.size != x.shape[dim]:
                x = self.index_select(x, dim, d.from_numpy(places.reshape(-1)))
        (n, c), wide = x.shape[:2], lengths[1]
        split = self.permute(self.reshape(x, (n, c, size[0], lengths[0], size[1], wide)), (0, 1, 2, 4, 3, 5))
        within = self.argmax(self.reshape(split, (n, c, *size, lengths[0] * wide)), 4, False)
        corner = d.from_numpy(np.add.outer(starts[0] * width, starts[1]))
        row = d.floor_divide(within, wide)
        return d.add(corner, d.add(d.mul(row, width), d.sub(within, d.mul(row, wide))))


def _shares(
    b: Pooling,
    x: Float,
    shape: Shape,
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    count_include_pad: bool,
    divisor: int | None,
) -> Float:
    """Divide x by the number of counted elements of each window, or by ``divisor``."""
    share = window_shares(shape, kernel, stride, padding, x.shape[2:], count_include_pad, divisor)
    return b.mul(x, b.from_numpy(share.astype(x.dtype)) if isinstance(share, np.ndarray) else share)


@lru_cache(8)  # few, as those of large images take megabytes
def window_shares(
    shape: Shape, kernel: Pair, stride: Pair, padding: Pair, counts: Shape, count_include_pad: bool, divisor: int | None
) -> float | np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the factor of each window's sum in its average; one number if all windows have the same factor."""
    if divisor is not None:
        return 1 / divisor
    high, wide = window_sizes(shape, kernel, stride, padding, counts, count_include_pad)
    if (high == kernel[0]).all() and (wide == kernel[1]).all():
        return 1 / (kernel[0] * kernel[1])
    shares = np.asarray(1 / np.multiply.outer(high, wide))
    shares.flags.writeable = False  # shared by all callers
    return shares


def window_sizes(
    shape: Shape, kernel: Pair, stride: Pair, padding: Pair, counts: Shape, count_include_pad: bool
) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int64]], ...]:
    """Return the number of counted elements of each window, along the height and along the width."""
    sizes = []
    for n, k, s, p, count in zip(shape[2:], kernel, stride, padding, counts, strict=True):
        start = np.arange(count, dtype=np.int64) * s - p
        low, high = (-p, n + p) if count_include_pad else (0, n)
        sizes.append(np.minimum(start + k, high) - np.maximum(start, low))
    return tuple(sizes)


def adaptive_windows(size: int, count: int) -> list[tuple[int, int]]:
    """Return start and stop of ``count`` windows that cover ``size`` elements evenly."""
    return [(k * size // count, -(-(k + 1) * size // count)) for k in range(count)]


def _window(shape: Shape, dim: int, bounds: tuple[int, int]) -> Key:
    """Return the key that selects the elements between two bounds along ``dim``."""
    return tuple(slice(*bounds, 1) if d == dim else slice(0, n, 1) for d, n in enumerate(shape))


def chosen_in_windows(
    b: Any, x: Float, out: Float, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> Iterator[tuple[Key, Bool]]:
    """Yield, for each element of a window in row-major order, its key and the mask of windows that select it. A window
    with result ``out`` selects its first NaN, or else its first element not less than ``out``; never padding."""
    d, counts = b.discrete, out.shape[2:]
    shape = padded_shape(x.shape, kernel, stride, padding, dilation, counts)
    whole = padded(b, x, shape, padding, -math.inf)
    real = np.zeros(shape[2:], np.bool_)
    real[inside(x.shape, padding)[2:]] = True
    free = None
    for key in window_keys(kernel, stride, dilation, counts):
        part, there = b.slice(whole, key), real[key[2:]]
        hit = d.bitwise_or(b.ge(part, out), b.isnan(part))
        if not there.all():
            hit = d.bitwise_and(hit, d.from_numpy(np.ascontiguousarray(there)))
        yield key, hit if free is None else d.bitwise_and(hit, free)
        free = d.bitwise_not(hit) if free is None else d.bitwise_and(free, d.bitwise_not(hit))
