"""Examples of special functions: error, gamma, zeta, Bessel and incomplete functions, the normal distribution."""

from __future__ import annotations

import math
from itertools import product
from statistics import NormalDist
from typing import Any

import numpy as np

from burnpy.testing.cases.samples import Array, ByKind, Large, Values
from burnpy.testing.cases.table import SPECIAL, elementwise, row

_WITHOUT_POLES = (0.25, 0.5, 1.0, 2.0, 3.0, 9.0, 30.0, -0.5, -2.75, math.inf, math.nan)


def _erfinv(x: float) -> float:
    """Compute erf⁻¹ by Newton's method, from the normal distribution's quantile, exact to eight digits next to 1."""
    if not abs(x) < 1.0:
        return math.copysign(math.inf, x) if abs(x) == 1.0 else math.nan
    y = NormalDist().inv_cdf((1.0 - abs(x)) / 2) / -math.sqrt(2)
    for _ in range(2):
        y += (math.erfc(y) - (1.0 - abs(x))) * math.exp(y * y) * math.sqrt(math.pi) / 2
    return math.copysign(y, x)


def _lgamma(x: float) -> float:
    return math.inf if x in (0.0, math.inf, -math.inf) or (x < 0 and x == int(x)) else math.lgamma(x)


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730)


def polygamma(x: Any, n: int) -> Any:
    """Compute polygamma by 30 steps of the recurrence and then the asymptotic series, in the widest float dtype."""
    start = np.asarray(x).astype(np.longdouble)
    sign, factorial = -1.0 if n % 2 == 0 else 1.0, float(math.factorial(n))
    total = sum((factorial / (start + k) ** (n + 1) for k in range(29, -1, -1)), start=np.zeros_like(start))
    end = start + 30
    rest = factorial / (2 * end ** (n + 1)) + (math.factorial(n - 1) / end**n if n else -np.log(end))
    for k, number in enumerate(_BERNOULLI, 1):
        rest += number * math.factorial(2 * k + n - 1) / math.factorial(2 * k) / end ** (2 * k + n)
    return (sign * (total + rest)).astype(np.float64)


def _sinc_slope(grad: Any, x: Any, order: int) -> Any:
    """Return the integral of t^order · cos^(order)(πxt) over t from 0 to 1, by Gauss's rule."""
    nodes, weights = np.polynomial.legendre.leggauss(30)
    t = (nodes + 1) / 2
    angle = np.pi * np.asarray(x)[..., None] * t
    return grad * np.sum(weights / 2 * (np.pi * t) ** order * np.cos(angle + order * np.pi / 2), -1)


def _zeta(x: float, q: float) -> float:
    """Compute Hurwitz' zeta function: 15 terms one by one, the others by Euler and Maclaurin's formula."""
    pole = q <= 0 and q % 1 == 0
    if not x >= 1 or q != q or (q < 0 and not pole and x != math.inf and x % 1 != 0):
        return math.nan
    if x == 1 or pole:
        return math.inf
    if math.inf in (x, q):
        return math.inf if q < 1 else float(q == 1)
    total = sum((q + k) ** -x for k in range(14, -1, -1))
    end, factor = q + 15, x
    rest = end / (x - 1) + 0.5
    for k, number in enumerate(_BERNOULLI, 1):
        rest += number / math.factorial(2 * k) * factor / end ** (2 * k - 1)
        factor *= (x + 2 * k - 1) * (x + 2 * k)
    return float(total + end**-x * rest)


def _zeta_slope(x: Any, q: Any, order: int) -> Any:
    """Compute the derivative of ζ(x, q) by x from 4,000 terms and an integral."""
    x, q = np.asarray(x).astype(np.longdouble), np.asarray(q).astype(np.longdouble)
    total = sum((-np.log(q + k)) ** order * (q + k) ** -x for k in range(3999, -1, -1))
    end, s = q + 4000, x - 1
    log = np.log(end)
    half = (-log) ** order / 2
    if order == 1:
        tail = -end * (log / s + 1 / s**2) + half + (1 - x * log) / (12 * end)
    else:
        tail = end * (log**2 / s + 2 * log / s**2 + 2 / s**3) + half + (x * log**2 - 2 * log) / (12 * end)
    return (total + end**-x * tail).astype(np.float64)


