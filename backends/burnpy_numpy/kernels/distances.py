"""Distances of rows as kernels, without an array of all differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy_numpy.kernels.instructions import applied
from burnpy_numpy.kernels.kernel import template_kernel
from burnpy_numpy.kernels.launch import block_starts, block_width
from burnpy_numpy.kernels.loops import Loops

_BYTES = 256
"""The size of the parts of rows that are computed at a time."""


def run_distance_sums(x: Any, y: Any, p: float) -> Any:
    """Return the sums of the squares, for p = 2, or of the magnitudes of the differences of rows.

    None if kernels are off.
    """
    width = block_width(y.shape[-2], _BYTES // x.dtype.itemsize)
    kernel = template_kernel(distance_sums, x.dtype.name, p == 2, width)
    if kernel is None:
        return None
    (*outer, n, k), m = x.shape, y.shape[-2]
    out, starts = np.empty((*outer, n, m), x.dtype), block_starts(m, width)
    arrays = (np.ascontiguousarray(x), np.ascontiguousarray(y.swapaxes(-1, -2)), out, starts)
    kernel.run(arrays, (n, m, k, len(starts)), math.prod(outer) * n, m * k)
    return out


def run_weighted_differences(grad: Any, x: Any, y: Any, p: float) -> Any:
    """Return the gradient by x of `run_distance_sums`, up to a factor of 2 for p = 2; None if kernels are off."""
    k = x.shape[-1]
    width = block_width(k, _BYTES // x.dtype.itemsize)
    kernel = template_kernel(weighted_differences, x.dtype.name, p == 1, width)
    if kernel is None:
        return None
    total, starts = np.empty(x.shape, x.dtype), block_starts(k, width)
    arrays = (np.ascontiguousarray(x), np.ascontiguousarray(y), np.ascontiguousarray(grad), total, starts)
    n, m = x.shape[-2], y.shape[-2]
    kernel.run(arrays, (n, m, k, len(starts)), x.size // k, m * k)
    return total


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
