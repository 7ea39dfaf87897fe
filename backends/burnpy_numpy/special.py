"""The error function, which NumPy lacks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64


def constants(*numbers: float) -> tuple[Any, ...]:
    """Numbers as 0-d arrays of float32, at half the price of NumPy scalars."""
    return tuple(np.array(number, float32) for number in numbers)


_PHI = (
    *(1.567257510322256e-09, -1.2525670029454741e-07, 3.873058151769855e-06, -5.478173633260026e-05),
    *(-3.3911227109113235e-05, 0.03633434813295285, 0.7978846366104373),
)
PHI = constants(*_PHI)
"""A polynomial p, highest power first, with erf(x / √2) = tanh(x · p(x²)), to a relative error of 1e-7.

Weighted least squares, with weights that grow where the error does until it is nowhere larger than elsewhere. As its
first coefficient is positive it is right for the largest x too, and needs no limits.
"""
_ERF = constants(*(c * math.sqrt(2) * 2 ** (len(_PHI) - 1 - k) for k, c in enumerate(_PHI)))
"""The same for erf(x)."""
ONE, HALF = constants(1.0, 0.5)


def erf(x: Any) -> Any:
    """The error function of float32, with a relative error below 4e-7, or of float64, to its precision."""
    if x.dtype is not float32:
        return _exact(x)
    x = np.asarray(x)
    return tanh_of(x, _ERF, np.empty_like(x), np.empty_like(x))


def tanh_of(x: Any, polynomial: tuple[Any, ...], squared: Any, out: Any) -> Any:
    """tanh(x · p(x²)) in ``out``, and x² in ``squared``, which are memory of the shape and dtype of x."""
    np.multiply(x, x, squared)
    np.multiply(squared, polynomial[0], out)
    for c in polynomial[1:-1]:
        np.add(out, c, out)
        np.multiply(out, squared, out)
    np.add(out, polynomial[-1], out)
    np.multiply(out, x, out)
    return np.tanh(out, out)


def _exact(x: Any) -> Any:
    """To double precision: SciPy's where it is installed, else Python's, element by element."""
    try:
        from scipy.special import erf as precise  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        x = np.asarray(x)
        return np.fromiter(map(math.erf, x.ravel().tolist()), float64, x.size).reshape(x.shape)
    return precise(x)
