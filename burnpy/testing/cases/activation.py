"""Examples of activation functions and their derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.testing.cases.table import SPECIAL, elementwise

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
