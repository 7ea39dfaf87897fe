"""Convolution of images and volumes: the windows, the rules that all have in common, and the operations.

The windows along each dimension are counted as PyTorch counts them. Convolution of images is a product with a matrix of
the windows, and convolution of volumes a sum of convolutions of their planes.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple, TypeAlias

from burnpy.backend.operations import OperationsBase
from burnpy.backend.primitives import Float, Key, Scalar, Shape
from burnpy.backend.rules import Folded, fold
from burnpy.backend.schema import BILINEAR, GENERAL, Traits, derived

Pair: TypeAlias = tuple[int, int]
"""A pair of numbers: for the height and for the width."""

_ALL = slice(None, None, 1)


def window_count(
    size: int, kernel: int, stride: int, padding: int = 0, dilation: int = 1, ceil_mode: bool = False
) -> int:
    """Return the number of windows along a dimension; 0 or less if none fits.

    Args:
        size: the size of the dimension.
        kernel: the number of elements of a window.
        stride: the distance from one window to the next.
        padding: elements added at both ends.
        dilation: the distance from one element of a window to the next.
        ceil_mode: whether a last window may reach beyond the padding, as long as it does not begin there.

    >>> window_count(7, 3, 2), window_count(8, 3, 2, ceil_mode=True), window_count(5, 3, 1, padding=1)
    (3, 4, 5)
    """
    reach = size + 2 * padding - dilation * (kernel - 1) - 1
    count = -(-reach // stride) + 1 if ceil_mode else reach // stride + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1
    return count


@lru_cache(maxsize=1024)
@lru_cache(maxsize=1024)
@lru_cache(maxsize=1024)
def window_counts(
    shape: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool = False
) -> Shape:
    """Return the number of windows along each of the last dimensions of ``shape``, as many as ``kernel`` has."""
    return tuple(
        [
            window_count(*sizes, ceil_mode)
            for sizes in zip(shape[-len(kernel) :], kernel, stride, padding, dilation, strict=True)
        ]
    )


@lru_cache(maxsize=1024)
def window_keys(kernel: Shape, stride: Shape, dilation: Shape, counts: Shape) -> tuple[Key, ...]:
    """Return a key for each element of a window, in row-major order, which selects it in all windows."""
    places = [
        [slice(k * gap, k * gap + (count - 1) * step + 1, step) for k in range(size)]
        for size, step, gap, count in zip(kernel, stride, dilation, counts, strict=True)
    ]
    return tuple((_ALL, _ALL, *key) for key in product(*places))


@lru_cache(maxsize=1024)
def padded_shape(shape: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, counts: Shape) -> Shape:
    """Return the shape that holds all windows: the padded shape, or larger if a window extends beyond the padding."""
    dims = len(kernel)
    sizes = zip(shape[-dims:], padding, counts, stride, kernel, dilation, strict=True)
    return (
        *shape[:-dims],
        *(max(size + 2 * pad, (n - 1) * step + (k - 1) * gap + 1) for size, pad, n, step, k, gap in sizes),
    )


@lru_cache(maxsize=1024)
def inside(shape: Shape, padding: Shape) -> Key:
    """Return the key of an array of ``shape`` within the padded array."""
    sizes = zip(padding, shape[-len(padding) :], strict=True)
    return (_ALL, _ALL, *(slice(pad, pad + size, 1) for pad, size in sizes))


def padded(b: Any, x: Float, shape: Shape, padding: Shape, value: Scalar) -> Float:
    """Return x at the offset ``padding`` within an array of ``shape`` that is filled with ``value``."""
    if x.shape == shape and not b.sizes_vary:
        return x
    return b.slice_scatter(b.full(shape, value, x.dtype), inside(x.shape, padding), x)


class ConvolutionTraits(NamedTuple):
    """The traits of the four operations."""

    plain: Traits
    bias: Traits
    input: Traits
    weight: Traits


def convolution_traits(name: str, dims: int) -> ConvolutionTraits:
    """Return the traits of the operations ``name``, ``name_bias``, ``name_input`` and ``name_weight``.

    Args:
        name: the name of the convolution.
        dims: its number of dimensions.
    """

    def g_for_x(i: Any, g: Float, weight: Float, stride: Any, padding: Any, dilation: Any, groups: int) -> Float:
        """Return the convolution of another array in place of x."""
        return getattr(i, name)(g, weight, stride, padding, dilation, groups)

    def g_for_weight(i: Any, g: Float, x: Float, stride: Any, padding: Any, dilation: Any, groups: int) -> Float:
        """Return the convolution of x with another array in place of the weight."""
        return getattr(i, name)(x, g, stride, padding, dilation, groups)

    def grad_x(
        i: Any, g: Float, weight: Float, x_shape: Shape, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Float:
        return getattr(i, f"{name}_input")(g, weight, x_shape, stride, padding, dilation, groups)

    def grad_weight(
        i: Any, g: Float, x: Float, weight_shape: Shape, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Float:
        return getattr(i, f"{name}_weight")(g, x, weight_shape, stride, padding, dilation, groups)

    def input_grad_weight(
        i: Any, g: Float, grad: Float, weight_shape: Shape, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Float:
        return getattr(i, f"{name}_weight")(grad, g, weight_shape, stride, padding, dilation, groups)

    def weight_grad_x(
        i: Any, g: Float, grad: Float, x_shape: Shape, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Float:
        return getattr(i, f"{name}_input")(grad, g, x_shape, stride, padding, dilation, groups)

    def weight_batch(
        b: Any, grad: Any, x: Any, shape: Shape, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Any:
        """Return the gradients of all examples, as groups of one convolution."""
        i, size = b.inner, b.size
        if not size:  # no groups
            return b.batched(i.full((0, *shape), 0.0, grad.dtype))
        whole = (size * shape[0], *shape[1:])
        operation = getattr(i, f"{name}_weight")
        out = operation(fold(b, grad, 1), fold(b, x, 1), whole, stride, padding, dilation, size * groups)
        return b.batched(i.reshape(out, (size, *shape)))

    ones = (1,) * dims
    return ConvolutionTraits(
        Traits(
            product=True,
            flops=lambda weight, out: 2 * prod(out) * prod(weight[1:]),
            vjp=(grad_x, grad_weight),
            batch=Folded(("x",), ("weight",)),
            onnx="products.convolution",
        ),
        Traits(
            product=("x", "weight"),
            flops=lambda weight, out: prod(out) * (2 * prod(weight[1:]) + 1),
            vjp=(grad_x, grad_weight, lambda i, g: i.sum(g, (0, *range(2, 2 + dims)), False)),
            jvp=(g_for_x, g_for_weight, lambda i, t, out: i.expand(i.reshape(t, (t.shape[0], *ones)), out.shape)),
            batch=Folded(("x",), ("weight", "bias")),
            onnx="products.convolution",
        ),
        Traits(
            product=True,
            flops=lambda grad, weight: 2 * prod(grad) * prod(weight[1:]),
            vjp=(g_for_x, input_grad_weight),
            batch=Folded(("grad", "shape"), ("weight",)),
            onnx="products.transposed_convolution",
        ),
        Traits(
            product=True,
            flops=lambda grad, out: 2 * prod(grad) * prod(out[1:]),
            vjp=(g_for_weight, weight_grad_x),
            batch=weight_batch,
        ),
    )


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


Triple: TypeAlias = tuple[int, int, int]
"""Three numbers: for the depth, the height and the width."""

_EVERY = slice(None, None, 1)

_VOLUME_TRAITS = convolution_traits("conv3d", 3)


class VolumeConvolution(OperationsBase):
    """Convolution of x (batch, channels, depth, height, width) with a weight (out, channels / groups, and its sizes).

    ``stride``, ``padding`` and ``dilation`` are triples; x is padded with zeros at both ends. ``groups`` divides both
    numbers of channels. All floats have the same dtype.
    """

    @derived(BILINEAR, **_VOLUME_TRAITS.plain)
    def conv3d(self, x: Float, weight: Float, stride: Triple, padding: Triple, dilation: Triple, groups: int) -> Float:
        """3-d convolution: for each window of x, the sum of products with the weight, which is not flipped."""
        count = window_count(x.shape[2], weight.shape[2], stride[0], padding[0], dilation[0])
        planes = _window_planes(self, x, weight.shape[2], count, stride[0], padding[0], dilation[0])
        out = self.conv2d(planes, _flat(self, weight), stride[1:], padding[1:], dilation[1:], groups)
        return _volumes(self, out, x.shape[0], count)

    @derived(GENERAL, **_VOLUME_TRAITS.bias)
    def conv3d_bias(
        self, x: Float, weight: Float, bias: Float, stride: Triple, padding: Triple, dilation: Triple, groups: int
    ) -> Float:
        """3-d convolution plus a bias of shape (out,): conv3d(x, weight) + bias."""
        count = window_count(x.shape[2], weight.shape[2], stride[0], padding[0], dilation[0])
        planes = _window_planes(self, x, weight.shape[2], count, stride[0], padding[0], dilation[0])
        out = self.conv2d_bias(planes, _flat(self, weight), bias, stride[1:], padding[1:], dilation[1:], groups)
        return _volumes(self, out, x.shape[0], count)

    @derived(BILINEAR, **_VOLUME_TRAITS.input)
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
            total = self.accumulate_slice(total, key, self.slice(columns, (_EVERY, _EVERY, _EVERY, k)))
        total = self.slice(total, (_EVERY, slice(padding[0], padding[0] + size, 1)))
        return self.add(self.permute(total, (0, 2, 1, 3, 4)), 0.0)

    @derived(BILINEAR, **_VOLUME_TRAITS.weight)
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
    return [(_EVERY, slice(k * dilation, k * dilation + (count - 1) * stride + 1, stride)) for k in range(deep)]


def _window_planes(b: Any, x: Float, deep: int, count: int, stride: int, padding: int, dilation: int) -> Float:
    """Return, for each position of windows along the depth, an image with the planes of each channel as channels."""
    n, c, size, high, wide = x.shape
    whole = (n, c, max(size + 2 * padding, (count - 1) * stride + (deep - 1) * dilation + 1), high, wide)
    moved = b.permute(padded(b, x, whole, (padding, 0, 0), 0.0), (0, 2, 1, 3, 4))
    taps = [
        b.reshape(b.slice(moved, key), (n, count, c, 1, high, wide)) for key in _taps(deep, count, stride, dilation)
    ]
    return b.reshape(b.cat(taps, 3), (n * count, c * deep, high, wide))
