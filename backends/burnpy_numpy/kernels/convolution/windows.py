"""`Windows`: tables of the offsets of the elements of a convolution's windows, for the kernels of convolution.

Neighbours of the result must have neighbours of x in their windows. With a stride of s, every s-th row and every s-th
column of x, padded, therefore comes to lie in a plane of its own. A window's element is then at the same distance from
the place of its window, for all windows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.operations.convolution import Pair, padded_shape, window_counts
from burnpy.backend.primitives import Shape
from burnpy_numpy.kernels.compiler.target import target
from burnpy_numpy.kernels.convolution.tiles import Where

_SOURCE = 1 << 18
"""The maximum size of the padded members of a part in bytes."""
_SHORT = 32
"""The size in bytes from which a vector may take no more time than a shorter one."""
_TILES = ((4, 3), (6, 2), (5, 2), (4, 2), (3, 3), (2, 4), (1, 8), (1, 4), (1, 1))
"""Channels and vectors of the blocks in registers, for 16 registers: sums, one factor for each vector and one more."""
_TILES_OF_32 = ((8, 3), (6, 4), (4, 6), (4, 4), (2, 8), (1, 8), (1, 4), (1, 1))
_COLUMNS = ((4, 3), (2, 4), (1, 5), (1, 3))
"""Channels and elements of the blocks of the gradient by the weight, for 16 registers."""
_COLUMNS_OF_32 = ((6, 3), (4, 5), (2, 9), (1, 9), (1, 3))


class Tables(NamedTuple):
    """The tables of offsets that a kernel reads, for a batch of any size; the arrays are of int64."""

    width: int  #: the number of elements of a vector
    block: Pair  #: the number of channels of a block, and of vectors or of elements of a window
    channels: Any  #: (blocks, channels of a block): neighbouring channels of the result; blocks may overlap
    sources: Any  #: for each block, where its group begins in x
    elements: Any  #: the distance of each element from the place of its window
    places: Any  #: for each vector, the place of its first window
    targets: Any  #: for each vector, its position in a plane of the result
    whole: int = 0  #: the number of vectors that are whole; of the others, the last ``left`` elements count
    left: int = 0


class Windows:
    """The windows of a convolution over members of shape (C, H, W).

    Args:
        shape: the shape of a member of x.
        weight: the shape of the weight.
        where: stride, padding and dilation.
        groups: the number of groups.
        lanes: the number of elements of a register.
        registers: the number of registers.
    """

    def __init__(self, shape: Shape, weight: Shape, where: Where, groups: int, lanes: int, registers: int) -> None:
        stride, padding, dilation = where
        kernel = (weight[2], weight[3])
        self.shape, self.weight, self.stride, self.padding, self.groups = shape, weight, stride, padding, groups
        self.counts = window_counts(shape, kernel, stride, padding, dilation)
        whole = padded_shape(shape, kernel, stride, padding, dilation, self.counts)[1:]
        self.in_place = whole == shape[1:] and stride == (1, 1)
        self.planes: Pair = (-(-whole[0] // stride[0]), -(-whole[1] // stride[1]))
        self.plane = math.prod(self.planes) * math.prod(stride)  #: the elements of an image of one channel
        self.channel = self.plane  #: the distance of a channel and the next
        self.member = shape[0] * self.plane  #: the elements of a member
        self.step = self.member  #: the distance of the windows of a member and of the next
        self.length = math.prod(weight[1:])  #: the elements of a window
        self._dilation, self._registers = dilation, registers
        self._width = _row_width(self.counts[1], lanes)

    @cached_property
    def forward(self) -> Tables:
        """The tables of the convolution."""
        high, wide = self.counts
        starts = np.minimum(np.arange(0, wide, self._width), wide - self._width)  # the last one may overlap
        per, vectors = self.weight[0] // self.groups, high * len(starts)
        block = min(
            (b for b in (_TILES if self._registers < 32 else _TILES_OF_32) if b[0] <= per),
            key=lambda b: -(-per // b[0]) * b[0] * -(-vectors // b[1]) * b[1] * (1 + 0.1 / b[0] + 0.1 / b[1]),
        )
        places, targets = self._places(starts)
        last = -(-vectors // block[1]) * block[1] - vectors
        places, targets = np.pad(places, (0, last), "edge"), np.pad(targets, (0, last), "edge")
        return Tables(self._width, block, *self._blocks(block[0]), self.elements, places, targets)

    @cached_property
    def forward_tables(self) -> tuple[Any, ...]:
        """The tables that the kernel of the convolution reads, as it is given them."""
        tables = self.forward
        firsts = np.ascontiguousarray(tables.channels[:, 0])
        return (tables.elements, tables.places, tables.targets, firsts, tables.sources)

    @cached_property
    def backward(self) -> Tables:
        """The tables of the gradient by the weight."""
        wide, per = self.counts[1], self.weight[0] // self.groups
        block = min(
            (b for b in (_COLUMNS if self._registers < 32 else _COLUMNS_OF_32) if b[0] <= per),
            key=lambda b: -(-per // b[0]) * b[0] * -(-self.length // b[1]) * b[1] * (1 + 1 / b[0] + 1 / b[1]),
        )
        whole = wide // self._width * self._width
        places, targets = self._places(np.arange(0, whole, self._width))
        after, beyond = self._places(np.arange(whole, wide, self._width) - (whole + self._width - wide))
        elements = np.pad(self.elements, (0, -self.length % block[1]), "edge")
        tables = np.concatenate([places, after]), np.concatenate([targets, beyond])
        return Tables(self._width, block, *self._blocks(block[0]), elements, *tables, len(places), wide - whole)

    @cached_property
    def elements(self) -> Any:
        """The distances of the elements of a window: by channel, row and column."""
        return np.add.outer(np.arange(self.weight[1]) * self.channel, self.window.reshape(-1)).reshape(-1)

    @cached_property
    def window(self) -> Any:
        """The distances of the elements of a window in one channel, by row and column."""
        (high, wide), (down, across) = self.planes, self.stride
        rows, columns = (np.arange(k) * d for k, d in zip(self.weight[2:], self._dilation, strict=True))
        places = (rows % down * across * high + rows // down)[:, None] * wide
        return places + columns % across * high * wide + columns // across

    def _places(self, starts: Any) -> tuple[Any, Any]:
        """Return the places of vectors that begin at some columns in each row: in x, and in the result."""
        rows = np.arange(self.counts[0])[:, None]
        return (rows * self.planes[1] + starts).reshape(-1), (rows * self.counts[1] + starts).reshape(-1)

    def _blocks(self, size: int) -> tuple[Any, Any]:
        """Return the channels of each block, and where x begins for each. No block has channels of two groups."""
        per = self.weight[0] // self.groups
        starts = np.minimum(np.arange(0, per, size), per - size)  # the last one may overlap
        first = np.arange(self.groups)
        channels = (first[:, None] * per + starts).reshape((-1, 1)) + np.arange(size)
        return channels, np.repeat(first * self.weight[1] * self.channel, len(starts))

    def batches(self, x: Any, result: Any) -> Iterator[tuple[int, Any, Any]]:
        """Yield arrays with their number of members, for `parts`, and the results of each, in one dimension."""
        yield len(x), x, result.reshape(-1)

    def distances(self, channels: int) -> tuple[int, int]:
        """Return the distances of members and of channels in a result with so many channels."""
        area = math.prod(self.counts)
        return channels * area, area

    def parts(self, x: Any, begin: int, end: int) -> Iterator[tuple[int, int, Any]]:
        """Yield start and stop of parts of the batch from ``begin`` to ``end``, and the array that a kernel reads.

        It is valid until the next.
        """
        if self.in_place:
            yield begin, end, np.ascontiguousarray(x[begin:end])
            return
        step = max(1, min(_SOURCE // max(1, self.member * x.itemsize), end - begin))
        (high, wide), (down, across) = self.planes, self.stride
        memory = np.zeros((step, self.shape[0], down, across, high, wide), x.dtype)
        for start in range(begin, end, step):
            stop = min(start + step, end)
            self.lay_out(x[start:stop], memory)
            yield start, stop, memory

    def lay_out(self, x: Any, memory: Any) -> None:
        """Copy members of x to ``memory``, between the zeros of the padding."""
        (down, across), (_, rows, columns) = self.stride, self.shape
        for a in range(down):
            for b in range(across):
                # the first row of x that has this phase, and its place in the plane of the phase
                top, left = (a - self.padding[0]) % down, (b - self.padding[1]) % across
                i, j = (top + self.padding[0]) // down, (left + self.padding[1]) // across
                part = x[:, :, top:rows:down, left:columns:across]
                memory[: len(x), :, a, b, i : i + part.shape[2], j : j + part.shape[3]] = part


def row_efficiency(count: int, itemsize: int) -> float:
    """Return the share of vectors of neighbours in a row that is used; less for vectors that are no faster if shorter.

    Args:
        count: the number of elements of the row.
        itemsize: the size of an element in bytes.
    """
    width = _row_width(count, target().vector // itemsize)
    speed = min(1.0, width * itemsize / min(_SHORT, target().vector))
    return count / (-(-count // width) * width) * speed


def _row_width(count: int, lanes: int) -> int:
    """Return the number of neighbours in a vector, for rows of some length: a power of 2."""
    return min(lanes, 1 << (count.bit_length() - 1))


@lru_cache(maxsize=256)
def windows(shape: Shape, weight: Shape, where: Where, groups: int, itemsize: int) -> Windows:
    """Return the `Windows` of a convolution of elements of some size in bytes."""
    return Windows(shape, weight, where, groups, target().vector // itemsize, target().registers)
