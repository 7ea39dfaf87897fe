"""Examples of elementwise operations: arithmetic, comparisons, elementary functions, activations, complex numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.testing.cases.samples import ByKind, Large, Mask, Values, x
from burnpy.testing.cases.table import SPECIAL, elementwise, row

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

_NEXT_TO_0 = (*SPECIAL, 2.0**-14, -(2.0**-14))
elementwise("tan", np.tan, x=(-1.2, 1.2), loose=2)
elementwise("asin", np.arcsin, x=(-0.8, 0.8), special=_NEXT_TO_0)
elementwise("acos", np.arccos, x=(-0.8, 0.8))
elementwise("atan", np.arctan, special=_NEXT_TO_0)
elementwise("sinh", np.sinh, special=_NEXT_TO_0)
elementwise("cosh", np.cosh)
elementwise("asinh", np.arcsinh, special=(*_NEXT_TO_0, 1e4, -1e4))
elementwise("acosh", np.arccosh, x=(1.2, 3.0), special=(*SPECIAL, 1e4))
elementwise("atanh", np.arctanh, x=(-0.7, 0.7), special=_NEXT_TO_0)
elementwise("exp2", np.exp2)
elementwise("log2", np.log2, x=_POSITIVE)
elementwise("log10", np.log10, x=_POSITIVE)
elementwise("trunc", np.trunc, special=(*SPECIAL, 2.5, -2.5, -0.5))

_SPECIAL = (0.0, -0.0, 1.0, -1.0, 3.0, math.inf, -math.inf, math.nan)


def _xlogy(x: Any, y: Any) -> Any:
    return np.where((x == 0) & (y == y), 0.0, x * np.log(y))


def _xlog1py(x: Any, y: Any) -> Any:
    return np.where((x == 0) & (y == y), 0.0, x * np.log1p(y))


def _entr(x: Any) -> Any:
    return np.where(x == 0, 0.0, np.where(x < 0, -np.inf, -x * np.log(x)))


elementwise("atan2", np.arctan2, x=_NONZERO, special=_SPECIAL)
elementwise("hypot", np.hypot, x=_NONZERO, special=_SPECIAL)
elementwise("copysign", np.copysign, x=_NONZERO, special=_SPECIAL)
elementwise("signbit", np.signbit, special=_SPECIAL[:-1])
elementwise("fmod", np.fmod, y=_NONZERO, special=(), also=[_DIVIDENDS])
elementwise("fmax", np.fmax, special=_SPECIAL)
elementwise("fmin", np.fmin, special=_SPECIAL)
elementwise("logaddexp", np.logaddexp, special=_SPECIAL)
elementwise("logaddexp2", np.logaddexp2, special=_SPECIAL)
elementwise("nextafter", np.nextafter, special=(0.0, -0.0, 1.0, -1.0, 3.0, math.nan))  # bits in tests/tensor
elementwise("xlog1py", _xlog1py, y=_POSITIVE, special=_SPECIAL, loose=2)
elementwise("xlogy", _xlogy, y=_POSITIVE, special=_SPECIAL, loose=2)
elementwise("squared_difference", lambda x, y: (x - y) ** 2, special=_SPECIAL)
elementwise("entr", _entr, x=(0.3, 3.0))

_MODERATE = (0.0, -0.0, 1.0, -1.0, 6.0, -6.0, math.nan)
"""Special values without the infinities, where the references return NaN."""


def _normal(x: Any) -> Any:
    return 0.5 * (1 + np.vectorize(math.erf, [float])(x / math.sqrt(2)))


def _gelu(x: Any, approximate: bool) -> Any:
    if approximate:
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x * _normal(x)


def _gelu_backward(grad: Any, x: Any, approximate: bool) -> Any:
    if approximate:
        t = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
        inner = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
        return grad * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner)
    return grad * (_normal(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi))


def _silu_backward(grad: Any, x: Any) -> Any:
    s = 1 / (1 + np.exp(-x))
    return grad * s * (1 + x * (1 - s))


def _hardswish(x: Any) -> Any:
    return x * np.clip(x + 3, 0, 6) / 6


elementwise("relu", lambda x: np.maximum(x, 0))
elementwise("relu_backward", lambda grad, out: np.where(out != 0, grad, 0), special=(*SPECIAL, 5e-8))
elementwise("gelu", _gelu, options=[(False,), (True,)], special=_MODERATE, loose=2)
elementwise("gelu_backward", _gelu_backward, options=[(False,), (True,)], special=_MODERATE, loose=4)
elementwise("silu", lambda x: x / (1 + np.exp(-x)), special=_MODERATE, loose=2)
elementwise("silu_backward", _silu_backward, special=_MODERATE, loose=4)
elementwise(
    "softplus",
    lambda x, beta: np.logaddexp(0, beta * x) / beta,
    options=[(1.0,), (2.5,)],
    special=(*SPECIAL, 80.0, -80.0),
    loose=2,
)
elementwise("leaky_relu", lambda x, slope: np.where(x > 0, x, slope * x), options=[(0.25,), (2.0,)])
elementwise(
    "elu",
    lambda x, alpha, scale, rate: scale * np.where(x > 0, x, alpha * np.expm1(rate * np.minimum(x, 0))),
    options=[(1.0, 1.0, 1.0), (2.0, 0.5, 0.5)],
)
elementwise("hardtanh", np.clip, options=[(-1.0, 1.0), (-0.5, 6.0)])
elementwise("hardswish", _hardswish, special=(*SPECIAL, 4.0, -4.0), loose=2)
elementwise("mish", lambda x: x * np.tanh(np.logaddexp(0, x)), special=_MODERATE, loose=2)

_SHAPES = [(x(2, 3),), (x(3, 1, 2),), (x(),), (x(0, 3),), (Large((96, 100)),)]
_EDGES = Values((0.0, -0.0, 1.0, -1.0, 3.0))
row(
    "complex",
    lambda real, imag: real + 1j * imag,
    [(x(*s), x(*s, low=-1.0)) for s in ((2, 3), (3, 1, 2), (), (0, 3))],
)
row("real", np.real, [*_SHAPES, (_EDGES,)])
row("imag", np.imag, [*_SHAPES, (_EDGES,)])
row("conj", np.conj, [*_SHAPES, (_EDGES,)])
row("complex_abs", np.abs, [*_SHAPES, (_EDGES,)])
row("angle", np.angle, [*_SHAPES, (_EDGES,)])
