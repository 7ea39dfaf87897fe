"""Weighted sums of rows at indices, by a kernel that adds one row after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, int64
from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.kernel import template_kernel
from burnpy_numpy.kernels.launch import block_width

_BYTES = 64
"""The size of the vectors in bytes."""
_AHEAD = 24
"""The rows that are fetched before they are added: random rows are seldom in a cache."""


def rows_summed(x: Any, source: Any, target: Any, scale: Any, count: int) -> Any:
    """Return the sums of rows; None without a kernel for it. The indices are in range."""
    if (x.dtype is not float32 and x.dtype is not float64) or scale.dtype is not x.dtype:
        return None
    if source.dtype is not int64 or target.dtype is not int64:
        return None
    inner = x.shape[1]
    width = block_width(inner, _BYTES // x.dtype.itemsize)
    kernel = template_kernel(sum_rows, x.dtype, width)
    if kernel is None:
        return None
    out = np.zeros((count, inner), x.dtype)
    arrays = [np.ascontiguousarray(a) for a in (x, source, target, scale)]
    tiles = -(-inner // width)
    kernel.run((arrays[0], out, *arrays[1:]), (len(source), inner), tiles, len(source) * width)
    return out


def sum_rows(dtype: str, width: int) -> str:
    """Return the text of the kernel of ``out[target[j]] += scale[j] * x[source[j]]``.

    The table: x, out, source and target (int64), scale. The sizes: the numbers of indices, and of elements of a row.
    ``begin`` and ``end`` are vectors of a row, so that no two threads add to one place.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector.
    """
    w = Loops(width, 5, 2)
    x, out, source, target, scale = w.table
    count, inner = w.sizes
    whole = w.assign(f"sdiv i64 {inner}, {width}")
    lanes = ", ".join(f"i64 {k}" for k in range(width))
    left = w.splat(w.assign(f"srem i64 {inner}, {width}"), "int64")
    mask = w.assign(f"icmp ult <{width} x i64> <{lanes}>, {left.text}")
    most = w.smaller(whole, "%end")
    final = w.minus(count, "1")
    with w.loop("0", count) as j:
        next_row = w.times(w.number(source, w.smaller(w.plus(j, _AHEAD), final)), inner)
        row = w.times(w.number(source, j), inner)
        place = w.times(w.number(target, j), inner)
        factor = w.load_one(w.element(scale, j, dtype), dtype)
        for first, last, where in (("%begin", most, None), (most, "%end", mask)):
            with w.loop(first, last) as t:
                at = w.times(t, width)
                w.prefetch(w.element(x, w.plus(next_row, at), dtype))
                value = w.load(w.element(x, w.plus(row, at), dtype), dtype, where)
                goal = w.element(out, w.plus(place, at), dtype)
                total = w.binary("fadd", w.load(goal, dtype, where), w.binary("fmul", factor, value))
                w.store(total, goal, where)
    return w.function()
