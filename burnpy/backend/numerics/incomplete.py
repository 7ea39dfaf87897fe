"""The regularized incomplete gamma functions, and densities, made of a backend's operations.

All numbers take the same steps, without a loop whose length depends on a value.

P and Q are one of four: the power series, a continued fraction, Temme's uniform expansion for large a and x near it,
and a series for Q of small a. The factor xᵃ e⁻ˣ / Γ(a + 1) is computed with twice the digits, so that tiny results keep
theirs.
Logarithms of gamma functions and of densities of large parameters are computed without differences of large numbers.

Sources: W. Gautschi, A Computational Procedure for Incomplete Gamma Functions, ACM TOMS 5, 1979 (series, fraction);
N. M. Temme, The Asymptotic Expansion of the Incomplete Gamma Functions, SIAM J. Math. Anal. 10, 1979 (also DLMF 8.12);
A. R. DiDonato and A. H. Morris, Computation of the Incomplete Gamma Function Ratios and their Inverse, ACM TOMS 12,
1986 (regions); C. Loader, Fast and Accurate Computation of Binomial Probabilities, 2000 (density).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

from burnpy.backend.numerics.arithmetic import (
    ATANH,
    Pair,
    exp_pair,
    log_pair,
    polynomial,
    two_product,
    two_quotient,
    two_sum,
)
from burnpy.backend.numerics.error_functions import scaled_erfc
from burnpy.backend.numerics.quantile_slopes import slope_of
from burnpy.backend.numerics.special import BERNOULLI, digamma_rest, log_gamma_near_one, stirling_rest
from burnpy.backend.primitives import Bool, Float

HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)
_SHIFT = 8.0
"""From here on Stirling's series has all digits."""


def stirling_gap(b: Any, x: Float) -> Float:
    """Compute log Γ(x) - (x - ½) · log(x) + x - log(2π) / 2 for x > 0, which vanishes for large x. For small x it is
    the gap at x + 8 and (x + ½) · log(1 + 8 / x) - log((x + 1) … (x + 7) / (x + 8)⁷) - 8."""
    large = b.ge(x, _SHIFT)
    small = b.where(large, b.full((), _SHIFT, x.dtype), x)
    above = b.add(small, _SHIFT)
    inverse = b.reciprocal(above)
    product = b.mul(b.add(small, 1.0), inverse)
    for step in range(2, int(_SHIFT)):
        product = b.mul(product, b.mul(b.add(small, float(step)), inverse))
    ratio = b.mul(b.add(small, 0.5), b.log1p(b.div(b.full((), _SHIFT, x.dtype), small)))
    moved = b.add(b.sub(ratio, b.log(product)), -_SHIFT)
    return b.add(b.where(b.discrete.bitwise_not(large), moved, 0.0), stirling_rest(b, b.where(large, x, above)))


def digamma_gap(b: Any, x: Float) -> Float:
    """Compute log(x) - 1 / (2x) - ψ(x) for x > 0, minus the derivative of `stirling_gap`, without cancellation."""
    large = b.ge(x, _SHIFT)
    small = b.where(large, b.full((), _SHIFT, x.dtype), x)
    near = b.sub(b.sub(b.log(small), b.mul(b.reciprocal(small), 0.5)), b.digamma(small))
    return b.where(large, digamma_rest(b, b.where(large, x, _SHIFT)), near)


def deviance(b: Any, a: Float, y: Float, log_y: Float) -> Float:
    """Compute y - a - a · log(y / a) for a, y > 0, without cancellation where they are close."""
    gap = b.sub(y, a)
    close = b.le(b.abs(gap), b.mul(a, 0.5))
    excess = b.div(b.where(close, gap, 0.0), a)
    near = b.mul(a, b.sub(excess, b.log1p(excess)))
    return b.where(close, near, b.sub(gap, b.mul(a, b.sub(log_y, b.log(a)))))


def log_split(b: Any, first: Float, second: Float, p: Float, q: Float, log_p: Float, log_q: Float) -> Float:
    """Compute log(pᵃ · qᶜ · Γ(a + c) / (Γ(a) · Γ(c))) - log(a · c / (2π · (a + c))) / 2 for a, c > 0 and q = 1 - p. The
    densities of the binomial and the beta distribution have it in common."""
    total = b.add(first, second)
    log_total = b.log(total)
    gaps = b.sub(stirling_gap(b, total), b.add(stirling_gap(b, first), stirling_gap(b, second)))
    ones = deviance(b, first, b.mul(total, p), b.add(log_total, log_p))
    return b.sub(gaps, b.add(ones, deviance(b, second, b.mul(total, q), b.add(log_total, log_q))))


