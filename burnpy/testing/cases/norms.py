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


def _norm(x: Any, p: float, dims: tuple[int, ...], keepdim: bool) -> Any:
    size = np.abs(x)
    if p == 0:
        return (x != 0).astype(x.dtype).sum(dims, keepdims=keepdim)
    if math.isinf(p):
        return (np.max if p > 0 else np.min)(size, dims, keepdims=keepdim)
    total = (size**p).sum(dims, keepdims=keepdim)
    return total ** (1 / p)


row("vector_norm", _norm, _EXAMPLES, loose=8)
