"""Rules of convolution, which is linear in x and in the weight: an operation and its two gradients are enough."""

from __future__ import annotations

from typing import Any

from burnpy.autodiff.rules.algebra import bilinear, general
from burnpy.backend.backend import Backend
from burnpy.backend.primitives import Float, Shape


def by_x(
    i: Any, g: Float, weight: Float, x_shape: Shape, stride: Any, padding: Any, dilation: Any, groups: int
) -> Float:
    """The gradient of a convolution by x."""
    return i.conv2d_input(g, weight, x_shape, stride, padding, dilation, groups)


def by_weight(
    i: Any, g: Float, x: Float, weight_shape: Shape, stride: Any, padding: Any, dilation: Any, groups: int
) -> Float:
    """The gradient of a convolution by its weight."""
    return i.conv2d_weight(g, x, weight_shape, stride, padding, dilation, groups)


def by_bias(i: Any, g: Float) -> Float:
    """The gradient of a convolution by its bias."""
    return i.sum(g, (0, 2, 3), False)


def along_x(i: Any, t: Float, weight: Float, stride: Any, padding: Any, dilation: Any, groups: int) -> Float:
    """The contribution of x's tangent to the tangent of a convolution."""
    return i.conv2d(t, weight, stride, padding, dilation, groups)


def along_weight(i: Any, t: Float, x: Float, stride: Any, padding: Any, dilation: Any, groups: int) -> Float:
    """The contribution of the weight's tangent to the tangent of a convolution."""
    return i.conv2d(x, t, stride, padding, dilation, groups)


def along_bias(i: Any, t: Float, out: Float) -> Float:
    """The contribution of the bias's tangent to the tangent of a convolution."""
    return i.expand(i.reshape(t, (t.shape[0], 1, 1)), out.shape)


bilinear(Backend.conv2d, by_x, by_weight)
general(Backend.conv2d_bias, vjps=(by_x, by_weight, by_bias), jvps=(along_x, along_weight, along_bias))
bilinear(
    Backend.conv2d_input,
    lambda i, g, weight, stride, padding, dilation, groups: i.conv2d(g, weight, stride, padding, dilation, groups),
    lambda i, g, grad, weight_shape, stride, padding, dilation, groups: i.conv2d_weight(
        grad, g, weight_shape, stride, padding, dilation, groups
    ),
)
bilinear(
    Backend.conv2d_weight,
    lambda i, g, x, stride, padding, dilation, groups: i.conv2d(x, g, stride, padding, dilation, groups),
    lambda i, g, grad, x_shape, stride, padding, dilation, groups: i.conv2d_input(
        grad, g, x_shape, stride, padding, dilation, groups
    ),
)
