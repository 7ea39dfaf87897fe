"""Error, gamma and zeta functions, the arctangent and the sinc, made of a backend's operations.

Backends without native functions use them. Sources of zeta: DLMF, 25.11.1 and 2.10.1; S. L. Moshier, Cephes
Mathematical Library, zeta.c (the domain).
"""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.numerics.arithmetic import polynomial, power
from burnpy.backend.numerics.quantile_slopes import slope_of
from burnpy.backend.primitives import Float

_SMALL = (
    1.85777706184603153e-1,
    3.16112374387056560e0,
    1.13864154151050156e2,
    3.77485237685302021e2,
    3.20937758913846947e3,
)
_SMALL_UNDER = (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3)
LARGE = (
    *(
        2.15311535474403846e-8,
        5.64188496988670089e-1,
        8.88314979438837594e0,
        6.61191906371416295e1,
        2.98635138197400131e2,
    ),
    *(8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3),
)
LARGE_UNDER = (
    *(1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3),
    *(3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3),
)
_TAIL = (
    *(1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1),
    *(1.60837851487422766e-2, 6.58749161529837803e-4),
)
_TAIL_UNDER = (
    *(1.0, 2.56852019228982242e0, 1.87295284992346725e0, 5.27905102951428412e-1, 6.05183413124413191e-2),
    2.33520497626869185e-3,
)
_CENTER = (
    *(2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4),
    *(1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0),
)
_CENTER_UNDER = (
    *(5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4),
    *(5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0),
)
_OUTER = (
    *(7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0),
    *(3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0),
)
_OUTER_UNDER = (
    *(1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1),
    *(6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0),
)
_FURTHEST = (
    *(2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2),
    *(2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0),
)
_FURTHEST_UNDER = (
    *(2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4),
    *(1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0),
)
QUANTILE = (_CENTER, _OUTER, _FURTHEST), (_CENTER_UNDER, _OUTER_UNDER, _FURTHEST_UNDER)
"""Three numerators and their denominators: of 0.180625 - (p - ½)², and of √(-log t) less 1.6 and 5; see AS 241."""
_ATAN = (
    *(-8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1),
    *(-1.228866684490136173410e2, -6.485021904942025371773e1),
)
_ATAN_UNDER = (
    *(1.0, 2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2),
    *(4.853903996359136964868e2, 1.945506571482613964425e2),
)


def erf(b: Any, x: Float) -> Float:
    """Compute the error function to double precision, on any backend.

    Source: W. J. Cody, Rational Chebyshev Approximation for the Error Function, Math. Comp. 23, 1969.
    """
    small = b.clamp(x, -0.46875, 0.46875)
    squared = b.mul(small, small)
    near = b.div(b.mul(small, polynomial(b, squared, _SMALL)), polynomial(b, squared, _SMALL_UNDER))
    size = b.clamp(b.abs(x), 0.46875, 6.0)  # erf(6) is 1 to double precision
    tail = b.div(polynomial(b, size, LARGE), polynomial(b, size, LARGE_UNDER))
    far = b.add(b.neg(b.mul(b.exp(b.neg(b.mul(size, size))), tail)), 1.0)
    value = b.where(b.le(b.abs(x), 0.46875), near, b.mul(far, b.sign(x)))
    return b.where(b.ne(x, x), x, value)


def erfc(b: Any, x: Float) -> Float:
    """Compute 1 - erf(x) on any backend; small values keep all their digits. Source: as `erf`."""
    size = b.abs(x)
    near = b.add(b.neg(erf(b, b.clamp(x, -0.5, 0.5))), 1.0)
    middle = b.clamp(size, 0.46875, 4.0)
    ratio = b.div(polynomial(b, middle, LARGE), polynomial(b, middle, LARGE_UNDER))
    large = b.clamp(size, 4.0, 30.0)  # erfc(30) underflows in double precision
    inverse = b.reciprocal(b.mul(large, large))
    rest = b.mul(inverse, b.div(polynomial(b, inverse, _TAIL), polynomial(b, inverse, _TAIL_UNDER)))
    tail = b.div(b.add(b.neg(rest), 1 / math.sqrt(math.pi)), large)
    falling = exp_of_square(b, b.clamp(size, 0.0, 30.0), -1.0)
    far = b.mul(falling, b.where(b.lt(size, 4.0), ratio, tail))
    value = b.where(b.lt(x, 0.0), b.add(b.neg(far), 2.0), far)
    value = b.where(b.le(size, 0.46875), near, value)
    return b.where(b.ne(x, x), x, value)


