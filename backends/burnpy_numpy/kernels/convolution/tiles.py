"""Windows of convolutions: tables of their elements, and tiles of results that a thread computes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import Enum
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from burnpy.backend.operations.convolution import Pair, padded_shape, window_counts
from burnpy.backend.primitives import Shape
from burnpy_numpy.cpu_threads import COUNT
from burnpy_numpy.kernels.compiler.target import target
from burnpy_numpy.kernels.convolution.channel_blocks import GROUPS, SCRATCH, PartCalls, block_kernels, copy_of_phases
from burnpy_numpy.kernels.kernel import contiguous
from burnpy_numpy.kernels.launch import TemplateKernel

Where: TypeAlias = tuple[Pair, Pair, Pair]
"""Stride, padding and dilation."""

_NO_SOURCE = np.iinfo(np.int64).min
"""The source of a pair that a stride leaves out."""
_SWAP_GAIN, _SWAP_PRODUCTS, SWAP_CHANNELS = 1.25, 32, 8
"""The gain and the number of products for an element from which images are copied with rows and columns swapped, and
the number of channels of the input from which its gradient is computed with swapped ones."""


class Tiles(NamedTuple):
    """The tiles of a part of a batch; places and distances count pixels."""

    rows: int  #: the number of pixels of a tile
    members: int  #: the number of members of the buffers; those beyond the part's are not used
    zeros: Pair  #: the numbers of zeros before and after each row of the source
    source_row: int  #: the distance of rows of the source
    result_row: int  #: the distance of rows of the result
    source_step: int  #: the distance of the pixels of a tile in the source
    result_step: int  #: the distance of the pixels of a tile in the result
    tables: tuple[Any, ...]
    """The arrays of int64 that the kernel reads: for each tile, the place in the source to which those of its pairs are
    added, its first place in the result, and the number of its list of pairs; the limits of the lists; for each pair,
    the element of the window, and the place in the source."""


@lru_cache(maxsize=256)
def tiles(members: int, source: Pair, result: Pair, window: Pair, where: Where, backward: bool, wide: bool) -> Tiles:
    """Return the tiles of a part of a batch.

    Args:
        members: the number of members of the part.
        source: height and width of a plane of the source.
        result: height and width of a plane of the result.
        window: height and width of the window.
        where: stride, padding and dilation.
        backward: whether the source is the gradient of a convolution, and the result the gradient of its input.
        wide: whether the channels of a tile are two vectors, and not one.
    """
    columns = _sources(1, source, result, window, where, backward)
    step = where[0][1] if backward else 1
    each = -(-result[1] // step)
    across, along = (_rows(count, wide) for count in (members, each))
    inside = (columns >= 0) & (columns < source[1])
    if (
        inside.mean() * _padded(members, across) * each
        <= (columns != _NO_SOURCE).mean() * _padded(each, along) * members
    ):
        return _of_members(across, members, source, result, window, where, backward)
    return _of_neighbours(along, members, source, result, window, where, backward)


@lru_cache(maxsize=256)
def ranges(source: Pair, result: Pair, window: Pair, where: Where) -> Any:
    """Return the pixels of the result whose source is inside x, for each element of the window, as int64.

    These are the first row and column, and those after the last, and the distance of the source from the result.
    """
    rows = []
    for at in np.ndindex(window):
        limits = []
        for k, size, count, stride, padding, dilation in zip(at, source, result, *where, strict=True):
            shift = k * dilation - padding
            first = max(0, -(shift // stride))
            limits.append((first, max(first, min(count, (size - 1 - shift) // stride + 1)), shift))
        (top, bottom, down), (left, right, across) = limits
        rows.append((top, left, bottom, right, down * source[1] + across))
    return np.array(rows, np.int64).reshape((-1, 5))


def _of_members(
    rows: int, members: int, source: Pair, result: Pair, window: Pair, where: Where, backward: bool
) -> Tiles:
    """Return tiles of the same pixel of several members."""
    high, wide = (_sources(k, source, result, window, where, backward) for k in (0, 1))
    pairs = _pairs(high, wide, source, window, source[1], 0)
    pixels, padded = math.prod(result), _padded(members, rows)
    first = np.arange(0, padded, rows)[:, None]
    sources = np.broadcast_to(first * math.prod(source), (len(first), pixels))
    lists = np.broadcast_to(np.arange(pixels), sources.shape)
    return Tiles(
        rows,
        padded,
        (0, 0),
        source[1],
        result[1],
        math.prod(source),
        pixels,
        (*map(_flat, (sources, first * pixels + lists, lists)), *pairs),
    )


def _of_neighbours(
    rows: int, members: int, source: Pair, result: Pair, window: Pair, where: Where, backward: bool
) -> Tiles:
    """Return tiles of neighbours in a row that use the same elements of the window."""
    (_, stride), step = where[0], where[0][1] if backward else 1
    each = _padded(-(-result[1] // step), rows)
    columns = (result[0], each * step)  # of the result, with those that fill the last tiles
    high, wide = (_sources(k, source, columns, window, where, backward) for k in (0, 1))
    used = wide[wide != _NO_SOURCE]
    before = max(0, -int(used.min(initial=0)))
    row = max(int(used.max(initial=0)) + 1, source[1]) + before
    # the lists are those of the first neighbours, one for each rest of the stride
    pairs = _pairs(high, wide[:step], source, window, row, before)
    numbers = np.arange(result[0] * step).reshape((result[0], step, 1))
    first = np.arange(0, each, rows)
    member = np.arange(members)[:, None, None, None]
    sources = member * (source[0] * row) + np.zeros_like(numbers) + first * (1 if backward else stride)
    first_places = member * math.prod(columns) + numbers // step * columns[1] + numbers % step + first * step
    return Tiles(
        rows,
        members,
        (before, row - before - source[1]),
        row,
        columns[1],
        1 if backward else stride,
        step,
        (*(_flat(np.broadcast_to(table, sources.shape)) for table in (sources, first_places, numbers)), *pairs),
    )


def _sources(dim: int, source: Pair, result: Pair, window: Pair, where: Where, backward: bool) -> Any:
    """Return the place of the source along a dimension for each place of the result and each element of the window. It
    is `_NO_SOURCE` where a stride leaves it out, or where a row of a plane is padding."""
    stride, padding, dilation = (pair[dim] for pair in where)
    places, elements = np.arange(result[dim])[:, None], np.arange(window[dim]) * dilation
    if not backward:
        found = places * stride + elements - padding
    else:
        sums = places + padding - elements
        found = np.where(sums % stride == 0, sums // stride, _NO_SOURCE)
    if dim == 0:
        found = np.where((found >= 0) & (found < source[0]), found, _NO_SOURCE)
    return found


def _pairs(high: Any, wide: Any, source: Pair, window: Pair, row: int, before: int) -> tuple[Any, Any, Any]:
    """Return the limits of the lists of pairs, one for each pixel of rows and columns, their elements and places.
    ``high`` and ``wide`` are the rows and columns of the source from `_sources`; ``row`` is the distance of rows of the
    source, with ``before`` zeros before each."""
    there = wide != _NO_SOURCE if before or row > source[1] else (wide >= 0) & (wide < source[1])
    valid = (high != _NO_SOURCE)[:, None, :, None] & there[None, :, None, :]
    i, j, down, across = np.nonzero(valid)
    limits = np.concatenate([[0], np.cumsum(valid.sum((2, 3)).reshape(-1))])
    return _flat(limits), _flat(down * window[1] + across), _flat(high[i, down] * row + wide[j, across] + before)


def _rows(count: int, wide: bool) -> int:
    """Return the number of pixels of the tiles for a number of pixels in a line. There are as many sums in registers as
    hide the time of an addition, and few pixels beyond the last one."""
    many = target().registers >= 32
    choice = ((8, 7, 4) if wide else (14, 8)) if many else ((6, 4) if wide else (12, 8))
    return min(choice, key=lambda rows: (_padded(count, rows), -rows))


def _padded(count: int, rows: int) -> int:
    """Return the smallest multiple that is not below a count."""
    return -(-count // rows) * rows


def _flat(table: Any) -> Any:
    return np.ascontiguousarray(table, np.int64).reshape(-1)


_SOURCE = 1 << 18
"""The maximum size of the padded members of a part in bytes, for one thread."""
_MOST_PARTS = 4
"""How many times as many members are laid out for more threads at most."""
_MIN_VECTOR_BYTES = 32
"""The least size in bytes for which a vector may take no more time than a shorter one."""
_TILES = ((4, 3), (6, 2), (5, 2), (4, 2), (3, 3), (2, 4), (1, 8), (1, 4), (1, 1))
"""Channels and vectors of the blocks in registers, for 16 registers: sums, one factor for each vector and one more."""
_TILES_OF_32 = ((8, 3), (6, 4), (4, 6), (4, 4), (2, 8), (1, 8), (1, 4), (1, 1))
_MIN_SUMS = 8  # sums: fewer take as long, as each product waits for the one before
_WEIGHT_TILES = ((4, 3), (2, 4), (1, 5), (1, 3))
"""Channels and elements of the blocks of the gradient of the weight, for 16 registers."""
_WEIGHT_TILES_OF_32 = ((6, 3), (4, 5), (2, 9), (1, 9), (1, 3))


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
            key=lambda b: -(-per // b[0]) * -(-vectors // b[1]) * (max(b[0] * b[1], _MIN_SUMS) + 0.1 * (b[0] + b[1])),
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
        """The tables of the gradient of the weight."""
        wide, per = self.counts[1], self.weight[0] // self.groups
        block = min(
            (b for b in (_WEIGHT_TILES if self._registers < 32 else _WEIGHT_TILES_OF_32) if b[0] <= per),
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
        """Return the distances of members and of channels in a result with this many channels."""
        area = math.prod(self.counts)
        return channels * area, area

    def together(self, members: int, itemsize: int) -> int:
        """Return how many members of a part of the batch, of so many, the gradient of the weight adds up at a time."""
        return members if self.in_place else max(1, _SOURCE // max(1, self.member * itemsize))

    def group(self, members: int) -> int:
        """Return how many members of a batch are added up apart in the gradient of a small weight; else all."""
        sizes = math.prod(self.shape) + self.weight[0] * math.prod(self.counts)
        small = self.groups == 1 and GROUPS * self.weight[0] * self.length <= members * sizes
        return -(-members // GROUPS) if small else members

    def parts(self, x: Any, members: int, apart: bool = False) -> Iterator[tuple[int, int, Any]]:
        """Yield start and stop of parts of a batch of this many members, and the array that a kernel reads.

        It is valid until the next. With ``apart`` it is `SCRATCH` if each member has to be laid out, see `source`.
        """
        if self.in_place or apart:
            yield 0, members, contiguous(x) if self.in_place else SCRATCH
            return
        step = min(min(COUNT, _MOST_PARTS) * self.together(1, x.itemsize), members)
        (high, wide), (down, across) = self.planes, self.stride
        memory = np.zeros((step, self.shape[0], down, across, high, wide), x.dtype)
        for start in range(0, members, step):
            stop = min(start + step, members)
            self.lay_out(x[start:stop], memory)
            yield start, stop, memory

    def source(self, calls: PartCalls, x: Any, part: tuple[int, int, int] = (0, 1, 1)) -> tuple[Any, int, int]:
        """Return where a kernel finds members of x, for the table of a call: in x, or in memory of the thread.

        The call that lays them out in that memory is added.

        Args:
            calls: the calls.
            x: the batch.
            part: the first member, how many, and the distance of those for the next block of the job.
        """
        first, count, step = part
        if self.in_place:
            x, size = contiguous(x), self.step * x.itemsize
            return x, first * size, step * size
        kernel, sizes = self._copy(x, (self.member, self.plane, self.planes[1]))
        given = (x, first * x.strides[0], step * x.strides[0]), (SCRATCH, 0, 0), self._phases
        calls.add(kernel, given, sizes, end=count * x.shape[1])
        return SCRATCH, 0, 0

    def lay_out(self, x: Any, memory: Any) -> None:
        """Copy members of x to ``memory``, between the zeros of the padding."""
        member, channel, *_, row, _ = [step // x.itemsize for step in memory.strides]
        kernel, sizes = self._copy(x, (member, channel, row))
        kernel.launch((x, memory, self._phases), sizes, len(x) * x.shape[1], self.shape[1] * self.shape[2])

    def _copy(self, x: Any, steps: tuple[int, int, int]) -> tuple[TemplateKernel, tuple[int, ...]]:
        """Return the kernel that lays out members of x at some distances of members, channels and rows; its sizes."""
        (kernel,) = block_kernels(x.dtype, (copy_of_phases,))
        own = [step // x.itemsize for step in x.strides]
        return kernel, (x.shape[1], *own, *steps, *self.stride, len(self._phases))

    @cached_property
    def _phases(self) -> Any:
        """For each phase of the stride: the first row and column of x, their place in memory, and how many."""
        (down, across), (high, wide), (_, rows, columns) = self.stride, self.planes, self.shape
        found = []
        for a in range(down):
            for b in range(across):
                top, left = (a - self.padding[0]) % down, (b - self.padding[1]) % across
                i, j = (top + self.padding[0]) // down, (left + self.padding[1]) // across
                place = ((a * across + b) * high + i) * wide + j
                counts = max(0, -(-(rows - top) // down)), max(0, -(-(columns - left) // across))
                found.append((top, left, place, *counts))
        return np.array(found, np.int64)


def row_efficiency(count: int, itemsize: int) -> float:
    """Return the share of vectors of neighbours in a row that is used; less for vectors that are no faster if shorter.

    Args:
        count: the number of elements of the row.
        itemsize: the size of an element in bytes.
    """
    width = _row_width(count, target().vector // itemsize)
    speed = min(1.0, width * itemsize / min(_MIN_VECTOR_BYTES, target().vector))
    return count / (-(-count // width) * width) * speed


def _row_width(count: int, lanes: int) -> int:
    """Return the number of neighbours in a vector, for rows of some length: a power of 2."""
    return min(lanes, 1 << (count.bit_length() - 1))


class Swap(Enum):
    """How rows and columns of images are swapped."""

    VIEWS = "views"
    COPIES = "copies"


def swap_of(source: Shape, result: Shape, weight: Shape, itemsize: int, lanes: bool) -> Swap | None:
    """Return how to swap rows and columns, so that rows are long; None where that is no faster.

    Args:
        source: the shape of the input.
        result: the shape of the result.
        weight: the shape of the weight.
        itemsize: the size of an element in bytes.
        lanes: whether vectors of channels take less time as long as nothing is swapped.
    """
    rows, row = result[2:]
    if row >= rows:
        return None
    if source[3] == row == 1:
        return Swap.VIEWS
    gains = row <= 2 if lanes else row_efficiency(rows, itemsize) > _SWAP_GAIN * row_efficiency(row, itemsize)
    return Swap.COPIES if gains and math.prod(weight[1:]) >= _SWAP_PRODUCTS else None


def swapped(x: Any) -> Any:
    """Return images or a weight with rows and columns swapped."""
    return contiguous(x.swapaxes(2, 3))


def pairs_swapped(where: Where) -> Where:
    """Return stride, padding and dilation with those of rows and columns swapped."""
    stride, padding, dilation = [(right, down) for down, right in where]
    return stride, padding, dilation


@lru_cache(maxsize=256)
def windows(shape: Shape, weight: Shape, where: Where, groups: int, itemsize: int) -> Windows:
    """Return the `Windows` of a convolution of elements of some size in bytes."""
    return Windows(shape, weight, where, groups, target().vector // itemsize, target().registers)
