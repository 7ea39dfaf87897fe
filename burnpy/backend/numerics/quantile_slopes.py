"""Derivatives of elementwise functions with respect to a parameter: dual numbers, and slopes of quantiles."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.dtypes import float64
from burnpy.backend.primitives import DType, Float, Scalar, Shape


class _Dual(NamedTuple):
    """A float primitive and its derivative with respect to a parameter."""

    value: Any
    slope: Any

    @property
    def dtype(self) -> DType:
        return self.value.dtype  # type: ignore[no-any-return]  # of a primitive

    @property
    def shape(self) -> Shape:
        return self.value.shape  # type: ignore[no-any-return]  # of a primitive


class _Duals:
    """Elementwise operations on `_Dual`s by those of a backend, or other `_Duals` for derivatives of higher order."""

    def __init__(self, b: Any) -> None:
        self.b = b
        self.discrete = b.discrete

    def full(self, shape: Shape, value: Scalar, dtype: DType) -> _Dual:
        return _Dual(self.b.full(shape, value, dtype), self.b.full(shape, 0.0, dtype))

    def add(self, x: _Dual, y: _Dual | float) -> _Dual:
        if not isinstance(y, _Dual):
            return _Dual(self.b.add(x.value, y), x.slope)
        return _Dual(self.b.add(x.value, y.value), self.b.add(x.slope, y.slope))

    def sub(self, x: _Dual, y: _Dual) -> _Dual:
        return _Dual(self.b.sub(x.value, y.value), self.b.sub(x.slope, y.slope))

    def neg(self, x: _Dual) -> _Dual:
        return _Dual(self.b.neg(x.value), self.b.neg(x.slope))

    def mul(self, x: _Dual, y: _Dual | float) -> _Dual:
        b = self.b
        if not isinstance(y, _Dual):
            return _Dual(b.mul(x.value, y), b.mul(x.slope, y))
        return _Dual(b.mul(x.value, y.value), b.add(b.mul(x.slope, y.value), b.mul(x.value, y.slope)))

    def div(self, x: _Dual, y: _Dual) -> _Dual:
        b = self.b
        quotient = b.div(x.value, y.value)
        return _Dual(quotient, b.div(b.sub(x.slope, b.mul(quotient, y.slope)), y.value))

    def reciprocal(self, x: _Dual) -> _Dual:
        inverse = self.b.reciprocal(x.value)
        return _Dual(inverse, self.b.neg(self.b.mul(self.b.mul(x.slope, inverse), inverse)))

    def exp(self, x: _Dual) -> _Dual:
        e = self.b.exp(x.value)
        return _Dual(e, self.b.mul(x.slope, e))

    def expm1(self, x: _Dual) -> _Dual:
        return _Dual(self.b.expm1(x.value), self.b.mul(x.slope, self.b.exp(x.value)))

    def log(self, x: _Dual) -> _Dual:
        return _Dual(self.b.log(x.value), self.b.div(x.slope, x.value))

    def log1p(self, x: _Dual) -> _Dual:
        return _Dual(self.b.log1p(x.value), self.b.div(x.slope, self.b.add(x.value, 1.0)))

    def sqrt(self, x: _Dual) -> _Dual:
        root = self.b.sqrt(x.value)
        return _Dual(root, self.b.div(self.b.mul(x.slope, 0.5), root))

    def round(self, x: _Dual) -> _Dual:
        return _Dual(self.b.round(x.value), self.b.mul(x.slope, 0.0))

    def where(self, condition: Any, x: _Dual, y: _Dual | float) -> _Dual:
        value, slope = (y.value, y.slope) if isinstance(y, _Dual) else (y, 0.0)
        return _Dual(self.b.where(condition, x.value, value), self.b.where(condition, x.slope, slope))

    def maximum(self, x: _Dual, y: _Dual | float) -> _Dual:
        return self.where(self.b.ge(x.value, _value(y)), x, y)

    def minimum(self, x: _Dual, y: _Dual | float) -> _Dual:
        return self.where(self.b.le(x.value, _value(y)), x, y)

    def clamp(self, x: _Dual, low: float, high: float) -> _Dual:
        return self.minimum(self.maximum(x, low), high)

    def eq(self, x: _Dual, y: _Dual | float) -> Any:
        return self.b.eq(x.value, _value(y))

    def lt(self, x: _Dual, y: _Dual | float) -> Any:
        return self.b.lt(x.value, _value(y))

    def le(self, x: _Dual, y: _Dual | float) -> Any:
        return self.b.le(x.value, _value(y))

    def gt(self, x: _Dual, y: _Dual | float) -> Any:
        return self.b.gt(x.value, _value(y))

    def ge(self, x: _Dual, y: _Dual | float) -> Any:
        return self.b.ge(x.value, _value(y))


def _value(y: _Dual | float) -> Any:
    return y.value if isinstance(y, _Dual) else y


def slope_of(b: Any, f: Callable[..., Any], x: Any, *rest: Any, order: int) -> Any:
    """Return the derivative of f(b, x, *rest) by x of an order.

    Args:
        b: the backend.
        f: an elementwise function of a backend that uses operations of `_Duals` alone.
        x: the parameter.
        rest: its other primitives, which are constants, and flags.
        order: the order of the derivative, 0 for the function itself.
    """
    if order == 0:
        return f(b, x, *rest)
    zero = b.full((), 0.0, x.dtype)
    constants = [v if isinstance(v, bool) else _Dual(v, zero) for v in rest]
    moving = _Dual(x, b.full((), 1.0, x.dtype))
    return slope_of(_Duals(b), f, moving, *constants, order=order - 1).slope


_SERIES = 3.0
"""Up to here the gamma distribution's series is used."""
_FLAT_TAIL = 2.0
"""The beta distribution's tail is left out where it is flat up to this much of the exponent."""


