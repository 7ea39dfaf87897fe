"""Scans by kernels, and by NumPy's ``accumulate``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, int32, int64, kind_of
from burnpy_array import ArrayBackend
from burnpy_array.array_base import is_half
from burnpy_array.reduction import accumulator
from burnpy_numpy.kernels.kernel import LEAST, MANY, family_kernels
from burnpy_numpy.numpy_calls import inverse, memory_order

_MIN_BESIDE = 128
"""The least number of elements beside each other for which accumulating them slice by slice takes less time."""


class NumPyScans(ArrayBackend):
    """Scans by kernels, and by NumPy's ``accumulate``."""

    def cumsum(self, x: Any, dim: int) -> Any:
        return self._accumulated("add", np.add, x, dim)

    def cumprod(self, x: Any, dim: int) -> Any:
        return self._accumulated("mul", np.multiply, x, dim)

    def _accumulated(self, combine: str, f: Any, x: Any, dim: int) -> Any:
        """Return a cumulative sum or product, of ints in int64 and of 16-bit floats in float32."""
        if x.size >= MANY and is_half(x.dtype):
            return self._in_float32(lambda wide: self._accumulated(combine, f, wide, dim), x)[0]
        if x.size >= MANY and kind_of(x.dtype) == "int":
            x = self.cast(x, int64)
        if not x.flags.c_contiguous and x.size >= MANY and (axes := memory_order((x,))):
            ordered = self._accumulated(combine, f, x.transpose(axes), axes.index(dim))
            return ordered.transpose(inverse(axes))
        scan = _scan_of(combine, x, dim)
        return self._call(_running, f, x, dim) if scan is None else scan(x)[0]

    def cummax(self, x: Any, dim: int) -> tuple[Any, Any]:
        found = self._extremes("max", x, dim)
        return super().cummax(x, dim) if found is None else found

    def cummin(self, x: Any, dim: int) -> tuple[Any, Any]:
        found = self._extremes("min", x, dim)
        return super().cummin(x, dim) if found is None else found

    def _extremes(self, combine: str, x: Any, dim: int) -> tuple[Any, Any] | None:
        """Return the extremes so far and their indices by a kernel, of 16-bit floats and of small ints in wider
        dtypes; None without one."""
        wide = x
        if x.size >= MANY and x.dtype.itemsize < 8 and not _has_scans(x.dtype):
            wide = self.cast(x, float32) if is_half(x.dtype) else x.astype(int64)
        scan = _scan_of(combine, wide, dim)
        if scan is None:
            return None
        values, index = scan(wide)
        return (values if wide is x else self.cast(values, x.dtype)), index

    def cummax_index(self, x: Any, dim: int) -> Any:
        scan = _scan_of("max", x, dim)
        return self._call(_last_equal, x, np.maximum, dim) if scan is None else scan(x)[1]

    def cummin_index(self, x: Any, dim: int) -> Any:
        scan = _scan_of("min", x, dim)
        return self._call(_last_equal, x, np.minimum, dim) if scan is None else scan(x)[1]

    def reverse_cumsum(self, x: Any, dim: int) -> Any:
        scan = _scan_of("add", x, dim, True)
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


def _has_scans(dtype: Any) -> bool:
    """Return whether there are kernels of scans for a dtype; of int64 there are none of recurrences."""
    return dtype is float32 or dtype is float64 or dtype is int64


def _scan_of(combine: str, x: Any, dim: int, reverse: bool = False) -> Callable[..., tuple[Any, Any]] | None:
    """Return the kernel of a scan of x along a dimension; None if there is none, for it or for so few elements. With
    ``reverse``, of a scan from the end."""
    one_call = combine in ("add", "mul") or x.dtype is int64
    if x.size < (MANY if one_call else LEAST) or not _has_scans(x.dtype) or x.shape[dim] < 2:
        return None
    kernels = family_kernels("scans")
    return None if kernels is None else kernels.scan_of(combine, x, dim, reverse)


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
    """Return the cumulative sum or product, accumulated as reductions are, and long ones of float32 in float64."""
    wide = float64 if x.dtype is float32 and x.size >= MANY else accumulator(x.dtype)
    out = accumulated(f, x, dim, wide)
    return out.astype(x.dtype) if kind_of(x.dtype) == "float" and wide is not None else out


def accumulated(f: Any, x: Any, dim: int, dtype: Any) -> Any:
    """``f.accumulate(x, dim, dtype)``: of many elements beside each other, slice by slice, in a tenth of its time."""
    if x.shape[dim] < 2 or math.prod(x.shape[dim + 1 :]) < _MIN_BESIDE:
        return f.accumulate(x, dim, dtype)
    out: Any = np.empty(x.shape, x.dtype if dtype is None else dtype)
    x = x.astype(out.dtype, copy=False)
    lead: Any = (slice(None),) * dim
    out[(*lead, 0)] = x[(*lead, 0)]
    for k in range(1, x.shape[dim]):
        f(out[(*lead, k - 1)], x[(*lead, k)], out=out[(*lead, k)])
    return out
