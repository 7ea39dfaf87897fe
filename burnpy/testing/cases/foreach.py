"""Examples of operations on lists."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.testing.cases.samples import CASE, Large, Mask, x
from burnpy.testing.cases.table import row

_EACH: list[tuple[Any, ...]] = [([x(2, 3)],), ([x(3, low=0.5), x(), x(0, 2), x(2, 1, 3)],)]
_LARGE = ([Large((130, 140)), x(4), Large((33,))],)


def _pairs(*shapes: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
    return [x(*shape) for shape in shapes], [x(*shape, low=-1.0, high=1.5) for shape in shapes]


_PAIRS = [_pairs((2, 3)), _pairs((3,), (), (0, 2), (2, 1, 3))]


def _one(number: Any, k: int) -> Any:
    return number[k] if np.ndim(number) else number


def _norms(xs: Any, p: float) -> Any:
    return np.array([np.linalg.norm(x.reshape(-1), p) if x.size else 0.0 for x in xs])


def _total(xs: Any, p: float) -> Any:
    return np.linalg.norm(_norms(xs, p), p) if xs else np.zeros(())


_NUMBERS = [
    *((*xs, number) for xs in (*_EACH, _LARGE) for number in (-2.5, x(low=0.5))),
    (*_EACH[1], x(4, low=0.5)),
]
row(
    "foreach_mul",
    lambda xs, factor: [x * _one(factor, k) for k, x in enumerate(xs)],
    _NUMBERS,
    loose=2,
)
row(
    "foreach_div",
    lambda xs, divisor: [x / _one(divisor, k) for k, x in enumerate(xs)],
    _NUMBERS,
    loose=2,
)
row(
    "foreach_add",
    lambda xs, ys, alpha: [x + alpha * y for x, y in zip(xs, ys, strict=True)],
    [(*pair, alpha) for pair in _PAIRS for alpha in (1.0, -0.5)],
    loose=2,
)
row(
    "foreach_lerp",
    lambda xs, ys, weight: [x + weight * (y - x) for x, y in zip(xs, ys, strict=True)],
    [(*pair, 0.25) for pair in _PAIRS],
    loose=3,
)
row(
    "foreach_clamp",
    lambda xs, low, high: [np.clip(x, low, high) for x in xs],
    [(*xs, -0.75, 1.25) for xs in _EACH],
    fresh=False,
)
row(
    "foreach_where",
    lambda condition, xs, ys: xs if condition else ys,
    [(Mask(()), *pair) for pair in _PAIRS],
    kinds=("float",),
)
row("foreach_cast", lambda xs, dtype: [x.astype(dtype) for x in xs], [(*xs, CASE) for xs in _EACH], fresh=False)
_ORDERS = [(*xs, p) for xs in (*_EACH, _LARGE) for p in (2.0, 1.0, math.inf, 3.0)]
row("foreach_norm", _norms, _ORDERS, loose=8, widened=True)
row("total_norm", _total, _ORDERS, loose=8, widened=True)
