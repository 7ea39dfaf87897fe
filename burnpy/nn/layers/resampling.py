"""Resampling of images as layers: interpolation to another size, and pixel shuffles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from burnpy.nn.argument_checks import positive_int
from burnpy.nn.functional.resampling import Corners, Mode, interpolate
from burnpy.nn.functional.shuffling import channel_shuffle, pixel_shuffle, pixel_unshuffle
from burnpy.nn.module import Stateless
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor


class Upsample(Stateless):
    """Interpolates sequences, images or volumes to another size: see `burnpy.nn.functional.interpolate`.

    Args:
        size: the size of the output: one number for all of its dimensions, or one for each.
        scale_factor: in place of ``size``, the factor by which sizes grow.
        mode: the name of the interpolation.
        align_corners: whether the first and last elements of the output equal the input's.
        recompute_scale_factor: whether distances come from the rounded sizes instead of ``scale_factor``.

    The settings are checked when the layer is called, as they depend on one another and on the input.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> Upsample(scale_factor=2)(Tensor[NumPy].ones((2, 3, 4, 5))).shape
    (2, 3, 8, 10)
    """

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        *,
        scale_factor: float | Sequence[float] | None = None,
        mode: Mode = "nearest",
        align_corners: Corners = None,
        recompute_scale_factor: bool = False,
    ) -> None:
        self.size = tuple(size) if isinstance(size, Sequence) else size
        self.scale_factor = tuple(scale_factor) if isinstance(scale_factor, Sequence) else scale_factor
        self.mode: Mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Interpolate (N, channels, length), (N, channels, height, width) or (N, channels, depth, height, width)."""
        return interpolate(
            x,
            self.size,
            scale_factor=self.scale_factor,
            mode=self.mode,
            align_corners=self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )


class PixelShuffle(Stateless):
    """Moves channels to positions: see `burnpy.nn.functional.pixel_shuffle`.

    Args:
        upscale_factor: the factor r.

    Raises:
        ArgumentError: the factor is not positive.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> PixelShuffle(2)(Tensor[NumPy].ones((2, 8, 3, 3))).shape
    (2, 2, 6, 6)
    """

    def __init__(self, upscale_factor: int) -> None:
        self.upscale_factor = positive_int("PixelShuffle", "upscale_factor", upscale_factor)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Rearrange (…, channels · r², height, width) to (…, channels, height · r, width · r)."""
        return pixel_shuffle(x, self.upscale_factor)


class PixelUnshuffle(Stateless):
    """Moves positions to channels: see `burnpy.nn.functional.pixel_unshuffle`.

    Args:
        downscale_factor: the factor r.

    Raises:
        ArgumentError: the factor is not positive.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> PixelUnshuffle(2)(Tensor[NumPy].ones((2, 2, 6, 6))).shape
    (2, 8, 3, 3)
    """

    def __init__(self, downscale_factor: int) -> None:
        self.downscale_factor = positive_int("PixelUnshuffle", "downscale_factor", downscale_factor)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Rearrange (…, channels, height · r, width · r) to (…, channels · r², height, width)."""
        return pixel_unshuffle(x, self.downscale_factor)


class ChannelShuffle(Stateless):
    """Interleaves the channels of groups: see `burnpy.nn.functional.channel_shuffle`.

    Args:
        groups: the number of groups.

    Raises:
        ArgumentError: the number is not positive.
    """

    def __init__(self, groups: int) -> None:
        self.groups = positive_int("ChannelShuffle", "groups", groups)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Return x, of shape (N, channels, …), with its channels interleaved."""
        return channel_shuffle(x, self.groups)
