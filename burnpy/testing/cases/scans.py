"""Examples of cumulative operations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import int64
from burnpy.testing.cases.samples import Large, Values, x
from burnpy.testing.cases.table import row

_NAN, _INF = math.nan, math.inf
_ALONG: list[tuple[Any, ...]] = [
    *((x(2, 3, 2), dim) for dim in (0, 1, 2)),
    *((x(0, 3), dim) for dim in (0, 1)),
    (x(1, 3), 0),
    (x(7), 0),
]
_SPECIAL = [
    (Values(values), 0)
    for values in ((1.0, _INF, 2.0, -_INF, 3.0), (1.0, _NAN, 3.0, 2.0), (-_INF, -_INF, 1.0), (_NAN,))
]
_TIES = [
    (Values(values), 0) for values in ((1.0, 3.0, 0.0, 3.0, 2.0, -1.0, -1.0), (0.0, -0.0, 0.0), (2.0, _NAN, 4.0, _NAN))
]
_NEAR_ONE = [(Large((30, 70), 0.95, 1.05), dim) for dim in (0, 1)]
_LARGE = [(Large((12, 30, 25)), dim) for dim in (0, 1, 2)]


def _product(x: Any, dim: int) -> Any:
    return np.cumprod(x, dim, dtype=x.dtype if x.dtype.kind in "fc" else int64)


def _logarithm(x: Any, dim: int) -> Any:
    logaddexp: Any = np.logaddexp
    return logaddexp.accumulate(x, dim)


def _extreme(largest: bool) -> Any:
    def indices(x: Any, dim: int) -> Any:
        out = np.zeros(x.shape, int64)
        for place in np.ndindex(*(n for d, n in enumerate(x.shape) if d != dim)):
            line = (*place[:dim], slice(None), *place[dim:])
            best = 0
            for k, value in enumerate(x[line]):
                better = value >= x[line][best] if largest else value <= x[line][best]
                if value != value or better:
                    best = k
                out[line][k] = best
        return out

    return indices


def _with_values(indices: Any) -> Any:
    def reference(x: Any, dim: int) -> Any:
        index = indices(x, dim)
        return np.take_along_axis(x, index, dim), index

    return reference


def _recurrence(factor: Any, x: Any, dim: int) -> Any:
    out = np.moveaxis(x.copy(), dim, 0)
    by = np.moveaxis(factor, dim, 0)
    for k in range(1, len(out)):
        out[k] += by[k] * out[k - 1]
    return np.moveaxis(out, 0, dim)


def _reversed(scan: Any) -> Any:
    """Return the reference of a scan from the end, of arrays that are flipped."""
    return lambda *args: np.flip(scan(*(np.flip(a, args[-1]) for a in args[:-1]), args[-1]), args[-1])


def _reverse_recurrence(factor: Any, x: Any, dim: int) -> Any:
    return _reversed(_recurrence)(np.roll(factor, -1, dim), x, dim)


def _sum(x: Any, dim: int) -> Any:
    return np.cumsum(x, dim, dtype=x.dtype if x.dtype.kind in "fc" else int64)


_EXTREMES = [*_ALONG, *_SPECIAL, *_TIES, (Large((6, 40)), 0), (Large((6, 40)), 1)]

row("cumprod", _product, [*_ALONG, *_SPECIAL, *_NEAR_ONE], loose=8)
row("logcumsumexp", _logarithm, [*_ALONG, *_SPECIAL[:1], *_SPECIAL[2:], *_LARGE], loose=8)
row("cummax_index", _extreme(True), _EXTREMES)
row("cummin_index", _extreme(False), _EXTREMES)
row("cummax", _with_values(_extreme(True)), _EXTREMES)
row("cummin", _with_values(_extreme(False)), _EXTREMES)
row("reverse_cumsum", _reversed(_sum), [*_ALONG, *_SPECIAL, *_LARGE], loose=8)
_RECURRENCES = [
    *((x(*values.shape), values, dim) for values, dim in _ALONG),
    (Values((_NAN, 0.5, _INF, 1.0)), Values((1.0, 2.0, 1.0, _NAN)), 0),
    *((Large((30, 70), -1.0, 1.0), Large((30, 70)), dim) for dim in (0, 1)),
]
row("recurrence", _recurrence, _RECURRENCES, loose=8)
row("reverse_recurrence", _reverse_recurrence, _RECURRENCES, loose=8)
