"""Examples of cross entropy, means over masks and connectionist temporal classification."""

from __future__ import annotations

from itertools import groupby, product
from typing import Any

import numpy as np

from burnpy.testing.cases.samples import Array, EmptyIndex, Index, Large, Mask, x
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


def _paths(log_p: Any, labels: Any, step: int, length: int, blank: int) -> Any:
    """Yield each alignment of one sequence, (steps,), and its probability."""
    for path in product(range(log_p.shape[1]), repeat=step):
        if [label for label, _ in groupby(path) if label != blank] == [*labels[:length]]:
            yield path, np.exp(sum(log_p[t, label] for t, label in enumerate(path)))


def _ctc_loss(log_p: Any, labels: Any, steps: Any, lengths: Any, blank: int) -> Any:
    with np.errstate(divide="ignore"):
        totals = [
            sum(p for _, p in _paths(log_p[:, n], labels[n], int(steps[n]), int(lengths[n]), blank))
            for n in range(log_p.shape[1])
        ]
        return -np.log(np.array(totals, "float64"))


def _ctc_loss_backward(grad: Any, log_p: Any, labels: Any, steps: Any, lengths: Any, blank: int) -> Any:
    out = np.zeros(log_p.shape)
    for n in range(log_p.shape[1]):
        paths = list(_paths(log_p[:, n], labels[n], int(steps[n]), int(lengths[n]), blank))
        for path, p in paths:
            out[range(len(path)), n, path] -= grad[n] * p / sum(q for _, q in paths)
    return out


_EXAMPLES: list[tuple[Any, ...]] = [  # shape of log_p, labels, steps, lengths, blank
    ((4, 2, 3), Index(((1, 2), (2, 2))), Index((4, 3)), Index((2, 2)), 0),
    ((3, 3, 3), Index(((0, 1), (1, 1), (0, 0))), Index((3, 2, 2)), Index((2, 2, 0)), 2),
    ((3, 2, 2), Index(((1,), (1,))), Index((1, 0)), Index((1, 0)), 0),
    ((2, 1, 3), EmptyIndex((1, 0)), Index((2,)), Index((0,)), 1),
]

row(
    "ctc_loss",
    _ctc_loss,
    [((Array if k < 1 else Large)(shape, -2.0, 0.0), *how) for k, (shape, *how) in enumerate(_EXAMPLES)],
    loose=16,
)
row(
    "ctc_loss_backward",
    _ctc_loss_backward,
    [
        ((Array if k < 1 else Large)(shape[1:2], -1.0, 1.0), (Array if k < 1 else Large)(shape, -2.0, 0.0), *how)
        for k, (shape, *how) in enumerate(_EXAMPLES)
    ],
    loose=32,
)
