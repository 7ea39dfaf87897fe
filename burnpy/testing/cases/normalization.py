"""Examples of normalization and of running statistics."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.testing.cases.samples import Index, Large, Values, x
from burnpy.testing.cases.table import row


def _normalize(x: Any, weight: Any, bias: Any, dims: Any, eps: float) -> Any:
    mean = x.mean(dims, keepdims=True)
    var = ((x - mean) ** 2).mean(dims, keepdims=True)
    return (x - mean) / np.sqrt(var + eps) * weight + bias, mean, var


def _backward(grad: Any, x: Any, weight: Any, mean: Any, var: Any, dims: Any, eps: float) -> Any:
    normal = (x - mean) / np.sqrt(var + eps)
    g = grad * weight
    part = g - g.mean(dims, keepdims=True) - normal * (g * normal).mean(dims, keepdims=True)
    rest = tuple(d for d in range(x.ndim) if d < x.ndim - weight.ndim or weight.shape[d - x.ndim] == 1 != x.shape[d])
    return part / np.sqrt(var + eps), *((a.sum(rest).reshape(weight.shape)) for a in (grad * normal, grad))


def _rms_norm_backward(grad: Any, x: Any, weight: Any, dims: Any, eps: float) -> Any:
    square = (x**2).mean(dims, keepdims=True)
    parts = _backward(grad, x, weight, np.zeros(square.shape), square, dims, eps)
    return parts[0] + (grad * weight).mean(dims, keepdims=True) / np.sqrt(square + eps), parts[1]


def _moments(shape: Any, dims: Any, kind: Any) -> tuple[Any, Any]:
    """Describe a random mean and variance, which need not be those of x to test the backward operation."""
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
