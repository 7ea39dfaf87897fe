"""`Tiles`: tables of the products of a convolution whose channels are lanes, or of its gradient by the input.

Each pixel of the result is a sum over pairs of an element of the window and a pixel of the source. A tile is several
pixels with the same pairs: the same pixel of several members of the batch, or, if there are few members, neighbours in
a row. Pairs whose source is padding are left out, but for those beside a row of neighbours, which is laid out with
zeros at its ends.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from burnpy.backend.operations.convolution import Pair
from burnpy_numpy.kernels.compiler.target import target

Where: TypeAlias = tuple[Pair, Pair, Pair]
"""Stride, padding and dilation."""

_NO_SOURCE = np.iinfo(np.int64).min
"""The source of a pair that a stride leaves out."""


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
        backward: whether the source is the gradient by the result of a convolution, and the result that by its input.
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
    """Return the place of the source along a dimension for each place of the result and each element of the window.

    It is `_NO_SOURCE` where a stride leaves it out, or where a row of a plane is padding.
    """
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

    Args:
        high: the rows of the source of each row and element, see `_sources`.
        wide: the columns of the source of each column and element.
        source: height and width of a plane of the source.
        window: height and width of the window.
        row: the distance of rows of the source.
        before: the zeros before each row.
    """
    there = wide != _NO_SOURCE if before or row > source[1] else (wide >= 0) & (wide < source[1])
    valid = (high != _NO_SOURCE)[:, None, :, None] & there[None, :, None, :]
    i, j, down, across = np.nonzero(valid)
    limits = np.concatenate([[0], np.cumsum(valid.sum((2, 3)).reshape(-1))])
    return _flat(limits), _flat(down * window[1] + across), _flat(high[i, down] * row + wide[j, across] + before)


def _rows(count: int, wide: bool) -> int:
    """Return the number of pixels of the tiles for a number of pixels in a line.

    There are as many sums in registers as hide the time of an addition, and few pixels beyond the last one.
    """
    many = target().registers >= 32
    choice = ((8, 7, 4) if wide else (14, 8)) if many else ((6, 4) if wide else (12, 8))
    return min(choice, key=lambda rows: (_padded(count, rows), -rows))


def _padded(count: int, rows: int) -> int:
    """Return the smallest multiple that is not below a count."""
    return -(-count // rows) * rows


def _flat(table: Any) -> Any:
    return np.ascontiguousarray(table, np.int64).reshape(-1)
