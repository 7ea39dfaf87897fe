"""Examples of functions of two arguments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.testing.cases.elementwise import elementwise
from burnpy.testing.cases.samples import Values

_POSITIVE = (0.3, 2.0)
_NONZERO = (0.4, 2.0)
_SPECIAL = (0.0, -0.0, 1.0, -1.0, 3.0, math.inf, -math.inf, math.nan)
_DIVIDENDS = (Values((3.0, 3.0, -7.0, -7.0, 6.0, 0.0)), Values((2.0, -2.0, 3.0, -3.0, 1.0, -1.0)))


def _xlogy(x: Any, y: Any) -> Any:
    return np.where((x == 0) & (y == y), 0.0, x * np.log(y))


elementwise("atan2", np.arctan2, x=_NONZERO, special=_SPECIAL)
elementwise("hypot", np.hypot, x=_NONZERO, special=_SPECIAL)
elementwise("copysign", np.copysign, x=_NONZERO, special=_SPECIAL)
elementwise("signbit", np.signbit, special=_SPECIAL[:-1])
elementwise("fmod", np.fmod, y=_NONZERO, special=(), also=[_DIVIDENDS])
elementwise("fmax", np.fmax, special=_SPECIAL)
elementwise("fmin", np.fmin, special=_SPECIAL)
elementwise("logaddexp", np.logaddexp, special=_SPECIAL)
elementwise("xlogy", _xlogy, y=_POSITIVE, special=_SPECIAL, loose=2)
