"""Examples of the incomplete beta function, whose reference is a power series."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from burnpy.testing.cases.samples import Array, Large, Values
from burnpy.testing.cases.table import row

_log_gamma = np.vectorize(lambda a: math.lgamma(a) if 0 < a < math.inf else math.inf, [float])
_SPECIAL = (0.0, 1.0, 0.5, 3.0, -1.0, math.inf, math.nan)


def _valid(a: Any, b: Any) -> Any:
    return (np.minimum(a, b) >= 0) & (np.maximum(a, b) > 0) & np.isfinite(a) & np.isfinite(b)


def _positive_part(a: Any) -> Any:
    return np.where((a > 0) & np.isfinite(a), a, 1.0)


def _density(x: Any, a: Any, b: Any) -> Any:
    x, a, b = (np.asarray(value, float) for value in np.broadcast_arrays(x, a, b))
    y, first, second = np.clip(x, 0, 1), _positive_part(a), _positive_part(b)
    scale = np.exp(_log_gamma(first + second) - _log_gamma(first) - _log_gamma(second))
    value = scale * y ** (first - 1) * (1 - y) ** (second - 1)
    value = np.where((x < 0) | (x > 1) | (a == 0) | (b == 0), 0.0, value)
    for end, own, other in ((0.0, a, b), (1.0, b, a)):
        limit = np.where(own == 1, other, np.where(own < 1, math.inf, 0.0))
        value = np.where(x == end, limit, value)
    return np.where(_valid(a, b) & (x == x), value, math.nan)


def _lower(x: Any, a: Any, b: Any) -> Any:
    """Compute xᵃ / B(a, b) · Σ (1 - b) … (n - b) / n! · xⁿ / (a + n), of the smaller one of x and 1 - x."""
    x, a, b = (np.asarray(value, float) for value in np.broadcast_arrays(x, a, b))
    mirrored = x > 0.5
    y = np.clip(np.where(mirrored, 1 - x, x), 0, 0.5)
    first, second = _positive_part(np.where(mirrored, b, a)), _positive_part(np.where(mirrored, a, b))
    factor, total = np.ones_like(y), np.zeros_like(y)
    for n in range(80):
        total += factor * y**n / (first + n)
        factor = factor * (n + 1 - second) / (n + 1)
    scale = np.exp(_log_gamma(first + second) - _log_gamma(first) - _log_gamma(second))
    value = np.where(mirrored, 1 - scale * y**first * total, scale * y**first * total)
    value = np.where(a == 0, 1.0, np.where(b == 0, 0.0, value))
    value = np.where(x == 0, 0.0, np.where(x == 1, 1.0, value))
    return np.where(_valid(a, b) & (x >= 0) & (x <= 1), value, math.nan)


def _probability(*shape: int) -> Array:
    return Array(shape, 0.1, 0.9)


def _positive(*shape: int) -> Array:
    return Array(shape, 0.5, 3.0)


_EXAMPLES = {
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
    "special values": tuple(map(Values, zip(*product(_SPECIAL, repeat=3), strict=True))),
}
row("betainc", _lower, _EXAMPLES, loose=4096)
row("betainc_density", _density, _EXAMPLES, loose=64)
