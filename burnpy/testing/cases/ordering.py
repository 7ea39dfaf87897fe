"""Examples of sorting, selection by rank, and search."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import int64
from burnpy.testing.cases.samples import Large, Values, x
from burnpy.testing.cases.table import row

_NAN, _INF = math.nan, math.inf
_SPECIAL = (
    Values((1.0, _NAN, -_INF, 3.0, _NAN, _INF, -1.0)),
    Values((2.0, 0.0, -0.0, 2.0, 0.0, 1.0, 2.0)),
    Values((5.0, 5.0, 5.0)),
)
_LARGE = (Large((40, 70)), Large((700,)))
_SAMPLES: list[tuple[Any, ...]] = [
    *((x(2, 3, 2), dim) for dim in (0, 1)),
    *((x(0, 3), dim) for dim in (0, 1)),
    (x(6), 0),
    (x(1, 3), 0),
    *((values, 0) for values in _SPECIAL),
    *((_LARGE[0], dim) for dim in (0, 1)),
    (_LARGE[1], 0),
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
    *((values, 0, 3) for values in _SPECIAL),
    (_LARGE[0], 1, 5),
    (_LARGE[0], 0, 3),
    (_LARGE[1], 0, 20),
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
row("kthvalue", _kth, [(*e, keepdim) for e in _RANKED for keepdim in (False, True)])
row("searchsorted", _position, [(*e, right) for e in _SEARCHED for right in (False, True)])
