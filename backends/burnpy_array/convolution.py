"""Convolution and its gradients, block by block: the windows are copied to the columns of a matrix (im2col), which is
multiplied with the weight.

The columns of a whole batch would take as many times the memory of x as a window has elements, and would not fit into
the cache; those of a few members of the batch at a time do. All blocks of a part of the batch share the same buffers,
and if a backend has threads, each works on a part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from burnpy.backend.dtypes import float32
from burnpy.backend.operations.convolution import Pair, inside, padded_shape, window_counts, window_keys
from burnpy.backend.primitives import Key, Shape
from burnpy_array.array_base import ArrayBase, in_order, is_half

_MAX_ROWS_BY_MEMBER = 64
"""The number of rows of the columns up to which the members of a block are multiplied one by one: that takes less time
than transposing the larger factor or the result."""


class ArrayConvolution(ArrayBase):
    """Convolution and its gradients; 16-bit floats are computed in float32."""

    _columns_bytes = 1 << 20
    """The maximum size of a block's columns in bytes."""

    def conv2d(self, x: Any, weight: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int) -> Any:
        return self._call(_forward, self, x, weight, None, (stride, padding, dilation), groups)

    def conv2d_bias(
        self, x: Any, weight: Any, bias: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int
    ) -> Any:
        return self._call(_forward, self, x, weight, bias, (stride, padding, dilation), groups)

    def conv2d_input(
        self, grad: Any, weight: Any, shape: Shape, stride: Pair, padding: Pair, dilation: Pair, groups: int
    ) -> Any:
        return self._call(_gradient_of_input, self, grad, weight, shape, (stride, padding, dilation), groups)

    def conv2d_weight(
        self, grad: Any, x: Any, shape: Shape, stride: Pair, padding: Pair, dilation: Pair, groups: int
    ) -> Any:
        return self._call(_gradient_of_weight, self, grad, x, shape, (stride, padding, dilation), groups)


