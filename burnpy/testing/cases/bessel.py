"""Examples of modified Bessel functions, whose reference is their power series."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.testing.cases.elementwise import SPECIAL, elementwise

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
