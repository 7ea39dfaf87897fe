"""Windows of images as columns, `unfold` and `fold`, and shuffles of channels with positions."""

from __future__ import annotations

from typing import Any

from burnpy.backend.errors import ShapeError
from burnpy.backend.operations.convolution import inside, padded, padded_shape, window_counts, window_keys
from burnpy.nn.argument_checks import (
    Pair,
    batch_of,
    check_form,
    check_kernel,
    dims_at_least,
    floats,
    pair,
    positive_int,
)
from burnpy.nn.module import FunctionLayer, Stateless
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, X


@explained
def unfold(x: X, kernel_size: Pair, *, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1) -> X:
    """Make each window of images a column of a matrix ("im2col"), as `torch.nn.functional.unfold`.

    Args:
        x: shape (N, channels, height, width), or (channels, height, width) for a single image.
        kernel_size: the size of a window.
        dilation: the step between elements of a window.
        padding: zeros added on each side of the images.
        stride: the step between windows.

    Returns:
        Shape (N, channels · kernel height · kernel width, windows), or without N for a single image: the windows in
        row-major order of their positions, the elements of a window by channel, row and column.

    Raises:
        ShapeError: x has another number of dimensions, or is smaller than a window.
        ArgumentError: a setting is invalid.

    >>> unfold(Tensor[NumPy].arange(6).reshape(1, 2, 3), 2).tolist()
    [[0.0, 1.0], [1.0, 2.0], [3.0, 4.0], [4.0, 5.0]]
    """
    given: Any = floats("unfold", 1, x=x)[0]
    check_form("unfold", given.shape, 2)
    kernel, strides = pair("unfold", "kernel_size", kernel_size), pair("unfold", "stride", stride)
    pads, gaps = pair("unfold", "padding", padding, 0), pair("unfold", "dilation", dilation)
    check_kernel("unfold", given.shape, kernel, strides, pads, gaps)
    device, images = given.device, batch_of(given, 2)
    n, c = images.shape[:2]
    counts = window_counts(images.shape, kernel, strides, pads, gaps)
    shape = padded_shape(images.shape, kernel, strides, pads, gaps, counts)
    whole = padded(device, images._primitive, shape, pads, 0.0)
    length = counts[0] * counts[1]
    parts = [
        device.reshape(device.slice(whole, key), (n, c, 1, length))
        for key in window_keys(kernel, strides, gaps, counts)
    ]
    out = given._like(device.reshape(device.cat(parts, 2), (n, c * kernel[0] * kernel[1], length)))
    return out if given.ndim == 4 else out.squeeze(0)  # type: ignore[no-any-return]  # of its kind


@explained
def fold(
    x: Tensor[B], output_size: Pair, kernel_size: Pair, *, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1
) -> Tensor[B]:
    """Add the columns of a matrix as windows of images ("col2im"), as `torch.nn.functional.fold`.

    It is the transpose of `unfold`: elements of the image that several windows share are the sums of theirs.

    Args:
        x: shape (N, channels · kernel height · kernel width, windows), or without N for a single image.
        output_size: height and width of the images.
        kernel_size: the size of a window.
        dilation: the step between elements of a window.
        padding: zeros that were added on each side of the images.
        stride: the step between windows.

    Returns:
        Shape (N, channels, *output_size), or without N for a single image.

    Raises:
        ShapeError: the shape of x does not fit the sizes.
        ArgumentError: a setting is invalid.

    >>> fold(Tensor[NumPy].ones((4, 2)), (2, 3), 2).tolist()
    [[[1.0, 2.0, 1.0], [1.0, 2.0, 1.0]]]
    """
    (x,) = floats("fold", 1, x=x)
    if x.ndim not in (2, 3):
        raise ShapeError(
            f"fold() takes x of shape (N, channels · kernel, windows), or of one image without N, got {x.shape}"
        )
    size = pair("fold", "output_size", output_size)
    kernel, strides = pair("fold", "kernel_size", kernel_size), pair("fold", "stride", stride)
    pads, gaps = pair("fold", "padding", padding, 0), pair("fold", "dilation", dilation)
    check_kernel("fold", size, kernel, strides, pads, gaps)
    counts, area = window_counts(size, kernel, strides, pads, gaps), kernel[0] * kernel[1]
    length = counts[0] * counts[1]
    if x.shape[-1] != length or x.shape[-2] % area:
        raise ShapeError(
            f"fold() got x of shape {x.shape} for images of {size[0]} × {size[1]}; with {counts[0]} × {counts[1]} "
            f"windows of {kernel[0]} × {kernel[1]}, expected a last dim of {length}, and a dim before it divisible by "
            f"{area}"
        )
    device: Any = x.device
    n, c = x.shape[0] if x.ndim == 3 else 1, x.shape[-2] // area
    columns = device.reshape(x._primitive, (n, c, area, *counts))
    shape = (n, c, *size)
    whole = padded_shape(shape, kernel, strides, pads, gaps, counts)
    total = device.full(whole, 0.0, x.dtype)
    everything = slice(None, None, 1)
    for k, key in enumerate(window_keys(kernel, strides, gaps, counts)):
        total = device.accumulate_slice(total, key, device.slice(columns, (everything, everything, k)))
    out = x._like(total if whole == shape else device.slice(total, inside(shape, pads)))
    return out if x.ndim == 3 else out.squeeze(0)


