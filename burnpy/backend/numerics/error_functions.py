"""The error functions, and the normal distribution function, its logarithm and inverse, made of a backend's operations.

Sources: W. J. Cody, Rational Chebyshev Approximation for the Error Function, Math. Comp. 23, 1969; M. J. Wichura,
Algorithm AS 241: The Percentage Points of the Normal Distribution, Appl. Stat. 37, 1988.
"""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.numerics.arithmetic import polynomial
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
"""The least number for which derivatives of erfcx are a continued fraction, and the number of its fractions."""

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
