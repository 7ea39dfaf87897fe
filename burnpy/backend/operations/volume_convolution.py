"""Convolution of volumes, and its two gradients, as convolutions of images.

The planes of a volume are images, and the planes that a window covers are channels of one. So the defaults lay the
planes of each window side by side ("im2col" along the depth alone), and call the operations of two dimensions.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from burnpy.backend.operations import OperationsBase
from burnpy.backend.operations.convolution_traits import convolution_traits
from burnpy.backend.operations.windows import padded, window_count
from burnpy.backend.primitives import Float, Shape
from burnpy.backend.schema import BILINEAR, GENERAL, derived

Triple: TypeAlias = tuple[int, int, int]
"""Three numbers: for the depth, the height and the width."""

_ALL = slice(None, None, 1)


_TRAITS = convolution_traits("conv3d", 3)


class VolumeConvolution(OperationsBase):
    """Convolution of x (batch, channels, depth, height, width) with a weight (out, channels / groups, and its sizes).

    ``stride``, ``padding`` and ``dilation`` are triples; x is padded with zeros at both ends. ``groups`` divides both
    numbers of channels. All floats have the same dtype.
    """

    @derived(BILINEAR, **_TRAITS.plain)
    def conv3d(self, x: Float, weight: Float, stride: Triple, padding: Triple, dilation: Triple, groups: int) -> Float:
        """3-d convolution: for each window of x, the sum of products with the weight, which is not flipped."""
        count = window_count(x.shape[2], weight.shape[2], stride[0], padding[0], dilation[0])
        planes = _window_planes(self, x, weight.shape[2], count, stride[0], padding[0], dilation[0])
        out = self.conv2d(planes, _flat(self, weight), stride[1:], padding[1:], dilation[1:], groups)
        return _volumes(self, out, x.shape[0], count)

    @derived(GENERAL, **_TRAITS.bias)
    def conv3d_bias(
        self, x: Float, weight: Float, bias: Float, stride: Triple, padding: Triple, dilation: Triple, groups: int
    ) -> Float:
        """3-d convolution plus a bias of shape (out,): conv3d(x, weight) + bias."""
        count = window_count(x.shape[2], weight.shape[2], stride[0], padding[0], dilation[0])
        planes = _window_planes(self, x, weight.shape[2], count, stride[0], padding[0], dilation[0])
        out = self.conv2d_bias(planes, _flat(self, weight), bias, stride[1:], padding[1:], dilation[1:], groups)
        return _volumes(self, out, x.shape[0], count)

    @derived(BILINEAR, **_TRAITS.input)
    def conv3d_input(
        self, grad: Float, weight: Float, shape: Shape, stride: Triple, padding: Triple, dilation: Triple, groups: int
    ) -> Float:
        """Gradient of `conv3d` with respect to x of the given shape: the transposed convolution of grad."""
        (n, channels, size), deep, count = shape[:3], weight.shape[2], grad.shape[2]
        planes = (n * count, channels * deep, *shape[3:])
        columns = self.conv2d_input(
            _planes(self, grad), _flat(self, weight), planes, stride[1:], padding[1:], dilation[1:], groups
        )
        columns = self.reshape(columns, (n, count, channels, deep, *shape[3:]))
        whole = max(size + 2 * padding[0], (count - 1) * stride[0] + (deep - 1) * dilation[0] + 1)
        total = self.full((n, whole, channels, *shape[3:]), 0.0, grad.dtype)
        for k, key in enumerate(_taps(deep, count, stride[0], dilation[0])):
            total = self.accumulate_slice(total, key, self.slice(columns, (_ALL, _ALL, _ALL, k)))
        total = self.slice(total, (_ALL, slice(padding[0], padding[0] + size, 1)))
        return self.add(self.permute(total, (0, 2, 1, 3, 4)), 0.0)

    @derived(BILINEAR, **_TRAITS.weight)
    def conv3d_weight(
        self, grad: Float, x: Float, shape: Shape, stride: Triple, padding: Triple, dilation: Triple, groups: int
    ) -> Float:
        """Gradient of `conv3d` with respect to the weight of the given shape."""
        planes = _window_planes(self, x, shape[2], grad.shape[2], stride[0], padding[0], dilation[0])
        flat = (shape[0], shape[1] * shape[2], *shape[3:])
        out = self.conv2d_weight(_planes(self, grad), planes, flat, stride[1:], padding[1:], dilation[1:], groups)
        return self.reshape(out, shape)


def _flat(b: Any, weight: Float) -> Float:
    """Return a weight whose planes are channels."""
    o, c, deep, high, wide = weight.shape
    return b.reshape(weight, (o, c * deep, high, wide))


def _planes(b: Any, x: Float) -> Float:
    """Return volumes (n, c, depth, h, w) as the images of their planes, (n · depth, c, h, w)."""
    n, c, deep, high, wide = x.shape
    return b.reshape(b.permute(x, (0, 2, 1, 3, 4)), (n * deep, c, high, wide))


def _volumes(b: Any, x: Float, n: int, count: int) -> Float:
    """Return the images of planes as n volumes of ``count`` planes; the inverse of `_planes`."""
    return b.permute(b.reshape(x, (n, count, *x.shape[1:])), (0, 2, 1, 3, 4))


def _taps(deep: int, count: int, stride: int, dilation: int) -> list[tuple[slice, slice]]:
    """Return, for each plane of a window, the key of this plane of all windows of volumes (n, depth, …)."""
    return [(_ALL, slice(k * dilation, k * dilation + (count - 1) * stride + 1, stride)) for k in range(deep)]


def _window_planes(b: Any, x: Float, deep: int, count: int, stride: int, padding: int, dilation: int) -> Float:
    """Return, for each position of windows along the depth, an image with the planes of each channel as channels."""
    n, c, size, high, wide = x.shape
    whole = (n, c, max(size + 2 * padding, (count - 1) * stride + (deep - 1) * dilation + 1), high, wide)
    moved = b.permute(padded(b, x, whole, (padding, 0, 0), 0.0), (0, 2, 1, 3, 4))
    taps = [
        b.reshape(b.slice(moved, key), (n, count, c, 1, high, wide)) for key in _taps(deep, count, stride, dilation)
    ]
    return b.reshape(b.cat(taps, 3), (n * count, c * deep, high, wide))
