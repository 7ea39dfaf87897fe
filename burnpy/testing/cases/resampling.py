"""Examples of resampling."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.operations.resampling import Sampling
from burnpy.testing.cases.samples import Large, x
from burnpy.testing.cases.table import row


def _kernel(mode: str, distance: float, a: float = -0.75) -> float:
    d = abs(distance)
    if mode == "linear":
        return max(0.0, 1.0 - d)
    if d <= 1.0:
        return (a + 2.0) * d**3 - (a + 3.0) * d**2 + 1.0
    return a * d**3 - 5.0 * a * d**2 + 8.0 * a * d - 4.0 * a if d < 2.0 else 0.0


def _matrix(source: int, size: int, how: Sampling) -> Any:
    """The linear map as a matrix, (size, source)."""
    out = np.zeros((size, source))
    for k in range(size):
        if how.mode.startswith("nearest"):
            at = (k + (0.5 if how.mode == "nearest-exact" else 0.0)) * how.step
            out[k, min(int(at), source - 1)] = 1.0
            continue
        if how.antialias:
            weights = [
                _kernel(how.mode, (j + 0.5 - (k + 0.5) * how.step) / max(how.step, 1.0), -0.5) for j in range(source)
            ]
            out[k] = np.array(weights) / sum(weights)
            continue
        at = k * how.step if how.align_corners else (k + 0.5) * how.step - 0.5
        if how.mode == "linear":
            at = min(max(at, 0.0), source - 1.0)
        for place in range(int(np.floor(at)) - 1, int(np.floor(at)) + 3):
            out[k, min(max(place, 0), source - 1)] += _kernel(how.mode, at - place)
    return out


def _resample(x: Any, dim: int, size: int, how: Sampling) -> Any:
    return np.moveaxis(np.moveaxis(x, dim, -1) @ _matrix(x.shape[dim], size, how).T, -1, dim)


def _transposed(grad: Any, dim: int, size: int, how: Sampling) -> Any:
    return np.moveaxis(np.moveaxis(grad, dim, -1) @ _matrix(size, grad.shape[dim], how), -1, dim)


_HOW: list[tuple[int, int, Sampling]] = [  # sizes of x and of the result
    (3, 6, Sampling("nearest", False, 0.5)),
    (5, 3, Sampling("nearest", False, 5 / 3)),
    (3, 5, Sampling("nearest-exact", False, 0.6)),
    (4, 8, Sampling("linear", False, 0.5)),
    (3, 5, Sampling("linear", True, 0.5)),
    (7, 3, Sampling("linear", False, 7 / 3)),
    (1, 3, Sampling("linear", False, 1 / 3)),
    (4, 6, Sampling("cubic", False, 4 / 6)),
    (6, 3, Sampling("cubic", True, 2.5)),
    (7, 3, Sampling("linear", False, 7 / 3, antialias=True)),
    (9, 4, Sampling("cubic", False, 9 / 4, antialias=True)),
    (3, 5, Sampling("linear", False, 3 / 5, antialias=True)),
]

row(
    "resample",
    _resample,
    [
        *((x(2, source, 2), 1, size, how) for source, size, how in _HOW),
        (x(3), 0, 5, _HOW[3][2]),
        (x(0, 3), 1, 5, _HOW[3][2]),
        (Large((3, 8, 40, 30)), 2, 80, _HOW[3][2]),
        (Large((3, 8, 40, 30)), 3, 60, _HOW[3][2]),
    ],
    loose=8,
)
row(
    "resample_backward",
    _transposed,
    [
        *((x(2, size, 2), 1, source, how) for source, size, how in _HOW),
        (x(0, 6), 1, 3, _HOW[3][2]),
        (Large((3, 8, 80, 30)), 2, 40, _HOW[3][2]),
        (Large((3, 8, 40, 60)), 3, 30, _HOW[3][2]),
    ],
    loose=8,
)
