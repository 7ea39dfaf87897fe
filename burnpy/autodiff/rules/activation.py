"""Rules of activation functions that have kinks or exponentials; those of the others are with the pointwise ones."""

from __future__ import annotations

from typing import Any

from burnpy.autodiff.rules.algebra import pointwise
from burnpy.autodiff.rules.pointwise import one_minus
from burnpy.backend.backend import Backend
from burnpy.backend.primitives import Float


def elu_by_x(i: Any, g: Float, x: Float, alpha: float, scale: float, input_scale: float) -> Float:
    """g · scale where x > 0 or x is NaN, else g times the derivative of the exponential."""
    curve = i.mul(i.exp(i.mul(i.clamp(x, None, 0.0), input_scale)), alpha * scale * input_scale)
    return i.where(i.le(x, 0.0), i.mul(g, curve), i.mul(g, scale))


def strictly_inside(i: Any, g: Float, x: Float, low: float, high: float) -> Float:
    """g where low < x < high, or x is NaN, else 0."""
    return i.where(i.discrete.bitwise_not(i.discrete.bitwise_or(i.le(x, low), i.ge(x, high))), g, 0.0)


def hardswish_by_x(i: Any, g: Float, x: Float) -> Float:
    """0 up to -3, g from 3, and g · (x / 3 + 1 / 2) between."""
    between = i.mul(g, i.add(i.mul(x, 1 / 3), 0.5))
    return i.where(i.lt(i.abs(x), 3.0), between, i.where(i.discrete.bitwise_not(i.le(x, -3.0)), g, 0.0))


def mish_by_x(i: Any, g: Float, x: Float) -> Float:
    """g · (t + x · (1 - t²) · sigmoid(x)) with t = tanh(softplus(x))."""
    t = i.tanh(i.softplus(x, 1.0))
    return i.mul(g, i.add(t, i.mul(i.mul(x, one_minus(i, i.mul(t, t))), i.sigmoid(x))))


pointwise(
    Backend.leaky_relu,
    lambda i, g, x, negative_slope: i.where(i.gt(x, 0.0), g, i.mul(g, negative_slope)),
)
pointwise(Backend.elu, elu_by_x)
pointwise(Backend.hardtanh, strictly_inside)
pointwise(Backend.hardswish, hardswish_by_x)
pointwise(Backend.mish, mish_by_x)
