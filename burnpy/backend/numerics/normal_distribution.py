"""The normal distribution function, its logarithm and inverse, and the scaled error function.

They are made of a backend's operations.
Sources: W. J. Cody, Rational Chebyshev Approximation for the Error Function, Math. Comp. 23, 1969; M. J. Wichura,
Algorithm AS 241: The Percentage Points of the Normal Distribution, Appl. Stat. 37, 1988.
"""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.numerics.arithmetic import polynomial
from burnpy.backend.numerics.special import (
    exp_of_square,
    normal_quantile,
    normal_quantile_of_root,
    scaled_erfc,
    scaled_erfc_rest,
)
from burnpy.backend.primitives import Float


def erfcx(b: Any, x: Float) -> Float:
    """Compute exp(x²) times the complementary error function."""
    size = b.abs(x)
    value = scaled_erfc(b, size)
    grown = b.mul(exp_of_square(b, b.minimum(size, 30.0), 1.0), 2.0)
    return b.where(b.ne(x, x), x, b.where(b.lt(x, 0.0), b.sub(grown, value), value))


def erfcx_slope(b: Any, x: Float, order: int) -> Float:
    """Compute a derivative of `erfcx`, f' = 2x · f - 2 / √π and f⁽ⁿ⁺¹⁾ = 2x · f⁽ⁿ⁾ + 2n · f⁽ⁿ⁻¹⁾.

    For large x, where these sums cancel, the ratios of successive derivatives come from their continued fraction.
    Source: DLMF 7.18.
    """
    value = erfcx(b, x)
    near = b.add(b.mul(b.mul(x, 2.0), value), -2 / math.sqrt(math.pi))
    far = b.mul(scaled_erfc_rest(b, b.maximum(x, 4.0)), -2.0)
    near = b.where(b.ge(x, 4.0), far, b.where(b.lt(x, -30.0), b.full((), -math.inf, x.dtype), near))
    if order == 1:
        return near
    before = far = value
    for n in range(1, order):
        before, near = near, b.add(b.mul(b.mul(x, near), 2.0), b.mul(before, 2.0 * n))
    y, last = b.maximum(x, _FAR), order + _FRACTIONS
    ratio = b.reciprocal(b.add(y, b.sqrt(b.add(b.mul(y, y), 2.0 * last))))
    for n in range(last - 1, 0, -1):
        ratio = b.reciprocal(b.add(b.mul(y, 2.0), b.mul(ratio, 2.0 * (n + 1))))
        if n <= order:
            far = b.mul(far, b.mul(ratio, -2.0 * n))
    return b.where(b.ge(x, _FAR), far, near)


_FAR, _FRACTIONS = 2.0, 50
"""The number from which derivatives of erfcx are a continued fraction, and the number of its fractions."""

_ROUGH = (
    *(-1.1481641468903466e-05, 3.858826870550058e-06, 0.00011462995701095802, -0.00010412154102456292),
    *(-0.0007731099389154869, 0.0018881023957936568, 0.002527115520598249, -0.023770329148544773),
    *(0.068308399692815, -0.11927369264668237, 0.12964513564845567, -0.0475622925783465),
    *(-0.13562110588976525, 1.253008058251719),
)
"""The coefficients of (1 + 2y) · exp(y²) · erfc(y) as a polynomial of (y - 3) / (y + 3) for y >= 0, the highest power
first, to a relative error of 3e-10. They were fitted at the Chebyshev nodes with 60 digits. Source of the form: M. M.
Shepherd and J. G. Laframboise, Chebyshev Approximation of (1 + 2x) exp(x²) erfc x, Math. Comp. 36, 1981."""


def ndtr(b: Any, x: Float) -> Float:
    """Compute the integral of the normal density from -∞ to x."""
    size = b.abs(x)
    scaled = scaled_erfc(b, b.mul(size, math.sqrt(0.5)))
    return _of_both_signs(b, x, b.mul(scaled, exp_of_square(b, b.minimum(size, 40.0), -0.5)))


