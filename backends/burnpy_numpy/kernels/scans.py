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


def scan_of(combine: str, x: Any, dim: int, reverse: bool) -> _Scan | None:
    """Return the scan of x along a dimension, with ``reverse`` from the end; None if kernels are off."""
    inner = _beside(x, dim)
    scans, most = (x.size // x.shape[dim], _ROWS) if inner == 1 else (inner, _BYTES // x.dtype.itemsize)
    width = block_width(scans, most)
    kernel = template_kernel(scan, x.dtype.name, combine, width, inner > 1 or width == 1, reverse)
    return None if kernel is None else _Scan(kernel, dim, width, combine)


def _beside(x: Any, dim: int) -> int:
    """Return the number of elements that lie beside each other along the dimensions after ``dim``."""
    return math.prod(x.shape[dim + 1 :])


def scan(dtype: str, combine: str, width: int, adjacent: bool, reverse: bool) -> str:
    """Return the text of the kernel of a scan along a dimension.

    The table: x, out, the first element of each block (int64), and for ``max`` and ``min`` the index of the extreme
    (int64), for ``recurrence`` the factors: out[k] = x[k] + factor[k] · out[k - 1], or from the end
    out[k] = x[k] + factor[k + 1] · out[k + 1]. The sizes: the length of the scans, the distance of an element from the
    one before, and the distance of two scans of a block. ``begin`` and ``end`` are blocks. All places and distances
    count elements.

    Scans that lie apart are read and written as square tiles, which are transposed: a line of the cache is used as a
    whole, before lines of other scans replace it.

    Args:
        dtype: float32 or float64.
        combine: "add", "mul", "max", "min" or "recurrence".
        width: the number of scans in a block.
        adjacent: whether the scans of a block lie beside each other, so that their elements are vectors.
        reverse: whether to scan from the end.
    """
    w = Loops(width, 3 if combine in ("add", "mul") else 4, 3)
    x, out, starts, *rest = w.table
    length, step, far = w.sizes
    steps = _Steps(w, dtype, combine, reverse)
    with w.loop("%begin", "%end") as b:
        start = w.number(starts, b)
        lanes = [start] if adjacent else [w.plus(start, w.times(far, k)) for k in range(width)]
        arrays = [w.lanes(x, lanes, dtype), w.lanes(out, lanes, dtype)]
        if rest:
            arrays.append(w.lanes(rest[0], lanes, steps.kinds[-1]))
        (xs, factors), results = (arrays[0], arrays[2:] if combine == "recurrence" else []), arrays[1:]
        steps.begin()
        tiles = "0" if adjacent else w.assign(f"sdiv i64 {length}, {width}")
        if not adjacent:
            with w.loop("0", tiles) as t:
                first = w.times(t, width)
                place = w.minus(w.plus(length, -width), first) if reverse else first
                tile = [w.load_tile(lane, place, dtype) for lane in (xs, *factors)]
                order = range(width)
                made = [
                    steps.next(w.plus(first, k), *(vectors[k] for vectors in tile))
                    for k in (reversed(order) if reverse else order)
                ]
                if reverse:
                    made.reverse()
                for lane, vectors in zip(results, zip(*made, strict=True), strict=False):
                    w.store_tile(list(vectors), lane, place)
        with w.loop(w.times(tiles, width), length) as k:
            place = w.times(w.minus(w.plus(length, -1), k) if reverse else k, step)
            values = steps.next(k, *(w.load_lanes(lane, place, dtype) for lane in (xs, *factors)))
            for lane, value in zip(results, values, strict=False):
                w.store_lanes(value, lane, place)
    return w.function()


class _Steps:
    """The steps of a scan, one element of each scan of a block at a time, from a value that changes no element."""

    def __init__(self, w: Loops, dtype: str, combine: str, reverse: bool) -> None:
        self._w, self._dtype, self._combine, self._reverse = w, dtype, combine, reverse
        self.kinds = (dtype, "int64" if combine in EXTREMES else dtype)
        start = {"mul": 1.0, "max": -math.inf, "min": math.inf}.get(combine, -0.0)
        self._start = w.constant(start, dtype)
        self._so_far, self._index = w.variable(self._start), w.variable(w.constant(0, "int64"))

    def begin(self) -> None:
        """Start another block."""
        self._w.set(self._so_far, self._start)

    def next(self, k: str, x: Vector, factor: Vector | None = None) -> tuple[Vector, ...]:
        """Add the k-th elements of a block, and return the scans up to them, and the indices of extremes."""
        w, so_far = self._w, self._w.get(self._so_far, self._dtype)
        if self._combine in EXTREMES:
            later = w.binary("or", w.compare(EXTREMES[self._combine], x, so_far), w.compare("uno", x, x))
            now = w.select(later, x, so_far)
            at = w.select(later, w.splat(k, "int64"), w.get(self._index, "int64"))
            w.set(self._so_far, now)
            w.set(self._index, at)
            return now, at
        if factor is None:
            now = w.binary(f"f{self._combine}", so_far, x)
            w.set(self._so_far, now)
        elif self._reverse:
            now = w.add(x, so_far)
            w.set(self._so_far, w.mul(factor, now))
        else:  # the first factor is not used
            first = w.splat(w.assign(f"icmp eq i64 {k}, 0"), "bool")
            now = w.add(x, w.select(first, self._start, w.mul(factor, so_far)))
            w.set(self._so_far, now)
        return (now,)
