"""Examples of operations that create and convert primitives."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.dtypes import bool_, float32, float64, int32, int64
from burnpy.testing.cases.samples import CASE, ByKind, Values, x
from burnpy.testing.cases.table import row

_ALL: Any = ("float", "int", "bool")
_SOME = [x(2, 3), x(), x(0, 3), x(3, 1, 2)]


def _converted(x: Any, dtype: Any) -> Any:
    return x.astype(dtype)


row(
    "full",
    np.full,
    [(s, v, CASE) for s in ((2, 3), (), (0, 3)) for v in (ByKind(0.75, 2), ByKind(0, 0, False))],
    kinds=_ALL,
)
row(
    "arange",
    lambda start, stop, step, dtype: np.arange(start, stop, step),
    [(0, 5, 1, CASE), (5, 0, -2, CASE), (0, 0, 1, CASE), (3, 1, 1, CASE), (2, 9, 3, CASE), (126, 128, 1, CASE)],
    kinds=("float", "int"),
)
row(
    "linspace",
    lambda start, stop, num, dtype: np.linspace(start, stop, num),
    [(0.0, 1.0, 5, CASE), (1.0, -1.0, 3, CASE), (2.0, 3.0, 1, CASE), (0.0, 1.0, 0, CASE)],
    kinds=("float",),
)
row("eye", lambda n, m, dtype: np.eye(n, m), [(3, 3, CASE), (2, 3, CASE), (3, 2, CASE), (0, 2, CASE)], kinds=_ALL)
row(
    "cast",
    _converted,
    [
        (a, d)
        for a in [*_SOME, Values((1.0, -1.0, float("inf"), float("nan")))]
        for d in (ByKind(float32, int32, bool_), ByKind(float64, int64, bool_))
    ],
)
row("to_float", _converted, [(a, d) for a in _SOME for d in (float32, float64)])
row("to_int", _converted, [(a, d) for a in [*_SOME, Values((1.5, -1.5, 2.0, -0.5))] for d in (int32, int64)])
row("to_bool", lambda x: x != 0, [(a,) for a in [*_SOME, Values((0.0, -0.0, 1.0, float("inf"), float("nan")))]])
row("detach", lambda x: x, [(a,) for a in _SOME])
