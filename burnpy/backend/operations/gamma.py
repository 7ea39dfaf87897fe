"""The logarithm of the gamma function and its derivatives, composed of required operations."""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.operations.approximations import polynomial
from burnpy.backend.primitives import Float

_LOG_GAMMA = (
    *(-7.978941098521763e-07, 7.137711555893187e-05, 0.009060657389383225, 0.13010128282514377),
    *(0.6620976499212197, 1.4930605983586913, 1.5266184730966004, 0.5772156649015329),
)
_LOG_GAMMA_UNDER = (
    *(0.002977597285715616, 0.0725453126933089, 0.5774290623672858, 2.0587168639115454),
    *(3.621645643899702, 3.0696842607718264, 1.0),
)
"""A rational function r with log Γ(1 + u) = u · (u - 1) · r(u) for u in [0, 1], to a relative error of 4e-18, fitted at
the Chebyshev nodes of the interval with 60 digits."""
_DIGAMMA = (
    *(-5.255928232683594e-07, 4.8862711602068775e-05, 0.008578049712380615, 0.14385775347704502),
    *(0.8009632637053631, 1.7395236015248232, 1.2503801375034054),
)
_DIGAMMA_UNDER = (
    *(0.0021092941228867614, 0.053737122083413066, 0.4338530757240686, 1.4569679082420655),
    *(2.074742619717552, 1.0),
)
"""A rational function r with ψ(1 + u) = (u - root) · r(u) for u in [0, 1], to a relative error of 7e-18, likewise."""
_ROOT, _ROOT_REST = 0.46163214496836236, -1.5522348162858677e-17
"""The root of ψ(1 + u), and its remainder beyond double precision."""
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)
"""The Bernoulli numbers B₂, B₄, …"""
_LARGE = 8.0
"""From here on, the asymptotic series are exact to double precision."""


def lgamma(b: Any, x: Float) -> Float:
    """Compute log |Γ(x)|: by `_LOG_GAMMA` after steps into [1, 2], by Stirling's series, and by reflection.

    The relative error is a few roundings, except next to the zeros between negative integers.
    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 6.1.15, 6.1.17 and 6.1.41.
    """
    size = b.abs(x)
    below = b.lt(size, 1.0)
    u = b.where(below, size, b.add(b.minimum(size, _LARGE), -1.0))
    product = b.where(below, size, 1.0)
    for _ in range(int(_LARGE) - 2):
        beyond = b.gt(u, 1.0)
        product = b.where(beyond, b.mul(product, u), product)
        u = b.where(beyond, b.add(u, -1.0), u)
    ratio = b.div(polynomial(b, u, _LOG_GAMMA), polynomial(b, u, _LOG_GAMMA_UNDER))
    logarithm = b.log(product)
    near = b.add(b.mul(b.mul(u, b.add(u, -1.0)), ratio), b.where(below, b.neg(logarithm), logarithm))
    large = b.clamp(size, _LARGE, None)
    inverse = b.reciprocal(large)
    series = tuple(number / (2 * k * (2 * k - 1)) for k, number in enumerate(_BERNOULLI[:8], 1))[::-1]
    rest = b.mul(polynomial(b, b.mul(inverse, inverse), series), inverse)
    far = b.add(b.mul(b.add(large, -0.5), b.add(b.log(large), -1.0)), b.add(rest, math.log(2 * math.pi) / 2 - 0.5))
    value = b.where(b.lt(size, _LARGE), near, far)
    fraction = b.sub(size, b.round(size))
    sine = b.abs(b.sin(b.mul(b.where(b.lt(size, math.inf), fraction, 0.0), math.pi)))
    reflected = b.sub(b.add(b.neg(b.log(sine)), math.log(math.pi)), b.add(b.log(size), value))
    reflected = b.where(b.gt(sine, 0.0), reflected, b.full((), math.inf, x.dtype))
    return b.where(b.ne(x, x), x, b.where(b.lt(x, 0.0), reflected, value))