class Unfold(FunctionLayer, Stateless):
    """The windows of images as the columns of a matrix: see `burnpy.nn.functional.unfold`.

    >>> Unfold(2)(Tensor[NumPy].ones((5, 3, 4, 4))).shape
    (5, 12, 9)
    """

    _function = staticmethod(unfold)
    _settings = ("kernel_size", "dilation", "padding", "stride")

    def __init__(self, kernel_size: Pair, *, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1) -> None:
        self.kernel_size = pair("Unfold", "kernel_size", kernel_size)
        self.dilation = pair("Unfold", "dilation", dilation)
        self.padding = pair("Unfold", "padding", padding, 0)
        self.stride = pair("Unfold", "stride", stride)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Return the windows of (N, channels, height, width), shape (N, channels · kernel, windows)."""
        return self._result(x)


class Fold(FunctionLayer, Stateless):
    """Images as the sums of windows that are the columns of a matrix: see `burnpy.nn.functional.fold`.

    >>> Fold(4, 2)(Tensor[NumPy].ones((5, 12, 9))).shape
    (5, 3, 4, 4)
    """

    _function = staticmethod(fold)
    _settings = ("output_size", "kernel_size", "dilation", "padding", "stride")

    def __init__(
        self, output_size: Pair, kernel_size: Pair, *, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1
    ) -> None:
        self.output_size = pair("Fold", "output_size", output_size)
        self.kernel_size = pair("Fold", "kernel_size", kernel_size)
        self.dilation = pair("Fold", "dilation", dilation)
        self.padding = pair("Fold", "padding", padding, 0)
        self.stride = pair("Fold", "stride", stride)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Return the images of windows of shape (N, channels · kernel, windows)."""
        return self._result(x)


_IMAGES = "(…, channels, height, width)"


