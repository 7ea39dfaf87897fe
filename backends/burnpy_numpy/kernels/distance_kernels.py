"""The kernels of distances of rows as LLVM's intermediate representation, without an array of all differences."""

from __future__ import annotations

from burnpy_numpy.kernels.instructions import applied
from burnpy_numpy.kernels.loops import Loops


def distance_sums(dtype: str, squared: bool, width: int) -> str:
    """Return the text of the kernel of the sums of the squares, or of the magnitudes, of the differences of rows.

    The table: x (batch, n, k), y transposed, (batch, k, m), the sums (batch, n, m), and int64, the first column of each
    vector of m. The sizes: n, m, k and vectors. ``begin`` and ``end`` are rows of x.

    Args:
        dtype: float32 or float64.
        squared: whether squares are added up.
        width: the number of elements of a vector.
    """
    w = Loops(width, 4, 4)
    x, y, out, starts = w.table
    n, m, k, vectors = w.sizes
    with w.loop("%begin", "%end") as r:
        row = w.element(x, w.times(r, k), dtype)
        matrix = w.element(y, w.times(w.assign(f"sdiv i64 {r}, {n}"), w.times(k, m)), dtype)
        with w.loop("0", vectors) as v:
            start = w.number(starts, v)
            total = w.variable(w.constant(0.0, dtype))
            with w.loop("0", k) as c:
                column = w.load(w.element(matrix, w.plus(w.times(c, m), start), dtype), dtype, None)
                difference = w.sub(w.load_one(w.element(row, c, dtype), dtype), column)
                size = w.mul(difference, difference) if squared else w.call("fabs", difference)
                w.set(total, w.add(w.get(total, dtype), size))
            w.store(w.get(total, dtype), w.element(out, w.plus(w.times(r, m), start), dtype), None)
    return w.function()


def weighted_differences(dtype: str, signs: bool, width: int) -> str:
    """Return the text of the kernel of the sums of the differences of a row and all others, each with a weight.

    The table: x (batch, n, k), y (batch, m, k), the weights (batch, n, m), the sums (batch, n, k), and int64, the first
    column of each vector of k. The sizes: n, m, k and vectors. ``begin`` and ``end`` are rows of x.

    Args:
        dtype: float32 or float64.
        signs: whether the signs of the differences are added up in their place.
        width: the number of elements of a vector.
    """
    w = Loops(width, 5, 4)
    x, y, weights, out, starts = w.table
    n, m, k, vectors = w.sizes
    with w.loop("%begin", "%end") as r:
        others = w.element(y, w.times(w.assign(f"sdiv i64 {r}, {n}"), w.times(k, m)), dtype)
        line = w.element(weights, w.times(r, m), dtype)
        with w.loop("0", vectors) as v:
            start = w.number(starts, v)
            place = w.plus(w.times(r, k), start)
            mine = w.load(w.element(x, place, dtype), dtype, None)
            total = w.variable(w.constant(0.0, dtype))
            with w.loop("0", m) as j:
                other = w.load(w.element(others, w.plus(w.times(j, k), start), dtype), dtype, None)
                difference = w.sub(mine, other)
                if signs:
                    difference = applied(w, "sign", [difference], dtype)
                weight = w.load_one(w.element(line, j, dtype), dtype)
                w.set(total, w.add(w.get(total, dtype), w.mul(weight, difference)))
            w.store(w.get(total, dtype), w.element(out, place, dtype), None)
    return w.function()
