"""The error function, which NumPy lacks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64


def _constants(*numbers: float) -> tuple[Any, ...]:
    return tuple(np.array(number, float32) for number in numbers)  # 0-d: half the price of NumPy scalars


_ODD = _constants(
    *(-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05),
    *(-7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02),
)
_EVEN = _constants(
    *(-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03),
    -1.42647390514189e-02,
)
_ONE, _MINUS_ONE, _FOUR, _MINUS_FOUR = _constants(1, -1, 4, -4)


def erf(x: Any) -> Any:
    """The error function of float32 or float64."""
    return _rational(np.asarray(x)) if x.dtype is float32 else _exact(x)


def _rational(x: Any) -> Any:
    """x · P(x²) / Q(x²) of x limited to ±4, with an error below 4e-7.

    Source: Eigen's generic_fast_erf_float (Eigen/src/Core/MathFunctionsImpl.h).
    """
    limited = x.clip(_MINUS_FOUR, _FOUR, np.empty_like(x))
    squared = np.multiply(limited, limited, np.empty_like(x))
    above = _horner(squared, _ODD)
    np.multiply(above, limited, above)
    np.divide(above, _horner(squared, _EVEN), above)
    return above.clip(_MINUS_ONE, _ONE, above)


def _horner(x: Any, coefficients: tuple[Any, ...]) -> Any:
    """A polynomial, highest power first, in one new piece of memory."""
    total = np.multiply(x, coefficients[0], np.empty_like(x))
    np.add(total, coefficients[1], total)
    for c in coefficients[2:]:
        np.multiply(total, x, total)
        np.add(total, c, total)
    return total


def _exact(x: Any) -> Any:
    """To double precision: SciPy's where it is installed, else Python's, element by element."""
    try:
        from scipy.special import erf as precise  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        x = np.asarray(x)
        return np.fromiter(map(math.erf, x.ravel().tolist()), float64, x.size).reshape(x.shape)
    return precise(x)
