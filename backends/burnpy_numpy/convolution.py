"""Convolution by kernels, or of many channels as products of matrices with the channels last.

The elements of a window are then a few long runs of memory, and the products have the layout that is fastest in
OpenBLAS. Results have the usual layout (N, C, H, W). With windows of one element, without padding and groups, nothing
is laid out anew but the elements that a stride selects.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.convolution import Pair, Triple, padded_shape, window_counts
from burnpy.backend.primitives import Shape
from burnpy_array import ArrayBackend
from burnpy_array.array_base import in_order, is_half
from burnpy_numpy.cpu_threads import COUNT, shared
from burnpy_numpy.kernels.kernel import contiguous, family_kernels
from burnpy_numpy.matmul import MULTIPLICATIONS_PER_ELEMENT, dot, kernel_product

if TYPE_CHECKING:
    from burnpy.backend.entries import Operation

_MIN_CHANNELS = 12
"""The least number of channels for which this is faster."""
_COLUMN_BYTES = 1 << 19 if COUNT == 1 else 1 << 21
"""The size of a block's columns in bytes; `cpu_threads.BLOCK` explains why it is larger with several threads."""
_MAX_FEW_WINDOWS = 32
"""The number of windows that are few."""
FEW_PRODUCTS = 1 << 21, 1 << 16
"""The numbers of products up to which the weight stays as it lies: with few windows, and with more."""
_SMALL_PLANE = 256
"""The number of pixels up to which a convolution of one element has one product for the gradient of its weight."""
_TINY_WORK = 1 << 12
"""The product of the sizes of two arrays below which nothing else is looked at."""
_IMAGES = ("conv2d", "conv2d_bias", "conv2d_input", "conv2d_weight")
"""The convolutions that kernels compute of 16-bit floats."""


