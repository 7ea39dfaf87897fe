"""Shuffles of channels, and of channels with positions."""

from __future__ import annotations

from burnpy.backend.errors import ShapeError
from burnpy.nn.argument_checks import dims_at_least, floats, positive_int
from burnpy.nn.module import FunctionLayer, Stateless
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B

_IMAGES = "(…, channels, height, width)"


@explained
def pixel_shuffle(x: Tensor[B], upscale_factor: int) -> Tensor[B]:
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
    (x,) = floats("pixel_shuffle", 1, x=x)
    r = positive_int("pixel_shuffle", "upscale_factor", upscale_factor)
    dims_at_least("pixel_shuffle", "x", x.shape, 3, _IMAGES)
    *lead, c, high, wide = x.shape
    if c % (r * r):
        raise ShapeError(
            f"pixel_shuffle() got x of shape {x.shape}, with {c} channels, and upscale_factor={r}, whose square "
            f"{r * r} must divide them"
        )
    n = len(lead)
    parts = x.reshape((*lead, c // (r * r), r, r, high, wide))
    moved = parts.permute((*range(n + 1), n + 3, n + 1, n + 4, n + 2))
    return moved.reshape((*lead, c // (r * r), high * r, wide * r))


@explained
def pixel_unshuffle(x: Tensor[B], downscale_factor: int) -> Tensor[B]:
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
    (x,) = floats("pixel_unshuffle", 1, x=x)
    r = positive_int("pixel_unshuffle", "downscale_factor", downscale_factor)
    dims_at_least("pixel_unshuffle", "x", x.shape, 3, _IMAGES)
    *lead, c, high, wide = x.shape
    if high % r or wide % r:
        raise ShapeError(
            f"pixel_unshuffle() got x of shape {x.shape}, images of {high} × {wide}, and downscale_factor={r}, "
            "which must divide both"
        )
    n = len(lead)
    parts = x.reshape((*lead, c, high // r, r, wide // r, r))
    moved = parts.permute((*range(n + 1), n + 2, n + 4, n + 1, n + 3))
    return moved.reshape((*lead, c * r * r, high // r, wide // r))


@explained
def channel_shuffle(x: Tensor[B], groups: int) -> Tensor[B]:
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
    (x,) = floats("channel_shuffle", 1, x=x)
    number = positive_int("channel_shuffle", "groups", groups)
    dims_at_least("channel_shuffle", "x", x.shape, 3, "(N, channels, …)")
    n, c, *rest = x.shape
    if c % number:
        raise ShapeError(
            f"channel_shuffle() got x of shape {x.shape}, with {c} channels, and groups={number}, which must "
            "divide them"
        )
    return x.reshape((n, number, c // number, *rest)).transpose(1, 2).reshape(x.shape)


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
