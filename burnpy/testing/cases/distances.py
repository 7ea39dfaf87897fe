"""Examples of norms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.testing.cases.samples import Large, Values, x
from burnpy.testing.cases.table import row

_POWERS = (2.0, 1.0, 3.0, 0.5, -1.5, 0.0, math.inf, -math.inf)
_EXAMPLES: list[tuple[Any, ...]] = [
    *((x(2, 3, 2), p, dims, keepdim) for p in _POWERS for dims, keepdim in (((0, 2), False), ((1,), True))),
    *((x(2, 3), p, (), False) for p in (2.0, 0.5)),
    *((x(), p, (), False) for p in (2.0, -1.5)),
    *((x(2, 0), p, (1,), False) for p in (2.0, 1.0, 3.0, 0.0)),
    *((x(0, 2), p, (1,), False) for p in (2.0, math.inf, -2.0)),
    *((Large((30, 50)), p, (1,), False) for p in (2.0, 1.5)),
    *((Values((0.0, 2.0, -3.0)), p, (0,), False) for p in _POWERS),
    *((Values((0.0, 0.0)), p, (0,), False) for p in _POWERS),
    *((Values((math.inf, 1.0)), p, (0,), True) for p in _POWERS),
    *((Values((math.nan, 1.0)), p, (0,), False) for p in _POWERS),
]


def _norm(x: Any, p: float, dims: tuple[int, ...], keepdim: Any) -> Any:
    size = np.abs(x)
    if p == 0:
        return (x != 0).astype(x.dtype).sum(dims, keepdims=keepdim)
    if math.isinf(p):
        return np.max(size, dims, keepdims=keepdim, initial=0) if p > 0 else np.min(size, dims, keepdims=keepdim)
    total = (size**p).sum(dims, keepdims=keepdim)
    return total ** (1 / p)


row("vector_norm", _norm, _EXAMPLES, loose=8)


def _distances(x: Any, y: Any, p: float) -> Any:
    return _norm(x[..., :, None, :] - y[..., None, :, :], p, (-1,), False)


def _distances_backward(grad: Any, x: Any, y: Any, out: Any, p: float) -> Any:
    difference = x[..., :, None, :] - y[..., None, :, :]
    if p == math.inf:
        tied = np.abs(difference) == out[..., None]
        slope = np.where(tied, np.sign(difference), 0) / np.maximum(tied.sum(-1, keepdims=True), 1)
    else:
        slope = np.sign(difference) if p == 1 else difference / np.where(out == 0, 1, out)[..., None]
    return (grad[..., None] * slope).sum(-2)


_ROWS = [
    (x(3, 2), x(4, 2, low=2.5, high=4.0)),
    (x(2, 3, 2), x(2, 4, 2, low=2.5, high=4.0)),
    (x(0, 2), x(4, 2)),
    (x(3, 0), x(4, 0)),
    (Large((30, 6)), Large((20, 6))),
    (Large((2, 9, 20)), Large((2, 70, 20))),
    (Values((0.0, math.inf, math.nan, -0.0), (2, 2)), Values((0.0, 0.0, math.inf, 3.0), (2, 2))),
]
row("cdist", _distances, [(*rows, p) for rows in _ROWS for p in (1.0, 2.0, math.inf)], loose=8)
row(
    "cdist_backward",
    _distances_backward,
    [
        *((x(3, 4), x(3, 2), x(4, 2, low=2.5, high=4.0), x(3, 4, low=1.0, high=2.0), p) for p in (1.0, 2.0)),
        *((x(0, 4), x(0, 2), x(4, 2), x(0, 4, low=1.0), p) for p in (1.0, 2.0)),
        *((Large((30, 20)), Large((30, 6)), Large((20, 6)), Large((30, 20), 0.5, 3.0), p) for p in (1.0, 2.0)),
    ],
    loose=32,
)
