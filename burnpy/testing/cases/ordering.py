"""Examples of sorting, selection by rank, search, and cumulative operations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import int64
from burnpy.testing.cases.samples import Large, Values, x
from burnpy.testing.cases.table import row

_NAN, _INF = math.nan, math.inf
_UNORDERED = (
    Values((1.0, _NAN, -_INF, 3.0, _NAN, _INF, -1.0)),
    Values((2.0, 0.0, -0.0, 2.0, 0.0, 1.0, 2.0)),
    Values((5.0, 5.0, 5.0)),
)
_LARGE_UNORDERED = (Large((40, 70)), Large((700,)))
_SAMPLES: list[tuple[Any, ...]] = [
    *((x(2, 3, 2), dim) for dim in (0, 1)),
    *((x(0, 3), dim) for dim in (0, 1)),
    (x(6), 0),
    (x(1, 3), 0),
    *((values, 0) for values in _UNORDERED),
    *((_LARGE_UNORDERED[0], dim) for dim in (0, 1)),
    (_LARGE_UNORDERED[1], 0),
]
_SORTED = [(*sample, descending) for sample in _SAMPLES for descending in (False, True)]


def _order(x: Any, dim: int, descending: bool) -> Any:
    if not descending:
        return np.argsort(x, dim, kind="stable").astype(int64)
    return x.shape[dim] - 1 - np.flip(np.argsort(np.flip(x, dim), dim, kind="stable"), dim).astype(int64)


def _first(x: Any, dim: int, k: int, largest: bool) -> Any:
    return np.take(_order(x, dim, largest), np.arange(k), dim)


def _with_values(indices: Any) -> Any:
    def reference(x: Any, dim: int, *arguments: Any) -> Any:
        index = indices(x, dim, *arguments)
        return np.take_along_axis(x, index, dim), index

    return reference


def _kth(x: Any, dim: int, k: int, keepdim: bool) -> Any:
    values, index = _with_values(lambda x, dim: np.take(_order(x, dim, False), [k - 1], dim))(x, dim)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def _position(sequence: Any, values: Any, right: bool) -> Any:
    out = np.zeros(values.shape, int64)
    for place in np.ndindex(values.shape[:-1]):
        out[place] = np.searchsorted(sequence[place], values[place], "right" if right else "left")
    return out


_FIRST = [
    (x(2, 3, 2), 1, 2),
    (x(4, 5), 0, 4),
    (x(6), 0, 0),
    (x(6), 0, 1),
    (x(0, 3), 1, 2),
    *((values, 0, 3) for values in _UNORDERED),
    (_LARGE_UNORDERED[0], 1, 5),
    (_LARGE_UNORDERED[0], 0, 3),
    (_LARGE_UNORDERED[1], 0, 20),
]
_RANKED = [e for e in _FIRST if e[2]]
_EDGES = Values((0.0, 2.0, 2.0, 3.0, 5.0, 5.0, 7.0, 12.0))
_SOUGHT = Values((-1.0, 0.0, 2.0, 3.5, 5.0, 12.0, 13.0, _INF, -_INF, _NAN))
_ROWS = Values((0.0, 1.0, 1.0, 3.0, 0.0, 0.0, 2.0, 2.0), (2, 4))
_SEARCHED = [
    (_EDGES, _SOUGHT),
    (Values((1.0, 2.5, _INF, _NAN)), _SOUGHT),
    (_ROWS, x(2, 3, low=-1.0, high=3.0)),
    (Values((1.0,)), x(5)),
    (Values(()), x(3)),
    (_EDGES, Values(())),
    (_EDGES, Large((600,), 0.0, 14.0)),
]
row("argsort", _order, _SORTED)
row("sort", _with_values(_order), _SORTED)
row("topk_index", _first, [(*e, largest) for e in _FIRST for largest in (False, True)])
row("topk", _with_values(_first), [(*e, largest) for e in _FIRST for largest in (False, True)])
row("kthvalue_index", lambda x, dim, k: _kth(x, dim, k, True)[1], _RANKED)
row("kthvalue", _kth, [(*e, keepdim) for e in _RANKED for keepdim in (False, True)])
row("searchsorted", _position, [(*e, right) for e in _SEARCHED for right in (False, True)])
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
