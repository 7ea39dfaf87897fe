"""The arctangent, the gamma and zeta functions, the sinc and Bessel functions, made of a backend's operations.

Backends without native functions use them. Sources of zeta: DLMF, 25.11.1 and 2.10.1; S. L. Moshier, Cephes
Mathematical Library, zeta.c (the domain). Modified Bessel functions of the first kind are power series with positive
terms up to 8; beyond, √x e⁻ˣ I(x) is a polynomial of 16 / x - 1. Sources of these: DLMF, 10.25.2 and 10.29.1; Cephes,
i0.c and i1.c (the two intervals).
"""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.numerics.arithmetic import polynomial, power
from burnpy.backend.numerics.quantile_slopes import slope_of
from burnpy.backend.primitives import Float

_ATAN = (
    *(-8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1),
    *(-1.228866684490136173410e2, -6.485021904942025371773e1),
)
_ATAN_UNDER = (
    *(1.0, 2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2),
    *(4.853903996359136964868e2, 1.945506571482613964425e2),
)


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
_ASYMPTOTIC_FROM = 8.0
"""From here on, the asymptotic series are exact to double precision."""


def lgamma(b: Any, x: Float) -> Float:
    """Compute log |Γ(x)|: by `_LOG_GAMMA` after steps into [1, 2], by Stirling's series, and by reflection.

    The relative error is a few roundings, except next to the zeros between negative integers.
    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 6.1.15, 6.1.17 and 6.1.41.
    """
    size = b.abs(x)
    below = b.lt(size, 1.0)
    u = b.where(below, size, b.add(b.minimum(size, _ASYMPTOTIC_FROM), -1.0))
    product = b.where(below, size, 1.0)
    for _ in range(int(_ASYMPTOTIC_FROM) - 2):
        beyond = b.gt(u, 1.0)
        product = b.where(beyond, b.mul(product, u), product)
        u = b.where(beyond, b.add(u, -1.0), u)
    logarithm = b.log(product)
    near = b.add(log_gamma_near_one(b, u), b.where(below, b.neg(logarithm), logarithm))
    large = b.clamp(size, _ASYMPTOTIC_FROM, None)
    rest = stirling_rest(b, large)
    far = b.add(b.mul(b.add(large, -0.5), b.add(b.log(large), -1.0)), b.add(rest, math.log(2 * math.pi) / 2 - 0.5))
    value = b.where(b.lt(size, _ASYMPTOTIC_FROM), near, far)
    fraction = b.sub(size, b.round(size))
    sine = b.abs(b.sin(b.mul(b.where(b.lt(size, math.inf), fraction, 0.0), math.pi)))
    reflected = b.sub(b.add(b.neg(b.log(sine)), math.log(math.pi)), b.add(b.log(size), value))
    reflected = b.where(b.gt(sine, 0.0), reflected, b.full((), math.inf, x.dtype))
    negative = b.lt(x, -1e-20)  # nearer to 0, both signs have one value, and the sine may be subnormal
    return b.where(b.ne(x, x), x, b.where(negative, reflected, value))


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
    u = b.where(below, size, b.add(b.minimum(size, _ASYMPTOTIC_FROM), -1.0))
    total = b.where(below, b.neg(b.reciprocal(size)), 0.0)
    for _ in range(int(_ASYMPTOTIC_FROM) - 2):
        beyond = b.gt(u, 1.0)
        total = b.where(beyond, b.add(total, b.reciprocal(u)), total)
        u = b.where(beyond, b.add(u, -1.0), u)
    ratio = b.div(polynomial(b, u, _DIGAMMA), polynomial(b, u, _DIGAMMA_UNDER))
    inner = b.mul(b.add(b.add(u, -_ROOT), -_ROOT_REST), ratio)
    large = b.clamp(size, _ASYMPTOTIC_FROM, None)
    rest = b.add(digamma_rest(b, large), b.mul(b.reciprocal(large), 0.5))
    value = b.where(b.lt(size, _ASYMPTOTIC_FROM), b.add(inner, total), b.sub(b.log(large), rest))
    next_value = b.where(below, inner, b.add(value, b.reciprocal(size)))  # ψ(1 + |x|)
    fraction = b.sub(size, b.round(size))
    slope = b.mul(_cotangent(b, fraction), math.pi)
    reflected = b.add(next_value, b.where(b.ne(fraction, 0.0), slope, math.nan))
    value = b.where(b.lt(x, 0.0), reflected, value)
    return b.where(b.eq(x, 0.0), b.neg(b.reciprocal(x)), value)


def digamma_rest(b: Any, x: Float) -> Float:
    """Compute log(x) - 1 / (2x) - ψ(x) for x >= 8. Source: Abramowitz and Stegun, 6.3.18."""
    inverse = b.reciprocal(x)
    squared = b.mul(inverse, inverse)
    series = tuple(number / (2 * k) for k, number in enumerate(BERNOULLI, 1))[::-1]
    return b.mul(polynomial(b, squared, series), squared)


