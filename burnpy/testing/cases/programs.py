"""Cases of `Backend.run`, programs with all extents of inputs, and examples of operations on lists."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from burnpy.backend.programs import Extent, Input, trace
from burnpy.testing.cases.samples import CASE, ByDType, Index, Large, Mask, x
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

_FULL, _ROW, _COLUMN, _SCALAR = Extent.FULL, Extent.ROW, Extent.COLUMN, Extent.SCALAR


def _wave(b: Any, x: Any, scale: Any, shift: Any, number: Any) -> Any:
    """Elementwise, of all extents: tanh(x · scale + shift) · number."""
    return b.mul(b.tanh(b.add(b.mul(x, scale), shift)), number)


def _spread(b: Any, x: Any, weight: Any) -> Any:
    """With a sum of each row: x · weight / √(mean(x²) + 1)."""
    return b.mul(b.div(x, b.sqrt(b.add(b.mean(b.square(x), (1,), True), 1.0))), weight)


def _weighted(b: Any, x: Any, factor: Any) -> Any:
    """Three results: exp(x), the sum of exp(x) · factor over rows, and the largest of each row."""
    e = b.exp(x)
    return e, b.sum(b.mul(e, factor), (0,), False), b.amax(x, (1,), True)


def _picked(b: Any, x: Any, index: Any) -> Any:
    """One element of each row: (x - Σ x)[index]."""
    return b.gather(b.sub(x, b.sum(x, (1,), True)), 1, index)


def _program(f: Callable[..., Any], *extents: Extent, index: bool = False) -> ByDType:
    def make(dtype: Any) -> Any:
        inputs = [Input(extent, dtype.name) for extent in extents]
        return trace(f, (*inputs, Input(_COLUMN, "int64")) if index else tuple(inputs))

    return ByDType(make, f.__name__)


_PROGRAMS = {
    _wave: _program(_wave, _FULL, _ROW, _COLUMN, _SCALAR),
    _spread: _program(_spread, _FULL, _ROW),
    _weighted: _program(_weighted, _FULL, _COLUMN),
    _picked: _program(_picked, _FULL, index=True),
}


def _reference(program: Any, xs: list[Any], numbers: tuple[float, ...]) -> list[Any]:
    if program.name == "_wave":
        return [np.tanh(xs[0] * xs[1] + xs[2]) * numbers[0]]
    if program.name == "_spread":
        return [xs[0] / np.sqrt((xs[0] ** 2).mean(1, keepdims=True) + 1) * xs[1]]
    if program.name == "_weighted":
        return [np.exp(xs[0]), (np.exp(xs[0]) * xs[1]).sum(0), xs[0].max(1, keepdims=True)]
    return [np.take_along_axis(xs[0] - xs[0].sum(1, keepdims=True), xs[1], 1)]


row(
    "run",
    _reference,
    [
        (_PROGRAMS[_wave], [x(3, 4), x(4), x(3, 1)], (1.5,)),
        (_PROGRAMS[_wave], [x(0, 4), x(4), x(0, 1)], (1.5,)),
        (_PROGRAMS[_wave], [Large((90, 61)), Large((61,)), Large((90, 1))], (0.5,)),
        (_PROGRAMS[_spread], [x(3, 4), x(4)], ()),
        (_PROGRAMS[_spread], [Large((30, 150)), Large((150,))], ()),
        (_PROGRAMS[_weighted], [x(3, 4), x(3, 1)], ()),
        (_PROGRAMS[_weighted], [Large((300, 17), -0.1, 0.1), Large((300, 1), 0.1, 0.2)], ()),
        (_PROGRAMS[_picked], [x(3, 4), Index(((1,), (0,), (3,)))], ()),
    ],
    kinds=("float",),
    loose=16,
)
