"""Adaptive max pooling by a kernel: the indices of the maxima of windows of different sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, int64
from burnpy.backend.operations.convolution import Pair
from burnpy.backend.operations.pooling import adaptive_windows
from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.kernel import template_kernel
from burnpy_numpy.kernels.launch import block_starts, block_width

_COLUMNS = 16
"""The number of columns whose maxima are found at a time."""


def run_adaptive_maxima(x: Any, size: Pair) -> Any:
    """Return the indices of the maxima of adaptive windows; None without a kernel for it."""
    n, channels, high, wide = x.shape
    width = block_width(wide, _COLUMNS)
    usual = x.dtype is float32 or x.dtype is float64
    kernel = template_kernel(adaptive_maxima, x.dtype, width) if usual else None
    if kernel is None:
        return None
    bounds = [np.array(adaptive_windows(k, count), int64).T.copy() for k, count in zip((high, wide), size, strict=True)]
    out, starts = np.empty((n, channels, *size), int64), block_starts(wide, width)
    memory = np.empty((n * channels, wide), x.dtype), np.empty((n * channels, wide), int64)
    arrays = [np.ascontiguousarray(x), out, *memory, *bounds[0], *bounds[1], starts]
    kernel.run(arrays, (high, wide, *size, len(starts)), n * channels, high * wide)
    return out


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
    with w.loop("%begin", "%end") as plane:
        source = w.element(x, w.times(plane, w.times(high, wide)), dtype)
        best = w.element(values, w.times(plane, wide), dtype)
        best_row = w.element(places, w.times(plane, wide), "int64")
        with w.loop("0", rows) as i:
            top, bottom = w.number(tops, i), w.number(bottoms, i)
            with w.loop("0", vectors) as v:
                _column_maxima(w, dtype, source, wide, top, bottom, w.number(starts, v), best, best_row)
            target = w.plus(w.times(plane, w.times(rows, columns)), w.times(i, columns))
            with w.of_width(1), w.loop("0", columns) as j:
                left = w.number(lefts, j)
                index = _maximum(w, dtype, best, best_row, wide, left, w.number(rights, j))
                w.set_number(w.element(out, w.plus(target, j), "int64"), index)
    return w.function()


def _column_maxima(
    w: Loops, dtype: str, source: str, wide: str, top: str, bottom: str, column: str, best: str, best_row: str
) -> None:
    """Store the maxima of neighbouring columns between two rows, and their rows."""
    first = w.load(w.element(source, w.plus(w.times(top, wide), column), dtype), dtype, None)
    most, row = w.variable(first), w.variable(w.splat(top, "int64"))
    with w.loop(w.plus(top, 1), bottom) as r:
        value = w.load(w.element(source, w.plus(w.times(r, wide), column), dtype), dtype, None)
        above = _above(w, value, w.get(most, dtype))
        w.set(row, w.select(above, w.splat(r, "int64"), w.get(row, "int64")))
        w.set(most, w.select(above, value, w.get(most, dtype)))
    w.store(w.get(most, dtype), w.element(best, column, dtype), None)
    w.store(w.get(row, "int64"), w.element(best_row, column, "int64"), None)


def _maximum(w: Loops, dtype: str, best: str, best_row: str, wide: str, left: str, right: str) -> str:
    """Return the index in the plane of the maximum of several columns; among equal ones, the first row's."""
    most = w.variable(w.load(w.element(best, left, dtype), dtype, None))
    row, column = w.count(w.number(best_row, left)), w.count(left)
    with w.loop(w.plus(left, 1), right) as c:
        value, at = w.load(w.element(best, c, dtype), dtype, None), w.number(best_row, c)
        before = w.get(most, dtype)
        below = _above(w, before, value)
        earlier = w.assign(f"icmp slt i64 {at}, {w.number(row, '0')}")
        above = w.first(_above(w, value, before))
        level = w.assign(f"xor i1 {w.first(below)}, true")
        chosen = w.assign(f"or i1 {above}, {w.assign(f'and i1 {level}, {earlier}')}")
        w.set_number(row, w.assign(f"select i1 {chosen}, i64 {at}, i64 {w.number(row, '0')}"))
        w.set_number(column, w.assign(f"select i1 {chosen}, i64 {c}, i64 {w.number(column, '0')}"))
        w.set(
            most,
            Vector(w.assign(f"select i1 {chosen}, {w.type(dtype)} {value.text}, {w.type(dtype)} {before.text}"), dtype),
        )
    return w.plus(w.times(w.number(row, "0"), wide), w.number(column, "0"))


def _above(w: Loops, x: Vector, y: Vector) -> Vector:
    """Compare numbers in the order in which NaN is above all others."""
    return w.binary("and", w.compare("ugt", x, y), w.compare("ord", y, y))