_UNIFORM = 20.0
"""From this a on, the expansion for large a serves x from a / 2 to 2 a."""
_STIRLING = 8.0
"""From this a on, Γ(a) is computed by Stirling's series."""
_LEAST_A = 2.0**-1000
"""The number added to smaller a. Their derivative is that at 0 from the right."""
_FARTHEST, _ROWS = 0.79, 20
"""The largest |η| of the expansion, at x = 2 a, and the most powers of 1 / a."""


class _Effort(NamedTuple):
    """The lengths of the sums."""

    terms: int  #: of the power series
    steps: int  #: of the continued fraction
    small_terms: int  #: of the series of Q for small a
    least: float  #: the size from which terms of the expansion matter


_DOUBLE, _SINGLE = _Effort(56, 60, 26, 2e-18), _Effort(36, 30, 17, 1e-10)
"""For results that stay float64, and for those that are rounded to float32 afterwards."""


def incomplete_gamma(b: Any, a: Float, x: Float, upper: bool, single: bool) -> Float:
    """Compute Q(a, x) if ``upper``, else P(a, x) = 1 - Q(a, x), of float64 a and x; if ``single``, to nine digits. The
    limits are those of PyTorch: P is 0 at x = 0 and at a = ∞, 1 at x = ∞ and at a = 0. Negative arguments, and two
    zeros or two infinities, give NaN."""
    zero, one = (b.full((), number, x.dtype) for number in ((1.0, 0.0) if upper else (0.0, 1.0)))
    value = b.where(b.eq(a, 0.0), one, _inside(b, a, x, upper, single))
    return _with_limits(b, a, x, value, zero, one)


def gamma_density(b: Any, a: Float, x: Float) -> Float:
    """Compute xᵃ⁻¹ e⁻ˣ / Γ(a), the derivative of P with respect to x, of float64 a and x; 0 at a = 0."""
    values = _Values.of(b, a, x)
    density = b.mul(b.mul(exp_pair(b, *values.exponent), values.scale), b.div(values.a, values.x))
    zero = b.full((), 0.0, x.dtype)
    origin = b.where(b.lt(a, 1.0), b.full((), math.inf, x.dtype), b.where(b.eq(a, 1.0), b.full((), 1.0, x.dtype), zero))
    density = b.where(b.eq(x, 0.0), origin, density)
    none = b.discrete.bitwise_or(b.eq(a, 0.0), b.discrete.bitwise_or(b.eq(a, math.inf), b.eq(x, math.inf)))
    value = b.where(none, zero, density)
    return b.where(b.discrete.bitwise_and(b.ge(a, 0.0), b.ge(x, 0.0)), value, math.nan)


def gamma_slope(b: Any, a: Float, x: Float, order: int) -> Float:
    """Compute the derivative of P(a, x) by a of an order, from 1 on, of float64 a and x."""
    zero = b.full((), 0.0, x.dtype)
    return _with_limits(b, a, x, slope_of(b, _inside, a, x, False, False, order=order), zero, zero)


def _inside(b: Any, a: Float, x: Float, upper: bool, single: bool) -> Float:
    """Compute P or Q of positive and finite numbers."""
    effort = _SINGLE if single else _DOUBLE
    values = _Values.of(b, a, x)
    density = b.mul(exp_pair(b, *values.exponent), values.scale)
    low = b.mul(density, _series(b, values, effort.terms))
    high = b.mul(b.mul(density, values.a), _fraction(b, values, effort.steps))
    tail = _tail(b, values, effort.least)
    inverted = b.add(b.neg(tail), 1.0)
    below = b.lt(values.x, values.a)
    if upper:
        uniform = b.where(below, inverted, tail)
        low = b.where(b.lt(values.a, 1.0), _small(b, values, effort.small_terms), b.add(b.neg(low), 1.0))
    else:
        uniform = b.where(below, tail, inverted)
        high = b.add(b.neg(high), 1.0)
    low_x = b.le(values.x, b.maximum(values.a, 2.0))
    return b.where(values.uniform, uniform, b.where(low_x, low, high))


class _Values(NamedTuple):
    """The values that several methods use; an argument outside a method's domain is replaced by one inside."""

    a: Float
    x: Float
    uniform: Bool  #: where the expansion for large a is used
    exponent: Pair  #: E of the factor exp(E) · scale = xᵃ e⁻ˣ / Γ(a + 1)
    scale: Float
    eta: Float  #: η, of the sign of x - a, with E = -a · η² / 2; where the expansion is not used, 0

    @classmethod
    def of(cls, b: Any, a: Float, x: Float) -> _Values:
        d = b.discrete
        huge = b.gt(a, 2.0**800)
        a, x = (b.where(huge, b.mul(v, 2.0**-600), v) for v in (a, x))
        a = b.minimum(b.where(b.lt(a, _LEAST_A), b.add(a, _LEAST_A), a), 2.0**800)
        x = b.clamp(x, 2.0**-1074, 2.0**800)
        big = b.ge(a, _STIRLING)
        ratio, ratio_rest = two_quotient(b, x, b.where(big, a, 1.0))
        uniform = d.bitwise_and(b.ge(a, _UNIFORM), d.bitwise_and(b.ge(ratio, 0.5), b.le(ratio, 2.0)))
        exponent = _far_exponent(b, a, x, b.maximum(ratio, 2.0**-1074), ratio_rest, big)
        large, close = _select(b, uniform, a, _UNIFORM), _select(b, uniform, x, _UNIFORM)
        *near, eta = _near_exponent(b, large, close)
        exponent = tuple(b.where(uniform, u, v) for u, v in zip(near, exponent, strict=True))
        return cls(a, x, uniform, exponent, _scale(b, a, big), eta)


