"""`Conv2d`: convolution of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from burnpy.backend.backend import Backend
from burnpy.backend.errors import ArgumentError
from burnpy.nn.functional.convolution import Padding, conv2d, padding_of
from burnpy.nn.init import Initializer, around_zero
from burnpy.nn.module import Module, rebound
from burnpy.nn.sizes import Pair, pair, positive
from burnpy.nn.variable import Param

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


class Conv2d(Module[B]):
    """Images multiplied with a weight at every place, from (N, in, height, width) to (N, out, height', width').

    The weight is (out, in / groups, kernel height, kernel width), as PyTorch's: see `burnpy.nn.functional.conv2d`.

    Args:
        in_channels: of the images.
        out_channels: of what comes out.
        kernel_size: height and width of the weight; one number for both.
        stride: from one place to the next.
        padding: zeros around the images, or "same" or "valid".
        dilation: from one element of the kernel to the next.
        groups: into how many parts channels are divided; must divide both.
        bias: whether something is added.
        device: where the layer is.
        initializer: of the weight; as of the bias uniform in ±1/√(in · kernel / groups), unless given.
        generator: what to draw the first values from.

    Raises:
        ArgumentError: a setting makes no sense.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> Conv2d(3, 8, 3, padding=1, device=NumPy)(Tensor[NumPy].ones((2, 3, 5, 5))).shape
    (2, 8, 5, 5)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        *,
        stride: Pair = 1,
        padding: Padding = 0,
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = True,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        positive("Conv2d", in_channels=in_channels, out_channels=out_channels, groups=groups)
        if in_channels % groups or out_channels % groups:
            raise ArgumentError(
                f"Conv2d() was given groups={groups} for {in_channels} → {out_channels} channels; it must divide both"
            )
        high, wide = pair("Conv2d", "kernel_size", kernel_size)
        self.stride = pair("Conv2d", "stride", stride)
        pads = padding_of("Conv2d", padding, self.stride)
        self.padding: Padding = "same" if pads is None else pads
        self.dilation = pair("Conv2d", "dilation", dilation)
        self.groups = groups
        shape = (out_channels, in_channels // groups, high, wide)
        first = around_zero(shape[1] * high * wide)
        self.weight = Param((initializer or first)(shape, device=device, generator=generator))
        self.bias = Param(first((out_channels,), device=device, generator=generator)) if bias else None

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """From (N, in, height, width) to (N, out, height', width'); N may be left out."""
        return conv2d(
            x,
            self.weight.value,
            None if self.bias is None else self.bias.value,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
        )

    @property
    def in_channels(self) -> int:
        """The channels of the images."""
        return self.weight.shape[1] * self.groups

    @property
    def out_channels(self) -> int:
        """The channels of what comes out."""
        return self.weight.shape[0]

    @property
    def kernel_size(self) -> tuple[int, ...]:
        """Height and width of the weight."""
        return self.weight.shape[2:]

    def valid(self: Conv2d[Autodiff[I]]) -> Conv2d[I]:
        """The same layer on the inner backend."""
        return rebound(self)