@explained
def pixel_shuffle(x: X, upscale_factor: int) -> X:
    """Move channels to positions: from (…, channels · r², height, width) to (…, channels, height · r, width · r).

    Args:
        x: shape (…, channels · r², height, width).
        upscale_factor: the factor r.

    Raises:
        ShapeError: x has fewer than three dimensions, or its channels are no multiple of r².
        ArgumentError: the factor is not positive.

    Source: Shi et al., Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel Convolutional
    Neural Network, 2016.

    >>> pixel_shuffle(Tensor[NumPy].arange(4).reshape(4, 1, 1), 2).tolist()
    [[[0.0, 1.0], [2.0, 3.0]]]
    """
    (given,) = floats("pixel_shuffle", 1, x=x)
    r = positive_int("pixel_shuffle", "upscale_factor", upscale_factor)
    dims_at_least("pixel_shuffle", "x", given.shape, 3, _IMAGES)
    *lead, c, high, wide = given.shape
    if c % (r * r):
        raise ShapeError(
            f"pixel_shuffle() got x of shape {given.shape}, with {c} channels, and upscale_factor={r}, whose square "
            f"{r * r} must divide them"
        )
    n = len(lead)
    parts = given.reshape((*lead, c // (r * r), r, r, high, wide))
    moved = parts.permute((*range(n + 1), n + 3, n + 1, n + 4, n + 2))
    return moved.reshape((*lead, c // (r * r), high * r, wide * r))  # type: ignore[no-any-return]  # of its kind


@explained
def pixel_unshuffle(x: X, downscale_factor: int) -> X:
    """Move positions to channels: from (…, channels, height · r, width · r) to (…, channels · r², height, width).

    It is the inverse of `pixel_shuffle`.

    Args:
        x: shape (…, channels, height · r, width · r).
        downscale_factor: the factor r.

    Raises:
        ShapeError: x has fewer than three dimensions, or its height or width is no multiple of r.
        ArgumentError: the factor is not positive.

    >>> x = Tensor[NumPy].arange(0.0, 16.0).reshape(1, 1, 4, 4)
    >>> pixel_unshuffle(x, 2)[0, :, 0, 0].tolist()
    [0.0, 1.0, 4.0, 5.0]
    """
    (given,) = floats("pixel_unshuffle", 1, x=x)
    r = positive_int("pixel_unshuffle", "downscale_factor", downscale_factor)
    dims_at_least("pixel_unshuffle", "x", given.shape, 3, _IMAGES)
    *lead, c, high, wide = given.shape
    if high % r or wide % r:
        raise ShapeError(
            f"pixel_unshuffle() got x of shape {given.shape}, images of {high} × {wide}, and downscale_factor={r}, "
            "which must divide both"
        )
    n = len(lead)
    parts = given.reshape((*lead, c, high // r, r, wide // r, r))
    moved = parts.permute((*range(n + 1), n + 2, n + 4, n + 1, n + 3))
    return moved.reshape((*lead, c * r * r, high // r, wide // r))  # type: ignore[no-any-return]  # of its kind


@explained
def channel_shuffle(x: X, groups: int) -> X:
    """Interleave the channels of groups: channel j of group i comes to j · groups + i.

    Args:
        x: shape (N, channels, …).
        groups: the number of groups, which divides the channels.

    Raises:
        ShapeError: x has fewer than three dimensions, or the groups do not divide its channels.
        ArgumentError: the number is not positive.

    Source: Zhang et al., ShuffleNet, 2017.

    >>> channel_shuffle(Tensor[NumPy].arange(0.0, 6.0).reshape(1, 6, 1, 1), groups=2).flatten().tolist()
    [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    """
    (given,) = floats("channel_shuffle", 1, x=x)
    number = positive_int("channel_shuffle", "groups", groups)
    dims_at_least("channel_shuffle", "x", given.shape, 3, "(N, channels, …)")
    n, c, *rest = given.shape
    if c % number:
        raise ShapeError(
            f"channel_shuffle() got x of shape {given.shape}, with {c} channels, and groups={number}, which must "
            "divide them"
        )
    return given.reshape((n, number, c // number, *rest)).transpose(1, 2).reshape(given.shape)  # type: ignore[no-any-return]  # of its kind


class PixelShuffle(FunctionLayer, Stateless):
    """Moves channels to positions: see `burnpy.nn.functional.pixel_shuffle`.

    >>> PixelShuffle(2)(Tensor[NumPy].ones((2, 8, 3, 3))).shape
    (2, 2, 6, 6)
    """

    _function = staticmethod(pixel_shuffle)
    _settings = ("upscale_factor",)

    def __init__(self, upscale_factor: int) -> None:
        self.upscale_factor = positive_int("PixelShuffle", "upscale_factor", upscale_factor)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Rearrange (…, channels · r², height, width) to (…, channels, height · r, width · r)."""
        return self._result(x)


class PixelUnshuffle(FunctionLayer, Stateless):
    """Moves positions to channels: see `burnpy.nn.functional.pixel_unshuffle`.

    >>> PixelUnshuffle(2)(Tensor[NumPy].ones((2, 2, 6, 6))).shape
    (2, 8, 3, 3)
    """

    _function = staticmethod(pixel_unshuffle)
    _settings = ("downscale_factor",)

    def __init__(self, downscale_factor: int) -> None:
        self.downscale_factor = positive_int("PixelUnshuffle", "downscale_factor", downscale_factor)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Rearrange (…, channels, height · r, width · r) to (…, channels · r², height, width)."""
        return self._result(x)


class ChannelShuffle(FunctionLayer, Stateless):
    """Interleaves the channels of groups: see `burnpy.nn.functional.channel_shuffle`."""

    _function = staticmethod(channel_shuffle)
    _settings = ("groups",)

    def __init__(self, groups: int) -> None:
        self.groups = positive_int("ChannelShuffle", "groups", groups)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Return x, of shape (N, channels, …), with its channels interleaved."""
        return self._result(x)
