"""Sums of elements at given places, times weights, and their gradients, and the maxima of adaptive windows, as kernels.

Arrays of the sums are x, (members, channels, elements), places and weights, (members, taps, points), and sums,
(members, channels, points). A place that is out of range stands for an element 0.

Lanes are channels: a buffer has a row of neighbouring channels for each element, so that a place is one load. Lanes
beyond the last channel repeat it. Where the elements are many more than the places, each channel is read where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, int64
from burnpy.backend.operations.convolution import Pair
from burnpy.backend.operations.pooling import adaptive_windows
from burnpy_numpy.kernels.compiler.loops import Int, Loops
from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.convolution.channel_blocks import vector_width
from burnpy_numpy.kernels.kernel import contiguous, template_kernel
from burnpy_numpy.kernels.launch import Scratch, TemplateKernel, block_starts, block_width


def run_weighted_gather(x: Any, places: Any, weights: Any) -> Any:
    """Return the sums of the elements at places, times weights; None if kernels are off."""
    (n, channels, elements), (_, taps, points) = x.shape, places.shape
    lanes = _lanes(x, elements, places)
    kernel = template_kernel(weighted_gather, x.dtype, lanes)
    if kernel is None:
        return None
    out = np.empty((n, channels, points), x.dtype)
    sizes = (-(-channels // lanes), channels, elements, taps, points)
    arrays = [*map(np.ascontiguousarray, (x, places, weights)), out]
    _run(kernel, lanes, arrays, sizes, n * sizes[0], taps * points, elements)
    return out


def run_weighted_scatter(grad: Any, places: Any, weights: Any, size: int) -> Any:
    """Return the gradient of `run_weighted_gather` with respect to its elements; None if kernels are off."""
    (n, channels, points), taps = grad.shape, places.shape[1]
    lanes = _lanes(grad, size, places)
    kernel = template_kernel(weighted_scatter, grad.dtype, lanes)
    if kernel is None:
        return None
    out = np.zeros((n, channels, size), grad.dtype)
    sizes = (-(-channels // lanes), channels, size, taps, points)
    arrays = [*map(np.ascontiguousarray, (grad, places, weights)), out]
    _run(kernel, lanes, arrays, sizes, n * sizes[0], taps * points, points + size)
    return out


def run_gathered_products(grad: Any, x: Any, places: Any) -> Any:
    """Return the gradient of `run_weighted_gather` with respect to its weights; None if kernels are off."""
    (n, channels, elements), (_, taps, points) = x.shape, places.shape
    lanes = _lanes(x, elements, places)
    kernel = template_kernel(gathered_products, x.dtype, lanes)
    if kernel is None:
        return None
    out = np.empty(places.shape, x.dtype)
    sizes = (-(-channels // lanes), channels, elements, taps, points)
    arrays = [*map(np.ascontiguousarray, (x, places, grad)), out]
    _run(kernel, lanes, arrays, sizes, n, sizes[0] * taps * points, sizes[0] * elements)
    return out


def _lanes(x: Any, elements: int, places: Any) -> int:
    """Return the number of channels of a vector; 1 if rows of them would not pay, or be as short as none."""
    lanes = min(vector_width(x.dtype), 1 << (x.shape[1] - 1).bit_length())
    points = places.shape[2]
    return lanes if min(points, elements) >= lanes and places.shape[1] * points >= elements else 1


def _run(
    kernel: TemplateKernel, lanes: int, arrays: Sequence[Any], sizes: Sequence[int], blocks: int, each: int, rows: int
) -> None:
    """Run a kernel with the first point and element of each square, and a buffer of rows behind one of zeros."""
    points, elements = block_starts(sizes[4], lanes), block_starts(sizes[2], lanes)
    scratch = Scratch(6, (lanes * (rows + 1) if lanes > 1 else 1) * arrays[-1].itemsize, zeros=True)
    kernel.run([*arrays, points, elements], [*sizes, len(points), len(elements)], blocks, lanes * each, scratch)


def weighted_gather(dtype: str, lanes: int) -> str:
    """Return the text of the kernel of the sums.

    The table: x, places (int64), weights, sums, the first point and the first element of each square (int64), and a row
    for places that are out of range, zeros, before the buffer. The sizes: the numbers of blocks of channels, channels,
    elements, taps, points, and squares of points and of elements. ``begin`` and ``end`` are blocks of channels of all
    members.

    Args:
        dtype: float32 or float64.
        lanes: the number of channels of a block, and of points of a square.
    """
    w = _Rows(dtype, lanes)
    x, places, weights, out, *_ = w.table
    blocks, _, elements, taps, points, squares, _ = w.sizes
    with w.loop(w.begin, w.end) as b:
        n, block = b // blocks, b % blocks
        rows, *_ = planes = w.channels(x, n, block, elements)
        if lanes > 1:
            rows = w.room_at(0)
            w.fill(rows, planes, w.elements, w.sizes[6])
        lines = w.channels(out, n, block, points)
        table = n * taps * points
        with w.loop(0, squares) as s:
            point = w.number(w.points, s)
            sums = [w.variable(w.constant(0.0, dtype)) for _ in range(lanes)]
            with w.loop(0, taps) as t:
                at = table + t * points + point
                for k, total in enumerate(sums):
                    value = w.load(w.found(rows, places, at + k), dtype)
                    weight = w.load_one_at(weights, at + k, dtype)
                    w.set(total, w.add(w.get(total, dtype), w.mul(value, weight)))
            w.store_tile([w.get(total, dtype) for total in sums], lines, point)
    return w.function()


def gathered_products(dtype: str, lanes: int) -> str:
    """Return the text of the kernel of the gradient of the weights: the sum over channels of products with x. The
    table: x, places (int64), the gradients of the sums and by the weights, and the rest as for `weighted_gather`, as
    are the sizes and arguments; the buffer is for all channels of a member. ``begin`` and ``end`` are members."""
    w = _Rows(dtype, lanes)
    x, places, grad, out, *_ = w.table
    blocks, channels, elements, taps, points, squares, _ = w.sizes
    size = elements * lanes
    with w.loop(w.begin, w.end) as n:
        if lanes > 1:
            with w.loop(0, blocks) as block:
                w.fill(w.room_at(block * size), w.channels(x, n, block, elements), w.elements, w.sizes[6])
        table = n * taps * points
        with w.loop(0, squares) as s, w.loop(0, taps) as t:
            point = w.number(w.points, s)
            at = table + t * points + point
            total = w.variable(w.constant(0.0, dtype))
            with w.loop(0, blocks) as block:
                lines = w.channels(grad, n, block, points)
                rows = w.room_at(block * size) if lanes > 1 else w.channels(x, n, block, elements)[0]
                values = [w.load(w.found(rows, places, at + k), dtype) for k in range(lanes)]
                there = channels - block * lanes
                for k, (value, line) in enumerate(zip(w.transposed(values), lines, strict=True)):
                    with w.inside(k, there if k else None):
                        factor = w.load_at(line, point, dtype)
                        w.set(total, w.add(w.get(total, dtype), w.mul(factor, value)))
            w.store_at(w.get(total, dtype), out, at)
    return w.function()


def weighted_scatter(dtype: str, lanes: int) -> str:
    """Return the text of the kernel of the gradient of x: out += grad · weights at the places, one after the other. The
    table: the gradient of the sums, places (int64), weights, and out, zeros, and the rest as for `weighted_gather`, as
    are the sizes and arguments; the buffer is for the rows of the points and of the elements."""
    w = _Rows(dtype, lanes)
    grad, places, weights, out, *_ = w.table
    blocks, _, elements, taps, points, squares, _ = w.sizes
    with w.loop(w.begin, w.end) as b:
        n, block = b // blocks, b % blocks
        (given, *_), (sums, *_) = lines = w.channels(grad, n, block, points), w.channels(out, n, block, elements)
        if lanes > 1:
            given, sums = w.room_at(0), w.room_at(points * lanes)
            w.fill(given, lines[0], w.points, squares)
            with w.loop(0, elements) as place:
                w.store(w.constant(0.0, dtype), w.row(sums, place))
        table = n * taps * points
        with w.loop(0, taps) as t, w.loop(0, points) as p:
            at = table + t * points + p
            target = w.found(sums, places, at)
            factor = w.load_one_at(weights, at, dtype)
            product = w.mul(w.load(w.row(given, p), dtype), factor)
            w.store(w.add(w.load(target, dtype), product), target)
        if lanes > 1:
            w.empty(sums, lines[1])
    return w.function()


class _Rows(Loops):
    """The lines of a kernel that reads or writes rows of ``lanes`` channels; rows of one are a channel itself."""

    def __init__(self, dtype: str, lanes: int) -> None:
        super().__init__(lanes, 7, 7)
        self.dtype = dtype
        *_, self.points, self.elements, self._nowhere = self.table
        self._room = self.element(self._nowhere, lanes, dtype)

    def channels(self, x: str, n: Int, block: Int, length: Int) -> list[str]:
        """Return the addresses of the channels of a block of a member; the last channel in place of those beyond."""
        count = self.sizes[1]
        first, last = block * self.width, count - 1
        member = n * count
        each = [member + self.smaller(first + k, last) for k in range(self.width)]
        return [self.element(x, channel * length, self.dtype) for channel in each]

    def room_at(self, start: Int | int) -> str:
        """Return an address in the buffer."""
        return self.element(self._room, start, self.dtype)

    def row(self, rows: str, place: Int) -> str:
        """Return the address of a row."""
        return self.element(rows, place * self.width, self.dtype)

    def found(self, rows: str, places: str, at: str) -> str:
        """Return the address of the row whose place is the number ``at`` of ``places``; of another if out of range."""
        place = self.number(places, at)
        there = self.icmp("ult", place, self.sizes[2])
        return self.either(there, self.row(rows, place), self._nowhere)

    def fill(self, rows: str, lines: list[str], starts: str, squares: str) -> None:
        """Write loops that copy channels to rows."""
        with self.loop(0, squares) as s:
            start = self.number(starts, s)
            for k, row in enumerate(self.load_tile(lines, start, self.dtype)):
                self.store(row, self.row(rows, start + k))

    def empty(self, rows: str, lines: list[str]) -> None:
        """Write loops that copy rows of elements to channels."""
        with self.loop(0, self.sizes[6]) as s:
            start = self.number(self.elements, s)
            found = [self.load(self.row(rows, start + k), self.dtype) for k in range(self.width)]
            self.store_tile(found, lines, start)


_MOST_KEPT = 1 << 12
"""The number of windows along a dimension up to which their bounds are kept for the next call."""
_MAXIMA_COLUMNS = 16
"""The number of columns whose maxima are found at a time."""


def run_adaptive_maxima(x: Any, size: Pair) -> Any:
    """Return the indices of the maxima of adaptive windows; None without a kernel for it."""
    n, channels, high, wide = x.shape
    rows = n * channels
    if high == 1 and wide > 1 and rows >= _MAXIMA_COLUMNS:  # the rows side by side, as the columns of one image
        found = run_adaptive_maxima(x.reshape((1, 1, rows, wide)).swapaxes(2, 3), (size[1], rows))
        return None if found is None else (found.reshape((size[1], rows)).T // rows).reshape((n, channels, *size))
    width = block_width(wide, _MAXIMA_COLUMNS)
    usual = x.dtype is float32 or x.dtype is float64
    kernel = template_kernel(adaptive_maxima, x.dtype, width) if usual else None
    if kernel is None:
        return None
    kept = max(size) <= _MOST_KEPT
    bounds = [(_kept_bounds if kept else _bounds)(k, count) for k, count in zip((high, wide), size, strict=True)]
    out, starts = np.empty((n, channels, *size), int64), block_starts(wide, width)
    memory = np.empty((n * channels, wide), x.dtype), np.empty((n * channels, wide), int64)
    arrays = [contiguous(x), out, *memory, *bounds[0], *bounds[1], starts]
    kernel.run(arrays, (high, wide, *size, len(starts)), n * channels, high * wide)
    return out


def _bounds(n: int, count: int) -> Any:
    """Return the first elements of windows, and the ends."""
    return np.array(adaptive_windows(n, count), int64).T.copy()


_kept_bounds = lru_cache(64)(_bounds)


def adaptive_maxima(dtype: str, width: int) -> str:
    """Return the text of the kernel of the index, within a plane, of the first maximum or NaN of each window.

    For each row of windows, the maxima of its columns are found by vectors, and then those of the windows among them.

    The table: x, (planes, height, width), indices (int64, (planes, rows, columns)), memory of a row of a plane for each
    plane, of x and of int64, and int64: the first elements of windows along the height, the ends, the first ones along
    the width, the ends, and the first column of each vector. The sizes: height, width, rows and columns of windows, and
    vectors. ``begin`` and ``end`` are planes.

    Args:
        dtype: float32 or float64.
        width: the number of columns of a vector.
    """
    w = Loops(width, 9, 5)
    x, out, values, places, tops, bottoms, lefts, rights, starts = w.table
    high, wide, rows, columns, vectors = w.sizes
    with w.loop(w.begin, w.end) as plane:
        source = w.element(x, plane * (high * wide), dtype)
        best = w.element(values, plane * wide, dtype)
        best_row = w.element(places, plane * wide, "int64")
        with w.loop(0, rows) as i:
            top, bottom = w.number(tops, i), w.number(bottoms, i)
            with w.loop(0, vectors) as v:
                _column_maxima(w, dtype, source, wide, top, bottom, w.number(starts, v), best, best_row)
            target = plane * (rows * columns) + i * columns
            with w.of_width(1), w.loop(0, columns) as j:
                left = w.number(lefts, j)
                index = _maximum(w, dtype, best, best_row, wide, left, w.number(rights, j))
                w.set_number(w.element(out, target + j, "int64"), index)
    return w.function()


def _column_maxima(
    w: Loops, dtype: str, source: str, wide: Int, top: Int, bottom: str, column: Int, best: str, best_row: str
) -> None:
    """Store the maxima of neighbouring columns between two rows, and their rows."""
    first = w.load_at(source, top * wide + column, dtype)
    most, row = w.variable(first), w.variable(w.splat(top, "int64"))
    with w.loop(top + 1, bottom) as r:
        value = w.load_at(source, r * wide + column, dtype)
        above = _above(w, value, w.get(most, dtype))
        w.set(row, w.select(above, w.splat(r, "int64"), w.get(row, "int64")))
        w.set(most, w.select(above, value, w.get(most, dtype)))
    w.store_at(w.get(most, dtype), best, column)
    w.store_at(w.get(row, "int64"), best_row, column)


def _maximum(w: Loops, dtype: str, best: str, best_row: str, wide: str, left: Int, right: str) -> str:
    """Return the index in the plane of the maximum of several columns; among equal ones, the first row's."""
    most = w.variable(w.load_at(best, left, dtype))
    row, column = w.count(w.number(best_row, left)), w.count(left)
    with w.loop(left + 1, right) as c:
        value, at = w.load_at(best, c, dtype), w.number(best_row, c)
        before = w.get(most, dtype)
        below = _above(w, before, value)
        earlier = w.icmp("slt", at, w.number(row, 0))
        above = w.first(_above(w, value, before))
        level = w.assign(f"xor i1 {w.first(below)}, true")
        chosen = w.any(above, w.both(level, earlier))
        w.set_number(row, w.assign(f"select i1 {chosen}, i64 {at}, i64 {w.number(row, 0)}"))
        w.set_number(column, w.assign(f"select i1 {chosen}, i64 {c}, i64 {w.number(column, 0)}"))
        w.set(
            most,
            Vector(w.assign(f"select i1 {chosen}, {w.type(dtype)} {value.text}, {w.type(dtype)} {before.text}"), dtype),
        )
    return w.number(row, 0) * wide + w.number(column, 0)


def _above(w: Loops, x: Vector, y: Vector) -> Vector:
    """Compare numbers in the order in which NaN is above all others."""
    return w.binary("and", w.compare("ugt", x, y), w.compare("ord", y, y))
