"""Reductions. Ints and bools are accumulated in int64, 16-bit floats in float32."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from burnpy.backend.dtypes import epsilon, float32, float64, int64, is_inexact, tiny
from burnpy.backend.operations.reduction import divisor
from burnpy.backend.primitives import Dims, DType
from burnpy_array.array_base import ArrayBase, is_half


def accumulator(dtype: DType) -> DType | None:
    """Return the dtype in which sums and products of ``dtype`` are accumulated; None for ``dtype`` itself."""
    if not is_inexact(dtype):
        return int64
    return float32 if is_half(dtype) else None


class ArrayReduction(ArrayBase):
    """Reductions by array methods, which are the same in NumPy and CuPy."""

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

    def mean(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        return self._call(_mean, self, x, dims, keepdim)

    def center(self, x: Any, dims: Dims) -> Any:
        return self._call(_centered, self, x, dims)

    def var(self, x: Any, dims: Dims, keepdim: bool, correction: float) -> Any:
        return self._call(_variance, self, x, dims, keepdim, correction)

    def std(self, x: Any, dims: Dims, keepdim: bool, correction: float) -> Any:
        return self._call(_deviation, self, x, dims, keepdim, correction)


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


def count(x: Any, dims: Dims) -> int:
    """Return the number of elements of x that a reduction over ``dims`` combines into one."""
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
    deviation = _center(b, wide, dims)
    out = _mean_square(b, deviation, dims, keepdim, correction, deviation)
    return out if wide is x else out.astype(x.dtype)


def _deviation(b: ArrayBase, x: Any, dims: Dims, keepdim: bool, correction: float) -> Any:
    """Return the standard deviation; if squares may over- or underflow, deviations are scaled by a power of 2 first."""
    xp = b.xp
    wide = x if accumulator(x.dtype) is None else x.astype(float32)
    deviation = _center(b, wide, dims)
    var = _mean_square(b, deviation, dims, True, correction, None)
    least, most = SAFE[wide.dtype]
    if x.size and not (b.eager_checks and xp.logical_and(xp.greater(var, least), xp.less(var, most)).all()):
        exponent = exponents(b, deviation, dims)
        scaled = xp.asarray(xp.ldexp(deviation, xp.negative(exponent)))
        out = xp.ldexp(xp.sqrt(_mean_square(b, scaled, dims, True, correction, scaled)), exponent)
    else:
        out = xp.sqrt(var)
    if not keepdim:
        out = out.reshape([n for d, n in enumerate(x.shape) if d not in dims])
    return out if wide is x else out.astype(x.dtype)


SAFE = {dtype: (tiny(dtype) / epsilon(dtype), math.inf) for dtype in (float32, float64)}
"""The bounds, by dtype, between which a mean of squares is not affected by overflow or underflow."""


def _mean_square(b: ArrayBase, x: Any, dims: Dims, keepdim: bool, correction: float, memory: Any) -> Any:
    square = b.xp.multiply(x, x, memory)
    out = b._total(square, dims, keepdim) if dims else square
    return b.xp.divide(out, divisor(x.shape, dims, correction))


def exponents(b: ArrayBase, x: Any, dims: Dims) -> Any:
    """Return the exponents e with 2ᵉ above the largest magnitudes over ``dims``; 0 for infinite and empty groups."""
    if not x.size:
        return b.xp.zeros([1 if d in dims else n for d, n in enumerate(x.shape)], "int32")
    return b.xp.frexp(b.xp.abs(x).max(dims, None, True))[1]


def _centered(b: ArrayBase, x: Any, dims: Dims) -> Any:
    if accumulator(x.dtype) is None:
        return _center(b, x, dims)
    return _center(b, x.astype(float32), dims).astype(x.dtype)


def _center(b: ArrayBase, x: Any, dims: Dims) -> Any:
    """Subtract the mean, into new memory; the result is exactly 0 where all elements of a group are equal.

    The mean of the deviations is the error of the mean. It is subtracted, too, because it may be larger than the
    deviations if they are small beside the mean; what is left of it would be a deviation of equal elements. If the
    backend can read values without waiting, this is done only if the first element of some group is near its mean.
    """
    xp, key = b.xp, first_of(x.ndim, dims)
    mean = _mean(b, x, dims, True)
    deviation = xp.asarray(xp.subtract(x, mean))
    if not x.size or not dims:
        return deviation
    if b.eager_checks:
        eps = epsilon(x.dtype)
        near = xp.multiply(xp.abs(mean), max(count(x, dims) * eps, 16 * math.sqrt(eps)))
        if not xp.less_equal(xp.abs(deviation[key]), near).any():
            return deviation
    error = _mean(b, deviation, dims, True)
    error = xp.where(xp.isfinite(error), error, x.dtype.type(0))  # of infinite numbers it is NaN
    deviation = xp.asarray(xp.subtract(deviation, error, deviation))
    first = x[key]
    same = xp.logical_and(xp.equal(x, first).all(axis=dims, keepdims=True), xp.isfinite(first))
    return xp.where(same, x.dtype.type(0), deviation)


@lru_cache(64)
def first_of(ndim: int, dims: Dims) -> tuple[slice, ...]:
    """Return the key that selects the first elements along ``dims``."""
    return tuple(slice(0, 1) if d in dims else slice(None) for d in range(ndim))
