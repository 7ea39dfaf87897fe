"""Convolution in two dimensions, and its two gradients, which are each other's derivatives.

The defaults copy the elements of each window to a column of a matrix ("im2col") and multiply matrices.
Source: Chellapilla, Puri and Simard, High Performance Convolutional Neural Networks for Document Processing, 2006.
"""

from __future__ import annotations

from math import prod
from typing import Any

from burnpy.backend.batch_rules import Folded, fold
from burnpy.backend.operations import OperationsBase
from burnpy.backend.operations.windows import (
    Pair,
    inside,
    padded,
    padded_shape,
    window_counts,
    window_keys,
)
from burnpy.backend.primitives import Float, Shape
from burnpy.backend.schema import BILINEAR, GENERAL, derived


def conv2d_x_vjp(
    i: Any, g: Float, weight: Float, x_shape: Shape, stride: Any, padding: Any, dilation: Any, groups: int
) -> Float:
    """Return the gradient of a convolution by x."""
    return i.conv2d_input(g, weight, x_shape, stride, padding, dilation, groups)


def conv2d_weight_vjp(
    i: Any, g: Float, x: Float, weight_shape: Shape, stride: Any, padding: Any, dilation: Any, groups: int
) -> Float:
    """Return the gradient of a convolution by its weight."""
    return i.conv2d_weight(g, x, weight_shape, stride, padding, dilation, groups)


def conv2d_bias_vjp(i: Any, g: Float) -> Float:
    """Return the gradient of a convolution by its bias."""
    return i.sum(g, (0, 2, 3), False)


def conv2d_x_jvp(i: Any, t: Float, weight: Float, stride: Any, padding: Any, dilation: Any, groups: int) -> Float:
    """Return the contribution of x's tangent to the tangent of a convolution."""
    return i.conv2d(t, weight, stride, padding, dilation, groups)


def conv2d_weight_jvp(i: Any, t: Float, x: Float, stride: Any, padding: Any, dilation: Any, groups: int) -> Float:
    """Return the contribution of the weight's tangent to the tangent of a convolution."""
    return i.conv2d(x, t, stride, padding, dilation, groups)


def conv2d_bias_jvp(i: Any, t: Float, out: Float) -> Float:
    """Return the contribution of the bias's tangent to the tangent of a convolution."""
    return i.expand(i.reshape(t, (t.shape[0], 1, 1)), out.shape)


