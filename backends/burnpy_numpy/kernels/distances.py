"""Distances of rows as kernels, without an array of all differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from burnpy_numpy.kernels.instructions import applied
from burnpy_numpy.kernels.kernel import template_kernel
from burnpy_numpy.kernels.launch import aligned_copy, block_starts, block_width
from burnpy_numpy.kernels.loops import Loops
from burnpy_numpy.kernels.vectors import Vector

_BYTES = 256
"""The size of the parts of rows that are computed at a time."""


def run_distance_sums(x: Any, y: Any, p: float) -> Any:
    """Return the sums of the squares, for p = 2, or of the magnitudes of the differences of rows; the largest for ∞.

    None if kernels are off.
    """
    return _run_for_pairs(distance_sums, p, x, y)


def run_tie_counts(x: Any, y: Any, out: Any) -> Any:
    """Return how many differences of rows are as large as ``out``, or NaN; None if kernels are off."""
    return _run_for_pairs(tie_counts, math.inf, x, y, np.ascontiguousarray(out))


def _run_for_pairs(template: Callable[..., str], p: float, x: Any, y: Any, *more: Any) -> Any:
    """Run a kernel that gives a number for each pair of rows."""
    width = block_width(y.shape[-2], _BYTES // x.dtype.itemsize)
    kernel = template_kernel(template, x.dtype, p, width)
    if kernel is None:
        return None
    (*outer, n, k), m = x.shape, y.shape[-2]
    out, starts = np.empty((*outer, n, m), x.dtype), block_starts(m, width)
    arrays = (np.ascontiguousarray(x), aligned_copy(y.swapaxes(-1, -2)), out, starts, *more)
    kernel.run(arrays, (n, m, k, len(starts)), math.prod(outer) * n, m * k)
    return out


def run_weighted_differences(grad: Any, x: Any, y: Any, out: Any, p: float) -> Any:
    """Return the gradient by x of `run_distance_sums`, up to a factor of 2 for p = 2; None if kernels are off.

    ``out`` is its result, which is used for p = ∞ alone.
    """
    k = x.shape[-1]
    width = block_width(k, _BYTES // x.dtype.itemsize)
    kernel = template_kernel(weighted_differences, x.dtype, p, width)
    if kernel is None:
        return None
    total, starts = np.empty(x.shape, x.dtype), block_starts(k, width)
    rows, weights, distances = (np.ascontiguousarray(a) for a in (x, grad, out))
    arrays = (rows, aligned_copy(y), weights, total, starts, distances)
    n, m = x.shape[-2], y.shape[-2]
    kernel.run(arrays, (n, m, k, len(starts)), x.size // k, m * k)
    return total


def distance_sums(dtype: str, p: float, width: int) -> str:
    """Return the text of the kernel of the sums of the squares, or of the magnitudes, of the differences of rows.

    For p = ∞ it is the largest magnitude, NaN if one is NaN.

    The table: x (batch, n, k), y transposed, (batch, k, m), the sums (batch, n, m), and int64, the first column of each
    vector of m. The sizes: n, m, k and vectors. ``begin`` and ``end`` are rows of x.

    Args:
        dtype: float32 or float64.
        p: 1, 2 for squares, or ∞.
        width: the number of elements of a vector.
    """
    w = Loops(width, 4, 4)
    out = w.table[2]
    with _pairs(w, dtype, w.constant(0.0, dtype), out) as (difference, _, total):
        so_far = w.get(total, dtype)
        if p == 2:
            w.set(total, w.fma(difference, difference, so_far))
        else:
            size = w.call("fabs", difference)
            w.set(total, w.call("maximum", so_far, size) if math.isinf(p) else w.add(so_far, size))
    return w.function()


def tie_counts(dtype: str, p: float, width: int) -> str:
    """Return the text of the kernel of the number of differences of rows whose magnitude is a given one, or NaN.

    The table, sizes and arguments are those of `distance_sums`, with the magnitudes (batch, n, m) behind the table.
    """
    w = Loops(width, 5, 4)
    _, _, out, _, given = w.table
    one, zero = w.constant(1.0, dtype), w.constant(0.0, dtype)
    with _pairs(w, dtype, zero, out) as (difference, place, total):
        magnitude = w.load(w.element(given, place, dtype), dtype, None)
        w.set(total, w.add(w.get(total, dtype), w.select(_is_tie(w, difference, magnitude), one, zero)))
    return w.function()


def _is_tie(w: Loops, difference: Vector, magnitude: Vector) -> Vector:
    """Compare a magnitude with the magnitude of a difference, which counts as equal if it is NaN."""
    equal = w.compare("oeq", w.call("fabs", difference), magnitude)
    return w.binary("or", equal, w.compare("uno", difference, difference))


@contextmanager
def _pairs(w: Loops, dtype: str, start: Vector, out: str) -> Generator[tuple[Vector, str, str]]:
    """Write loops over pairs of rows, and over their elements.

    Gives the differences of neighbouring pairs, the place of the first of these pairs among all, and the variable that
    is stored in ``out`` at the end.
    """
    x, y, _, starts, *_ = w.table
    n, m, k, vectors = w.sizes
    with w.loop("%begin", "%end") as r:
        row = w.element(x, w.times(r, k), dtype)
        matrix = w.element(y, w.times(w.assign(f"sdiv i64 {r}, {n}"), w.times(k, m)), dtype)
        with w.loop("0", vectors) as v:
            first = w.number(starts, v)
            place = w.plus(w.times(r, m), first)
            total = w.variable(start)
            with w.loop("0", k) as c:
                column = w.load(w.element(matrix, w.plus(w.times(c, m), first), dtype), dtype, None)
                yield w.sub(w.load_one(w.element(row, c, dtype), dtype), column), place, total
            w.store(w.get(total, dtype), w.element(out, place, dtype), None)


def weighted_differences(dtype: str, p: float, width: int) -> str:
    """Return the text of the kernel of the sums of the differences of a row and all others, each with a weight.

    The table: x (batch, n, k), y (batch, m, k), the weights (batch, n, m), the sums (batch, n, k), int64, the first
    column of each vector of k, and the distances (batch, n, m). The sizes: n, m, k and vectors. ``begin`` and ``end``
    are rows of x.

    Args:
        dtype: float32 or float64.
        p: 1 for the signs of the differences in their place, 2, or ∞ for the signs where a magnitude is the distance.
        width: the number of elements of a vector.
    """
    w = Loops(width, 6, 4)
    zero = w.constant(0.0, dtype)
    x, y, weights, out, starts, distances = w.table
    n, m, k, vectors = w.sizes
    with w.loop("%begin", "%end") as r:
        others = w.element(y, w.times(w.assign(f"sdiv i64 {r}, {n}"), w.times(k, m)), dtype)
        line, limits = w.element(weights, w.times(r, m), dtype), w.element(distances, w.times(r, m), dtype)
        with w.loop("0", vectors) as v:
            start = w.number(starts, v)
            place = w.plus(w.times(r, k), start)
            mine = w.load(w.element(x, place, dtype), dtype, None)
            total = w.variable(zero)
            with w.loop("0", m) as j:
                other = w.load(w.element(others, w.plus(w.times(j, k), start), dtype), dtype, None)
                difference = w.sub(mine, other)
                weight = w.load_one(w.element(line, j, dtype), dtype)
                factor = difference if p == 2 else applied(w, "sign", [difference], dtype)
                if math.isinf(p):
                    tied = _is_tie(w, difference, w.load_one(w.element(limits, j, dtype), dtype))
                    factor, weight = w.select(tied, factor, zero), w.select(tied, weight, zero)
                w.set(total, w.fma(weight, factor, w.get(total, dtype)))
            w.store(w.get(total, dtype), w.element(out, place, dtype), None)
    return w.function()