class Windows:
    """The windows of a convolution over blocks of the batch, laid out as the columns of a matrix, one per window.

    Blocks have the channels first, so that the columns of all their members are one matrix.

    Args:
        b: the backend.
        shape: the shape of the input, (N, C, H, W).
        kernel: height and width of the kernel.
        where: stride, padding and dilation.
        dtype: the dtype of the buffers.
        members: the number of members of the batch to process, which limits the size of a block.
    """

    def __init__(
        self, b: ArrayConvolution, shape: Shape, kernel: Shape, where: tuple[Pair, Pair, Pair], dtype: Any, members: int
    ) -> None:
        stride, padding, dilation = where
        size = (kernel[0], kernel[1])
        self.xp, self.dtype = b.xp, dtype
        self.channels = shape[1]
        self.area = kernel[0] * kernel[1]
        self.counts = window_counts(shape, size, stride, padding, dilation)
        self.positions = self.counts[0] * self.counts[1]
        self.rows = self.channels * self.area  #: the number of rows of the columns, for all groups
        self.whole = padded_shape(shape, size, stride, padding, dilation, self.counts)[2:]
        self.inside = inside(shape, padding)
        self.is_padded = self.whole != shape[2:]
        self.keys: tuple[Key, ...] = window_keys(size, stride, dilation, self.counts)
        self.block = max(1, min(members, b._columns_bytes // max(1, self.rows * self.positions * dtype.itemsize)))

    def blocks(self, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield start, stop and length of each block of the members ``begin`` to ``end`` of the batch."""
        for start in range(begin, end, self.block):
            stop = min(start + self.block, end)
            yield start, stop, stop - start

    def buffer(self) -> Any:
        """Allocate zeros for the members of a block with their padding."""
        return self.xp.zeros((self.channels, self.block, *self.whole), self.dtype)

    def memory(self) -> tuple[Any, Any]:
        """Allocate memory for the columns of a block and, if there is padding, a `buffer`."""
        columns = self.xp.empty(self.rows * self.block * self.positions, self.dtype)
        return columns, self.buffer() if self.is_padded else None

    def lay_out(self, x: Any, memory: tuple[Any, Any], groups: int) -> Any:
        """Copy the windows of a block of x to ``memory``; return the columns, one matrix per group."""
        count = x.shape[0]
        part = x.swapaxes(0, 1)
        columns, buffer = memory
        if buffer is not None:
            buffer[:, :count][self.inside] = part
            part = buffer[:, :count]
        length = count * self.positions
        flat = columns[: self.rows * length]
        parts = flat.reshape((self.channels, self.area, count, *self.counts))
        for k, key in enumerate(self.keys):
            parts[:, k] = part[key]
        return flat.reshape((*_grouped(self.rows, groups), length))


def _forward(b: ArrayConvolution, x: Any, weight: Any, bias: Any, where: tuple[Pair, Pair, Pair], groups: int) -> Any:
    if is_half(x.dtype):
        wide = None if bias is None else bias.astype(float32)
        return _forward(b, x.astype(float32), weight.astype(float32), wide, where, groups).astype(x.dtype)
    xp, n, o = b.xp, x.shape[0], weight.shape[0]
    counts = window_counts(x.shape, (weight.shape[2], weight.shape[3]), *where)
    rows = _matrices(weight, groups)
    added = None if bias is None else bias.reshape((1, o, 1))
    out = xp.empty((n, o, counts[0] * counts[1]), x.dtype)

    def work(begin: int, end: int) -> None:
        w = Windows(b, x.shape, weight.shape[2:], where, x.dtype, end - begin)
        memory = w.memory()
        for start, stop, count in w.blocks(begin, end):
            columns = w.lay_out(x[start:stop], memory, groups)
            result = out[start:stop]
            if w.rows <= _MAX_ROWS_BY_MEMBER and groups == 1:
                xp.matmul(rows, columns.reshape((w.rows, count, w.positions)).swapaxes(0, 1), out=result)
                product = result
            else:
                product = xp.matmul(rows, columns).reshape((o, count, w.positions)).swapaxes(0, 1)
            if added is not None:
                xp.add(product, added, result)
            elif product is not result:
                result[...] = product

    b._share(work, n, _columns_of(counts, weight.shape, groups), products=True)
    return out.reshape((n, o, *counts))


def _gradient_of_input(
    b: ArrayConvolution, grad: Any, weight: Any, shape: Shape, where: tuple[Pair, Pair, Pair], groups: int
) -> Any:
    if is_half(grad.dtype):
        return _gradient_of_input(b, grad.astype(float32), weight.astype(float32), shape, where, groups).astype(
            grad.dtype
        )
    xp, o = b.xp, weight.shape[0]
    rows = _matrices(weight, groups).swapaxes(-1, -2)
    out = xp.empty(shape, grad.dtype)

    def work(begin: int, end: int) -> None:
        w = Windows(b, shape, weight.shape[2:], where, grad.dtype, end - begin)
        buffer = w.buffer()
        for start, stop, count in w.blocks(begin, end):
            length = count * w.positions
            part = grad[start:stop].swapaxes(0, 1).reshape((*_grouped(o, groups), length))
            columns = xp.matmul(rows, part).reshape((w.channels, w.area, count, *w.counts))
            total = buffer[:, :count]
            total.fill(0)
            for k, key in enumerate(w.keys):
                window = total[key]
                xp.add(window, columns[:, k], window)
            out[start:stop] = total[w.inside].swapaxes(0, 1)

    b._share(work, shape[0], _columns_of(grad.shape[2:], weight.shape, groups), products=True)
    return out


def _gradient_of_weight(
    b: ArrayConvolution, grad: Any, x: Any, shape: Shape, where: tuple[Pair, Pair, Pair], groups: int
) -> Any:
    if is_half(grad.dtype):
        return _gradient_of_weight(b, grad.astype(float32), x.astype(float32), shape, where, groups).astype(grad.dtype)
    xp, o = b.xp, shape[0]
    totals: dict[int, Any] = {}

    def work(begin: int, end: int) -> None:
        w = Windows(b, x.shape, shape[2:], where, grad.dtype, end - begin)
        total = totals[begin] = xp.zeros((*_grouped(o, groups), w.rows // groups), grad.dtype)
        memory = w.memory()
        for start, stop, count in w.blocks(begin, end):
            right = w.lay_out(x[start:stop], memory, groups)
            if w.rows <= _MAX_ROWS_BY_MEMBER and groups == 1:
                members = right.reshape((w.rows, count, w.positions)).transpose(1, 2, 0)
                left = grad[start:stop].reshape((count, o, w.positions))
                xp.add(total, xp.matmul(left, members).sum(0), total)
                continue
            left = grad[start:stop].swapaxes(0, 1).reshape((*_grouped(o, groups), count * w.positions))
            xp.add(total, xp.matmul(left, right.swapaxes(-1, -2)), total)

    b._share(work, x.shape[0], _columns_of(grad.shape[2:], shape, groups), products=True)
    return in_order(totals).reshape(shape)


def _columns_of(counts: Shape, weight_shape: Shape, groups: int) -> int:
    """Return the number of elements of the columns of one member of the batch."""
    return math.prod(counts) * math.prod(weight_shape[1:]) * groups


def _grouped(channels: int, groups: int) -> Shape:
    """Return the shape of the channel dimensions: (channels,), or (groups, channels per group) for several groups."""
    return (channels,) if groups == 1 else (groups, channels // groups)


def _matrices(weight: Any, groups: int) -> Any:
    """Return the weight as a matrix, or one per group, with one row per output channel."""
    o, c, high, wide = weight.shape
    return weight.reshape((*_grouped(o, groups), c * high * wide))
