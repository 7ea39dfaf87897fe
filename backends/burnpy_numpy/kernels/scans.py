"""Scans as kernels, several beside each other. Sums and products have NumPy's order, and so its bits.

A scan combines each element along a dimension with the combination of all before it, one after the other, which is the
order of ``numpy.ufunc.accumulate``. The processor computes several scans at a time, as one waits for its last result.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import int64
from burnpy_numpy.kernels.kernel import template_kernel
from burnpy_numpy.kernels.launch import TemplateKernel, block_starts, block_width
from burnpy_numpy.kernels.loops import Loops
from burnpy_numpy.kernels.vectors import Vector

_ROWS = 8
"""The number of rows that are scanned at a time."""
_BYTES = 64
"""The size of the parts of columns that are scanned at a time, which are a line of the cache."""
EXTREMES = {"max": "oge", "min": "ole"}
"""The combinations that give the index, too, by the comparison with which a later element takes the place."""


class _Scan:
    """A kernel, and how it divides an array."""

    def __init__(self, kernel: TemplateKernel, dim: int, width: int, combine: str) -> None:
        self.kernel, self.dim, self.width, self.combine = kernel, dim, width, combine

    def __call__(self, x: Any, factor: Any = None) -> tuple[Any, Any]:
        """Return the scan, and the indices of extremes, if it has any."""
        length, inner = x.shape[self.dim], _beside(x, self.dim)
        if inner == 1:  # blocks of rows
            starts = block_starts(x.size // length, self.width) * length
            sizes = (length, 1, length)
        else:
            firsts = np.arange(0, x.size, length * inner)
            starts = np.add.outer(firsts, block_starts(inner, self.width)).reshape(-1)
            sizes = (length, inner, 1)
        x, out = np.ascontiguousarray(x), np.empty(x.shape, x.dtype)
        other = None if factor is None else np.ascontiguousarray(factor)
        if self.combine in ("max", "min"):
            other = np.empty(x.shape, int64)
        arrays = [a for a in (x, out, starts, other) if a is not None]
        self.kernel.run(arrays, sizes, len(starts), length * self.width)
        return out, other


def scan_of(combine: str, x: Any, dim: int) -> _Scan | None:
    """Return the scan of x along a dimension; None if kernels are off."""
    inner = _beside(x, dim)
    scans, most = (x.size // x.shape[dim], _ROWS) if inner == 1 else (inner, _BYTES // x.dtype.itemsize)
    width = block_width(scans, most)
    kernel = template_kernel(scan, x.dtype.name, combine, width, inner > 1 or width == 1)
    return None if kernel is None else _Scan(kernel, dim, width, combine)


def _beside(x: Any, dim: int) -> int:
    """Return the number of elements that lie beside each other along the dimensions after ``dim``."""
    return math.prod(x.shape[dim + 1 :])


def scan(dtype: str, combine: str, width: int, adjacent: bool) -> str:
    """Return the text of the kernel of a scan along a dimension.

    The table: x, out, the first element of each block (int64), and for ``max`` and ``min`` the index of the extreme
    (int64), for ``recurrence`` the factors: out[k] = x[k] + factor[k] · out[k - 1]. The sizes: the length of the scans,
    the distance of an element from the one before, and the distance of two scans of a block. ``begin`` and ``end`` are
    blocks. All places and distances count elements.

    Args:
        dtype: float32 or float64.
        combine: "add", "mul", "max", "min" or "recurrence".
        width: the number of scans in a block.
        adjacent: whether the scans of a block lie beside each other, so that their elements are vectors.
    """
    w = Loops(width, 3 if combine in ("add", "mul") else 4, 3)
    x, out, starts, *rest = w.table
    length, step, far = w.sizes
    with w.loop("%begin", "%end") as b:
        start = w.number(starts, b)
        lanes = [start] if adjacent else [w.plus(start, w.times(far, k)) for k in range(width)]
        xs, outs = w.lanes(x, lanes, dtype), w.lanes(out, lanes, dtype)
        others = w.lanes(rest[0], lanes, "int64" if combine in EXTREMES else dtype) if rest else []
        first = w.load_lanes(xs, "0", dtype)
        w.store_lanes(first, outs, "0")
        so_far = w.variable(first)
        index = w.variable(w.constant(0, "int64"))
        if combine in EXTREMES:
            w.store_lanes(w.constant(0, "int64"), others, "0")
        with w.loop("1", length) as k:
            place = w.times(k, step)
            now = w.load_lanes(xs, place, dtype)
            if combine in EXTREMES:
                now, at = _extreme(w, EXTREMES[combine], now, w.get(so_far, dtype), w.splat(k, "int64"), index)
                w.store_lanes(at, others, place)
            elif combine == "recurrence":
                now = w.add(now, w.mul(w.load_lanes(others, place, dtype), w.get(so_far, dtype)))
            else:
                now = w.binary(f"f{combine}", w.get(so_far, dtype), now)
            w.set(so_far, now)
            w.store_lanes(now, outs, place)
    return w.function()


def _extreme(w: Loops, how: str, x: Vector, so_far: Vector, place: Vector, index: str) -> tuple[Vector, Vector]:
    """Return the extreme with an element more, and its index, kept in a variable: the last of equal ones and NaNs."""
    later = w.binary("or", w.compare(how, x, so_far), w.compare("uno", x, x))
    at = w.select(later, place, w.get(index, "int64"))
    w.set(index, at)
    return w.select(later, x, so_far), at
