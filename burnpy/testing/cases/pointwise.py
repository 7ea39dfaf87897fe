"""Cases of arithmetic, comparisons and functions of one element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.testing.cases.samples import ByKind, Large, Mask, Values, x
from burnpy.testing.cases.table import row

_INF, _NAN = math.inf, math.nan
_LARGE = Large((96, 100))
EDGES = Values((0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -3.0, _INF, -_INF, _NAN))
_LEFT = Values((0.0, 0.0, 1.0, -1.0, _INF, _INF, -_INF, _NAN, 2.0, 3.0, -3.0, _INF))
_RIGHT = Values((0.0, 2.0, _INF, 1.0, _INF, -_INF, 2.0, 1.0, _NAN, -2.0, 2.0, 3.0))
_DIVISORS = Values((2.0, -2.0, 3.0, -3.0, 1.0, -1.0))
_DIVIDENDS = Values((3.0, 3.0, -7.0, -7.0, 6.0, 0.0))

UNARY = [(x(2, 3),), (x(),), (x(0, 3),), (x(3, 1, 2),), (EDGES,), (_LARGE,)]
_HALF = ByKind(0.75, 2)
PAIRS: list[tuple[Any, ...]] = [
    (x(2, 3), x(2, 3, high=1.9)),
    (x(2, 3), x(3)),
    (x(3, 1), x(1, 2)),
    (x(), x(2)),
    (x(2), x()),
    (x(), x(high=1.9)),
    (x(0, 3), x(1, 3)),
    (x(2, 3), _HALF),
    (x(), _HALF),
    (_LEFT, _RIGHT),
    (_LARGE, Large((100,), high=1.9)),
]


def _positive(low: float = 0.3) -> list[tuple[Any, ...]]:
    return [(x(2, 3, low=low),), (x(low=low),), (x(0, 3),), (EDGES,)]


def _over(*, edges: bool = True) -> list[tuple[Any, ...]]:
    """Return pairs whose second member is positive, and not 0 for ints."""
    pairs = [
        (x(2, 3), x(2, 3, low=0.4)),
        (x(2, 3), x(3, low=0.4)),
        (x(3, 1), x(1, 2, low=0.4)),
        (x(), x(2, low=0.4)),
        (x(2), x(low=0.4)),
        (x(0, 3), x(1, 3, low=0.4)),
        (x(2, 3), _HALF),
    ]
    return [*pairs, (_LEFT, _RIGHT)] if edges else [*pairs, (_DIVIDENDS, _DIVISORS)]


_POWERS = [
    (x(2, 3, low=0.4), x(2, 3, low=0.1, high=0.9)),
    (x(2, 3, low=0.4), x(3, low=0.1, high=0.9)),
    (x(low=0.4), x(2, low=0.1, high=0.9)),
    (x(2, low=0.4), x(low=0.1, high=0.9)),
    (x(0, 2), x(2, low=0.1, high=0.9)),
    *((x(2, 3, low=0.4), ByKind(y, y)) for y in (0, 1, 2, 3, 4, 5)),
    *((x(2, 3, low=0.4), ByKind(y, 2)) for y in (0.5, -0.5, -1.0, -2.0, -3.0, 1.5)),
    *((x(2, 3, low=-1.9, high=-0.1), ByKind(y, y)) for y in (2, 3)),
    (_LEFT, Values((0.0, 2.0, 1.0, 1.0, 0.0, 2.0, 1.0, 0.0, 0.0, 2.0, 2.0, 0.5))),
]
_LOW, _HIGH = ByKind(-0.5, 1), ByKind(0.75, 3)
_sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731

row("add", np.add, PAIRS)
row("sub", np.subtract, PAIRS)
row("mul", np.multiply, PAIRS)
row("div", np.divide, _over())
row("pow", np.power, _POWERS, loose=2)
row("maximum", np.maximum, PAIRS)
row("minimum", np.minimum, PAIRS)
row("clamp_min", np.maximum, PAIRS)
row("clamp_max", np.minimum, PAIRS)
row(
    "clamp_between",
    lambda x, low, high: np.minimum(np.maximum(x, low), high),
    [
        (x(2, 3), x(2, 3, high=-0.5), x(2, 3, low=0.5, high=1.9)),
        (x(2, 3), x(3, high=0.5), x(2, 1, low=-0.5)),
        (x(3, 1), x(), x(1, 2)),
        (x(), x(high=-0.1), x(2, low=0.1)),
        (x(), x(high=1.9), x(high=0.9)),
        (x(0, 3), x(1, 3), x()),
        (_LEFT, _RIGHT, Values((1.0, 2.0, _NAN, 1.0, -_INF, _INF, 2.0, 1.0, _NAN, 0.0, 3.0, -1.0))),
        (_LARGE, Large((100,), high=0.0), Large((96, 1), low=0.0)),
    ],
)
row("floor_divide", np.floor_divide, _over(edges=False))
row("remainder", np.remainder, _over(edges=False))

row("eq", np.equal, [*PAIRS, (EDGES, EDGES)])
row("ne", np.not_equal, [*PAIRS, (EDGES, EDGES)])
row("lt", np.less, PAIRS)
row("le", np.less_equal, [*PAIRS, (EDGES, EDGES)])
row("gt", np.greater, PAIRS)
row("ge", np.greater_equal, [*PAIRS, (EDGES, EDGES)])
row("bitwise_and", np.bitwise_and, PAIRS)
row("bitwise_or", np.bitwise_or, PAIRS)
row("bitwise_xor", np.bitwise_xor, PAIRS)
row("bitwise_not", np.bitwise_not, UNARY)
row("isnan", np.isnan, UNARY)
row("isinf", np.isinf, UNARY)
row("isfinite", np.isfinite, UNARY)
row(
    "where",
    np.where,
    [
        (Mask((2, 3)), x(2, 3), x(2, 3, high=1.9)),
        (Mask((3,)), x(2, 1), x(2, 3)),
        (Mask((2, 3)), x(), x(3)),
        (Mask(()), x(2), x()),
        (Mask(()), x(), x(high=1.9)),
        (Mask((2, 3)), x(2, 3), _HALF),
        (Mask((2, 3)), x(3), _HALF),
        (Mask((0, 3)), x(1, 3), x()),
        (Mask((12,)), _LEFT, _RIGHT),
        (Mask((96, 100)), _LARGE, Large((96, 100), high=1.9)),
        (Mask((96, 100)), _LARGE, ByKind(0.0, 0, False)),
        (Mask((96, 100)), _LARGE, _HALF),
        (Mask((100,)), _LARGE, Large((96, 1))),
    ],
)

row("neg", np.negative, UNARY)
row("abs", np.abs, UNARY)
row("sign", np.sign, UNARY)
row("floor", np.floor, UNARY)
row("ceil", np.ceil, UNARY)
row("round", np.round, [*UNARY, (Values((0.5, 1.5, 2.5, -0.5, -1.5)),)])
row("exp", np.exp, UNARY)
row("expm1", np.expm1, [*UNARY, (Values((2.0**-14, -(2.0**-14))),)])
row("log", np.log, _positive())
row("log1p", np.log1p, [*_positive(-0.7), (Values((2.0**-14, -(2.0**-14))),)])
row("sqrt", np.sqrt, _positive())
row("sin", np.sin, UNARY)
row("cos", np.cos, UNARY)
row("tanh", np.tanh, UNARY)
row("square", np.square, UNARY)
row("reciprocal", np.reciprocal, _positive())
row("rsqrt", lambda x: 1 / np.sqrt(x), _positive())
row("sigmoid", _sigmoid, [*UNARY, (Values((-80.0, 80.0)),)])
row("erf", np.vectorize(math.erf, [float]), [*UNARY, (Values((-6.0, 6.0, 1e-3, -0.25)),)])
row(
    "clamp",
    np.clip,
    [
        (a, *bounds)
        for a in (x(2, 3), x(), x(0, 3), EDGES, _LARGE)
        for bounds in ((_LOW, _HIGH), (_LOW, None), (None, _HIGH))
    ],
)
