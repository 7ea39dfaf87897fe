"""Examples of embeddings and of weighted sums of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.testing.cases.samples import EmptyIndex, Index, Large, x
from burnpy.testing.cases.table import row

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


_MANY = tuple(k * k % 7 for k in range(60))
_ASCENDING = tuple(k // 9 for k in range(60))
_SOURCE, _TARGET = Index((2, 0, 2, 1, 2)), Index((0, 0, 1, 3, 1))

row(
    "sum_rows",
    _sum_rows,
    [
        (x(3, 4), _SOURCE, _TARGET, x(5), 4),
        (x(3, 1), _SOURCE, Index((1, 1, 1, 1, 1)), x(5), 2),
        (x(3, 4), EmptyIndex(), EmptyIndex(), x(0), 2),
        (Large((7, 37)), Index(_MANY), Index(_ASCENDING), Large((60,)), 8),
    ],
    loose=8,
)
row(
    "dot_rows",
    lambda x, y, source, target: (x[source] * y[target]).sum(1),
    [
        (x(3, 4), x(4, 4), _SOURCE, _TARGET),
        (x(3, 4), x(2, 4), EmptyIndex(), EmptyIndex()),
        (Large((7, 37)), Large((7, 37)), Index(_MANY), Index(_ASCENDING)),
    ],
    loose=16,
)
