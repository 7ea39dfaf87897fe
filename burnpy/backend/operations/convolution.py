"""Convolution in two dimensions, and its two gradients, which are each other's derivatives.

The defaults copy the elements of each window to a column of a matrix ("im2col") and multiply matrices.
Source: Chellapilla, Puri and Simard, High Performance Convolutional Neural Networks for Document Processing, 2006.
"""

from __future__ import annotations

from burnpy.backend.operations import OperationsBase
from burnpy.backend.operations.convolution_traits import convolution_traits
from burnpy.backend.operations.windows import Pair, inside, padded, padded_shape, window_counts, window_keys
from burnpy.backend.primitives import Float, Shape
from burnpy.backend.schema import BILINEAR, GENERAL, derived

_TRAITS = convolution_traits("conv2d", 2)


class Convolution(OperationsBase):
    """Convolution of x (batch, channels, height, width) with a weight (out, channels / groups, high, wide).

    ``stride``, ``padding`` and ``dilation`` are pairs, for height and width; x is padded with zeros at both ends.
    ``groups`` divides both numbers of channels. All floats have the same dtype.
    """

    @derived(BILINEAR, **_TRAITS.plain)
    def conv2d(self, x: Float, weight: Float, stride: Pair, padding: Pair, dilation: Pair, groups: int) -> Float:
        """2-d convolution: for each window of x, the sum of products with the weight, which is not flipped."""
        kernel, o = weight.shape[2:], weight.shape[0]
        counts = window_counts(x.shape, kernel, stride, padding, dilation)
        columns = _columns(self, x, kernel, stride, padding, dilation, groups, counts)
        out = self.matmul(_matrices(self, weight, groups), columns)
        return self.reshape(out, (x.shape[0], o, *counts))

    @derived(GENERAL, **_TRAITS.bias)
    def conv2d_bias(
        self, x: Float, weight: Float, bias: Float, stride: Pair, padding: Pair, dilation: Pair, groups: int
    ) -> Float:
        """2-d convolution plus a bias of shape (out,): conv2d(x, weight) + bias."""
        out = self.conv2d(x, weight, stride, padding, dilation, groups)
        return self.add(out, self.reshape(bias, (bias.shape[0], 1, 1)))

    @derived(BILINEAR, **_TRAITS.input)
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

    @derived(BILINEAR, **_TRAITS.weight)
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
