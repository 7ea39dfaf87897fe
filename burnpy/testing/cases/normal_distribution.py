"""Examples of the scaled error function and of functions of the normal distribution."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from burnpy.testing.cases.elementwise import SPECIAL, elementwise

_erfc = np.vectorize(math.erfc, [float])
_SPECIAL = (*SPECIAL, 5.0, -5.0)


def _erfcx(x: Any) -> Any:
    return np.where(np.isinf(x), np.where(x > 0, 0.0, np.inf), np.exp(x * x) * _erfc(x))


def _erfcx_slope(x: Any) -> Any:
    inside = 2 * x * _erfcx(x) - 2 / math.sqrt(math.pi)
    return np.where(np.isinf(x), np.where(x > 0, 0.0, -np.inf), inside)


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
elementwise("erfcx_slope", _erfcx_slope, special=(0.0, 1.0, -1.0, 2.0, 3.0, math.inf, -math.inf, math.nan), loose=32)
elementwise("ndtr", _ndtr, special=_SPECIAL, loose=2)
elementwise("log_ndtr", _log_ndtr, special=_SPECIAL, loose=4)
elementwise("normal_ratio", _normal_ratio, special=_SPECIAL, loose=8)
elementwise("ndtri", np.vectorize(_ndtri, [float]), x=(0.05, 0.95), special=(*SPECIAL, 0.25, 0.9375), loose=4)
elementwise("ndtri_exp", np.vectorize(_ndtri_exp, [float]), x=(-3.0, -0.05), special=(*SPECIAL, -0.25), loose=4)
