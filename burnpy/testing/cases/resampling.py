"""Examples of resampling."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.operations.resampling import Sampling
from burnpy.testing.cases.samples import EmptyIndex, Index, Large, Values, x
from burnpy.testing.cases.table import row


def _kernel(mode: str, distance: float, a: float = -0.75) -> float:
    d = abs(distance)
    if mode == "linear":
        return max(0.0, 1.0 - d)
    if d <= 1.0:
        return (a + 2.0) * d**3 - (a + 3.0) * d**2 + 1.0
    return a * d**3 - 5.0 * a * d**2 + 8.0 * a * d - 4.0 * a if d < 2.0 else 0.0


def _matrix(source: int, size: int, how: Sampling) -> Any:
    """Return the linear map as a matrix, (size, source)."""
    out = np.zeros((size, source))
    for k in range(size):
        if how.mode.startswith("nearest"):
            at = float(np.float32(k + (0.5 if how.mode == "nearest-exact" else 0.0)) * np.float32(how.step))
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


def _weighted_gather(x: Any, places: Any, weights: Any) -> Any:
    out = np.zeros((*x.shape[:2], places.shape[2]))
    for n, t, p in np.ndindex(*places.shape):
        value = x[n, :, places[n, t, p]] if places[n, t, p] >= 0 else 0.0
        out[n, :, p] += value * weights[n, t, p]
    return out


def _weighted_scatter(grad: Any, places: Any, weights: Any, size: int) -> Any:
    out = np.zeros((*grad.shape[:2], size))
    for n, t, p in np.ndindex(*places.shape):
        if places[n, t, p] >= 0:
            out[n, :, places[n, t, p]] += grad[n, :, p] * weights[n, t, p]
    return out


def _gathered_products(grad: Any, x: Any, places: Any) -> Any:
    out = np.zeros(places.shape)
    for n, t, p in np.ndindex(*places.shape):
        out[n, t, p] = (grad[n, :, p] * (x[n, :, places[n, t, p]] if places[n, t, p] >= 0 else 0.0)).sum()
    return out


_HOW: list[tuple[int, int, Sampling]] = [  # sizes of x and of the result
    (3, 6, Sampling("nearest", False, 0.5)),
    (5, 3, Sampling("nearest", False, 5 / 3)),
    (3, 5, Sampling("nearest-exact", False, 0.6)),
    (26, 22, Sampling("nearest", False, 26 / 22)),  # an element lies between two, up to rounding
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

_PLACES = Index((((0, 4, 2), (2, -1, 3)), ((1, 1, -7), (0, 2, 4))))
_MANY = Index(
    tuple(
        tuple(tuple((40 * k + p) * 7 % 60 - 1 for p in range(40)) for k in (3 * n, 3 * n + 1, 3 * n + 2))
        for n in (0, 1)
    )
)
_NAN, _INF = float("nan"), float("inf")
_ONE = Index((((0, 1), (-1, 2)),))

row(
    "weighted_gather",
    _weighted_gather,
    [
        (x(2, 3, 5), _PLACES, x(2, 2, 3)),
        (Values((1.0, _NAN, _INF), (1, 1, 3)), _ONE, Values((2.0, 0.0, 1.0, 3.0), (1, 2, 2))),
        (x(0, 3, 5), EmptyIndex((0, 2, 3)), x(0, 2, 3)),
        (x(2, 3, 5), EmptyIndex((2, 2, 0)), x(2, 2, 0)),
        (x(2, 3, 5), EmptyIndex((2, 0, 3)), x(2, 0, 3)),
        (Large((2, 7, 60)), _MANY, Large((2, 3, 40))),
    ],
    loose=8,
)
row(
    "weighted_scatter",
    _weighted_scatter,
    [
        (x(2, 3, 3), _PLACES, x(2, 2, 3), 5),
        (Values((1.0, _INF), (1, 1, 2)), _ONE, Values((2.0, 1.0, _NAN, 3.0), (1, 2, 2)), 3),
        (x(0, 3, 3), EmptyIndex((0, 2, 3)), x(0, 2, 3), 5),
        (x(2, 3, 3), EmptyIndex((2, 0, 3)), x(2, 0, 3), 5),
        (Large((2, 7, 40)), _MANY, Large((2, 3, 40)), 60),
    ],
    loose=16,
)
row(
    "gathered_products",
    _gathered_products,
    [
        (x(2, 3, 3), x(2, 3, 5), _PLACES),
        (x(0, 3, 3), x(0, 3, 5), EmptyIndex((0, 2, 3))),
        (x(2, 3, 0), x(2, 3, 5), EmptyIndex((2, 2, 0))),
        (Large((2, 7, 40)), Large((2, 7, 60)), _MANY),
    ],
    loose=16,
)