def scaled_erfc(b: Any, x: Float) -> Float:
    """Compute exp(x²) · erfc(x) for x >= 0. Source: as `erf`."""
    small = b.minimum(x, 0.46875)
    squared = b.mul(small, small)
    near = b.div(b.mul(small, polynomial(b, squared, _SMALL)), polynomial(b, squared, _SMALL_UNDER))
    near = b.mul(b.exp(squared), b.add(b.neg(near), 1.0))
    middle = b.clamp(x, 0.46875, 4.0)
    ratio = b.div(polynomial(b, middle, LARGE), polynomial(b, middle, LARGE_UNDER))
    large = b.maximum(x, 4.0)
    tail = b.div(b.add(b.neg(scaled_erfc_rest(b, large)), 1 / math.sqrt(math.pi)), large)
    return b.where(b.le(x, 0.46875), near, b.where(b.lt(x, 4.0), ratio, tail))


def scaled_erfc_rest(b: Any, x: Float) -> Float:
    """Compute 1 / √π - x · exp(x²) · erfc(x) for x >= 4. Source: as `erf`."""
    inverse = b.div(b.reciprocal(x), x)  # without overflow of a square
    return b.mul(inverse, b.div(polynomial(b, inverse, _TAIL), polynomial(b, inverse, _TAIL_UNDER)))


def exp_of_square(b: Any, x: Float, factor: float) -> Float:
    """Compute exp(factor · x²) for 0 <= x <= 64, without the rounding error of x²."""
    steps = b.mul(b.floor(b.mul(x, 16.0)), 1 / 16)  # a number whose square has no rounding error
    excess = b.mul(b.sub(x, steps), b.add(x, steps))
    return b.mul(b.exp(b.mul(b.mul(steps, steps), factor)), b.exp(b.mul(excess, factor)))


def erfinv(b: Any, x: Float) -> Float:
    """Compute the inverse of `erf` to double precision, on any backend. Source: as `normal_quantile`."""
    size = b.abs(x)
    quantile = normal_quantile(b, b.mul(x, 0.5), b.mul(b.add(b.neg(size), 1.0), 0.5))
    return b.where(b.eq(size, 1.0), b.mul(x, math.inf), b.mul(quantile, math.sqrt(0.5)))


def normal_quantile(b: Any, center: Float, tail: Float) -> Float:
    """Compute the quantile of a probability p from p - ½ and from the smaller one of p and 1 - p."""
    return normal_quantile_of_root(b, center, b.sqrt(b.neg(b.log(tail))))


def normal_quantile_of_root(b: Any, center: Float, root: Float) -> Float:
    """Compute the quantile of a probability p from p - ½ and from √(-log t), t being the smaller one of p and 1 - p.

    Source: M. J. Wichura, Algorithm AS 241: The Percentage Points of the Normal Distribution, Appl. Stat. 37, 1988.
    """
    squared = b.add(b.neg(b.mul(center, center)), 0.180625)
    near = b.mul(center, b.div(polynomial(b, squared, _CENTER), polynomial(b, squared, _CENTER_UNDER)))
    low, high = b.add(b.clamp(root, 1.0, 5.0), -1.6), b.add(b.clamp(root, 5.0, 30.0), -5.0)
    far = b.where(
        b.le(root, 5.0),
        b.div(polynomial(b, low, _OUTER), polynomial(b, low, _OUTER_UNDER)),
        b.div(polynomial(b, high, _FURTHEST), polynomial(b, high, _FURTHEST_UNDER)),
    )
    return b.where(b.le(b.abs(center), 0.425), near, b.mul(far, b.sign(center)))


