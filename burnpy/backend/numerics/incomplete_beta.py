"""The regularized incomplete beta function and its density, made of a backend's operations.

All numbers take the same steps, without a loop whose length depends on a value. I, beyond the mean, is 1 less the other
tail, I(1 - x; b, a), or for small b a series of it without that difference. For small parameters the tail is a
continued fraction, for large ones an integral over the logit of x, in which the density is close to a normal one, by
Gauss's rule.

Sources: DLMF 8.17.7 (series), 8.17.22 (fraction).
"""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.numerics.arithmetic import polynomial
from burnpy.backend.numerics.incomplete import log_split
from burnpy.backend.numerics.quantile_slopes import gauss_rule, parabolic_end, tail_end
from burnpy.backend.numerics.special import STIRLING, log_gamma_near_one
from burnpy.backend.primitives import Float

_MIN_INTEGRAL = 24.0
"""From here on, of the smaller parameter, the integral is used."""
_FRACTION_STEPS = 64
"""The number of steps of the fraction."""
_NODES, _DEPTH = 32, 40.0
"""The nodes of Gauss's rule, and minus the exponent at which the integral ends."""
_MAX_SERIES, _TERMS = 0.25, 60
"""Up to here, of the second parameter, the series is used beyond the mean, and its terms."""
_EXCESS = tuple(-((-1.0) ** n) / n for n in range(2, 14))[::-1]
"""The coefficients of (log(1 + w) - w) / w², for |w| up to 1 / 32."""


def beta_density(b: Any, x: Float, a: Float, c: Float) -> Float:
    """Compute xᵃ⁻¹ · (1 - x)ᶜ⁻¹ / B(a, c) in float64, the derivative of I with respect to x; 0 outside [0, 1]."""
    d = b.discrete
    lower, upper = b.eq(x, 0.0), b.eq(x, 1.0)
    inside = d.bitwise_and(b.gt(x, 0.0), b.lt(x, 1.0))
    y = b.where(inside, x, 0.5)
    other = b.add(b.neg(y), 1.0)
    first, second, valid = _positive(b, a, c)
    density = _logit_density(b, first, second, y, other, b.log(y), b.log1p(b.neg(y)))
    some = d.bitwise_and(inside, b.gt(b.minimum(a, c), 0.0))
    density = b.where(some, b.div(b.div(density, y), other), 0.0)
    for end, own, rest in ((lower, a, c), (upper, c, a)):
        limit = b.where(b.eq(own, 1.0), rest, b.where(b.lt(own, 1.0), b.full((), math.inf, x.dtype), 0.0))
        density = b.where(end, limit, density)
    return b.where(d.bitwise_and(valid, b.eq(x, x)), density, math.nan)


def incomplete_beta(b: Any, x: Float, a: Float, c: Float) -> Float:
    """Compute I(x; a, c) of float64 numbers. It is 1 for a = 0, and 0 for c = 0, inside of (0, 1). Two zeros, negative
    and infinite parameters, and x outside of [0, 1] give NaN."""
    d = b.discrete
    zero, one = b.full((), 0.0, x.dtype), b.full((), 1.0, x.dtype)
    lower, upper = b.eq(x, 0.0), b.eq(x, 1.0)
    first, second, valid = _positive(b, a, c)
    ends = d.bitwise_or(lower, upper)
    value = _beta_inside(b, b.where(ends, b.full((), 0.5, x.dtype), x), first, second)
    value = b.where(b.eq(a, 0.0), one, b.where(b.eq(c, 0.0), zero, value))
    value = b.where(lower, zero, b.where(upper, one, value))
    valid = d.bitwise_and(valid, d.bitwise_and(b.ge(x, 0.0), b.le(x, 1.0)))
    return b.where(valid, value, math.nan)


def _positive(b: Any, a: Float, c: Float) -> tuple[Float, Float, Any]:
    """Return parameters that are positive and finite, and where the given ones are valid: not both 0."""
    d = b.discrete
    least, most = b.minimum(a, c), b.maximum(a, c)
    valid = d.bitwise_and(b.ge(least, 0.0), d.bitwise_and(b.gt(most, 0.0), b.lt(most, math.inf)))
    one = b.full((), 1.0, a.dtype)
    usual = d.bitwise_and(valid, b.gt(least, 0.0))
    return b.where(usual, a, one), b.where(usual, c, one), valid


def _logit_density(b: Any, a: Float, c: Float, p: Float, q: Float, log_p: Float, log_q: Float) -> Float:
    """Compute pᵃ · qᶜ / B(a, c), the density of the logit."""
    size = b.div(b.mul(b.div(a, b.add(a, c)), c), 2.0 * math.pi)
    return b.mul(b.exp(log_split(b, a, c, p, q, log_p, log_q)), b.sqrt(size))