class NumPyConvolution(ArrayBackend):
    """Convolution by kernels for windows of several elements, else as products of matrices. Few channels and groups use
    the implementation of `burnpy_array`, and 16-bit floats become float32."""

    _columns_bytes = 1 << 18 if COUNT == 1 else 1 << 20

    def product_in_float32(self, op: Operation, args: tuple[Any, ...]) -> Any:
        out = None
        if op.name in _IMAGES and (kernels := family_kernels("convolution.half_precision")):
            out = self._call(kernels.convolution, op.name, *args)
        return super().product_in_float32(op, args) if out is None else out

    def conv2d(self, x: Any, weight: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int) -> Any:
        if is_half(x.dtype):
            return self._in_float32(self.conv2d, x, weight, stride, padding, dilation, groups)[0]
        if has_few_windows(x, weight, (stride, padding, dilation), groups):
            return self._call(_few_windows, x, weight, None, (stride, padding, dilation))
        out = self._kernel_conv2d(x, weight, None, stride, padding, dilation, groups)
        return self._conv2d_by_products(x, weight, stride, padding, dilation, groups) if out is None else out

    def conv2d_bias(
        self, x: Any, weight: Any, bias: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int
    ) -> Any:
        if is_half(x.dtype):
            return self._in_float32(self.conv2d_bias, x, weight, bias, stride, padding, dilation, groups)[0]
        if has_few_windows(x, weight, (stride, padding, dilation), groups):
            return self._call(_few_windows, x, weight, bias, (stride, padding, dilation))
        out = self._kernel_conv2d(x, weight, bias, stride, padding, dilation, groups)
        if out is not None:
            return out
        if _pointwise(x, weight.shape, padding, groups):
            return self._call(pointwise_convolution, x, weight, bias, stride)
        if fits(x, groups):
            return self._call(_forward, x, weight, bias, (stride, padding, dilation))
        return super().conv2d_bias(x, weight, bias, stride, padding, dilation, groups)

    def _kernel_conv2d(
        self, x: Any, weight: Any, bias: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int
    ) -> Any:
        """Return a convolution; None without a kernel for it."""
        kernels = None if x.size * weight.size < _TINY_WORK else family_kernels("convolution.conv2d")
        if kernels is None:
            return None
        return kernels.convolve(self, x, weight, bias, (stride, padding, dilation), groups)

    def _conv2d_by_products(self, x: Any, weight: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int) -> Any:
        if _pointwise(x, weight.shape, padding, groups):
            return self._call(pointwise_convolution, x, weight, None, stride)
        if fits(x, groups):
            return self._call(_forward, x, weight, None, (stride, padding, dilation))
        return super().conv2d(x, weight, stride, padding, dilation, groups)

    def conv2d_input(
        self, grad: Any, weight: Any, shape: Shape, stride: Pair, padding: Pair, dilation: Pair, groups: int
    ) -> Any:
        if is_half(grad.dtype):
            return self._in_float32(self.conv2d_input, grad, weight, shape, stride, padding, dilation, groups)[0]
        if grad.size * weight.size >= _TINY_WORK and (kernels := family_kernels("convolution.conv2d")):
            where = (stride, padding, dilation)
            out = kernels.input_gradient(self, grad, weight, shape, where, groups)
            if out is not None:
                return out
        if _pointwise(grad, weight.shape, padding, groups):
            return self._call(pointwise_input_gradient, grad, weight, shape, stride)
        if fits(weight, groups):
            reach = [d * (k - 1) - p for d, k, p in zip(dilation, weight.shape[2:], padding, strict=True)]
            if (
                stride == (1, 1) and weight.shape[0] >= _MIN_CHANNELS and min(reach) >= 0 and all_finite(weight)
            ):  # a convolution with the flipped weight
                flipped = weight.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]
                return self._call(_forward, grad, flipped, None, (stride, (reach[0], reach[1]), dilation))
            return self._call(_gradient_of_input, grad, weight, shape, (stride, padding, dilation))
        return super().conv2d_input(grad, weight, shape, stride, padding, dilation, groups)

    def conv2d_weight(
        self, grad: Any, x: Any, shape: Shape, stride: Pair, padding: Pair, dilation: Pair, groups: int
    ) -> Any:
        if is_half(grad.dtype):
            return self._in_float32(self.conv2d_weight, grad, x, shape, stride, padding, dilation, groups)[0]
        if x.size and (kernels := family_kernels("convolution.conv2d")):
            out = kernels.run_weight_gradient(self, grad, x, shape, (stride, padding, dilation), groups)
            if out is not None:
                return out
        if grad.size and _pointwise(x, shape, padding, groups):
            return self._call(pointwise_weight_gradient, grad, x, shape, stride)
        if fits(x, groups):
            return self._call(_gradient_of_weight, grad, x, shape, (stride, padding, dilation))
        return super().conv2d_weight(grad, x, shape, stride, padding, dilation, groups)


def _pointwise(x: Any, weight: Shape, padding: Pair, groups: int) -> bool:
    """Return whether windows have one element, so that a convolution is products of matrices of x as it lies."""
    return (
        weight[2:] == (1, 1)
        and padding == (0, 0)
        and groups == 1
        and x.size > 0
        and (x.dtype is float32 or x.dtype is float64)
    )


def fits(x: Any, groups: int) -> bool:
    """Return whether x has many channels (its second dimension), one group, and a dtype that BLAS multiplies."""
    return groups == 1 and x.shape[1] >= _MIN_CHANNELS and (x.dtype is float32 or x.dtype is float64)


def has_few_windows(x: Any, weight: Any, where: tuple[Pair, Pair, Pair], groups: int) -> bool:
    """Return whether a convolution has so few windows that a weight is not laid out anew for it."""
    windows = len(x) * math.prod(window_counts(x.shape, weight.shape[2:], *where))
    most = FEW_PRODUCTS[windows > _MAX_FEW_WINDOWS]
    usual = groups == 1 and (x.dtype is float32 or x.dtype is float64) and weight.dtype is x.dtype
    return usual and 0 < windows * weight.size <= most


def all_finite(weight: Any) -> bool:
    """Return whether a weight has neither NaN nor an infinity, so that its products with padding are 0. A gradient of
    an input has no such products, unless it is computed as a convolution of the padded gradient."""
    return bool(np.isfinite(weight).all())


