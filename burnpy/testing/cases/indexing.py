"""Examples of operations that read or write elements at indices, and of embeddings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import int64
from burnpy.testing.cases.samples import EmptyIndex, Index, Large, Mask, Values, x
from burnpy.testing.cases.table import indices, row

_ALL = slice(None, None, 1)
_TWICE = Index((2, 0, 2))
_NONE = EmptyIndex()


def _along(dim: int, index: Any) -> Any:
    return (*(slice(None),) * dim, index)


def _put(x: Any, dim: int, index: Any, src: Any) -> Any:
    out = x.copy()
    for position, target in enumerate(index):  # one by one: the last duplicate wins
        out[_along(dim, target)] = src[_along(dim, position)]
    return out


def _added(x: Any, dim: int, index: Any, src: Any) -> Any:
    out = x.copy()
    for position, target in enumerate(index):
        out[_along(dim, target)] += src[_along(dim, position)]
    return out


def _scattered(x: Any, dim: int, index: Any, src: Any) -> Any:
    out = x.copy()
    for position in np.ndindex(index.shape):
        out[(*position[:dim], index[position], *position[dim + 1 :])] = src[position]
    return out


def _scatter_added(x: Any, dim: int, index: Any, src: Any) -> Any:
    out = x.copy()
    np.add.at(out, indices(dim, index), src)
    return out


_COMBINED = {"prod": np.multiply, "amin": np.minimum, "amax": np.maximum}


def _reduced(x: Any, dim: int, index: Any, src: Any, reduce: str) -> Any:
    out = x.copy()
    for position, target in enumerate(index):
        at = _along(dim, target)
        out[at] = _COMBINED[reduce](out[at], src[_along(dim, position)])
    return out


_MANY = Index(tuple(k * 7 % 20 for k in range(30)))
_LARGE = Large((12, 20, 15), -1.0, 1.0)
_PICKED = [
    (_LARGE, 1, _MANY),
    (x(4), 0, _TWICE),
    (x(3, 4), 0, _TWICE),
    (x(2, 3, 2), 1, _TWICE),
    (x(2, 3), 1, Index((1,))),
    (x(3, 4), 0, _NONE),
    (x(0, 3), 1, _TWICE),
]
_PLACED = [
    (_LARGE, 1, _MANY, Large((12, 30, 15), -1.0, 1.0)),
    (Large((20,)), 0, _MANY, Large((30,))),
    (Large((20, 600)), 0, Index((3, 3)), Large((2, 600))),
    (x(4), 0, _TWICE, x(3)),
    (x(3, 4), 0, _TWICE, x(3, 4, high=1.9)),
    (x(2, 3, 2), 1, _TWICE, x(2, 3, 2, high=1.9)),
    (x(2, 3), 1, Index((1,)), x(2, 1)),
    (x(3, 4), 0, _NONE, x(0, 4)),
    (x(0, 3), 1, _TWICE, x(0, 3)),
]
_EXTREME = Values((0.0, -0.0, math.inf, -math.inf, math.nan, 3.0, -3.0, 2.0))
_REDUCED = [(*e, reduce) for e in _PLACED for reduce in _COMBINED] + [
    (
        _EXTREME,
        0,
        Index((0, 1, 2, 2, 5, 6, 7, 7, 5)),
        Values((math.nan, 0.0, 1.0, 0.0, 3.0, 9.0, 4.0, 0.0, 2.0)),
        reduce,
    )
    for reduce in _COMBINED
]
_SIXTEEN_BITS = Index((70_000, 3, 65_536, 3, 0, 70_000))
_GRID = Index(((0, 2, 1), (2, 2, 0)))  # ties along dim 1 and along dim 0
_GATHERED = [(x(3, 4), 0, _GRID), (x(2, 3), 1, _GRID), (x(4), 0, _TWICE), (x(3, 4), 1, EmptyIndex((0, 2)))]
_SCATTERED = [
    (x(3, 4), 0, _GRID, x(2, 3)),
    (x(2, 3), 1, _GRID, x(2, 3, high=1.9)),
    (x(4), 0, _TWICE, x(3)),
    (x(3, 4), 1, EmptyIndex((0, 2)), x(0, 2)),
]
row("index_select", lambda x, dim, index: np.take(x, index, dim), _PICKED)
row("index_put", _put, _PLACED)
row("index_add", _added, _PLACED, kinds=("float", "int"), loose=2)
row("index_reduce", _reduced, _REDUCED, kinds=("float", "int"), loose=2)
row(
    "index_order",
    lambda index, size: np.argsort(index, kind="stable"),
    [(_TWICE, 3), (_MANY, 20), (_NONE, 3), (_NONE, 0), (Index((0,)), 1), (_SIXTEEN_BITS, 70_001)],
    int64_only=True,
)
row("nonzero", lambda x: np.argwhere(x).astype(int64), [(Mask((2, 3)),), (Mask((4,)),), (Mask(()),), (Mask((0, 3)),)])
row("gather", lambda x, dim, index: x[indices(dim, index)], _GATHERED)
row("scatter", _scattered, _SCATTERED)
row("scatter_add", _scatter_added, _SCATTERED, kinds=("float", "int"), loose=2)
row(
    "one_hot",
    lambda index, classes: np.eye(classes, dtype=int64)[index],
    [(_TWICE, 3), (_TWICE, 5), (_GRID, 3), (Index(1), 2), (_NONE, 3)],
    int64_only=True,
)


def _refused(index: int) -> Exception:
    return IndexError(f"{index} is out of range")


row(
    "bounded",
    lambda index, low, high, error, ignored: np.clip(np.where(index == ignored, low, index), low, high),
    [
        (_TWICE, 0, 2, _refused, None),
        (_GRID, 0, 2, _refused, None),
        (Index((3, -100, -1)), -3, 3, _refused, -100),
        (Index(1), 0, 1, _refused, None),
        (_NONE, 0, 3, _refused, None),
    ],
    int64_only=True,
    fresh=False,
)
row("accumulate", np.add, [(x(2, 3), x(2, 3, high=1.9)), (x(), x(high=1.9)), (x(0, 3), x(0, 3))])
row(
    "accumulate_slice",
    lambda total, key, grad: _sliced(total, key, grad),
    [
        (x(3, 4), (0, 1), x()),
        (x(3, 4), (1, slice(0, 4, 2)), x(2)),
        (x(3, 4), (slice(None, None, -1), slice(3, 0, -2)), x(3, 2)),
        (x(3, 4), (None, 1, _ALL), x(1, 4)),
        (x(3, 4), (slice(2, 2, 1), _ALL), x(0, 4)),
        (x(), (), x(high=1.9)),
        (x(), (None,), x(1)),
    ],
)
row("accumulate_index", _added, _PLACED, loose=2)


def _sliced(total: Any, key: Any, grad: Any) -> Any:
    out = total.copy()
    out[key] += grad
    return out


_WORDS = Index((2, 0, 2))
_SENTENCES = Index((((0, 1), (2, 2)), ((1, 0), (0, 2))))


def _embedding_backward(grad: Any, index: Any, shape: Any, padding: int | None) -> Any:
    out = np.zeros(shape)
    np.add.at(out, index, grad)
    if padding is not None:
        out[padding] = 0
    return out


row(
    "embedding",
    lambda weight, index, padding: weight[index],
    [
        (x(4, 3), _WORDS, None),
        (x(4, 2), _SENTENCES, 3),
        (x(4, 2), Index(1), None),
        (x(4, 2), EmptyIndex(), None),
        (Large((4, 2)), _SENTENCES, 2),
    ],
)
row(
    "embedding_backward",
    _embedding_backward,
    [
        (x(3, 3), _WORDS, (4, 3), None),
        (x(2, 2, 2, 2), _SENTENCES, (4, 2), 2),
        (x(2), Index(1), (4, 2), None),
        (x(0, 2), EmptyIndex(), (4, 2), None),
        (Large((30, 20)), Index(tuple(k * 7 % 10 for k in range(30))), (10, 20), 3),
    ],
    loose=4,
)


def _sum_rows(x: Any, source: Any, target: Any, scale: Any, count: int) -> Any:
    out = np.zeros((count, x.shape[1]))
    for k, (a, b) in enumerate(zip(source, target, strict=True)):
        out[b] += scale[k] * x[a]
    return out


_SQUARES = tuple(k * k % 7 for k in range(60))
_ASCENDING = tuple(k // 9 for k in range(60))
_SOURCE, _TARGET = Index((2, 0, 2, 1, 2)), Index((0, 0, 1, 3, 1))
row(
    "sum_rows",
    _sum_rows,
    [
        (x(3, 4), _SOURCE, _TARGET, x(5), 4),
        (x(3, 1), _SOURCE, Index((1, 1, 1, 1, 1)), x(5), 2),
        (x(3, 4), EmptyIndex(), EmptyIndex(), x(0), 2),
        (Large((7, 37)), Index(_SQUARES), Index(_ASCENDING), Large((60,)), 8),
    ],
    loose=8,
)
row(
    "dot_rows",
    lambda x, y, source, target: (x[source] * y[target]).sum(1),
    [
        (x(3, 4), x(4, 4), _SOURCE, _TARGET),
        (x(3, 4), x(2, 4), EmptyIndex(), EmptyIndex()),
        (Large((7, 37)), Large((7, 37)), Index(_SQUARES), Index(_ASCENDING)),
    ],
    loose=16,
)
