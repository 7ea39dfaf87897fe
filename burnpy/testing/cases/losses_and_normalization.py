"""Examples of cross entropy, means over masks, connectionist temporal classification, and normalization."""

from __future__ import annotations

from itertools import groupby, product
from typing import Any

import numpy as np

from burnpy.testing.cases.samples import Array, EmptyIndex, Index, Large, Mask, Values, x
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


def _normalize(x: Any, weight: Any, bias: Any, dims: Any, eps: float) -> Any:
    mean = x.mean(dims, keepdims=True)
    var = ((x - mean) ** 2).mean(dims, keepdims=True)
    return (x - mean) / np.sqrt(var + eps) * weight + bias, mean, var


def _backward(grad: Any, x: Any, weight: Any, _mean: Any, _var: Any, dims: Any, eps: float) -> Any:
    root = np.sqrt(x.var(dims, keepdims=True) + eps)
    normal = (x - x.mean(dims, keepdims=True)) / root
    g = grad * weight
    part = g - g.mean(dims, keepdims=True) - normal * (g * normal).mean(dims, keepdims=True)
    return part / root, _sum_to(grad * normal, weight), _sum_to(grad, weight)


def _with_moments(device: Any, args: list[Any]) -> list[Any]:
    """Replace the samples of the mean and the variance."""
    grad, x, weight, _, _, dims, eps = args
    return [grad, x, weight, device.mean(x, dims, True), device.var(x, dims, True, 0.0), dims, eps]


def _sum_to(x: Any, weight: Any) -> Any:
    rest = tuple(d for d in range(x.ndim) if d < x.ndim - weight.ndim or weight.shape[d - x.ndim] == 1 != x.shape[d])
    return x.sum(rest).reshape(weight.shape)


def _rms_norm_backward(grad: Any, x: Any, weight: Any, dims: Any, eps: float) -> Any:
    square = (x**2).mean(dims, keepdims=True)
    root, g = np.sqrt(square + eps), grad * weight
    part = (g - x / root * (g * x / root).mean(dims, keepdims=True)) / root
    return part, _sum_to(grad * x / root, weight)


def _moments(shape: Any, dims: Any, kind: Any) -> tuple[Any, Any]:
    """Describe samples of the shape of the mean and the variance."""
    small = tuple(1 if d in dims else n for d, n in enumerate(shape))
    return kind(*small, low=-0.5, high=0.5), kind(*small, low=0.7, high=1.5)


def _large(*shape: int, low: float, high: float) -> Large:
    return Large(shape, low, high)


_SHAPES: list[tuple[Any, ...]] = [  # shape of x, shape of weight and bias, dims
    ((3, 4), (4,), (1,)),
    ((2, 2, 3), (2, 3), (1, 2)),
    ((3, 2, 2), (2, 1), (0, 2)),
    ((4, 3), (3,), (0,)),
    ((0, 3), (3,), (1,)),
    ((2, 2, 2, 2), (2, 2, 1), (2, 3)),
]
_LARGE: list[tuple[Any, ...]] = [
    ((90, 130), (130,), (1,)),
    ((30, 7, 200), (200,), (2,)),
    ((12, 9, 6, 30), (9, 1, 1), (0, 2, 3)),
    ((200, 40), (40,), (0,)),
    ((6, 4, 3, 50), (4, 3, 1), (2, 3)),
]
_EPS = 0.1

row(
    "normalize",
    _normalize,
    [
        *((x(*s), x(*w, low=0.3), x(*w, low=-1.0), dims, _EPS) for s, w, dims in _SHAPES),
        *((Large(s), Large(w, 0.3, 2.0), Large(w, -1.0, 1.0), dims, _EPS) for s, w, dims in _LARGE),
    ],
    loose=16,
)
row(
    "normalize_backward",
    _backward,
    [
        *((x(*s), x(*s, high=1.9), x(*w, low=0.3), *_moments(s, dims, x), dims, _EPS) for s, w, dims in _SHAPES),
        *(
            (Large(s, -1.0, 1.0), Large(s), Large(w, 0.3, 2.0), *_moments(s, dims, _large), dims, _EPS)
            for s, w, dims in _LARGE
        ),
    ],
    loose=64,
    completed=_with_moments,
)
row(
    "rms_norm",
    lambda x, weight, dims, eps: x / np.sqrt((x**2).mean(dims, keepdims=True) + eps) * weight,
    [
        *((x(*s), x(*w, low=0.3), dims, _EPS) for s, w, dims in _SHAPES),
        *((Large(s), Large(w, 0.3, 2.0), dims, _EPS) for s, w, dims in _LARGE),
    ],
    loose=16,
)
row(
    "rms_norm_backward",
    _rms_norm_backward,
    [
        *((x(*s), x(*s, high=1.9), x(*w, low=0.3), dims, _EPS) for s, w, dims in _SHAPES),
        *((Large(s, -1.0, 1.0), Large(s), Large(w, 0.3, 2.0), dims, _EPS) for s, w, dims in _LARGE),
    ],
    loose=64,
)
row(
    "batch_totals",
    lambda mean, var, factor: np.concatenate([mean.ravel(), [1.0], var.ravel() * factor, [1.0]]),
    [(x(3), x(3), 1.5), (x(1, 3, 1), x(1, 3, 1), 1.25), (x(0), x(0), 2.0), (Large((3000,)), Large((3000,)), 1.5)],
)
row(
    "average_update",
    lambda averages, totals, share: [
        a * (1 - share) + (t[:-1] / t[-1]).reshape(a.shape) * share for a, t in zip(averages, totals, strict=True)
    ],
    [
        ([], [], 0.1),
        ([x(3), x(), x(2, 3)], [x(4, low=0.5), x(2, low=0.5), x(7, low=0.5)], 0.1),
        ([x(0), x(3)], [x(1, low=0.5), x(4, low=0.5)], 1.0),
        ([Large((3000,))], [Large((3001,), 0.5, 2.0)], 0.25),
    ],
    loose=4,
)
row(
    "count_update",
    lambda count, total: count + np.rint(total[-1]).astype(np.int64),
    [(Index(5), Values((0.5, 2.0))), (Index(0), Values((1.0,))), (Index(3), Values((7.0, 7.0, 0.99)))],
)