def _far_exponent(b: Any, a: Float, x: Float, ratio: Float, ratio_rest: Float, big: Bool) -> Pair:
    """Compute a · log(x) - x, or a · log(x / a) + a - x for big a."""
    high, low = log_pair(b, ratio)
    low = b.add(low, b.div(ratio_rest, ratio))
    product, rest = two_product(b, a, high)
    shift, shift_rest = two_sum(b, b.where(big, a, 0.0), b.neg(x))
    total, total_rest = two_sum(b, product, shift)
    return total, b.add(b.add(b.add(rest, b.mul(a, low)), shift_rest), total_rest)


def _near_exponent(b: Any, a: Float, x: Float) -> tuple[Float, Float, Float]:
    """Compute E = a · log(x / a) + a - x, where the terms cancel, and η, for x from a / 2 to 2 a. With d = x - a, which
    has no rounding error, and s = d / (x + a), E is a · (2 · atanh(s) - 2s) - d · s."""
    d = b.sub(x, a)
    total, total_rest = two_sum(b, x, a)
    s, s_rest = two_quotient(b, d, total)
    s_rest = b.sub(s_rest, b.mul(s, b.div(total_rest, total)))
    product, rest = two_product(b, d, s)
    rest = b.add(rest, b.mul(d, s_rest))
    squared = b.mul(s, s)
    excess = b.mul(b.mul(a, s), polynomial(b, squared, ATANH))  # over s²
    high, low = two_sum(b, b.mul(excess, squared), b.neg(product))
    eta = b.mul(s, b.sqrt(b.div(b.mul(b.sub(total, excess), 2.0), a)))
    return high, b.sub(low, rest), eta


def _scale(b: Any, a: Float, big: Bool) -> Float:
    """Compute 1 / Γ(a + 1), or 1 / (Γ(a + 1) · (e / a)ᵃ) for big a."""
    large = b.where(big, a, _STIRLING)
    far = b.div(b.exp(b.neg(stirling_rest(b, large))), b.sqrt(b.mul(large, 2 * math.pi)))
    u = b.where(big, b.full((), 1.0, a.dtype), a)
    product = b.full((), 1.0, a.dtype)
    for _ in range(int(_STIRLING) - 1):
        beyond = b.gt(u, 1.0)
        product = b.where(beyond, b.mul(product, u), product)
        u = b.where(beyond, b.add(u, -1.0), u)
    near = b.div(b.exp(b.neg(log_gamma_near_one(b, u))), product)
    return b.where(big, far, near)


def _series(b: Any, v: _Values, terms: int) -> Float:
    """Compute Σ xⁿ / ((a + 1) … (a + n)), for x <= max(a, 2), as a quotient of two polynomials."""
    size = b.maximum(v.a, 1.0)
    x = b.div(b.minimum(v.x, b.maximum(v.a, 2.0)), size)
    start, step = b.div(v.a, size), b.reciprocal(size)
    top = under = b.full((), 1.0, x.dtype)
    for n in range(terms, 0, -1):
        factor = b.add(start, b.mul(step, float(n)))
        under, rest = b.mul(under, factor), b.mul(x, top)
        top = b.add(under, rest)
    return b.div(top, under)


def _fraction(b: Any, v: _Values, steps: int) -> Float:
    """Compute 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - …))), for x >= max(a, 2). All terms
    are divided by x, which keeps numerators and denominators in range."""
    x = b.maximum(v.x, b.maximum(v.a, 2.0))
    step, ratio = b.reciprocal(x), b.div(v.a, x)
    first = b.add(b.div(b.sub(x, v.a), x), step)
    top, under = b.full((), 1.0, x.dtype), first
    top_before, under_before = b.full((), 0.0, x.dtype), b.full((), 1.0, x.dtype)
    for n in range(1, steps + 1):
        at = b.mul(step, float(n))
        factor, below = b.add(first, b.add(at, at)), b.mul(at, b.sub(ratio, at))
        top, top_before = b.add(b.mul(factor, top), b.mul(below, top_before)), top
        under, under_before = b.add(b.mul(factor, under), b.mul(below, under_before)), under
    return b.mul(b.div(top, under), step)


