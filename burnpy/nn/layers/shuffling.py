"""Rearrangements of channels and pixels as layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.nn.argument_checks import positive_int
from burnpy.nn.functional.shuffling import channel_shuffle, pixel_shuffle, pixel_unshuffle
from burnpy.nn.module import FunctionLayer, Stateless
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor


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