elementwise("erfc", np.vectorize(math.erfc, [float]), special=(*SPECIAL, 6.0, -6.0, 0.46, -0.48, 5.5))
elementwise(
    "erfinv", np.vectorize(_erfinv, [float]), x=(-0.9, 0.9), special=(*SPECIAL, 0.875, -0.9375, 2.0**-14), loose=2
)
elementwise("lgamma", np.vectorize(_lgamma, [float]), x=(0.3, 3.0), special=(*SPECIAL, 9.0, 30.0, -2.75, 1e3), loose=2)
elementwise("digamma", lambda x: polygamma(x, 0), x=(0.4, 3.0), special=_WITHOUT_POLES, loose=4)
elementwise(
    "polygamma",
    polygamma,
    x=(0.5, 3.0),
    options=[(1,), (2,)],
    special=_WITHOUT_POLES,
    loose=4,
)
elementwise(
    "zeta",
    np.vectorize(_zeta, [float]),
    x=(1.5, 4.0),
    y=(0.5, 3.0),
    special=(0.0, 1.0, 1.5, 2.0, 3.0, -1.0, -0.5, -2.25, math.inf, math.nan),
    loose=16,
)
row(
    "zeta_slope",
    _zeta_slope,
    [
        (Array((2, 3), 1.5, 4.0), Array((2, 3), 0.5, 3.0), 1),
        (Array((2, 3), 1.5, 4.0), Array((3,), 0.5, 3.0), 2),
        (Array((), 1.5, 4.0), Array((), 0.5, 3.0), 1),
        (Array((0, 3), 1.5, 4.0), Array((0, 3), 0.5, 3.0), 1),
    ],
    gradients=False,  # they are compared as second derivatives of zeta
    loose=64,
)
elementwise("sinc", np.sinc, special=(0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -3.0, math.nan), loose=2)
elementwise("sinc_backward", _sinc_slope, options=[(1,), (2,)], special=(0.0, -0.0, 1.0, -1.0, 3.0), loose=32)


_SPECIAL = (*SPECIAL, 9.0, -9.0)


def _ratio(x: Any, order: int, scaled: bool) -> Any:
    """Compute Iₙ(x) / xⁿ, times e^-|x| if scaled; the series has positive terms."""
    size = np.abs(x)
    finite = np.where(np.isfinite(size), size, 1.0)
    term = np.exp(-finite if scaled else 0.0 * finite) / (2.0**order * math.factorial(order))
    total = np.zeros_like(term)
    for k in range(1, 90):
        total = total + term
        term = term * (finite / 2) ** 2 / (k * (k + order))
    return np.where(size == np.inf, 0.0 if scaled else np.inf, np.where(x != x, np.nan, total))


def _one(x: Any, scaled: bool) -> Any:
    value = np.where(np.isfinite(x), x, np.sign(x)) * _ratio(x, 1, scaled)
    return np.where(x == 0, x, value)


elementwise("i0", lambda x: _ratio(x, 0, False), special=_SPECIAL, loose=2)
elementwise("i0e", lambda x: _ratio(x, 0, True), x=(0.2, 3.0), special=_SPECIAL, loose=2)
elementwise("i1", lambda x: _one(x, False), special=_SPECIAL, loose=2)
elementwise("i1e", lambda x: _one(x, True), x=(0.2, 3.0), special=_SPECIAL, loose=2)
elementwise(
    "bessel_ratio", _ratio, x=(0.2, 3.0), options=[(0, True), (2, False)], special=(0.0, 1.0, -3.0, 9.0), loose=8
)


_log_gamma = np.vectorize(lambda a: math.lgamma(a) if 0 < a < math.inf else math.inf, [float])
_GAMMA_SPECIAL = (0.0, 1.0, 0.5, 3.0, -1.0, math.inf, math.nan)


def _series(a: Any, x: Any, order: int = 0) -> Any:
    """Compute the derivative of P(a, x) by a of an order from 0 to 2, from P = Σ xᵃ⁺ⁿ e⁻ˣ / Γ(a + n + 1)."""
    a, x = np.broadcast_arrays(np.asarray(a, float), np.asarray(x, float))
    term, total = np.exp(a * np.log(x) - x - _log_gamma(a + 1)), np.zeros_like(x)
    for n in range(30):
        if order:
            rate = np.log(x) - polygamma(a + n + 1, 0)
            total += term * (rate if order == 1 else rate**2 - polygamma(a + n + 1, 1))
        else:
            total += term
        term = term * x / (a + n + 1)
    return total


def _lower_gamma(a: Any, x: Any, order: int = 0) -> Any:
    value = np.where(np.isinf(x), 1.0, np.where(a == 0, 1.0, _series(a, x))) if order == 0 else _series(a, x, order)
    value = np.where((x == 0) | np.isinf(a) | ((order > 0) & np.isinf(x)), 0.0, value)
    wrong = (a < 0) | (x < 0) | ((a == 0) & (x == 0)) | (np.isinf(a) & np.isinf(x)) | (a != a) | (x != x)
    return np.where(wrong, np.nan, value)


