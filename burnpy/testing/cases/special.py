"""Examples of special functions; references that NumPy lacks are written with Python's functions, one by one."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from burnpy.testing.cases.elementwise import SPECIAL, elementwise
from burnpy.testing.cases.samples import Array
from burnpy.testing.cases.table import row

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


def _entr(x: Any) -> Any:
    return np.where(x == 0, 0.0, np.where(x < 0, -np.inf, -x * np.log(x)))


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
elementwise("entr", _entr, x=(0.3, 3.0))
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