class Windows:
    """The windows of a convolution over blocks of the batch, laid out as the rows of a matrix, one per window.

    Args:
        shape: the shape of the input, (N, C, H, W).
        kernel: height and width of the kernel.
        where: stride, padding and dilation.
        dtype: the dtype of the buffers.
        members: the number of members of the batch to process, which limits the size of a block.
    """

    def __init__(self, shape: Shape, kernel: Shape, where: tuple[Pair, Pair, Pair], dtype: Any, members: int) -> None:
        stride, padding, dilation = where
        size = (kernel[0], kernel[1])
        self.channels = shape[1]
        self.counts = window_counts(shape, size, stride, padding, dilation)
        self.positions = self.counts[0] * self.counts[1]
        self.length = self.channels * size[0] * size[1]
        whole = padded_shape(shape, size, stride, padding, dilation, self.counts)[2:]
        self.block = max(1, min(members, _COLUMN_BYTES // max(1, self.length * self.positions * dtype.itemsize)))
        self.padded = np.zeros((self.block, *whole, self.channels), dtype)
        self.inside = self.padded[:, padding[0] : padding[0] + shape[2], padding[1] : padding[1] + shape[3]]
        step = dtype.itemsize  # not .strides, which are arbitrary in dimensions of size 1
        across = step * self.channels
        down = across * whole[1]
        run = size[1] * self.channels if dilation[1] == 1 else self.channels
        self.under = as_strided(
            self.padded,
            (self.block, *self.counts, size[0], self.length // (size[0] * run) if size[0] else 0, run),
            (down * whole[0], stride[0] * down, stride[1] * across, dilation[0] * down, dilation[1] * across, step),
        )  # a view: for each window of each member its runs of memory, row by row
        self.keys = [
            (
                slice(None),
                *(
                    slice(k * d, k * d + (n - 1) * s + 1, s)
                    for k, d, n, s in zip(at, dilation, self.counts, stride, strict=True)
                ),
            )
            for at in np.ndindex(size)
        ]

    def blocks(self, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield start, stop and length of each block of the members ``begin`` to ``end`` of the batch."""
        for start in range(begin, end, self.block):
            stop = min(start + self.block, end)
            yield start, stop, stop - start

    def rows(self, x: Any, memory: Any) -> Any:
        """Copy the windows of a block of x to ``memory``; return them as a matrix with one row per window."""
        count = x.shape[0]
        self.inside[:count] = x.transpose(0, 2, 3, 1)
        part = memory[:count]
        part[...] = self.under[:count]
        return part.reshape((count * self.positions, self.length))

    def last(self, grad: Any) -> Any:
        """Return a block of a gradient as a matrix with one row per window and one column per channel."""
        return grad.transpose(0, 2, 3, 1).reshape((-1, grad.shape[1]))


def _forward(x: Any, weight: Any, bias: Any, where: tuple[Pair, Pair, Pair]) -> Any:
    o, shape, kernel = weight.shape[0], x.shape, weight.shape[2:]
    counts = window_counts(shape, kernel, *where)
    positions = counts[0] * counts[1]
    matrix = np.ascontiguousarray(_rows(weight).T)
    out = np.empty((shape[0], o, positions), x.dtype)

    def work(begin: int, end: int) -> None:
        w = Windows(shape, kernel, where, x.dtype, end - begin)
        memory = np.empty(w.under.shape, x.dtype)
        for start, stop, count in w.blocks(begin, end):
            result = dot(w.rows(x[start:stop], memory), matrix)
            if bias is not None:
                np.add(result, bias, result)
            out[start:stop] = result.reshape((count, positions, o)).transpose(0, 2, 1)

    shared(work, shape[0], positions * matrix.shape[0], products=True)
    return out.reshape((shape[0], o, *counts))


def _few_windows(x: Any, weight: Any, bias: Any, where: tuple[Pair, Pair, Pair]) -> Any:
    """Return a convolution as products of the weight as it lies and matrices with a column for each window."""
    size, (stride, padding, dilation) = weight.shape[2:], where
    counts = window_counts(x.shape, size, *where)
    if padding != (0, 0):
        whole = np.zeros(padded_shape(x.shape, size, *where, counts), x.dtype)
        whole[:, :, padding[0] : padding[0] + x.shape[2], padding[1] : padding[1] + x.shape[3]] = x
        x = whole
    x = np.ascontiguousarray(x)
    member, channel, down, across = x.strides
    steps = down * dilation[0], across * dilation[1], down * stride[0], across * stride[1]
    shape = (*x.shape[:2], *size, *counts)
    under: Any = np.ndarray(shape, x.dtype, x, 0, (member, channel, *steps))  # what as_strided takes 10 µs for
    columns = under.reshape((len(x), -1, counts[0] * counts[1]))
    out = _by_members(weight.reshape((len(weight), -1)), columns, bias)
    return out.reshape((*out.shape[:2], *counts))


def _gradient_of_input(grad: Any, weight: Any, shape: Shape, where: tuple[Pair, Pair, Pair]) -> Any:
    matrix = _rows(weight)
    kernel = weight.shape[2:]
    area = kernel[0] * kernel[1]
    out = np.empty(shape, grad.dtype)

    def work(begin: int, end: int) -> None:
        w = Windows(shape, kernel, where, grad.dtype, end - begin)
        for start, stop, count in w.blocks(begin, end):
            columns = dot(w.last(grad[start:stop]), matrix).reshape((count, *w.counts, area, w.channels))
            total = w.padded[:count]
            total.fill(0)
            for k, key in enumerate(w.keys):
                window = total[key]
                np.add(window, columns[:, :, :, k], window)
            out[start:stop] = w.inside[:count].transpose(0, 3, 1, 2)

    shared(work, shape[0], grad[0, 0].size * matrix.shape[1] if grad.size else 0, products=True)
    return out


def _gradient_of_weight(grad: Any, x: Any, shape: Shape, where: tuple[Pair, Pair, Pair]) -> Any:
    o, c, high, wide = shape
    length = c * high * wide
    totals: dict[int, Any] = {}

    def work(begin: int, end: int) -> None:
        w = Windows(x.shape, shape[2:], where, grad.dtype, end - begin)
        memory = np.empty(w.under.shape, x.dtype)
        total = totals[begin] = np.zeros((o, length), grad.dtype)
        for start, stop, _ in w.blocks(begin, end):
            rows = w.rows(x[start:stop], memory)
            np.add(total, dot(w.last(grad[start:stop]).T, rows), total)

    shared(work, x.shape[0], grad[0, 0].size * length if grad.size else 0, products=True)
    total = in_order(totals)
    return np.ascontiguousarray(total.reshape((o, high, wide, c)).transpose(0, 3, 1, 2))


def _rows(weight: Any) -> Any:
    """Return the weight as a matrix: one row per output channel, with the elements of a window, channels last."""
    return weight.transpose(0, 2, 3, 1).reshape((weight.shape[0], -1))


def pointwise_convolution(x: Any, weight: Any, bias: Any, stride: Pair) -> Any:
    """Return the convolution of x (N, C, H, W) and weight (O, C, 1, 1) plus a bias (O,), which may be None."""
    matrix = weight.reshape(weight.shape[:2])
    x = x[:, :, :: stride[0], :: stride[1]]
    out = _by_members(matrix, _planes(x), bias)
    return out.reshape((*out.shape[:2], *x.shape[2:]))


def pointwise_input_gradient(grad: Any, weight: Any, shape: Shape, stride: Pair) -> Any:
    """Return the gradient of x of a shape."""
    out = _by_members(weight.reshape(weight.shape[:2]).T, _planes(grad))
    out = out.reshape((*out.shape[:2], *grad.shape[2:]))
    if stride == (1, 1):
        return out
    total = np.zeros(shape, out.dtype)
    total[:, :, :: stride[0], :: stride[1]] = out
    return total


def _by_members(matrix: Any, members: Any, bias: Any = None) -> Any:
    """Return the products of a matrix and each of some members, plus a column ``bias`` if there is one."""
    out = None
    if matrix.size * members.size >= _TINY_WORK:
        out = kernel_product(matrix, members, dtype=_result(members))
    if out is not None:
        return out if bias is None else np.add(out, bias[:, None], out)
    out = np.empty((len(members), len(matrix), members.shape[2]), members.dtype)

    def work(begin: int, end: int) -> None:
        part = out[begin:end]
        np.matmul(matrix, members[begin:end], part)
        if bias is not None:
            np.add(part, bias[:, None], part)

    _shared(work, out, matrix.shape[1])
    return out


def pointwise_weight_gradient(grad: Any, x: Any, shape: Shape, stride: Pair) -> Any:
    """Return the gradient of the weight, whose shape is given."""
    grads, members = _planes(grad), _planes(x[:, :, :: stride[0], :: stride[1]])
    joint = grads.shape[2] <= _SMALL_PLANE  # one product: it takes longer to add up the products of members
    left, right = (_channels_first(grads), _channels_first(members).T) if joint else (grads, members.swapaxes(1, 2))
    out = kernel_product(left, right, dtype=_result(grad))
    if out is not None:
        return (out if joint else np.add.reduce(out)).reshape(shape)
    totals: dict[int, Any] = {}

    def work(begin: int, end: int) -> None:
        g, m = grads[begin:end], members[begin:end]
        if joint:
            totals[begin] = dot(_channels_first(g), _channels_first(m).T)
            return
        total = totals[begin] = dot(g[0], m[0].T)
        part = np.empty_like(total)
        for k in range(1, len(g)):
            np.add(total, dot(g[k], m[k].T, part), total)

    _shared(work, grads, shape[1])
    return in_order(totals).reshape(shape)


def _result(x: Any) -> Any:
    """Return the dtype of products of x if they have another one."""
    return float32 if x.itemsize == 2 else None


def _channels_first(x: Any) -> Any:
    """Return x (N, C, pixels) as a matrix with a row for each channel."""
    return contiguous(x.swapaxes(0, 1)).reshape((x.shape[1], -1))


def _planes(x: Any) -> Any:
    """Return x with its planes as rows."""
    return contiguous(x).reshape((*x.shape[:2], -1))


def _shared(work: Any, x: Any, products: int) -> None:
    """Do the work for all members of x; each element takes the given number of products."""
    shared(work, len(x), x[0].size * products / MULTIPLICATIONS_PER_ELEMENT, products=True)


class NumPyVolumes(ArrayBackend):
    """Convolution of volumes; what has no kernel is a convolution of images, as by default."""

    def conv3d(self, x: Any, weight: Any, stride: Triple, padding: Triple, dilation: Triple, groups: int) -> Any:
        if is_half(x.dtype):
            return self._in_float32(self.conv3d, x, weight, stride, padding, dilation, groups)[0]
        if kernels := family_kernels("convolution.volumes"):
            out = kernels.convolve_volumes(self, x, weight, None, (stride, padding, dilation), groups)
            if out is not None:
                return out
        return super().conv3d(x, weight, stride, padding, dilation, groups)

    def conv3d_bias(
        self, x: Any, weight: Any, bias: Any, stride: Triple, padding: Triple, dilation: Triple, groups: int
    ) -> Any:
        if is_half(x.dtype):
            return self._in_float32(self.conv3d_bias, x, weight, bias, stride, padding, dilation, groups)[0]
        if kernels := family_kernels("convolution.volumes"):
            out = kernels.convolve_volumes(self, x, weight, bias, (stride, padding, dilation), groups)
            if out is not None:
                return out
        return super().conv3d_bias(x, weight, bias, stride, padding, dilation, groups)

    def conv3d_input(
        self, grad: Any, weight: Any, shape: Shape, stride: Triple, padding: Triple, dilation: Triple, groups: int
    ) -> Any:
        if is_half(grad.dtype):
            return self._in_float32(self.conv3d_input, grad, weight, shape, stride, padding, dilation, groups)[0]
        if kernels := family_kernels("convolution.volumes"):
            out = kernels.volume_input_gradient(self, grad, weight, shape, (stride, padding, dilation), groups)
            if out is not None:
                return out
        return super().conv3d_input(grad, weight, shape, stride, padding, dilation, groups)

    def conv3d_weight(
        self, grad: Any, x: Any, shape: Shape, stride: Triple, padding: Triple, dilation: Triple, groups: int
    ) -> Any:
        if is_half(grad.dtype):
            return self._in_float32(self.conv3d_weight, grad, x, shape, stride, padding, dilation, groups)[0]
        if kernels := family_kernels("convolution.volumes"):
            out = kernels.volume_weight_gradient(self, grad, x, shape, (stride, padding, dilation), groups)
            if out is not None:
                return out
        return super().conv3d_weight(grad, x, shape, stride, padding, dilation, groups)
