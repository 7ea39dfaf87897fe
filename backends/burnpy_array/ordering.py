"""Stable sorts, which put NaN last, and scans: ints and bools are accumulated in int64, 16-bit floats in float32."""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import float32, int64
from burnpy_array.array_base import ArrayBase, is_half
from burnpy_array.reduction import accumulator


class ArrayOrdering(ArrayBase):
    """Sorts by array methods."""

    def argsort(self, x: Any, dim: int, descending: bool) -> Any:
        wide = self.cast(x, float32) if is_half(x.dtype) else x
        return self._call(_order, self.xp, wide, dim, descending)


def _order(xp: Any, x: Any, dim: int, descending: bool) -> Any:
    """Equal elements keep their order when descending too: both the elements and the result are reversed."""
    if not descending:
        return x.argsort(dim, kind="stable").astype(int64, copy=False)
    last, back = x.shape[dim] - 1, (*(slice(None),) * (dim % x.ndim), slice(None, None, -1))
    return xp.subtract(last, x[back].argsort(dim, kind="stable")[back]).astype(int64, copy=False)


class ArrayScans(ArrayBase):
    """Scans by array methods."""

    def cumsum(self, x: Any, dim: int) -> Any:
        return self._call(_running, x, x.cumsum, dim)

    def cumprod(self, x: Any, dim: int) -> Any:
        return self._call(_running, x, x.cumprod, dim)


def _running(x: Any, accumulate: Any, dim: int) -> Any:
    wide = accumulator(x.dtype)
    out = accumulate(dim, wide)
    return out.astype(x.dtype) if wide is float32 else out
