"""GELU of float32 block by block, so that what is computed on the way stays in the cache."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float64
from burnpy_array import ArrayBackend
from burnpy_array.softmax import widened
from burnpy_numpy.special import HALF, ONE, PHI, constants, tanh_of

_BLOCK = 1 << 15
"""How many elements a block has."""

_ROOT, _CUBIC = math.sqrt(2 / math.pi), 0.044715
_CURVES = {False: PHI, True: constants(_ROOT * _CUBIC, _ROOT)}
"""Polynomials p with 2Φ(x) = 1 + tanh(x · p(x²)) for the normal distribution Φ: as it is, and GELU's approximation."""
_SLOPE, _START = constants(3 * _ROOT * _CUBIC, _ROOT)
_TOP, _MINUS_HALF = constants(_ROOT, -0.5)


class Activation(ArrayBackend):
    """16-bit floats are computed in float32; float64 goes the general way, which is exact."""

    def gelu(self, x: Any, approximate: bool) -> Any:
        if x.dtype is float64:
            return super().gelu(x, approximate)
        return self._call(widened, _gelu, self, approximate, x)

    def gelu_backward(self, grad: Any, x: Any, approximate: bool) -> Any:
        if x.dtype is float64:
            return super().gelu_backward(grad, x, approximate)
        return self._call(widened, _gelu_backward, self, approximate, grad, x)


def _gelu(_: Any, approximate: bool, x: Any) -> Any:
    flat = x.reshape(-1)
    out = np.empty(flat.shape, x.dtype)
    spare = np.empty(min(_BLOCK, flat.size), x.dtype)
    for start in range(0, flat.size, _BLOCK):
        part, made = flat[start : start + _BLOCK], out[start : start + _BLOCK]
        half = spare[: part.size]
        tanh_of(part, _CURVES[approximate], half, made)
        np.add(made, ONE, made)
        np.multiply(part, HALF, half)  # not the product, which would overflow
        np.multiply(made, half, made)
    return out.reshape(x.shape)


def _gelu_backward(_: Any, approximate: bool, grad: Any, x: Any) -> Any:
    """grad · ½ (2Φ(x) + 2x · φ(x)), where φ is the derivative of Φ."""
    flat, grads = x.reshape(-1), grad.reshape(-1)
    out = np.empty(flat.shape, x.dtype)
    spare = np.empty((2, min(_BLOCK, flat.size)), x.dtype)
    for start in range(0, flat.size, _BLOCK):
        part, made = flat[start : start + _BLOCK], out[start : start + _BLOCK]
        density, other = spare[:, : part.size]
        tanh_of(part, _CURVES[approximate], density, made)  # density: x² first
        if approximate:
            np.multiply(density, _SLOPE, density)
            np.add(density, _START, density)
            np.subtract(ONE, made, other)
            np.multiply(density, other, density)
            np.add(made, ONE, made)
            np.multiply(density, made, density)
            np.multiply(density, part, density)
        else:
            np.add(made, ONE, made)
            np.multiply(density, _MINUS_HALF, density)
            np.exp(density, density)
            np.multiply(density, _TOP, density)
            np.multiply(density, part, density)
        np.add(made, density, made)
        np.multiply(made, HALF, made)
        np.multiply(made, grads[start : start + _BLOCK], made)
    return out.reshape(x.shape)