def polygamma(b: Any, x: Float, n: int) -> Float:
    """Compute the n-th derivative of `digamma`, n >= 1: n! · Σ (x + k)⁻ⁿ⁻¹ with the sign (-1)ⁿ⁺¹.

    The sum is computed by Euler and Maclaurin's formula after 10 of its elements; for negative x, by reflection.
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
    slope = b.mul(polynomial(b, _cotangent(b, fraction), _cotangent_slope(n)), -(math.pi ** (n + 1)))
    reflected = b.sub(slope, value) if n % 2 else b.add(slope, value)
    pole = b.discrete.bitwise_and(b.eq(fraction, 0.0), b.lt(x, 0.5))
    reflected = b.where(pole, b.full((), math.inf * sign, x.dtype), reflected)
    return b.where(b.lt(x, 0.5), reflected, value)


def _cotangent(b: Any, fraction: Float) -> Float:
    """Compute cot(π x) for x from -½ to ½, with a small relative error next to its zeros, and 0 there."""
    complement = b.mul(b.add(b.neg(b.abs(fraction)), 0.5), math.pi)
    return b.div(b.sin(complement), b.sin(b.mul(fraction, math.pi)))


def _cotangent_slope(n: int) -> tuple[float, ...]:
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
    zero = b.eq(x, 0.0)
    one = b.full((), 1.0, x.dtype)
    return b.where(zero, one, b.div(_waves(b, x)[0], b.where(zero, one, b.mul(x, math.pi))))


def _waves(b: Any, x: Float) -> tuple[Float, Float]:
    """Compute sin(πx) and cos(πx) by the distance of x to a whole number, which has no rounding error."""
    whole = b.round(x)
    angle, half = b.mul(b.sub(x, whole), math.pi), b.mul(whole, 0.5)
    odd = b.ne(half, b.floor(half))
    sine, cosine = b.sin(angle), b.cos(angle)
    return b.where(odd, b.neg(sine), sine), b.where(odd, b.neg(cosine), cosine)


def sinc_derivative(b: Any, x: Float, order: int) -> Float:
    """Compute sinc's n-th derivative by Taylor's series in [-1, 1], else from that derivative of x · sinc(x)."""
    small = b.clamp(x, -1.0, 1.0)
    first = (order + 1) // 2
    numbers = [math.pi ** (2 * k) / (2 * k + 1) / math.factorial(2 * k - order) for k in range(first, first + 18)]
    series = [-number if (first + k) % 2 else number for k, number in enumerate(numbers)]
    near = polynomial(b, b.mul(small, small), tuple(series[::-1]))
    near = b.mul(near, small) if order % 2 else near
    large = b.where(b.le(b.abs(x), 1.0), b.full((), 1.0, x.dtype), x)
    waves = _waves(b, large)
    far = b.div(waves[0], b.mul(large, math.pi))
    for n in range(1, order + 1):
        wave = b.mul(waves[n % 2], math.pi ** (n - 1) * (-1.0 if n % 4 > 1 else 1.0))
        far = b.div(b.sub(wave, b.mul(far, float(n))), large)
    return b.where(b.le(b.abs(x), 1.0), near, far)


_NEAR = 8.0
_TERMS = 26
_FAR = (
    (
        *(-2.1026384897988802e-11, 3.908387942826915e-11, 1.588423350992965e-10, -3.1469409440481513e-10),
        *(-5.517743440732131e-10, 1.1879241078722262e-09, 1.19167453655378e-09, -2.8411410774923857e-09),
        *(-1.8880957563391057e-09, 4.957147335316315e-09, 2.6547902915057677e-09, -6.9145475501901456e-09),
        *(-4.184523888729429e-09, 7.910872177098164e-09, 7.83448429524067e-09, -5.569090680737431e-09),
        *(-1.348907570380097e-08, -6.7100093246245074e-09, 7.569785257070744e-09, 2.1542842690546706e-08),
        *(3.932406802805976e-08, 8.872268159209354e-08, 2.973599767639828e-07, 1.483847543824492e-06),
        *(1.1143033787275596e-05, 0.00013621607439232331, 0.0033605519836678952, 0.4021765094450081),
    ),
    (
        *(2.049305687359829e-11, -4.0657742537925194e-11, -1.5422532292995627e-10, 3.27305107356646e-10),
        *(5.328726890804043e-10, -1.2354940995166814e-09, -1.1425450294283331e-09, 2.956252395402678e-09),
        *(1.7966120145367928e-09, -5.166953168056089e-09, -2.5283003516359996e-09, 7.242384940925024e-09),
        *(4.0764641389321665e-09, -8.388083994966264e-09, -7.912027539817697e-09, 6.145364848384102e-09),
        *(1.4110780386208672e-08, 6.695302618992283e-09, -8.442156608807226e-09, -2.336817047627452e-08),
        *(-4.312748698582641e-08, -1.000133866120353e-07, -3.483856882241426e-07, -1.834910109811299e-06),
        *(-1.5038547197094254e-05, -0.00021923576383429784, -0.009749577193235768, 0.38939845902587233),
    ),
)
"""The coefficients of √x e⁻ˣ I(x) for I₀ and I₁ as polynomials of 16 / x - 1 for x >= 8, the highest power first, to a
relative error of 3e-18. They were fitted at the Chebyshev nodes of the interval with 60 digits."""

_FAR_SINGLE = (
    *(7.600979256637228e-09, 8.43120407703339e-09, -2.1428552803957853e-08, -5.474730168891007e-08),
    *(-1.0125315435757985e-07, -3.441973856934691e-07, -1.8346611124062903e-06, -1.5039222626597893e-05),
    *(-0.00021923577677583148, -0.009749577160828079, 0.38939845902587233),
)
"""The same for I₁ in float32, to a relative error of 2e-11."""


def bessel_ratio(b: Any, x: Float, order: int, scaled: bool, power: int | None = None) -> Float:
    """Compute Iₙ(x) / xⁿ, or e^-|x| Iₙ(x) / xⁿ if ``scaled``, of an order n from 0 on.

    The derivative of Iₙ(x) / xⁿ is Iₙ₊₁(x) / xⁿ: these quotients have derivatives of all orders without cancellation.
    `scaled_difference` is differentiated as it stands, and `clamp` passes all of a gradient at a bound.

    Args:
        b: the backend.
        x: the argument.
        order: the order n.
        scaled: whether to multiply by e^-|x|.
        power: the power of 1 / x, for x >= 0, if it is smaller than n. The quotient itself would round to 0 where x is
            large.
    """
    power = order if power is None else power
    size = b.abs(x)
    small = b.clamp(size, None, _NEAR)
    squared = b.mul(b.mul(small, small), 0.25)
    start = 0.5**order
    series = [start / math.factorial(k) / math.factorial(k + order) for k in range(_TERMS)]
    near = polynomial(b, squared, tuple(series[::-1]))
    large = b.clamp(size, _NEAR, None)
    if not scaled:
        large = b.minimum(large, 1e4)  # where all are infinite
    inverse = b.reciprocal(large)
    t = b.add(b.mul(inverse, 2 * _NEAR), -1.0)
    far, following = (polynomial(b, t, table) for table in _FAR)
    for n in range(1, order + 1):
        far, following = following, b.sub(far, b.mul(b.mul(following, inverse), 2.0 * n))
    far = b.div(far, b.sqrt(large))
    for _ in range(power):
        far = b.mul(far, inverse)
    if scaled:
        near = b.mul(near, b.exp(b.neg(small)))
    else:
        half = b.exp(b.mul(large, 0.5))  # its square may be infinite where the product is not
        far = b.mul(b.mul(far, half), half)
    for _ in range(order - power):
        near = b.mul(near, small)
    value = b.where(b.le(size, _NEAR), near, far)
    return b.where(b.ne(x, x), x, value)


def scaled_difference(b: Any, x: Float) -> Float:
    """Compute (|I₁(x)| - I₀(x)) e^-|x|, the derivative of I₀(x) e^-x for x > 0, beyond 8 by its polynomial."""
    size = b.abs(x)
    small, large = b.clamp(size, None, _NEAR), b.clamp(size, _NEAR, None)
    first, second = (bessel_ratio(b, small, order, True) for order in (0, 1))
    inverse = b.reciprocal(large)
    t = b.add(b.mul(inverse, 2 * _NEAR), -1.0)
    slopes = tuple([c * n for n, c in zip(range(len(_FAR[0]) - 1, 0, -1), _FAR[0], strict=False)])
    slope = b.add(b.mul(polynomial(b, t, _FAR[0]), 0.5), b.mul(b.mul(polynomial(b, t, slopes), inverse), 2 * _NEAR))
    far = b.neg(b.div(b.mul(slope, inverse), b.sqrt(large)))
    return b.where(b.gt(size, _NEAR), far, b.sub(b.mul(small, second), first))


def scaled_bessel_one_single(b: Any, x: Float) -> Float:
    """Compute e^-|x| I₁(x) in float32 to 4 units in the last place, in a third of the time of float64."""
    size = b.abs(x)
    small, large = b.clamp(size, None, _NEAR), b.clamp(size, _NEAR, None)
    squared = b.mul(b.mul(small, small), 0.25)
    series = [0.5 / math.factorial(k) / math.factorial(k + 1) for k in range(17)]
    near = b.mul(b.mul(polynomial(b, squared, tuple(series[::-1])), b.exp(b.neg(small))), small)
    t = b.add(b.mul(b.reciprocal(large), 2 * _NEAR), -1.0)
    far = b.div(polynomial(b, t, _FAR_SINGLE), b.sqrt(large))
    return b.copysign(b.where(b.gt(size, _NEAR), far, near), x)


def bessel_one(b: Any, x: Float, scaled: bool) -> Float:
    """Compute I₁(x), or e^-|x| I₁(x) if ``scaled``."""
    return b.copysign(bessel_ratio(b, b.abs(x), 1, scaled, 0), x)