def atan(b: Any, x: Float) -> Float:
    """Compute the inverse tangent to double precision, on any backend.

    Source: S. L. Moshier, Cephes Mathematical Library, atan.c.
    """
    size = b.abs(x)
    steep, middle = b.gt(size, math.tan(3 * math.pi / 8)), b.gt(size, 0.66)
    reduced = b.div(b.add(size, -1.0), b.add(size, 1.0))
    reduced = b.where(steep, b.neg(b.reciprocal(size)), b.where(middle, reduced, size))
    squared = b.mul(reduced, reduced)
    ratio = b.div(polynomial(b, squared, _ATAN), polynomial(b, squared, _ATAN_UNDER))
    angle = b.add(reduced, b.mul(reduced, b.mul(squared, ratio)))
    full = b.full((), math.pi / 2, x.dtype)
    start = b.where(steep, full, b.where(middle, b.mul(full, 0.5), 0.0))
    return b.copysign(b.add(start, angle), x)


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
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)
"""The Bernoulli numbers B₂, B₄, …"""
STIRLING = tuple(number / (2 * k * (2 * k - 1)) for k, number in enumerate(BERNOULLI[:8], 1))[::-1]
"""The coefficients of Stirling's series in 1 / x², over 1 / x."""
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
    logarithm = b.log(product)
    near = b.add(log_gamma_near_one(b, u), b.where(below, b.neg(logarithm), logarithm))
    large = b.clamp(size, _LARGE, None)
    rest = stirling_rest(b, large)
    far = b.add(b.mul(b.add(large, -0.5), b.add(b.log(large), -1.0)), b.add(rest, math.log(2 * math.pi) / 2 - 0.5))
    value = b.where(b.lt(size, _LARGE), near, far)
    fraction = b.sub(size, b.round(size))
    sine = b.abs(b.sin(b.mul(b.where(b.lt(size, math.inf), fraction, 0.0), math.pi)))
    reflected = b.sub(b.add(b.neg(b.log(sine)), math.log(math.pi)), b.add(b.log(size), value))
    reflected = b.where(b.gt(sine, 0.0), reflected, b.full((), math.inf, x.dtype))
    return b.where(b.ne(x, x), x, b.where(b.lt(x, 0.0), reflected, value))


def stirling_rest(b: Any, x: Float) -> Float:
    """Compute log Γ(x) - (x - ½) · log(x) + x - log(2π) / 2 for x >= 8. Source: Abramowitz and Stegun, 6.1.41."""
    inverse = b.reciprocal(x)
    return b.mul(polynomial(b, b.mul(inverse, inverse), STIRLING), inverse)


def log_gamma_near_one(b: Any, u: Float) -> Float:
    """Compute log Γ(1 + u) for u in [0, 1]."""
    ratio = b.div(polynomial(b, u, _LOG_GAMMA), polynomial(b, u, _LOG_GAMMA_UNDER))
    return b.mul(b.mul(u, b.add(u, -1.0)), ratio)


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
    series = tuple(number / (2 * k) for k, number in enumerate(BERNOULLI, 1))[::-1]
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
    for k, number in enumerate(BERNOULLI, 1):
        series.append(number / math.factorial(2 * k) * factor)
        factor *= (s + 2 * k - 1) * (s + 2 * k)
    rest = b.add(b.mul(polynomial(b, squared, tuple(series[::-1])), inverse), 0.5)
    total = b.add(b.add(total, b.mul(power, rest)), b.mul(b.pow(last, -n), 1 / n))
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


def sinc(b: Any, x: Float) -> Float:
    """Compute sin(πx) / (πx), and 1 at 0."""
    angle = b.mul(x, math.pi)
    zero = b.eq(x, 0.0)
    one = b.full((), 1.0, x.dtype)
    return b.where(zero, one, b.div(b.sin(angle), b.where(zero, one, angle)))


def sinc_derivative(b: Any, x: Float, order: int) -> Float:
    """Compute sinc's n-th derivative by Taylor's series in [-1, 1], else from that derivative of x · sinc(x)."""
    small = b.clamp(x, -1.0, 1.0)
    first = (order + 1) // 2
    numbers = [math.pi ** (2 * k) / (2 * k + 1) / math.factorial(2 * k - order) for k in range(first, first + 18)]
    series = [-number if (first + k) % 2 else number for k, number in enumerate(numbers)]
    near = polynomial(b, b.mul(small, small), tuple(series[::-1]))
    near = b.mul(near, small) if order % 2 else near
    large = b.where(b.le(b.abs(x), 1.0), b.full((), 1.0, x.dtype), x)
    angle = b.mul(large, math.pi)
    waves = b.sin(angle), b.cos(angle)
    far = b.div(waves[0], angle)
    for n in range(1, order + 1):
        wave = b.mul(waves[n % 2], math.pi ** (n - 1) * (-1.0 if n % 4 > 1 else 1.0))
        far = b.div(b.sub(wave, b.mul(far, float(n))), large)
    return b.where(b.le(b.abs(x), 1.0), near, far)