def _small(b: Any, v: _Values, terms: int) -> Float:
    """Compute Q for a < 1 and x <= 2: 1 - xᵃ / Γ(a + 1) - xᵃ / Γ(a) · Σ (-x)ⁿ / ((a + n) n!)."""
    a, x = b.minimum(v.a, 1.0), b.minimum(v.x, 2.0)
    logarithm = b.sub(b.mul(a, b.log(x)), log_gamma_near_one(b, a))
    total, under = b.full((), 0.0, x.dtype), b.full((), 1.0, x.dtype)
    for n in range(terms, 0, -1):
        factor = b.add(a, float(n))
        total = b.mul(b.mul(x, -1 / n), b.add(under, b.mul(factor, total)))
        under = b.mul(under, factor)
    series = b.mul(b.mul(a, b.exp(logarithm)), b.div(total, under))
    return b.neg(b.add(b.expm1(logarithm), series))


def _tail(b: Any, v: _Values, least: float) -> Float:
    """Compute the smaller one of P and Q by the uniform expansion, for a >= 20 and x from a / 2 to 2 a. It is exp(E) ·
    (erfc(√-E) · exp(-E) / 2 ± Σ cₖ(η) a⁻ᵏ / √(2πa)), with the sign of η."""
    a = _select(b, v.uniform, v.a, _UNIFORM)
    high, low = (_select(b, v.uniform, part, 0.0) for part in v.exponent)
    inverse, above = b.reciprocal(a), b.ge(v.x, v.a)
    table = expansion(least)
    total = polynomial(b, v.eta, table[-1])
    for row in table[-2::-1]:
        total = b.add(b.mul(total, inverse), polynomial(b, v.eta, row))
    total = b.div(total, b.sqrt(b.mul(a, 2 * math.pi)))
    size = b.where(above, v.eta, b.neg(v.eta))
    half = b.mul(scaled_erfc(b, b.mul(size, b.sqrt(b.mul(a, 0.5)))), 0.5)
    return b.mul(exp_pair(b, high, low), b.add(half, b.where(above, total, b.neg(total))))


def _select(b: Any, condition: Bool, x: Float, other: float) -> Float:
    return b.where(condition, x, b.full((), other, x.dtype))


def _with_limits(b: Any, a: Float, x: Float, value: Float, zero: Float, one: Float) -> Float:
    """Return value inside, zero at x = 0 and at a = ∞, one at x = ∞, and NaN where there is no limit."""
    d = b.discrete
    origin, infinite, far = b.eq(x, 0.0), b.eq(a, math.inf), b.eq(x, math.inf)
    value = b.where(d.bitwise_or(origin, infinite), zero, b.where(far, one, value))
    wrong = d.bitwise_or(d.bitwise_and(far, infinite), d.bitwise_and(origin, b.eq(a, 0.0)))
    valid = d.bitwise_and(d.bitwise_and(b.ge(a, 0.0), b.ge(x, 0.0)), d.bitwise_not(wrong))
    return b.where(valid, value, math.nan)


@cache
def expansion(least: float) -> tuple[tuple[float, ...], ...]:
    """Return for each k the coefficients of cₖ(η), the highest power first. Source: DLMF 8.12.9 to 8.12.16. Left out is
    what is smaller than ``least`` for all η and a that it serves."""
    count = 60
    alpha = [Fraction(0), Fraction(1)]  # x / a - 1 as a series of η
    for n in range(2, count):
        products = [j * alpha[j] * alpha[n - j + 1] for j in range(2, n)]
        alpha.append((alpha[n - 1] - sum(products)) / (n + 1))
    stirling = [Fraction(1)]  # Γ(a) / (√(2π / a) · (a / e)ᵃ) as a series of 1 / a
    for n in range(1, _ROWS):
        rests = [Fraction(BERNOULLI[k // 2]) / (k + 2) * stirling[n - k - 1] for k in range(0, n, 2)]
        stirling.append(sum(rests, Fraction(0)) / n)
    first = [(n + 2) * alpha[n + 2] for n in range(count - 2)]
    first[0] = Fraction(-1, 3)
    row, table = first, []
    for k in range(1, _ROWS):
        needed = [n for n, c in enumerate(row) if abs(c) * Fraction(_FARTHEST) ** n > least * int(_UNIFORM) ** (k - 1)]
        if not needed:
            break
        table.append(tuple(map(float, row[: max(1, *needed) + 1][::-1])))
        sign = (-1) ** k
        row = [sign * stirling[k] * first[n] + (n + 2) * row[n + 2] for n in range(len(row) - 2)]
    return tuple(table)
