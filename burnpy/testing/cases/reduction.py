"""Examples of reductions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import int64
from burnpy.testing.cases.samples import Large, Mask, Values, x
from burnpy.testing.cases.table import row

_NAN, _INF = math.nan, math.inf
_EDGES = Values((1.0, -1.0, _INF, 2.0))
_BOTH = Values((1.0, _INF, -_INF, 2.0))
_WITH_NAN = Values((1.0, _NAN, 3.0, 2.0))
_TIES = Values((1.0, 3.0, 0.0, 3.0))
_MANY = x(2, 3, 2)
_LARGE = Large((12, 30, 25), 0.3, 1.0)  # so that float16 neither overflows nor cancels
_NARROW = Large((700,), 0.95, 1.05)

_FULL: list[tuple[Any, ...]] = [
    *(
        (_MANY, dims, keepdim)
        for dims in ((), (0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2))
        for keepdim in (False, True)
    ),
    (x(), (), False),
    (x(1, 3), (0,), False),
    *((edge, (0,), False) for edge in (_EDGES, _WITH_NAN, _TIES)),
    *((_LARGE, dims, keepdim) for dims in ((0,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)) for keepdim in (False, True)),
    (Large((9000,)), (0,), False),
]
_SOME_DIMS = ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))
_NARROWER = Large((12, 30, 9), 0.99, 1.01)
_PRODUCTS = [e for e in _FULL if not isinstance(e[0], Large)] + [(_NARROW, (0,), False)]
_EMPTY = [
    (x(0, 3), (1,), False),
    (x(2, 0), (0,), True),
]  # empty results of nonempty dims
_OF_NOTHING = [(x(0, 3), (0,), False), (x(2, 0), (0, 1), False), (x(2, 0), (1,), True)]
_NAN_OF_NOTHING = [(Values(()), (0,), keepdim) for keepdim in (False, True)]
_ALONG = [
    (_LARGE, 0),
    (_LARGE, 2),
    (_MANY, 0),
    (_MANY, 1),
    (_MANY, 2),
    (x(1, 3), 0),
    (x(0, 3), 1),
    (_EDGES, 0),
    (_WITH_NAN, 0),
]
_ONE: list[tuple[Any, ...]] = [(_MANY, dim, keepdim) for dim in (0, 1, 2) for keepdim in (False, True)]
_ONE.extend(
    [
        (x(0, 3), 1, False),
        (_LARGE, 1, False),
        *((edge, 0, keepdim) for edge in (_TIES, _WITH_NAN, _EDGES) for keepdim in (False, True)),
    ]
)


def _accumulated(f: Any) -> Any:
    """Wrap f so that it computes ints and bools in int64, as the operation is specified to."""

    def reference(x: Any, *arguments: Any) -> Any:
        return f(x if x.dtype.kind in "fc" else x.astype(int64), *arguments)

    return reference


def _reducing(f: Any) -> Any:
    return lambda x, dims, keepdim: f(x, axis=dims, keepdims=keepdim)


def _softmax(x: Any, dim: int) -> Any:
    if not x.size:
        return x
    e = np.exp(x - x.max(dim, keepdims=True))
    return e / e.sum(dim, keepdims=True)


def _logsumexp(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    logaddexp: Any = np.logaddexp
    return logaddexp.reduce(x, axis=dims, keepdims=keepdim, initial=-np.inf) if dims else x.copy()


def _mean(x: Any, dims: tuple[int, ...], keepdim: Any) -> Any:
    return np.sum(x, dims, keepdims=keepdim) / np.float64(math.prod(x.shape[d] for d in dims))


def _extreme(arg: Any) -> Any:
    def reference(x: Any, dim: int, keepdim: bool) -> Any:
        index = arg(x, dim, keepdims=True)
        values = np.take_along_axis(x, index, dim)
        return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))

    return reference


def _variance(x: Any, dims: Any, keepdim: bool, correction: float) -> Any:
    count = math.prod(x.shape[d] for d in dims)
    deviations = (x - _mean(x, dims, True)) ** 2
    return deviations.sum(dims, keepdims=keepdim) / max(count - correction, 0)


_SPREAD = [
    (*e, c)
    for e in [*_FULL[2:14], (_LARGE, (0, 1), False), (_LARGE, (2,), True), (_WITH_NAN, (0,), False)]
    for c in (0.0, 1.0)
    if not (c and e[1] == (1,))
]
_VARIANCES = [*_SPREAD, (x(5), (0,), False, 1.5), (x(3, 1), (1,), False, 0.0), (x(0, 3), (1,), False, 1.0)]
_CONSTANT: list[tuple[Any, ...]] = [(Values((0.1,) * n), (0,), False, 0.0) for n in (3, 700)]  # their sum is rounded
_CENTERED = [(e[0], e[1]) for e in [*_FULL[:15:2], *_FULL[17:], *_EMPTY, *_CONSTANT]]
_SMOOTH_STD = [e for e in _VARIANCES if e[0] is not _WITH_NAN and e[0] != x(3, 1)]
_JACOBIANS: list[tuple[Any, ...]] = [(x(2, 3, 2), x(2, 3, 2, low=0.1, high=0.9), dim) for dim in (0, 1, 2)] + [
    (x(0, 3), x(0, 3), 1)
]
_JACOBIANS.extend((Large((30, 50)), Large((30, 50), 0.1, 0.9), dim) for dim in (0, 1))


def _product_backward(grad: Any, x: Any, dims: tuple[int, ...]) -> Any:
    """Return grad times the product of the other elements: of those before, and of those after."""
    order = (*(d for d in range(x.ndim) if d not in dims), *dims)
    moved = x.transpose(order)
    lines = moved.reshape(*moved.shape[: x.ndim - len(dims)], math.prod(moved.shape[x.ndim - len(dims) :]))
    one = np.ones_like(lines[..., :1])
    before = np.cumprod(np.concatenate([one, lines[..., :-1]], -1), -1)
    after = np.cumprod(np.concatenate([one, lines[..., :0:-1]], -1), -1)[..., ::-1]
    return grad * (before * after).reshape(moved.shape).transpose(np.argsort(order))


row("sum", _accumulated(_reducing(np.sum)), [*_FULL, *_EMPTY, *_OF_NOTHING, (_BOTH, (0,), False)], loose=4)
row("prod", _accumulated(_reducing(np.prod)), [*_PRODUCTS, *_EMPTY, *_OF_NOTHING], loose=4)
row(
    "prod_backward",
    _product_backward,
    [
        *((x(*(1 if d in dims else n for d, n in enumerate((2, 3, 2)))), _MANY, dims) for dims in _SOME_DIMS),
        *((Values((1.0,)), values, (0,)) for values in (_EDGES, _WITH_NAN, _TIES)),
        *(
            (Large(tuple(1 if d in dims else n for d, n in enumerate((12, 30, 9)))), _NARROWER, dims)
            for dims in _SOME_DIMS[:-1]
        ),
        (x(1, 3), x(0, 3), (0,)),
    ],
    loose=16,
)
row(
    "nansum",
    _reducing(np.nansum),
    [
        *_FULL,
        *_EMPTY,
        (Values((math.nan, 1.0, -0.0, math.inf, math.nan, math.nan), (3, 2)), (1,), False),
        (Large((40, 70)), (1,), False),
        (Large((64, 80), 0.3, 1.0), (0, 1), False),
    ],
    loose=4,
)
row("amax", _reducing(np.max), [*_FULL, *_EMPTY])
row("amin", _reducing(np.min), [*_FULL, *_EMPTY])
row("argmax", lambda x, dim, keepdim: np.argmax(x, dim, keepdims=keepdim), _ONE)
row("argmin", lambda x, dim, keepdim: np.argmin(x, dim, keepdims=keepdim), _ONE)
row("any", _reducing(np.any), [(Mask(a.shape), *rest) for a, *rest in [*_FULL[:16], *_EMPTY, *_OF_NOTHING]])
row("all", _reducing(np.all), [(Mask(a.shape), *rest) for a, *rest in [*_FULL[:16], *_EMPTY, *_OF_NOTHING]])
row("cumsum", _accumulated(np.cumsum), [*_ALONG, (x(0, 3), 0)], loose=4)
row("mean", _mean, [*_FULL, *_EMPTY, *_NAN_OF_NOTHING], loose=4)
row("var", _variance, _VARIANCES, loose=4)
row("std", lambda *a: np.sqrt(_variance(*a)), [*_SMOOTH_STD, *_CONSTANT], loose=4)
row("center", lambda x, dims: x - _mean(x, dims, True), _CENTERED, loose=8)
row("logsumexp", _logsumexp, [*_FULL, *_EMPTY, (Values((-_INF, -_INF)), (0,), False), (x(0, 3), (1,), True)], loose=4)
row("softmax", _softmax, _ALONG, loose=2)
row("log_softmax", lambda x, dim: np.log(_softmax(x, dim)), _ALONG, loose=4)
row(
    "softmax_backward",
    lambda grad, out, dim: grad * out - out * (grad * out).sum(dim, keepdims=True),
    _JACOBIANS,
    loose=4,
)
row(
    "log_softmax_backward",
    lambda grad, out, dim: grad - np.exp(out) * grad.sum(dim, keepdims=True),
    _JACOBIANS,
    loose=16,
)
row("max_dim", _extreme(np.argmax), _ONE)
row("min_dim", _extreme(np.argmin), _ONE)


def _sum_to(x: Any, shape: tuple[int, ...]) -> Any:
    lead = x.ndim - len(shape)
    dims = (*range(lead), *(lead + d for d, n in enumerate(shape) if n == 1 != x.shape[lead + d]))
    out = x.sum(dims, keepdims=True) if dims else x
    return out.reshape(shape)


row(
    "sum_to",
    _accumulated(_sum_to),
    [
        *((_MANY, shape) for shape in ((2, 3, 2), (3, 2), (2,), (), (1, 3, 1), (1, 1), (2, 1, 2))),
        (x(), ()),
        (x(0, 3), (3,)),
        (x(0, 3), (1, 3)),
        (x(0, 3), (0, 1)),
        *((_LARGE, shape) for shape in ((25,), (30, 1), (12, 1, 25), ())),
    ],
    kinds=("float",),
    fresh=False,
    loose=4,
)