def digamma(b: Any, x: Float) -> Float:
    """Compute ψ(x) = Γ'(x) / Γ(x): by `_DIGAMMA` after steps into [1, 2], the asymptotic series, and reflection.

    The relative error is a few roundings, next to the positive zero too, but not next to the negative ones. ±0 gives
    ∓∞, and negative integers give NaN. Source: Abramowitz and Stegun, 6.3.5, 6.3.7 and 6.3.18.
    """
    size = b.abs(x)
    below = b.lt(size, 1.0)
    u = b.where(below, size, b.add(b.minimum(size, _LARGE), -1.0))
    total = b.where(below, b.neg(b.reciprocal(size)), 0.0)
    for _ in range(int(_LARGE) - 2):
        beyond = b.gt(u, 1.0)
        total = b.where(beyond, b.add(total, b.reciprocal(u)), total)
        u = b.where(beyond, b.add(u, -1.0), u)
    ratio = b.div(polynomial(b, u, _DIGAMMA), polynomial(b, u, _DIGAMMA_UNDER))
    inner = b.mul(b.add(b.add(u, -_ROOT), -_ROOT_REST), ratio)
    large = b.clamp(size, _LARGE, None)
    inverse = b.reciprocal(large)
    squared = b.mul(inverse, inverse)
    series = tuple(number / (2 * k) for k, number in enumerate(_BERNOULLI, 1))[::-1]
    rest = b.add(b.mul(polynomial(b, squared, series), squared), b.mul(inverse, 0.5))
    value = b.where(b.lt(size, _LARGE), b.add(inner, total), b.sub(b.log(large), rest))
    next_value = b.where(below, inner, b.add(value, b.reciprocal(size)))  # ψ(1 + |x|)
    fraction = b.sub(size, b.round(size))
    angle = b.mul(fraction, math.pi)
    slope = b.div(b.mul(b.cos(angle), math.pi), b.sin(angle))
    reflected = b.add(next_value, b.where(b.ne(fraction, 0.0), slope, math.nan))
    value = b.where(b.lt(x, 0.0), reflected, value)
    return b.where(b.eq(x, 0.0), b.neg(b.reciprocal(x)), value)


def polygamma(b: Any, x: Float, n: int) -> Float:
    """Compute the n-th derivative of `digamma`, n >= 1: n! · Σ (x + k)⁻ⁿ⁻¹ with the sign (-1)ⁿ⁺¹.

    The sum is taken by Euler and Maclaurin's formula after 10 of its elements; for negative x, by reflection.
    Source: Abramowitz and Stegun, 6.4.6, 6.4.7, 6.4.10 and 23.1.30.
    """
    size, s, sign, count = b.abs(x), n + 1, -1.0 if n % 2 == 0 else 1.0, 10
    start = b.where(b.lt(x, 0.5), b.add(b.neg(x), 1.0), size)
    total = b.pow(start, -s)
    for k in range(1, count):
        total = b.add(total, b.pow(b.add(start, float(k)), -s))
    last = b.add(start, float(count))
    power, inverse = b.pow(last, -s), b.reciprocal(last)
    squared = b.mul(inverse, inverse)
    factor, series = float(s), []
    for k, number in enumerate(_BERNOULLI, 1):
        series.append(number / math.factorial(2 * k) * factor)
        factor *= (s + 2 * k - 1) * (s + 2 * k)
    rest = b.mul(polynomial(b, squared, tuple(series[::-1])), inverse)
    rest = b.add(b.add(rest, 0.5), b.mul(last, 1 / n))
    total = b.add(total, b.where(b.lt(last, math.inf), b.mul(power, rest), 0.0))
    scale = float(math.factorial(n)) if n <= 170 else math.inf
    value = b.mul(total, scale * sign)
    fraction = b.sub(x, b.round(x))
    angle = b.mul(fraction, math.pi)
    slope = b.mul(polynomial(b, b.div(b.cos(angle), b.sin(angle)), _cotangent(n)), -(math.pi ** (n + 1)))
    reflected = b.sub(slope, value) if n % 2 else b.add(slope, value)
    pole = b.discrete.bitwise_and(b.eq(fraction, 0.0), b.lt(x, 0.5))
    reflected = b.where(pole, b.full((), math.inf * sign, x.dtype), reflected)
    return b.where(b.lt(x, 0.5), reflected, value)


def _cotangent(n: int) -> tuple[float, ...]:
    """Return the coefficients of the n-th derivative of cot as a polynomial of cot, the highest power first."""
    coefficients = [0.0, 1.0]  # the lowest power first
    for _ in range(n):
        slope = [k * c for k, c in enumerate(coefficients)][1:]
        coefficients = [0.0] * (len(slope) + 2)
        for k, c in enumerate(slope):  # d/dx cot(x) = -(1 + cot²(x))
            coefficients[k] -= c
            coefficients[k + 2] -= c
    return tuple(coefficients[::-1])
