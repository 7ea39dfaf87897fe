"""Activation functions and their derivatives, computed in place on their temporaries."""

from __future__ import annotations

import math
from typing import Any

from burnpy_array.base import ArrayBase
from burnpy_array.pointwise import sigmoid
from burnpy_array.softmax import widened

_ROOT = math.sqrt(2 / math.pi)
_CUBIC = 0.044715


class ArrayActivation(ArrayBase):
    """Activation functions; 16-bit floats are computed in float32, so that they are rounded once."""

    def relu(self, x: Any) -> Any:
        return self._binary(self.xp.maximum, x, 0.0)

    def gelu(self, x: Any, approximate: bool) -> Any:
        return self._call(widened, _gelu, self, approximate, x)

    def gelu_backward(self, grad: Any, x: Any, approximate: bool) -> Any:
        return self._call(widened, _gelu_backward, self, approximate, grad, x)

    def silu(self, x: Any) -> Any:
        return self._call(widened, _silu, self, None, x)

    def silu_backward(self, grad: Any, x: Any) -> Any:
        return self._call(widened, _silu_backward, self, None, grad, x)


def _phi(b: ArrayBase, x: Any, approximate: bool) -> Any:
    """The normal distribution function, or its tanh approximation, ½(1 + tanh u) = sigmoid(2u)."""
    xp = b.xp
    if approximate:
        u = xp.asarray(xp.multiply(x, x))
        xp.multiply(u, 2 * _ROOT * _CUBIC, u)
        xp.add(u, 2 * _ROOT, u)
        return sigmoid(xp, xp.multiply(u, x, u))
    phi = xp.asarray(b._erf(xp.multiply(x, math.sqrt(0.5))))
    xp.add(phi, 1.0, phi)
    return xp.multiply(phi, 0.5, phi)


def _gelu(b: ArrayBase, approximate: bool, x: Any) -> Any:
    return b.xp.multiply(x, _phi(b, x, approximate))


def _gelu_backward(b: ArrayBase, approximate: bool, grad: Any, x: Any) -> Any:
    xp = b.xp
    phi = _phi(b, x, approximate)
    density = xp.asarray(xp.multiply(x, x))
    if approximate:
        xp.multiply(density, 6 * _ROOT * _CUBIC, density)
        xp.add(density, 2 * _ROOT, density)
        xp.multiply(density, phi, density)
        xp.multiply(density, xp.subtract(1.0, phi), density)
    else:
        xp.multiply(density, -0.5, density)
        xp.exp(density, density)
        xp.multiply(density, 1 / math.sqrt(2 * math.pi), density)
    xp.multiply(density, x, density)
    xp.add(density, phi, density)
    return xp.multiply(density, grad, density)


def _silu(b: ArrayBase, _: None, x: Any) -> Any:
    return b.xp.multiply(x, sigmoid(b.xp, x))


def _silu_backward(b: ArrayBase, _: None, grad: Any, x: Any) -> Any:
    xp = b.xp
    s = sigmoid(xp, x)
    slope = xp.asarray(xp.subtract(1.0, s))
    xp.multiply(slope, x, slope)
    xp.add(slope, 1.0, slope)
    xp.multiply(slope, s, slope)
    return xp.multiply(slope, grad, slope)
