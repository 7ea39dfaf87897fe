"""Examples of linear, embedding, dropout and cross entropy."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.testing.cases.elementwise import elementwise
from burnpy.testing.cases.samples import EmptyIndex, Index, Large, Mask, x
from burnpy.testing.cases.table import indices, row

_MASKED = ((4,), (2, 3))
_ALL_MASKED = ((0, 2), ())  # where the mean is NaN
_CLASSES = Index((2, 0, 2))
_PICTURE = Index((((0, 1), (2, 2)), ((1, 0), (0, 2))))
_LOGITS = [
    (x(3, 4), _CLASSES, 1),
    (x(4), Index(3), 0),
    (x(2, 3, 2, 2), _PICTURE, 1),
    (x(0, 3), EmptyIndex(), 1),
    (Large((40, 30), -20.0, 20.0), Index(tuple(k * 7 % 30 for k in range(40))), 1),
]


def _cross_entropy(x: Any, index: Any, dim: int) -> Any:
    shift = x.max(dim, keepdims=True) if x.size else np.zeros((*x.shape[:dim], 1, *x.shape[dim + 1 :]))
    total = np.log(np.exp(x - shift).sum(dim, keepdims=True))
    picked = (x - shift)[indices(dim, np.expand_dims(index, dim))]
    return (total - picked).squeeze(dim), total + shift


def _cross_entropy_backward(grad: Any, x: Any, logsumexp: Any, index: Any, dim: int) -> Any:
    p = np.exp(x - logsumexp)
    out = p / p.sum(dim, keepdims=True) * np.expand_dims(grad, dim)
    out[indices(dim, np.expand_dims(index, dim))] -= np.expand_dims(grad, dim)
    return out


def _mean_cross_entropy(x: Any, index: Any, counted: Any, dim: int) -> Any:
    losses, total = _cross_entropy(x, index, dim)
    counted = np.ones(index.shape, bool) if counted is None else counted
    return np.where(counted, losses, 0).sum() / counted.sum(), total


def _mean_cross_entropy_backward(grad: Any, x: Any, logsumexp: Any, index: Any, counted: Any, dim: int) -> Any:
    counted = np.ones(index.shape, bool) if counted is None else counted
    return _cross_entropy_backward(np.where(counted, grad / counted.sum(), 0), x, logsumexp, index, dim)


def _linear_backward(grad: Any, x: Any) -> Any:
    leading = tuple(range(x.ndim - 1))
    return np.tensordot(x, grad, (leading, leading)), grad.sum(leading)


def _embedding_backward(grad: Any, index: Any, shape: Any, padding: int | None) -> Any:
    out = np.zeros(shape)
    np.add.at(out, index, grad)
    if padding is not None:
        out[padding] = 0
    return out


row(
    "linear",
    lambda x, weight, bias: x @ weight + bias,
    [
        (x(2, 3), x(3, 4), x(4)),
        (x(2, 2, 3), x(3, 2), x(2)),
        (x(3), x(3, 2), x(2)),
        (x(0, 3), x(3, 2), x(2)),
        (Large((40, 30), -1.0, 1.0), Large((30, 50), -1.0, 1.0), Large((50,))),
    ],
    loose=4,
)
row(
    "linear_backward",
    _linear_backward,
    [
        (x(2, 4), x(2, 3)),
        (x(2, 2, 2), x(2, 2, 3)),
        (x(2), x(3)),
        (x(0, 2), x(0, 3)),
        (x(2, 0), x(2, 3)),
        (x(2, 3), x(2, 0)),
        (Large((40, 50), -1.0, 1.0), Large((40, 30), -1.0, 1.0)),
    ],
    loose=4,
)
row(
    "embedding",
    lambda weight, index, padding: weight[index],
    [
        (x(4, 3), _CLASSES, None),
        (x(4, 2), _PICTURE, 3),
        (x(4, 2), Index(1), None),
        (x(4, 2), EmptyIndex(), None),
        (Large((4, 2)), _PICTURE, 2),
    ],
)
row(
    "embedding_backward",
    _embedding_backward,
    [
        (x(3, 3), _CLASSES, (4, 3), None),
        (x(2, 2, 2, 2), _PICTURE, (4, 2), 2),
        (x(2), Index(1), (4, 2), None),
        (x(0, 2), EmptyIndex(), (4, 2), None),
        (Large((30, 20)), Index(tuple(k * 7 % 10 for k in range(30))), (10, 20), 3),
    ],
    loose=4,
)
elementwise("masked_scale", lambda x, mask, scale: np.where(mask, x * scale, 0), options=[(1.25,)])
row(
    "masked_mean",
    lambda x, mask: np.where(mask, x, 0).sum() / mask.sum(),
    [
        *[(x(*shape), Mask(shape)) for shape in _MASKED],
        *[(Large(shape), Mask(shape)) for shape in ((40, 30), *_ALL_MASKED)],
    ],
    loose=4,
)
row(
    "masked_mean_backward",
    lambda grad, mask: np.where(mask, grad / mask.sum(), 0),
    [*[(x(), Mask(shape)) for shape in _MASKED], *[(Large(()), Mask(shape)) for shape in _ALL_MASKED]],
)
row("cross_entropy", _cross_entropy, _LOGITS, loose=8)
row(
    "cross_entropy_backward",
    _cross_entropy_backward,
    [
        (x(3), x(3, 4), x(3, 1, low=1.0), _CLASSES, 1),
        (x(), x(4), x(1, low=1.0), Index(3), 0),
        (x(2, 2, 2), x(2, 3, 2, 2), x(2, 1, 2, 2, low=1.0), _PICTURE, 1),
        (x(0), x(0, 3), x(0, 1), EmptyIndex(), 1),
    ],
    loose=8,
)
_COUNTED = [
    (x(3, 4), _CLASSES, None, 1),
    (x(3, 4), _CLASSES, Mask((3,)), 1),
    (x(4), Index(3), None, 0),
    (x(2, 3, 2, 2), _PICTURE, Mask((2, 2, 2)), 1),
    (Large((0, 3)), EmptyIndex(), Mask((0,)), 1),
    (Large((40, 30), -20.0, 20.0), Index(tuple(k * 7 % 30 for k in range(40))), Mask((40,)), 1),
]
row("mean_cross_entropy", _mean_cross_entropy, _COUNTED, loose=8)
row(
    "mean_cross_entropy_backward",
    _mean_cross_entropy_backward,
    [
        (x(), x(3, 4), x(3, 1, low=1.0), _CLASSES, None, 1),
        (x(), x(3, 4), x(3, 1, low=1.0), _CLASSES, Mask((3,)), 1),
        (x(), x(4), x(1, low=1.0), Index(3), None, 0),
        (x(), x(2, 3, 2, 2), x(2, 1, 2, 2, low=1.0), _PICTURE, Mask((2, 2, 2)), 1),
        (Large(()), Large((0, 3)), Large((0, 1)), EmptyIndex(), Mask((0,)), 1),
    ],
    loose=8,
)
