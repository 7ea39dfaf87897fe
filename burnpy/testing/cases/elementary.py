"""Examples of elementary functions of one and two arguments, and of ints."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.testing.cases.samples import Values
from burnpy.testing.cases.table import SPECIAL, elementwise

_NEXT_TO_0 = (*SPECIAL, 2.0**-14, -(2.0**-14))
_POSITIVE = (0.3, 2.0)

elementwise("tan", np.tan, x=(-1.2, 1.2), loose=2)
elementwise("asin", np.arcsin, x=(-0.8, 0.8), special=_NEXT_TO_0)
elementwise("acos", np.arccos, x=(-0.8, 0.8))
elementwise("atan", np.arctan, special=_NEXT_TO_0)
elementwise("sinh", np.sinh, special=_NEXT_TO_0)
elementwise("cosh", np.cosh)
elementwise("asinh", np.arcsinh, special=(*_NEXT_TO_0, 1e4, -1e4))
elementwise("acosh", np.arccosh, x=(1.2, 3.0), special=(*SPECIAL, 1e4))
elementwise("atanh", np.arctanh, x=(-0.7, 0.7), special=_NEXT_TO_0)
elementwise("exp2", np.exp2)
elementwise("log2", np.log2, x=_POSITIVE)
elementwise("log10", np.log10, x=_POSITIVE)
elementwise("trunc", np.trunc, special=(*SPECIAL, 2.5, -2.5, -0.5))


_NONZERO = (0.4, 2.0)
_SPECIAL = (0.0, -0.0, 1.0, -1.0, 3.0, math.inf, -math.inf, math.nan)
_DIVIDENDS = (Values((3.0, 3.0, -7.0, -7.0, 6.0, 0.0)), Values((2.0, -2.0, 3.0, -3.0, 1.0, -1.0)))


def _xlogy(x: Any, y: Any) -> Any:
    return np.where((x == 0) & (y == y), 0.0, x * np.log(y))


def _xlog1py(x: Any, y: Any) -> Any:
    return np.where((x == 0) & (y == y), 0.0, x * np.log1p(y))


def _entr(x: Any) -> Any:
    return np.where(x == 0, 0.0, np.where(x < 0, -np.inf, -x * np.log(x)))


elementwise("atan2", np.arctan2, x=_NONZERO, special=_SPECIAL)
elementwise("hypot", np.hypot, x=_NONZERO, special=_SPECIAL)
elementwise("copysign", np.copysign, x=_NONZERO, special=_SPECIAL)
elementwise("signbit", np.signbit, special=_SPECIAL[:-1])
elementwise("fmod", np.fmod, y=_NONZERO, special=(), also=[_DIVIDENDS])
elementwise("fmax", np.fmax, special=_SPECIAL)
elementwise("fmin", np.fmin, special=_SPECIAL)
elementwise("logaddexp", np.logaddexp, special=_SPECIAL)
elementwise("logaddexp2", np.logaddexp2, special=_SPECIAL)
elementwise("nextafter", np.nextafter, special=(0.0, -0.0, 1.0, -1.0, 3.0, math.nan))  # bits in tests/tensor
elementwise("xlog1py", _xlog1py, y=_POSITIVE, special=_SPECIAL, loose=2)
elementwise("xlogy", _xlogy, y=_POSITIVE, special=_SPECIAL, loose=2)
elementwise("squared_difference", lambda x, y: (x - y) ** 2, special=_SPECIAL)
elementwise("entr", _entr, x=(0.3, 3.0))
