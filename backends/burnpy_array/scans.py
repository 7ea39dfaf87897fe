"""Cumulative sums and products. Ints and bools are accumulated in int64, 16-bit floats in float32."""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import float32
from burnpy_array.array_base import ArrayBase
from burnpy_array.reduction import accumulator


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
