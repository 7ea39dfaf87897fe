"""Reductions. Ints and bools add up in int64, 16-bit floats in float32."""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.dtypes import float32, int64, kind_of
from burnpy.backend.primitives import Dims, DType
from burnpy_array.base import ArrayBase, is_half


def accumulator(dtype: DType) -> DType | None:
    """The dtype in which numbers of ``dtype`` are summed and multiplied; None for their own."""
    if kind_of(dtype) != "float":
        return int64
    return float32 if is_half(dtype) else None


class Reduction(ArrayBase):
    """Reductions by the methods of arrays, which NumPy and CuPy have alike."""

    def sum(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        return self._call(_sum, self, x, dims, keepdim)

    def prod(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        return self._call(_product, x, dims, keepdim)

    def amax(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        return self._call(x.max, dims, None, keepdim) if dims else self._call(x.copy)

    def amin(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        return self._call(x.min, dims, None, keepdim) if dims else self._call(x.copy)

    def any(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        return self._call(x.any, axis=dims, keepdims=keepdim) if dims else self._call(x.copy)

    def all(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        return self._call(x.all, axis=dims, keepdims=keepdim) if dims else self._call(x.copy)

    def argmax(self, x: Any, dim: int, keepdim: bool) -> Any:
        return self._call(_position, x.argmax, dim, keepdim)

    def argmin(self, x: Any, dim: int, keepdim: bool) -> Any:
        return self._call(_position, x.argmin, dim, keepdim)

    def cumsum(self, x: Any, dim: int) -> Any:
        return self._call(_running, x, dim)

    def mean(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        return self._call(_mean, self, x, dims, keepdim)

    def var(self, x: Any, dims: Dims, keepdim: bool, correction: float) -> Any:
        return self._call(_variance, self, x, dims, keepdim, correction)


def _sum(b: ArrayBase, x: Any, dims: Dims, keepdim: bool) -> Any:
    wide = accumulator(x.dtype)
    if not dims:
        return x.astype(wide if wide is int64 else x.dtype)
    if wide is None:
        return b._total(x, dims, keepdim)
    out = x.sum(dims, wide, None, keepdim)
    return out.astype(x.dtype) if wide is float32 else out


def _product(x: Any, dims: Dims, keepdim: bool) -> Any:
    wide = accumulator(x.dtype)
    if not dims:
        return x.astype(wide if wide is int64 else x.dtype)
    out = x.prod(dims, wide, None, keepdim)
    return out.astype(x.dtype) if wide is float32 else out


def _position(argument: Any, dim: int, keepdim: bool) -> Any:
    return argument(dim, keepdims=keepdim)


def _running(x: Any, dim: int) -> Any:
    wide = accumulator(x.dtype)
    out = x.cumsum(dim, wide)
    return out.astype(x.dtype) if wide is float32 else out


def count(x: Any, dims: Dims) -> int:
    """How many elements of x each element of the result of a reduction is made of."""
    return math.prod([x.shape[d] for d in dims])


def _mean(b: ArrayBase, x: Any, dims: Dims, keepdim: bool) -> Any:
    if not dims:
        return x.copy()
    wide = accumulator(x.dtype)
    out = b._total(x, dims, keepdim) if wide is None else x.sum(dims, wide, None, keepdim)
    out = b.xp.divide(out, count(x, dims))
    return out.astype(x.dtype) if wide is float32 else out


def _variance(b: ArrayBase, x: Any, dims: Dims, keepdim: bool, correction: float) -> Any:
    wide = x if accumulator(x.dtype) is None else x.astype(float32)
    deviation = b.xp.asarray(b.xp.subtract(wide, _mean(b, wide, dims, True)))
    b.xp.multiply(deviation, deviation, deviation)
    out = b._total(deviation, dims, keepdim) if dims else deviation
    out = b.xp.divide(out, float(max(count(x, dims) - correction, 0)))
    return out if wide is x else out.astype(x.dtype)