def _gamma_density(a: Any, x: Any) -> Any:
    value = np.exp((a - 1) * np.log(x) - x - _log_gamma(a))
    value = np.where((a == 1) & (x == 0), 1.0, value)
    value = np.where((a == 0) | np.isinf(a) | np.isinf(x), 0.0, value)
    return np.where((a < 0) | (x < 0) | (a != a) | (x != x), np.nan, value)


_SHAPES = {
    "rows by a row": ((2, 3), (3,)),
    "a row by rows": ((3,), (2, 3)),
    "rows by a column": ((2, 3), (2, 1)),
    "a column by rows": ((2, 1), (2, 3)),
}
_GAMMA_EXAMPLES = {
    **{name: (Array(a, 0.3, 3.0), Array(x, 0.3, 3.0)) for name, (a, x) in _SHAPES.items()},
    "0-d": (Array((), 0.3, 3.0), Array((), 0.3, 3.0)),
    "empty": (Array((0, 3), 0.3, 3.0), Array((0, 3), 0.3, 3.0)),
    "large": (Large((96, 100), 0.3, 3.0), Large((96, 100), 0.3, 3.0)),
    "y a number": (Array((2, 3), 0.3, 3.0), ByKind(1.5, 1)),
    "special values": tuple(map(Values, zip(*product(_GAMMA_SPECIAL, repeat=2), strict=True))),
}
"""Fewer than other functions have, as second derivatives with respect to the shape take long."""
row("igamma", _lower_gamma, _GAMMA_EXAMPLES, loose=8)
row("igammac", lambda a, x: 1.0 - _lower_gamma(a, x), _GAMMA_EXAMPLES, loose=8)
elementwise("igamma_density", _gamma_density, x=(0.3, 3.0), y=(0.3, 3.0), special=_GAMMA_SPECIAL, loose=8)
row(
    "igamma_slope",
    _lower_gamma,
    [
        (Array((2, 3), 0.3, 3.0), Array((2, 3), 0.3, 3.0), 1),
        (Array((2, 3), 0.3, 3.0), Array((3,), 0.3, 3.0), 2),
        (Array((), 0.3, 3.0), Array((), 0.3, 3.0), 1),
        (Array((0, 3), 0.3, 3.0), Array((0, 3), 0.3, 3.0), 1),
    ],
    gradients=False,  # they are compared as second derivatives of igamma
    loose=1 << 13,  # of the second derivative
)


_log_gamma_of_beta = np.vectorize(lambda a: math.lgamma(a) if 0 < a < math.inf else math.inf, [float])
_BETA_SPECIAL = (0.0, 1.0, 0.5, 3.0, -1.0, math.inf, math.nan)


def _valid(a: Any, b: Any) -> Any:
    return (np.minimum(a, b) >= 0) & (np.maximum(a, b) > 0) & np.isfinite(a) & np.isfinite(b)


def _positive_part(a: Any) -> Any:
    return np.where((a > 0) & np.isfinite(a), a, 1.0)


def _beta_density(x: Any, a: Any, b: Any) -> Any:
    x, a, b = (np.asarray(value, float) for value in np.broadcast_arrays(x, a, b))
    y, first, second = np.clip(x, 0, 1), _positive_part(a), _positive_part(b)
    scale = np.exp(_log_gamma_of_beta(first + second) - _log_gamma_of_beta(first) - _log_gamma_of_beta(second))
    value = scale * y ** (first - 1) * (1 - y) ** (second - 1)
    value = np.where((x < 0) | (x > 1) | (a == 0) | (b == 0), 0.0, value)
    for end, own, other in ((0.0, a, b), (1.0, b, a)):
        limit = np.where(own == 1, other, np.where(own < 1, math.inf, 0.0))
        value = np.where(x == end, limit, value)
    return np.where(_valid(a, b) & (x == x), value, math.nan)


def _lower_beta(x: Any, a: Any, b: Any) -> Any:
    """Compute xᵃ / B(a, b) · Σ (1 - b) … (n - b) / n! · xⁿ / (a + n), of the smaller one of x and 1 - x."""
    x, a, b = (np.asarray(value, float) for value in np.broadcast_arrays(x, a, b))
    mirrored = x > 0.5
    y = np.clip(np.where(mirrored, 1 - x, x), 0, 0.5)
    first, second = _positive_part(np.where(mirrored, b, a)), _positive_part(np.where(mirrored, a, b))
    factor, total = np.ones_like(y), np.zeros_like(y)
    for n in range(80):
        total += factor * y**n / (first + n)
        factor = factor * (n + 1 - second) / (n + 1)
    scale = np.exp(_log_gamma_of_beta(first + second) - _log_gamma_of_beta(first) - _log_gamma_of_beta(second))
    value = np.where(mirrored, 1 - scale * y**first * total, scale * y**first * total)
    value = np.where(a == 0, 1.0, np.where(b == 0, 0.0, value))
    value = np.where(x == 0, 0.0, np.where(x == 1, 1.0, value))
    return np.where(_valid(a, b) & (x >= 0) & (x <= 1), value, math.nan)


