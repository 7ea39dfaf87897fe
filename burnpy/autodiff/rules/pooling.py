"""Rules of pooling."""

from __future__ import annotations

from typing import Any

from burnpy.autodiff.rules.algebra import general, linear
from burnpy.backend.backend import Backend
from burnpy.backend.operations.pooling import chosen_in_windows
from burnpy.backend.operations.windows import padded, padded_shape
from burnpy.backend.primitives import Float, Shape


def max_pool_jvp(
    i: Any, t: Float, x: Float, out: Float, kernel: Any, stride: Any, padding: Any, dilation: Any
) -> Float:
    """The tangent of each window's first largest element, or of its first NaN."""
    tangents = padded(i, t, padded_shape(x.shape, kernel, stride, padding, dilation, out.shape[2:]), padding, 0.0)
    picked = i.full(out.shape, 0.0, out.dtype)
    for key, chosen in chosen_in_windows(i, x, out, kernel, stride, padding, dilation):
        picked = i.where(chosen, i.slice(tangents, key), picked)
    return picked


general(
    Backend.max_pool2d,
    vjps=(
        lambda i, g, x, out, kernel, stride, padding, dilation: i.max_pool2d_backward(
            g, x, out, kernel, stride, padding, dilation
        ),
    ),
    jvps=(max_pool_jvp,),
)
linear(
    Backend.avg_pool2d,
    lambda i, g, x_shape, kernel, stride, padding, count_include_pad, divisor: i.avg_pool2d_backward(
        g, x_shape, kernel, stride, padding, count_include_pad, divisor
    ),
)


def avg_pool_again(
    i: Any, g: Float, grad_shape: Any, kernel: Any, stride: Any, padding: Any, count_include_pad: bool, divisor: Any
) -> Float:
    """The transpose of the backward operation: the average pool itself.

    The shape tells if the last window reached beyond the padding (``ceil_mode``).
    """
    out = i.avg_pool2d(g, kernel, stride, padding, False, count_include_pad, divisor)
    return (
        out if out.shape == grad_shape else i.avg_pool2d(g, kernel, stride, padding, True, count_include_pad, divisor)
    )


linear(Backend.avg_pool2d_backward, avg_pool_again)


def adaptive_vjp(i: Any, g: Float, x_shape: Shape) -> Float:
    """The gradient of each mean, divided evenly among its elements."""
    if g.shape[2:] == (1, 1):
        return i.expand(i.div(g, float(x_shape[2] * x_shape[3])), x_shape)
    return i.adaptive_avg_pool2d_backward(g, x_shape)


linear(Backend.adaptive_avg_pool2d, adaptive_vjp)
linear(Backend.adaptive_avg_pool2d_backward, lambda i, g, grad_shape: i.adaptive_avg_pool2d(g, grad_shape[2:]))
