"""The kernel of the indices of maxima: windows side by side, without branches that a processor would mispredict."""

from __future__ import annotations

import math

from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.compiler.vectors import Vector


def max_pool_indices(dtype: str, rows: int, columns: int, padded: bool, width: int) -> str:
    """Return the text of the kernel of the index, within a plane, of the first NaN or else maximum of each window.

    The table: x, and the indices (int64). The sizes: height and width of x, numbers of windows in a column and in a
    row; stride, padding and dilation, each for both; and the number of vectors of a row of windows. ``begin`` and
    ``end`` are planes.

    Args:
        dtype: float32 or float64.
        rows: the number of rows of a window.
        columns: the number of columns of a window.
        padded: whether windows may reach beyond x.
        width: the number of windows of a vector; the last vector of a row may have windows of the one before.
    """
    w = Loops(width, 2, 11)
    x, out = w.table
    height, length, high, wide, down, across, above, before, row_step, column_step, vectors = w.sizes
    lanes = Vector(f"<{', '.join(f'i64 {k}' for k in range(width))}>", "int64")
    steps, none = w.binary("mul", lanes, w.splat(across, "int64")), w.constant(0, "int64")
    final = w.minus(wide, str(width))
    with w.loop("%begin", "%end") as plane, w.loop("0", high) as i, w.loop("0", vectors) as vector:
        source = w.element(x, w.times(plane, w.times(height, length)), dtype)
        j, top = w.smaller(w.times(vector, width), final), w.minus(w.times(i, down), above)
        left = w.binary("add", steps, w.splat(w.minus(w.times(j, across), before), "int64"))
        best, index = w.constant(-math.inf, dtype), w.constant(-1, "int64")
        for r in range(rows):
            row = w.plus(top, w.times(row_step, r))
            row_inside = w.assign(f"icmp ult i64 {row}, {height}")  # negative ones are large without a sign
            line = w.splat(w.times(w.either(row_inside, row, "0", "i64"), length), "int64")
            for c in range(columns):
                column = w.binary("add", left, w.splat(w.times(column_step, c), "int64"))
                inside = _compared(w, "ult", column, w.splat(length, "int64"))
                inside = w.binary("and", inside, w.splat(row_inside, "bool"))
                place = w.binary("add", line, w.select(inside, column, none) if padded else column)
                value = _gathered(w, source, place, dtype)
                larger = w.binary("and", w.compare("ugt", value, best), w.compare("ord", best, best))
                taken = w.binary("or", larger, _compared(w, "slt", index, none))  # the first one, if it is -∞
                taken = w.binary("and", taken, inside) if padded else taken
                best, index = w.select(taken, value, best), w.select(taken, place, index)
        at = w.plus(w.times(w.plus(w.times(plane, high), i), wide), j)
        w.store(index, w.element(out, at, "int64"), None)
    return w.function()


def _compared(w: Loops, how: str, x: Vector, y: Vector) -> Vector:
    """Compare ints."""
    return Vector(w.assign(f"icmp {how} {w.type('int64')} {x.text}, {y.text}"), "bool")


def _gathered(w: Loops, source: str, places: Vector, dtype: str) -> Vector:
    """Load the elements at some places."""
    kind, scalar, text = w.type(dtype), w.scalar(dtype), "poison"
    for k in range(w.width):
        place = w.assign(f"extractelement {w.type('int64')} {places.text}, i32 {k}")
        one = w.assign(f"load {scalar}, ptr {w.element(source, place, dtype)}")
        text = w.assign(f"insertelement {kind} {text}, {scalar} {one}, i32 {k}")
    return Vector(text, dtype)
