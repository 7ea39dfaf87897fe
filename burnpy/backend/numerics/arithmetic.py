"""Polynomials, sums, products and powers with twice the digits of float64, the next number of a dtype, and sigmoids.

All are made of a backend's operations. A number of twice the digits is a pair of float64 primitives: the rounded value
and the rest. Backends neither contract nor reorder additions and multiplications, so these rests are exact.
Sources: T. J. Dekker, A Floating-Point Technique for Extending the Available Precision, Numer. Math. 18, 1971;
D. E. Knuth, The Art of Computer Programming, volume 2, 4.2.2.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from burnpy.backend.dtypes import DTYPES, largest
from burnpy.backend.primitives import Float


def polynomial(b: Any, x: Float, coefficients: tuple[float, ...]) -> Float:
    """Evaluate a polynomial by Horner's scheme; the coefficient of the highest power is first."""
    total = b.add(b.mul(x, coefficients[0]), coefficients[1])
    for c in coefficients[2:]:
        total = b.add(b.mul(total, x), c)
    return total


Pair: TypeAlias = tuple[Float, Float]
"""A value and its rest."""
_SPLIT = 2.0**27 + 1.0
_ONE_BIT = 2.0**52 + 1.0
_TINY = 2.0**-1000
_LN2, _LN2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""log(2) in two parts; the first ends in 20 zeros, so that its products with small ints are exact."""
ATANH = tuple(2.0 / k for k in range(33, 1, -2))
"""The coefficients of (2 · atanh(s) - 2s) / s³ as a polynomial of s², for |s| <= 1/3."""


def two_sum(b: Any, x: Float, y: Float) -> Pair:
    """Return x + y and its rounding error."""
    total = b.add(x, y)
    other = b.sub(total, x)
    return total, b.add(b.sub(x, b.sub(total, other)), b.sub(y, other))


def two_product(b: Any, x: Float, y: Float) -> Pair:
    """Return x · y and its rounding error, for numbers below 1e300."""
    product = b.mul(x, y)
    (x_high, x_low), (y_high, y_low) = _halves(b, x), _halves(b, y)
    rest = b.sub(b.mul(x_high, y_high), product)
    rest = b.add(b.add(rest, b.mul(x_high, y_low)), b.mul(x_low, y_high))
    return product, b.add(rest, b.mul(x_low, y_low))


def _halves(b: Any, x: Float) -> Pair:
    """Return x as the sum of two numbers of 26 bits."""
    scaled = b.mul(x, _SPLIT)
    high = b.sub(scaled, b.sub(scaled, x))
    return high, b.sub(x, high)


def two_quotient(b: Any, x: Float, y: Float) -> Pair:
    """Return x / y and the rest of the quotient."""
    quotient = b.div(x, y)
    product, rest = two_product(b, quotient, y)
    return quotient, b.div(b.sub(b.sub(x, product), rest), y)


def log_pair(b: Any, x: Float) -> Pair:
    """Compute log(x) of a positive and finite x with an error of about 1e-17 relative to the logarithm."""
    tiny = b.lt(x, _TINY)
    x = b.where(tiny, b.mul(x, 2.0**54), x)
    half = b.round(b.mul(b.log(x), 0.5 / math.log(2)))
    power = b.exp(b.mul(half, -math.log(2)))
    scaled = b.mul(power, _ONE_BIT)
    power = b.sub(scaled, b.sub(scaled, power))  # rounded to one bit: exactly 2^-half
    m = b.mul(b.mul(x, power), power)  # from 1/2 to 2
    below = b.add(m, -1.0)
    above, above_rest = two_sum(b, m, b.full((), 1.0, x.dtype))
    s = b.div(below, above)
    product, rest = two_product(b, s, above)
    s_rest = b.div(b.sub(b.sub(b.sub(below, product), rest), b.mul(s, above_rest)), above)
    squared = b.mul(s, s)
    exponent = b.add(b.add(half, half), b.where(tiny, b.full((), -54.0, x.dtype), 0.0))
    high, low = two_sum(b, b.mul(exponent, _LN2), b.add(s, s))
    low = b.add(
        low,
        b.add(
            b.add(b.mul(exponent, _LN2_REST), b.add(s_rest, s_rest)),
            b.mul(b.mul(squared, s), polynomial(b, squared, ATANH)),
        ),
    )
    return two_sum(b, high, low)


def exp_pair(b: Any, x: Float, rest: Float) -> Float:
    """Compute exp(x + rest) for a rest that is small where the result is finite."""
    e = b.exp(x)
    return b.where(b.lt(e, math.inf), b.add(e, b.mul(e, rest)), e)


def power(b: Any, x: Float, y: Float) -> Float:
    """Compute x^y of a positive and finite x to a few roundings, also where the result is tiny or huge."""
    high, low = log_pair(b, x)
    product, rest = two_product(b, y, high)
    return exp_pair(b, product, b.add(rest, b.mul(y, low)))


def neighbour(b: Any, x: Float, y: Float) -> Float:
    """Return the next number after x in the direction of y, of one dtype; exact if operations round to nearest.

    Source: Rump, Zimmermann, Boldo and Melquiond, Computing Predecessor and Successor in Rounding to Nearest, 2009,
    algorithm 2.
    """
    _, _, bits, lowest, *_ = DTYPES[x.dtype.name]
    unit, least = 2.0**-bits, 2.0**lowest
    size = b.abs(x)
    tiny = b.lt(size, least / unit)
    small = b.discrete.bitwise_and(b.lt(size, least / unit**2 / 2), b.discrete.bitwise_not(tiny))
    scaled = b.where(small, b.mul(x, 1.0 / unit), x)  # its distance to the next number would be subnormal
    step = b.mul(b.abs(scaled), unit * (1.0 + 2.0 * unit))
    step = b.where(tiny, b.full((), least, x.dtype), step)
    moved = b.add(scaled, b.where(b.gt(y, x), step, b.neg(step)))
    moved = b.where(small, b.mul(moved, unit), moved)
    moved = b.where(b.isinf(x), b.full((), largest(x.dtype), x.dtype), moved)
    moved = b.where(b.eq(x, 0.0), moved, b.copysign(moved, x))
    same = b.discrete.bitwise_or(b.eq(x, y), b.discrete.bitwise_or(b.isnan(x), b.isnan(y)))
    return b.where(same, b.where(b.eq(x, y), y, b.add(x, y)), moved)


def logistic(b: Any, x: Float) -> tuple[Float, Float]:
    """Compute sigmoid(x) and sigmoid(-x) from exp(-|x|): both, and derivatives of all orders, keep their digits. The
    derivative of the operation `sigmoid` is computed from its result, and is 0 where that rounds to 1."""
    negative = b.lt(x, 0.0)
    e = b.exp(b.where(negative, x, b.neg(x)))
    large = b.reciprocal(b.add(e, 1.0))
    small = b.mul(e, large)
    return b.where(negative, small, large), b.where(negative, large, small)


def mish(b: Any, x: Float) -> Float:
    """Compute x · tanh(softplus(x))."""
    return b.mul(x, _tanh_of_softplus(b, *logistic(b, x))[0])


def mish_slope(b: Any, x: Float) -> Float:
    """Compute the derivative of `mish`: t + x · sigmoid(x) · (1 - t²) with t = tanh(softplus(x))."""
    s, rest = logistic(b, x)
    t, inverse = _tanh_of_softplus(b, s, rest)
    double = b.mul(b.mul(rest, inverse), 2.0)
    return b.add(t, b.mul(b.mul(x, s), b.mul(double, double)))


def _tanh_of_softplus(b: Any, s: Float, rest: Float) -> tuple[Float, Float]:
    """Compute t = s · (1 + r) / (1 + r²) from a sigmoid s and r = 1 - s, and 1 / (1 + r²).

    1 - t² is 4r² / (1 + r²)².
    """
    inverse = b.reciprocal(b.add(b.mul(rest, rest), 1.0))
    return b.mul(b.mul(s, b.add(rest, 1.0)), inverse), inverse


def elu_gradient(b: Any, g: Float, x: Float, slope: float, scale: float, input_scale: float) -> tuple[Float]:
    """g · scale where x > 0 or x is NaN, else g times the derivative of the exponential, ``slope`` at 0."""
    curve = b.mul(b.exp(b.mul(b.clamp(x, None, 0.0), input_scale)), slope)
    return (b.where(b.le(x, 0.0), b.mul(g, curve), b.mul(g, scale)),)


def leaky_relu_gradient(b: Any, g: Float, x: Float, negative_slope: float) -> tuple[Float]:
    """Multiply g by the slope where x is not above 0: a formula for one pass over memory."""
    return (b.where(b.gt(x, 0.0), g, b.mul(g, negative_slope)),)


def hardtanh_gradient(b: Any, g: Float, x: Float, low: float, high: float) -> tuple[Float]:
    """Keep g where x is between two numbers or NaN: a formula for one pass over memory."""
    inside = b.discrete.bitwise_not(b.discrete.bitwise_or(b.le(x, low), b.ge(x, high)))
    return (b.where(inside, g, 0.0),)


def hardswish_gradient(b: Any, g: Float, x: Float) -> tuple[Float]:
    """0 up to -3, g from 3, and g · (x / 3 + 1 / 2) between."""
    between = b.mul(g, b.add(b.mul(x, 1 / 3), 0.5))
    return (b.where(b.lt(b.abs(x), 3.0), between, b.where(b.discrete.bitwise_not(b.le(x, -3.0)), g, 0.0)),)
