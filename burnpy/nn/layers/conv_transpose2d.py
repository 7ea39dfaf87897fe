"""2-D transposed convolution."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from burnpy.backend.backend import Backend
from burnpy.nn.functional.transposed_convolution import conv_transpose2d
from burnpy.nn.init import Initializer, around_zero
from burnpy.nn.module import Module, rebound
from burnpy.nn.sizes import Pair, grouped, pair
from burnpy.nn.variable import Param

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


class ConvTranspose2d(Module[B]):
    """2-D transposed convolution of images, from (N, in, height, width) to (N, out, height', width').

    The weight is (in, out / groups, kernel height, kernel width), as PyTorch's:
    see `burnpy.nn.functional.conv_transpose2d`.

    Args:
        in_channels: the number of input channels.
        out_channels: the number of output channels.
        kernel_size: height and width of the kernel; one number for both.
        stride: the step between the positions of the kernel in the output.
        padding: rows and columns removed from each side of the output.
        output_padding: rows and columns added to one side of the output; less than the stride or the dilation.
        dilation: the step between elements of the kernel.
        groups: the number of groups of channels; must divide both channel counts.
        bias: whether the layer has a bias.
        device: the device of the layer.
        initializer: the initializer of the weight; by default, as for the bias, uniform in ±1/√(out · kernel / groups).
        generator: the source of random initial values.

    Raises:
        ArgumentError: a setting is invalid.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> ConvTranspose2d(3, 8, 2, stride=2, device=NumPy)(Tensor[NumPy].ones((2, 3, 5, 5))).shape
    (2, 8, 10, 10)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        *,
        stride: Pair = 1,
        padding: Pair = 0,
        output_padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = True,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        grouped("ConvTranspose2d", in_channels, out_channels, groups)
        high, wide = pair("ConvTranspose2d", "kernel_size", kernel_size)
        self.stride = pair("ConvTranspose2d", "stride", stride)
        self.padding = pair("ConvTranspose2d", "padding", padding, 0)
        self.output_padding = pair("ConvTranspose2d", "output_padding", output_padding, 0)
        self.dilation = pair("ConvTranspose2d", "dilation", dilation)
        self.groups = groups
        shape = (in_channels, out_channels // groups, high, wide)
        default = around_zero(shape[1] * high * wide)
        self.weight = Param((initializer or default)(shape, device=device, generator=generator))
        self.bias = Param(default((out_channels,), device=device, generator=generator)) if bias else None

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Convolve (N, in, height, width) to (N, out, height', width'); N may be omitted."""
        return conv_transpose2d(
            x,
            self.weight.value,
            None if self.bias is None else self.bias.value,
            stride=self.stride,
            padding=self.padding,
            output_padding=self.output_padding,
            dilation=self.dilation,
            groups=self.groups,
        )

    @property
    def in_channels(self) -> int:
        """The number of input channels."""
        return self.weight.shape[0]

    @property
    def out_channels(self) -> int:
        """The number of output channels."""
        return self.weight.shape[1] * self.groups

    @property
    def kernel_size(self) -> tuple[int, ...]:
        """The height and width of the kernel."""
        return self.weight.shape[2:]

    def valid(self: ConvTranspose2d[Autodiff[I]]) -> ConvTranspose2d[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)
