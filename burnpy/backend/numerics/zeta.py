"""Hurwitz' zeta function by Euler and Maclaurin's formula, made of a backend's operations.

Sources: DLMF, 25.11.1 and 2.10.1; S. L. Moshier, Cephes Mathematical Library, zeta.c (the domain).
"""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.numerics.approximations import BERNOULLI
from burnpy.backend.numerics.dual_numbers import slope_of
from burnpy.backend.numerics.extended_precision import power
from burnpy.backend.primitives import Float

_DOUBLE, _SINGLE = (10, 10), (6, 6)
"""The terms that are summed one by one, and those of the asymptotic series for the others: for results that stay
float64, and for those that are rounded to float32 afterwards."""


def zeta(b: Any, x: Float, q: Float, single: bool) -> Float:
    """Compute Σ (q + k)⁻ˣ over k >= 0, of float64 x > 1 and q; if ``single``, to nine digits.

    It is ∞ at x = 1, and where q is 0 or a negative integer. For other negative q, x must be an integer: with the
    fraction f of -q, the terms above 0 add up to ζ(x, 1 - f), and those below to (-1)ˣ (ζ(x, f) - ζ(x, 1 - q)).
    """
    d = b.discrete
    negative = b.lt(q, 0.0)
    size = b.abs(q)
    fraction = b.where(negative, b.sub(size, b.floor(size)), b.full((), 0.5, q.dtype))
    fraction = b.where(b.gt(fraction, 0.0), fraction, 0.5)
    above = _positive(b, x, b.where(negative, b.add(b.neg(fraction), 1.0), q), single)
    below = b.sub(_positive(b, x, fraction, single), _positive(b, x, b.where(negative, b.add(size, 1.0), 1.0), single))
    half = b.mul(x, 0.5)
    odd = b.ne(half, b.floor(half))
    value = b.where(negative, b.add(above, b.where(odd, b.neg(below), below)), above)
    infinity = b.full((), math.inf, x.dtype)
    poles = d.bitwise_and(b.le(q, 0.0), b.eq(q, b.floor(q)))
    value = b.where(b.eq(q, math.inf), b.full((), 0.0, x.dtype), value)
    value = b.where(d.bitwise_or(poles, b.eq(x, 1.0)), infinity, value)
    defined = d.bitwise_or(d.bitwise_or(b.ge(q, 0.0), poles), b.eq(x, b.floor(x)))
    return _valid(b, x, q, b.where(defined, value, math.nan))


def zeta_slope(b: Any, x: Float, q: Float, order: int) -> Float:
    """Compute the derivative of ζ(x, q) by x of an order, from 1 on, for float64 x > 1 and q > 0; else NaN."""
    value = slope_of(b, _positive, x, q, False, order=order)
    inside = b.discrete.bitwise_and(b.gt(x, 1.0), b.gt(q, 0.0))
    return _valid(b, x, q, b.where(inside, value, math.nan))


def _valid(b: Any, x: Float, q: Float, value: Float) -> Float:
    d = b.discrete
    return b.where(d.bitwise_and(b.ge(x, 1.0), b.eq(q, q)), value, math.nan)


def _positive(b: Any, x: Float, q: Float, single: bool) -> Float:
    """Compute ζ(x, q) for x > 1 and q > 0, as q¹⁻ˣ times a sum of powers of (q + k) / q."""
    x = b.clamp(x, 1.0 + 2.0**-52, 1e290)
    q = b.clamp(q, 2.0**-1074, 1.7e308)
    count, corrections = _SINGLE if single else _DOUBLE
    exponent = b.add(x, -1.0)  # exact
    end = b.add(q, float(count))
    inverse = b.reciprocal(q)
    total = b.full((), 1.0, q.dtype)
    for k in range(1, count):
        total = b.add(total, b.exp(b.neg(b.mul(x, b.log1p(b.mul(inverse, float(k)))))))
    last = b.exp(b.neg(b.mul(x, b.log1p(b.mul(inverse, float(count))))))
    limited = b.minimum(x, b.mul(end, 4.0))  # beyond, what follows is too small to matter
    inverse_end = b.reciprocal(end)
    rest, factor = b.full((), 0.5, q.dtype), b.mul(limited, inverse_end)
    for k, number in enumerate(BERNOULLI[:corrections], 1):
        rest = b.add(rest, b.mul(factor, number / math.factorial(2 * k)))
        for j in (2.0 * k - 1.0, 2.0 * k):
            factor = b.mul(factor, b.mul(b.add(limited, j), inverse_end))
    finite = b.minimum(inverse, 1e290)  # for smaller q, the tail is too small to matter
    tail = b.mul(last, b.add(b.mul(rest, finite), b.div(b.mul(end, finite), exponent)))
    return b.mul(power(b, q, b.neg(exponent)), b.add(b.mul(total, inverse), tail))
