"""Cases of activation functions and their derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.testing.cases.pointwise import UNARY
from burnpy.testing.cases.samples import Large, Values, x
from burnpy.testing.cases.table import row

_TWO = [(x(2, 3), x(2, 3, high=1.9)), (x(), x(high=1.9)), (x(0, 3), x(0, 3)), (Large((96, 100)), Large((96, 100)))]
_FINITE = [*UNARY[:4], (Large((96, 100)),), (Values((0.0, -0.0, 1.0, -1.0, 6.0, -6.0, math.nan)),)]


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


row("relu", lambda x: np.maximum(x, 0), UNARY)
row(
    "relu_backward",
    lambda grad, out: np.where(out != 0, grad, 0),
    [*_TWO, (x(10), Values((0.0, -0.0, 1.0, math.nan, math.inf, 0.0, 2.0, math.nan, 5e-8, 0.0)))],
)
row("gelu", _gelu, [(a, how) for (a,) in _FINITE for how in (False, True)], loose=2)
row("gelu_backward", _gelu_backward, [(g, a, how) for g, a in _TWO for how in (False, True)], loose=4)
row("silu", lambda x: x / (1 + np.exp(-x)), _FINITE, loose=2)
row("silu_backward", _silu_backward, _TWO, loose=4)
row(
    "softplus",
    lambda x, beta: np.logaddexp(0, beta * x) / beta,
    [(a, beta) for (a,) in UNARY for beta in (1.0, 2.5)] + [(Values((-80.0, 80.0)), 1.0)],
    loose=2,
)