def conv2d_weight_batch(
    b: Any, grad: Any, x: Any, shape: Shape, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Any:
    """Return the gradients of all examples, as groups of one convolution."""
    i, size = b.inner, b.size
    out = i.conv2d_weight(
        fold(b, grad, 1), fold(b, x, 1), (size * shape[0], *shape[1:]), stride, padding, dilation, size * groups
    )
    return b.batched(i.reshape(out, (size, *shape)))


class Convolution(OperationsBase):
    """Convolution of x (batch, channels, height, width) with a weight (out, channels / groups, high, wide).

    ``stride``, ``padding`` and ``dilation`` are pairs, for height and width; x is padded with zeros at both ends.
    ``groups`` divides both numbers of channels. All floats have the same dtype.
    """

    @derived(
        BILINEAR,
        product=True,
        flops=lambda weight, out: 2 * prod(out) * prod(weight[1:]),
        vjp=(conv2d_x_vjp, conv2d_weight_vjp),
        batch=Folded(("x",), ("weight",)),
        onnx="networks.convolution",
    )
    def conv2d(self, x: Float, weight: Float, stride: Pair, padding: Pair, dilation: Pair, groups: int) -> Float:
        """2-d convolution: for each window of x, the sum of products with the weight, which is not flipped."""
        kernel, o = weight.shape[2:], weight.shape[0]
        counts = window_counts(x.shape, kernel, stride, padding, dilation)
        columns = _columns(self, x, kernel, stride, padding, dilation, groups, counts)
        out = self.matmul(_matrices(self, weight, groups), columns)
        return self.reshape(out, (x.shape[0], o, *counts))

    @derived(
        GENERAL,
        product=("x", "weight"),
        flops=lambda weight, out: prod(out) * (2 * prod(weight[1:]) + 1),
        vjp=(conv2d_x_vjp, conv2d_weight_vjp, conv2d_bias_vjp),
        jvp=(conv2d_x_jvp, conv2d_weight_jvp, conv2d_bias_jvp),
        batch=Folded(("x",), ("weight", "bias")),
        onnx="networks.convolution",
    )
    def conv2d_bias(
        self, x: Float, weight: Float, bias: Float, stride: Pair, padding: Pair, dilation: Pair, groups: int
    ) -> Float:
        """2-d convolution plus a bias of shape (out,): conv2d(x, weight) + bias."""
        out = self.conv2d(x, weight, stride, padding, dilation, groups)
        return self.add(out, self.reshape(bias, (bias.shape[0], 1, 1)))

    @derived(
        BILINEAR,
        product=True,
        flops=lambda grad, weight: 2 * prod(grad) * prod(weight[1:]),
        vjp=(
            lambda i, g, weight, stride, padding, dilation, groups: i.conv2d(
                g, weight, stride, padding, dilation, groups
            ),
            lambda i, g, grad, weight_shape, stride, padding, dilation, groups: i.conv2d_weight(
                grad, g, weight_shape, stride, padding, dilation, groups
            ),
        ),
        batch=Folded(("grad", "shape"), ("weight",)),
        onnx="networks.transposed_convolution",
    )
    def conv2d_input(
        self, grad: Float, weight: Float, shape: Shape, stride: Pair, padding: Pair, dilation: Pair, groups: int
    ) -> Float:
        """Gradient of `conv2d` with respect to x of the given shape: the transposed convolution of grad."""
        (n, _, high, wide), kernel = grad.shape, weight.shape[2:]
        rows = self.reshape(grad, (n, groups, grad.shape[1] // groups, high * wide))
        columns = self.matmul(self.mT(_matrices(self, weight, groups)), rows)
        columns = self.reshape(columns, (n, shape[1], kernel[0] * kernel[1], high, wide))
        whole = padded_shape(shape, kernel, stride, padding, dilation, (high, wide))
        total = self.full(whole, 0.0, grad.dtype)
        everything = slice(None, None, 1)
        for k, key in enumerate(window_keys(kernel, stride, dilation, (high, wide))):
            total = self.accumulate_slice(total, key, self.slice(columns, (everything, everything, k)))
        return total if whole == shape else self.add(self.slice(total, inside(shape, padding)), 0.0)

    @derived(
        BILINEAR,
        product=True,
        flops=lambda grad, out: 2 * prod(grad) * prod(out[1:]),
        vjp=(
            lambda i, g, x, stride, padding, dilation, groups: i.conv2d(x, g, stride, padding, dilation, groups),
            lambda i, g, grad, x_shape, stride, padding, dilation, groups: i.conv2d_input(
                grad, g, x_shape, stride, padding, dilation, groups
            ),
        ),
        batch=conv2d_weight_batch,
    )
    def conv2d_weight(
        self, grad: Float, x: Float, shape: Shape, stride: Pair, padding: Pair, dilation: Pair, groups: int
    ) -> Float:
        """Gradient of `conv2d` with respect to the weight of the given shape."""
        n, o, high, wide = grad.shape
        columns = _columns(self, x, shape[2:], stride, padding, dilation, groups, (high, wide))
        rows = self.reshape(grad, (n, groups, o // groups, high * wide))
        return self.reshape(self.sum(self.matmul(rows, self.mT(columns)), (0,), False), shape)


def _matrices(b: Convolution, weight: Float, groups: int) -> Float:
    """Reshape the weight to one matrix per group, with one row per channel of the result."""
    o, c, high, wide = weight.shape
    return b.reshape(weight, (groups, o // groups, c * high * wide))


def _columns(
    b: Convolution, x: Float, kernel: Shape, stride: Pair, padding: Pair, dilation: Pair, groups: int, counts: Shape
) -> Float:
    """Return the elements of each window as columns of one matrix per batch element and group."""
    (n, c), area = x.shape[:2], kernel[0] * kernel[1]
    size = (kernel[0], kernel[1])
    whole = padded(b, x, padded_shape(x.shape, size, stride, padding, dilation, counts), padding, 0.0)
    parts = [
        b.reshape(b.slice(whole, key), (n, c, 1, counts[0] * counts[1]))
        for key in window_keys(size, stride, dilation, counts)
    ]
    return b.reshape(b.cat(parts, 2), (n, groups, c // groups * area, counts[0] * counts[1]))