def _probability(*shape: int) -> Array:
    return Array(shape, 0.1, 0.9)


def _positive(*shape: int) -> Array:
    return Array(shape, 0.5, 3.0)


_BETA_EXAMPLES = {
    "alike": (_probability(2, 3), _positive(2, 3), _positive(2, 3)),
    "rows by a row": (_probability(2, 3), _positive(3), _positive(2, 1)),
    "a row by rows": (_probability(3), _positive(2, 3), _positive(3)),
    "x by a column": (_probability(2, 1), _positive(2, 3), _positive(2, 3)),
    "x by a row": (_probability(3), _positive(2, 3), _positive(2, 3)),
    "y by a row": (_probability(2, 3), _positive(3), _positive(2, 3)),
    "y by a column": (_probability(2, 3), _positive(2, 1), _positive(2, 3)),
    "z by a row": (_probability(2, 3), _positive(2, 3), _positive(3)),
    "z by a column": (_probability(2, 3), _positive(2, 3), _positive(2, 1)),
    "0-d": (_probability(), _positive(), _positive()),
    "empty": (_probability(0, 3), _positive(0, 3), _positive(0, 3)),
    "large": (Large((96, 100), 0.1, 0.9), Large((96, 100), 0.5, 3.0), Large((96, 100), 0.5, 3.0)),
    "special values": tuple(map(Values, zip(*product(_BETA_SPECIAL, repeat=3), strict=True))),
}
row("betainc", _lower_beta, _BETA_EXAMPLES, loose=4096)
row("betainc_density", _beta_density, _BETA_EXAMPLES, loose=64)


_erfc = np.vectorize(math.erfc, [float])
_NORMAL_SPECIAL = (*SPECIAL, 5.0, -5.0)


def _erfcx(x: Any) -> Any:
    return np.where(np.isinf(x), np.where(x > 0, 0.0, np.inf), np.exp(x * x) * _erfc(x))


def _erfcx_slope(x: Any, order: int) -> Any:
    before, value = _erfcx(x), 2 * x * _erfcx(x) - 2 / math.sqrt(math.pi)
    for n in range(1, order):
        before, value = value, 2 * x * value + 2 * n * before
    return np.where(np.isinf(x), np.where(x > 0, 0.0, (-1) ** order * np.inf), value)


def _ndtr(x: Any) -> Any:
    return 0.5 * _erfc(-x / math.sqrt(2))


def _log_ndtr(x: Any) -> Any:
    return np.where(x > 0, np.log1p(-_ndtr(-x)), np.log(_ndtr(x)))


def _normal_ratio(x: Any) -> Any:
    value = np.exp(-x * x / 2) / math.sqrt(2 * math.pi) / _ndtr(x)
    return np.where(np.isinf(x), np.where(x > 0, 0.0, np.inf), value)


def _ndtri(p: float) -> float:
    if not 0 < p < 1:
        return -math.inf if p == 0 else math.inf if p == 1 else math.nan
    return NormalDist().inv_cdf(p)


def _ndtri_exp(y: float) -> float:
    return _ndtri(1.0 if y == 0 else math.exp(min(y, 1.0)))


elementwise("erfcx", _erfcx, special=SPECIAL, loose=8)
elementwise(
    "erfcx_slope",
    _erfcx_slope,
    options=[(1,), (2,)],
    special=(0.0, 1.0, -1.0, 2.0, 3.0, math.inf, -math.inf, math.nan),
    loose=64,
)
elementwise("ndtr", _ndtr, special=_NORMAL_SPECIAL, loose=2)
elementwise("log_ndtr", _log_ndtr, special=_NORMAL_SPECIAL, loose=4)
elementwise("normal_ratio", _normal_ratio, special=_NORMAL_SPECIAL, loose=8)
elementwise("ndtri", np.vectorize(_ndtri, [float]), x=(0.05, 0.95), special=(*SPECIAL, 0.25, 0.9375), loose=4)
elementwise("ndtri_exp", np.vectorize(_ndtri_exp, [float]), x=(-3.0, -0.05), special=(*SPECIAL, -0.25), loose=4)
