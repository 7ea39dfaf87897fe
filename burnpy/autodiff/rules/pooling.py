"""Rules of pooling. `adaptive_avg_pool2d` is differentiated as its default is."""

from __future__ import annotations

import math
from typing import Any

from burnpy.autodiff.rules.algebra import general, linear
from burnpy.backend.backend import Backend
from burnpy.backend.operations.windows import padded, padded_shape, window_keys
from burnpy.backend.primitives import Float


def max_pool_push(
    i: Any, t: Float, x: Float, out: Float, kernel: Any, stride: Any, padding: Any, dilation: Any
) -> Float:
    """The tangent of each window's first largest element."""
    shape = padded_shape(x.shape, kernel, stride, padding, dilation, out.shape[2:])
    values, tangents = padded(i, x, shape, padding, -math.inf), padded(i, t, shape, padding, 0.0)
    picked = i.full(out.shape, 0.0, out.dtype)
    for key in reversed(list(window_keys(kernel, stride, dilation, out.shape[2:]))):
        picked = i.where(i.lt(i.slice(values, key), out), picked, i.slice(tangents, key))
    return picked


general(
    Backend.max_pool2d,
    pulls=(
        lambda i, g, x, out, kernel, stride, padding, dilation: i.max_pool2d_backward(
            g, x, out, kernel, stride, padding, dilation
        ),
    ),
    pushes=(max_pool_push,),
)
linear(
    Backend.avg_pool2d,
    lambda i, g, x_shape, kernel, stride, padding, count_include_pad: i.avg_pool2d_backward(
        g, x_shape, kernel, stride, padding, count_include_pad
    ),
)


def avg_pool_again(
    i: Any, g: Float, grad_shape: Any, kernel: Any, stride: Any, padding: Any, count_include_pad: bool
) -> Float:
    """The transpose of the transpose. That a last window reached beyond the padding can be told from their number."""
    out = i.avg_pool2d(g, kernel, stride, padding, False, count_include_pad)
    return out if out.shape == grad_shape else i.avg_pool2d(g, kernel, stride, padding, True, count_include_pad)


linear(Backend.avg_pool2d_backward, avg_pool_again)