def _beta_inside(b: Any, x: Float, first: Float, second: Float) -> Float:
    """Compute I for 0 < x < 1, and finite positive parameters."""
    large = b.ge(b.minimum(first, second), _MIN_INTEGRAL)
    one = b.where(large, b.full((), 0.0, x.dtype), 1.0)  # the fraction converges beyond a mean that is small
    upper = b.gt(b.mul(x, b.add(b.add(first, second), b.add(one, one))), b.add(first, one))
    other, logs = b.add(b.neg(x), 1.0), (b.log(x), b.log1p(b.neg(x)))
    p, q = b.where(upper, other, x), b.where(upper, x, other)
    a, c = b.where(upper, second, first), b.where(upper, first, second)
    density = _logit_density(b, a, c, p, q, b.where(upper, logs[1], logs[0]), b.where(upper, logs[0], logs[1]))
    tail = b.mul(density, b.where(large, _integral(b, p, a, c, large), _beta_fraction(b, p, a, c)))
    near_one = b.where(b.lt(second, _MAX_SERIES), _beta_small(b, other, first, second), b.add(b.neg(tail), 1.0))
    return b.where(upper, near_one, tail)


def _beta_small(b: Any, y: Float, a: Float, c: Float) -> Float:
    """Compute I(1 - y; a, c) for small c beyond the mean, where it is of the size of c. It is 1 - e (1 + c Σ (1 - a)ₙ
    yⁿ / (n! (c + n))), with e = y^c Γ(a + c) / (Γ(a) Γ(1 + c))."""
    c = b.minimum(c, _MAX_SERIES)
    y = b.minimum(y, b.div(b.add(c, 1.0), b.add(b.add(a, c), 2.0)))
    rise = b.sub(_log_gamma_rise(b, a, c), log_gamma_near_one(b, c))
    logarithm = b.add(b.mul(c, b.log(y)), rise)
    total, under = b.full((), 0.0, y.dtype), b.full((), 1.0, y.dtype)
    product = b.mul(a, y)
    for n in range(_TERMS, 0, -1):
        factor = b.add(c, float(n))
        total = b.mul(b.sub(y, b.mul(product, 1 / n)), b.add(under, b.mul(factor, total)))
        under = b.mul(under, factor)
    series = b.mul(b.mul(c, b.exp(logarithm)), b.div(total, under))
    return b.neg(b.add(b.expm1(logarithm), series))


def _log_gamma_rise(b: Any, a: Float, c: Float) -> Float:
    """Compute log Γ(a + c) - log Γ(a) for c up to ¼, to a relative error: by Stirling's series at a + 8."""
    z = b.add(a, 8.0)
    end, w = b.add(z, c), b.div(c, z)
    total = b.sub(b.mul(c, b.log(end)), b.mul(b.log1p(w), 0.5))
    total = b.add(total, b.mul(b.mul(c, w), polynomial(b, w, _EXCESS)))
    total = b.sub(total, b.mul(w, _stirling_drop(b, b.reciprocal(z), b.reciprocal(end))))
    for k in range(8):
        total = b.sub(total, b.log1p(b.div(c, b.add(a, float(k)) if k else a)))
    return total


def _stirling_drop(b: Any, u: Float, v: Float) -> Float:
    """Compute (R(1 / u) - R(1 / v)) / (u - v) · v, with R = `stirling_rest`, a polynomial of u without differences."""
    squared, other = b.mul(u, u), b.mul(v, v)
    value, slope = b.full((), STIRLING[0], u.dtype), b.full((), 0.0, u.dtype)
    for number in STIRLING[1:]:
        slope = b.add(b.mul(slope, other), value)
        value = b.add(b.mul(value, squared), number)
    at_other = polynomial(b, other, STIRLING)
    return b.mul(b.add(at_other, b.mul(b.mul(u, b.add(u, v)), slope)), v)


def _beta_fraction(b: Any, x: Float, a: Float, c: Float) -> Float:
    """Compute 1 / (a · (1 + d₁ / (1 + d₂ / (1 + …)))), for x up to the mean."""
    value, total = b.full((), 1.0, x.dtype), b.add(a, c)
    for n in range(_FRACTION_STEPS, 0, -1):
        m, odd = float(n // 2), n % 2
        under = b.add(a, 2.0 * m)
        if odd:
            top = b.neg(b.mul(b.div(b.add(a, m), under), b.div(b.add(total, m), b.add(under, 1.0))))
        else:
            top = b.mul(b.div(b.add(c, -m), b.add(under, -1.0)), b.mul(b.reciprocal(under), m))
        value = b.add(b.div(b.mul(top, x), value), 1.0)
    return b.reciprocal(b.mul(a, value))


def _integral(b: Any, x: Float, a: Float, c: Float, large: Any) -> Float:
    """Compute the integral of the density's ratio over all logits below the logit of x, which is at most the mean."""
    a, c, x = (b.where(large, value, number) for value, number in ((a, 50.0), (c, 50.0), (x, 0.25)))
    total = b.add(a, c)

    def exponent(v: Float) -> Float:
        return b.neg(b.add(b.mul(a, v), b.mul(total, b.log1p(b.mul(x, b.expm1(b.neg(v)))))))

    def slope(v: Float) -> Float:
        moved = b.mul(x, b.exp(b.neg(v)))
        return b.sub(b.mul(total, b.div(moved, b.add(b.mul(x, b.expm1(b.neg(v))), 1.0))), a)

    distance = b.sub(a, b.mul(total, x))
    start = parabolic_end(b, distance, b.mul(b.mul(total, x), b.add(b.neg(x), 1.0)), _DEPTH)
    end = tail_end(b, start, exponent, slope, _DEPTH)
    value = None
    for node, share in gauss_rule(_NODES):
        part = b.mul(b.exp(exponent(b.mul(end, node))), share)
        value = part if value is None else b.add(value, part)
    return b.mul(value, end)
