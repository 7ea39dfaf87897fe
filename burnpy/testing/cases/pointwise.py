"""Examples of arithmetic, comparisons and functions of one element."""

from __future__ import annotations

import math

import numpy as np

from burnpy.testing.cases.samples import ByKind, Large, Mask, Values, x
from burnpy.testing.cases.table import SPECIAL, elementwise

_DIVIDENDS = (Values((3.0, 3.0, -7.0, -7.0, 6.0, 0.0)), Values((2.0, -2.0, 3.0, -3.0, 1.0, -1.0)))
_BASES = Values((0.0, 0.0, 1.0, -1.0, math.inf, math.inf, -math.inf, math.nan, 2.0, 3.0, -3.0, math.inf))
_EXPONENTS = Values((0.0, 2.0, 1.0, 1.0, 0.0, 2.0, 1.0, 0.0, 0.0, 2.0, 2.0, 0.5))
_POWERS = [
    *((x(2, 3, low=0.4), ByKind(y, y)) for y in (0, 1, 2, 3, 4, 5)),
    *((x(2, 3, low=0.4), ByKind(y, 2)) for y in (0.5, -0.5, -1.0, -2.0, -3.0, 1.5)),
    *((x(2, 3, low=-1.9, high=-0.1), ByKind(y, y)) for y in (2, 3)),
    (_BASES, _EXPONENTS),
]
_LOW, _HIGH = ByKind(-0.5, 1), ByKind(0.75, 3)
_POSITIVE, _NONZERO = (0.3, 2.0), (0.4, 2.0)

elementwise("add", np.add)
elementwise("sub", np.subtract)
elementwise("mul", np.multiply)
elementwise("div", np.divide, y=_NONZERO)
elementwise("pow", np.power, x=_NONZERO, y=(0.1, 0.9), special=(), also=_POWERS, loose=2)
elementwise("maximum", np.maximum)
elementwise("minimum", np.minimum)
elementwise("clamp_min", np.maximum)
elementwise("clamp_max", np.minimum)
elementwise("clamp_between", lambda x, low, high: np.minimum(np.maximum(x, low), high))
elementwise("floor_divide", np.floor_divide, y=_NONZERO, special=(), also=[_DIVIDENDS])
elementwise("remainder", np.remainder, y=_NONZERO, special=(), also=[_DIVIDENDS])

elementwise("eq", np.equal)
elementwise("ne", np.not_equal)
elementwise("lt", np.less)
elementwise("le", np.less_equal)
elementwise("gt", np.greater)
elementwise("ge", np.greater_equal)
elementwise("bitwise_and", np.bitwise_and)
elementwise("bitwise_or", np.bitwise_or)
elementwise("bitwise_xor", np.bitwise_xor)
elementwise("bitwise_not", np.bitwise_not)
elementwise("isnan", np.isnan)
elementwise("isinf", np.isinf)
elementwise("isfinite", np.isfinite)
elementwise(
    "where",
    np.where,
    also=[
        (Mask((96, 100)), Large((96, 100)), ByKind(0.0, 0, False)),
        (Mask((96, 100)), Large((96, 100)), ByKind(0.75, 2)),
        (Mask((100,)), Large((96, 100)), Large((96, 1))),
    ],
)

elementwise("neg", np.negative)
elementwise("abs", np.abs)
elementwise("sign", np.sign)
elementwise("floor", np.floor)
elementwise("ceil", np.ceil)
elementwise("round", np.round, special=(*SPECIAL, 1.5, 2.5, -0.5, -1.5))
elementwise("exp", np.exp)
elementwise("expm1", np.expm1, special=(*SPECIAL, 2.0**-14, -(2.0**-14)))
elementwise("log", np.log, x=_POSITIVE)
elementwise("log1p", np.log1p, x=(-0.7, 2.0), special=(*SPECIAL, 2.0**-14, -(2.0**-14)))
elementwise("sqrt", np.sqrt, x=_POSITIVE)
elementwise("sin", np.sin)
elementwise("cos", np.cos)
elementwise("tanh", np.tanh)
elementwise("square", np.square)
elementwise("reciprocal", np.reciprocal, x=_POSITIVE)
elementwise("rsqrt", lambda x: 1 / np.sqrt(x), x=_POSITIVE)
elementwise("sigmoid", lambda x: 1 / (1 + np.exp(-x)), special=(*SPECIAL, 80.0, -80.0))
elementwise("erf", np.vectorize(math.erf, [float]), special=(*SPECIAL, 6.0, -6.0, 1e-3, -0.25))
elementwise("clamp", np.clip, options=[(_LOW, _HIGH), (_LOW, None), (None, _HIGH)])

elementwise("gcd", np.gcd)
elementwise("lcm", np.lcm)
elementwise("bitwise_left_shift", np.left_shift, y=(0.0, 4.0), special=(0.0, 1.0, -1.0, 5.0, 7.0))
elementwise("bitwise_right_shift", np.right_shift, y=(0.0, 4.0), special=(0.0, 1.0, -1.0, 5.0, 7.0))