class _Precision(NamedTuple):
    """The numbers on which the precision depends."""

    terms: int  #: of the series
    nodes: int  #: of Gauss's rule
    depth: float  #: the exponent at which an integral ends, minus

    @classmethod
    def of(cls, dtype: DType) -> _Precision:
        """Return the precision for results of a dtype."""
        return cls(28, 36, 36.0) if dtype == float64 else cls(20, 16, 27.0)


def gamma_quantile_slope(b: Any, x: Float, concentration: Float, log: bool) -> Float:
    """Compute the derivative of a quantile of the gamma distribution by its concentration.

    Args:
        b: a backend.
        x: the quantile; with ``log`` its logarithm, whose derivative is returned then.
        concentration: the parameter; the rate is 1.
        log: whether x is a logarithm.
    """
    dtype = b.promote(x, concentration)[0].dtype
    x, a = b.cast(x, float64), b.cast(concentration, float64)
    t = x if log else b.log(b.maximum(x, float(np.finfo(np.float64).tiny)))
    precision = _Precision.of(dtype)
    near, far = _gamma_series(b, t, a, precision), _gamma_integral(b, t, a, precision)
    slope = b.where(b.le(t, math.log(_SERIES)), near, far)
    return b.cast(slope if log else b.mul(x, slope), dtype)


def _gamma_series(b: Any, t: Float, a: Float, precision: _Precision) -> Float:
    """-Σ xⁿ / (a · (a + 1) ⋯ (a + n)) · (log x - ψ(a + n + 1)), from the series of the incomplete gamma function."""
    t = b.minimum(t, math.log(_SERIES))
    x, inverse = b.exp(t), b.reciprocal(a)
    coefficient, difference = inverse, b.sub(t, b.add(b.digamma(a), inverse))
    total = b.mul(coefficient, difference)
    for n in range(1, precision.terms):
        inverse = b.reciprocal(b.add(a, float(n)))
        coefficient, difference = b.mul(b.mul(coefficient, x), inverse), b.sub(difference, inverse)
        total = b.add(total, b.mul(coefficient, difference))
    return b.neg(total)


def _gamma_integral(b: Any, t: Float, a: Float, precision: _Precision) -> Float:
    """Return the integral over the tail on whose side x lies of the mean, a."""
    t, depth = b.maximum(t, math.log(_SERIES)), precision.depth
    x = b.exp(t)
    base = b.sub(t, b.digamma(a))
    down = b.le(x, a)

    def exponent(v: Float) -> Float:
        return b.sub(b.mul(a, v), b.mul(x, b.expm1(v)))

    def slope(v: Float) -> Float:
        return b.sub(a, b.mul(x, b.exp(v)))

    lower = parabolic_end(b, b.abs(b.sub(x, a)), x, depth)
    ratio = b.mul(b.reciprocal(x), depth)
    upper = b.log1p(b.add(ratio, b.sqrt(b.mul(ratio, 2.0))))
    end = tail_end(b, b.where(down, b.neg(lower), upper), exponent, slope, depth)
    total = None
    for node, share in gauss_rule(precision.nodes):
        v = b.mul(end, node)
        value = b.mul(b.mul(b.add(base, v), b.exp(exponent(v))), share)
        total = value if total is None else b.add(total, value)
    return b.mul(total, end)