def rough_ndtr(b: Any, x: Float) -> Float:
    """Compute `ndtr` of float64 numbers that are rounded to float32 afterwards."""
    size = b.minimum(b.abs(x), 40.0)
    y = b.mul(size, math.sqrt(0.5))
    t = b.div(b.add(y, -3.0), b.add(y, 3.0))
    scaled = b.div(polynomial(b, t, _ROUGH), b.add(b.mul(y, 2.0), 1.0))
    return _of_both_signs(b, x, b.mul(scaled, b.exp(b.mul(b.mul(size, size), -0.5))))


def _of_both_signs(b: Any, x: Float, double: Float) -> Float:
    """Return half of double for negative x, else 1 minus that."""
    small = b.mul(double, 0.5)
    return b.where(b.ne(x, x), x, b.where(b.gt(x, 0.0), b.add(b.neg(small), 1.0), small))


def log_ndtr(b: Any, x: Float) -> Float:
    """Compute the logarithm of `ndtr`, which falls like -x² / 2 without underflow."""
    near = b.log1p(b.neg(ndtr(b, b.neg(b.maximum(x, -1.0)))))
    scaled = b.mul(scaled_erfc(b, b.mul(b.abs(x), math.sqrt(0.5))), 0.5)
    far = b.sub(b.log(scaled), b.mul(b.mul(x, x), 0.5))
    return b.where(b.lt(x, -1.0), far, near)


def normal_ratio(b: Any, x: Float) -> Float:
    """Compute the normal density divided by `ndtr`."""
    size = b.abs(x)
    density = b.mul(exp_of_square(b, b.minimum(size, 40.0), -0.5), 1 / math.sqrt(2 * math.pi))
    scaled = scaled_erfc(b, b.mul(size, math.sqrt(0.5)))
    value = b.div(b.full((), math.sqrt(2 / math.pi), x.dtype), scaled)
    return b.where(b.gt(x, 0.0), b.div(density, ndtr(b, x)), value)


def ndtri(b: Any, p: Float) -> Float:
    """Compute the inverse of `ndtr`: -∞ at 0, ∞ at 1, NaN outside."""
    value = normal_quantile(b, b.add(p, -0.5), b.minimum(p, b.add(b.neg(p), 1.0)))
    infinity = b.full((), math.inf, p.dtype)
    return b.where(b.eq(p, 0.0), b.neg(infinity), b.where(b.eq(p, 1.0), infinity, value))


_MILLS = (-353 / 2, 74 / 3, -5.0, 2.0, 0.0)
"""The coefficients of -2 · log(-x e^(x² / 2) √(2π) · ndtr(x)), x < 0, as a series of 1 / x², highest power first."""
_DEEP = -700.0
"""The logarithm of a probability below which the approximation of quantiles ends."""


def ndtri_exp(b: Any, y: Float) -> Float:
    """Compute `ndtri` of exp(y), also where exp(y) underflows: -∞ at -∞, ∞ at 0, NaN above.

    There x² is found by Newton's method from log(ndtr(x)) = -(x² + log x² + log 2π) / 2 + …
    """
    other = b.neg(b.expm1(y))
    root = b.sqrt(b.where(b.lt(y, -math.log(2.0)), b.neg(y), b.neg(b.log(other))))
    near = normal_quantile_of_root(b, b.add(b.exp(y), -0.5), root)
    double = b.mul(b.clamp(y, -1e300, _DEEP), -2.0)
    squared = double
    for _ in range(2):
        inverse = b.reciprocal(squared)
        rest = b.add(b.add(b.log(squared), polynomial(b, inverse, _MILLS)), math.log(2.0 * math.pi))
        excess = b.add(b.sub(squared, double), rest)
        slope = b.add(b.mul(b.add(b.mul(inverse, -2.0), 1.0), inverse), 1.0)
        squared = b.sub(squared, b.div(excess, slope))
    value = b.where(b.lt(y, _DEEP), b.neg(b.sqrt(squared)), near)
    infinity = b.full((), math.inf, y.dtype)
    return b.where(b.eq(y, -math.inf), b.neg(infinity), b.where(b.eq(y, 0.0), infinity, value))
