"""Scans: cumulative sums, products and extremes, and linear recurrences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, int32, int64, kind_of
from burnpy_array import ArrayBackend
from burnpy_array.reduction import accumulator
from burnpy_numpy.kernels.kernel import MANY, family_kernels

_WIDE = 128
"""The number of elements beside each other from which accumulating them slice by slice takes less time."""


class NumPyScans(ArrayBackend):
    """Scans by kernels, which have NumPy's bits, and by NumPy's ``accumulate``."""

    def cumsum(self, x: Any, dim: int) -> Any:
        scan = None if _beside(x, dim) >= _WIDE else _scan_of("add", x, dim)
        return self._call(_running, np.add, x, dim) if scan is None else scan(x)[0]

    def cumprod(self, x: Any, dim: int) -> Any:
        scan = None if _beside(x, dim) >= _WIDE else _scan_of("mul", x, dim)
        return self._call(_running, np.multiply, x, dim) if scan is None else scan(x)[0]

    def cummax(self, x: Any, dim: int) -> tuple[Any, Any]:
        scan = _scan_of("max", x, dim)
        return super().cummax(x, dim) if scan is None else scan(x)

    def cummin(self, x: Any, dim: int) -> tuple[Any, Any]:
        scan = _scan_of("min", x, dim)
        return super().cummin(x, dim) if scan is None else scan(x)

    def cummax_index(self, x: Any, dim: int) -> Any:
        scan = _scan_of("max", x, dim)
        return self._call(_last_equal, x, np.maximum, dim) if scan is None else scan(x)[1]

    def cummin_index(self, x: Any, dim: int) -> Any:
        scan = _scan_of("min", x, dim)
        return self._call(_last_equal, x, np.minimum, dim) if scan is None else scan(x)[1]

    def reverse_cumsum(self, x: Any, dim: int) -> Any:
        scan = None if _beside(x, dim) >= _WIDE else _scan_of("add", x, dim, True)
        return super().reverse_cumsum(x, dim) if scan is None else scan(x)[0]

    def recurrence(self, factor: Any, x: Any, dim: int) -> Any:
        scan = _scan_of("recurrence", x, dim) if factor.shape == x.shape and factor.dtype is x.dtype else None
        return super().recurrence(factor, x, dim) if scan is None else scan(x, factor)[0]

    def reverse_recurrence(self, factor: Any, x: Any, dim: int) -> Any:
        usual = factor.shape == x.shape and factor.dtype is x.dtype
        scan = _scan_of("recurrence", x, dim, True) if usual else None
        return super().reverse_recurrence(factor, x, dim) if scan is None else scan(x, factor)[0]

    def logcumsumexp(self, x: Any, dim: int) -> Any:
        return self._call(accumulated, np.logaddexp, x, dim, float64).astype(x.dtype, copy=False)


def _scan_of(combine: str, x: Any, dim: int, reverse: bool = False) -> Callable[..., tuple[Any, Any]] | None:
    """Return the kernel of a scan of x along a dimension; None if there is none, for it or for so few elements.

    With ``reverse``, of a scan from the end.
    """
    if x.size < MANY or not (x.dtype is float32 or x.dtype is float64) or x.shape[dim] < 2:
        return None
    kernels = family_kernels("scans")
    return None if kernels is None else kernels.scan_of(combine, x, dim, reverse)


def _beside(x: Any, dim: int) -> int:
    """Return the number of elements that lie beside each other along the dimensions after ``dim``."""
    return math.prod(x.shape[dim + 1 :])


def _last_equal(x: Any, f: Any, dim: int) -> Any:
    """Return the index of the last element that equals the extreme so far; NaN equals NaN."""
    extreme = accumulated(f, x, dim, None)
    equal = np.equal(x, extreme)
    if kind_of(x.dtype) == "float":
        undefined = np.isnan(extreme)
        if undefined.any():
            np.logical_or(equal, np.isnan(x), equal)
    narrow = int32 if x.shape[dim] < 1 << 31 else int64
    place = np.arange(x.shape[dim], dtype=narrow).reshape((-1, *(1,) * (x.ndim - dim - 1)))
    return accumulated(np.maximum, np.multiply(place, equal, dtype=narrow), dim, None).astype(int64)


def _running(f: Any, x: Any, dim: int) -> Any:
    """Return the cumulative sum or product, accumulated as reductions are."""
    wide = accumulator(x.dtype)
    out = accumulated(f, x, dim, wide)
    return out.astype(x.dtype) if wide is float32 else out


def accumulated(f: Any, x: Any, dim: int, dtype: Any) -> Any:
    """``f.accumulate(x, dim, dtype)``: of many elements beside each other, slice by slice, in a tenth of its time."""
    if x.shape[dim] < 2 or math.prod(x.shape[dim + 1 :]) < _WIDE:
        return f.accumulate(x, dim, dtype)
    out: Any = np.empty(x.shape, x.dtype if dtype is None else dtype)
    x = x.astype(out.dtype, copy=False)
    lead: Any = (slice(None),) * dim
    out[(*lead, 0)] = x[(*lead, 0)]
    for k in range(1, x.shape[dim]):
        f(out[(*lead, k - 1)], x[(*lead, k)], out=out[(*lead, k)])
    return out
