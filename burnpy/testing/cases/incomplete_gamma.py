"""Examples of the incomplete gamma functions, whose reference is the power series of the lower one."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from burnpy.testing.cases.elementwise import elementwise
from burnpy.testing.cases.samples import Array, ByKind, Large, Values
from burnpy.testing.cases.special import polygamma
from burnpy.testing.cases.table import row

_log_gamma = np.vectorize(lambda a: math.lgamma(a) if 0 < a < math.inf else math.inf, [float])
_SPECIAL = (0.0, 1.0, 0.5, 3.0, -1.0, math.inf, math.nan)


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


def _lower(a: Any, x: Any, order: int = 0) -> Any:
    value = np.where(np.isinf(x), 1.0, np.where(a == 0, 1.0, _series(a, x))) if order == 0 else _series(a, x, order)
    value = np.where((x == 0) | np.isinf(a) | ((order > 0) & np.isinf(x)), 0.0, value)
    wrong = (a < 0) | (x < 0) | ((a == 0) & (x == 0)) | (np.isinf(a) & np.isinf(x)) | (a != a) | (x != x)
    return np.where(wrong, np.nan, value)


def _density(a: Any, x: Any) -> Any:
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
_EXAMPLES = {
    **{name: (Array(a, 0.3, 3.0), Array(x, 0.3, 3.0)) for name, (a, x) in _SHAPES.items()},
    "0-d": (Array((), 0.3, 3.0), Array((), 0.3, 3.0)),
    "empty": (Array((0, 3), 0.3, 3.0), Array((0, 3), 0.3, 3.0)),
    "large": (Large((96, 100), 0.3, 3.0), Large((96, 100), 0.3, 3.0)),
    "y a number": (Array((2, 3), 0.3, 3.0), ByKind(1.5, 1)),
    "special values": tuple(map(Values, zip(*product(_SPECIAL, repeat=2), strict=True))),
}
"""Fewer than other functions have, as second derivatives by the shape take long."""
row("igamma", _lower, _EXAMPLES, loose=8)
row("igammac", lambda a, x: 1.0 - _lower(a, x), _EXAMPLES, loose=8)
elementwise("igamma_density", _density, x=(0.3, 3.0), y=(0.3, 3.0), special=_SPECIAL, loose=8)
row(
    "igamma_slope",
    _lower,
    [
        (Array((2, 3), 0.3, 3.0), Array((2, 3), 0.3, 3.0), 1),
        (Array((2, 3), 0.3, 3.0), Array((3,), 0.3, 3.0), 2),
        (Array((), 0.3, 3.0), Array((), 0.3, 3.0), 1),
        (Array((0, 3), 0.3, 3.0), Array((0, 3), 0.3, 3.0), 1),
    ],
    gradients=False,  # they are compared as second derivatives of igamma
    loose=1 << 13,  # of the second derivative
)