def beta_quantile_slope(b: Any, logit: Float, alpha: Float, beta: Float) -> Float:
    """Compute the derivative of the logit of a quantile of the beta distribution by ``alpha``. It is computed in terms
    of the smaller one of x and 1 - x, the small side, which is p. Its parameter is a, and its logarithm at a distance v
    is log p + v - λ(v), with λ(v) = log(1 + p · (e^v - 1)); the logarithm of the other side is log(1 - p) - λ(v)."""
    dtype = b.promote(logit, alpha, beta)[0].dtype
    precision = _Precision.of(dtype)
    depth = precision.depth
    t, alpha, beta = (b.cast(x, float64) for x in (logit, alpha, beta))
    lower = b.le(t, 0.0)  # x is on the small side
    size, total = b.abs(t), b.add(alpha, beta)
    a = b.where(lower, alpha, beta)
    log_other = b.neg(b.log1p(b.exp(b.neg(size))))
    log_p = b.sub(log_other, size)
    p = b.exp(log_p)
    mean_log = b.sub(b.digamma(alpha), b.digamma(total))
    base = b.sub(b.where(lower, log_p, log_other), mean_log)
    moved = b.where(lower, b.full((), 1.0, float64), 0.0)  # how far w(v) follows v

    def log_share(v: Float) -> Float:
        return b.log1p(b.mul(p, b.expm1(v)))

    def exponent(v: Float) -> Float:
        return b.sub(b.mul(a, v), b.mul(total, log_share(v)))

    def slope(v: Float) -> Float:
        share = b.div(b.mul(p, b.exp(v)), b.add(b.mul(p, b.expm1(v)), 1.0))
        return b.sub(a, b.mul(total, share))

    rise = b.neg(b.mul(total, log_other))  # of the exponent, less a · v, to its value in a flat tail
    flat = b.le(rise, _FLAT_TAIL)
    mean = b.sub(b.mul(total, p), a)
    start = parabolic_end(b, b.abs(mean), b.mul(b.mul(total, p), b.add(b.neg(p), 1.0)), depth)
    end = tail_end(b, b.where(b.le(mean, 0.0), b.neg(start), start), exponent, slope, depth)
    end = b.where(flat, b.mul(b.reciprocal(b.add(b.detach(a), 1.0)), -depth), end)

    height, flat_base = b.exp(b.where(flat, rise, 0.0)), b.sub(base, log_other)
    tail = b.sub(b.mul(moved, b.reciprocal(b.mul(a, a))), b.div(flat_base, a))
    out = b.where(flat, b.mul(height, tail), 0.0)
    for node, share in gauss_rule(precision.nodes):
        v = b.mul(end, node)
        v = b.where(flat, b.mul(v, node), v)  # closer together where the exponential falls
        change = log_share(v)
        weight = b.sub(b.add(base, b.mul(moved, v)), change)
        value = b.mul(weight, b.exp(b.sub(b.mul(a, v), b.mul(total, change))))
        flat_weight = b.add(flat_base, b.mul(moved, v))
        flat_value = b.mul(b.mul(flat_weight, height), b.exp(b.mul(a, b.where(flat, v, 0.0))))
        value = b.where(flat, b.mul(b.sub(value, flat_value), 2.0 * node), value)
        out = b.add(out, b.mul(b.mul(value, end), share))
    return b.cast(b.where(lower, out, b.neg(out)), dtype)


@cache
def gauss_rule(nodes: int) -> tuple[tuple[float, float], ...]:
    """Return the nodes of Gauss's rule in [0, 1], and their weights."""
    places, weights = np.polynomial.legendre.leggauss(nodes)
    return tuple(zip(((places + 1) / 2).tolist(), (weights / 2).tolist(), strict=True))


def parabolic_end(b: Any, distance: Float, curvature: Float, depth: float) -> Float:
    """Return y > 0 with distance · y + curvature · y² / (2 + y) = depth, before which the tail has ended."""
    linear = b.add(b.mul(distance, 2.0), -depth)
    square = b.mul(b.add(distance, curvature), 8.0 * depth)
    return b.mul(b.reciprocal(b.add(linear, b.sqrt(b.add(b.mul(linear, linear), square)))), 4.0 * depth)


def tail_end(
    b: Any, start: Float, exponent: Callable[[Float], Float], slope: Callable[[Float], Float], depth: float
) -> Float:
    """Return v with exponent(v) = -depth, as a constant: by Newton's method, which approaches it from beyond."""
    end = b.detach(start)
    for _ in range(3):
        end = b.detach(b.sub(end, b.div(b.add(exponent(end), depth), slope(end))))
    return end
