"""1-D convolution."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from burnpy.backend.backend import Backend
from burnpy.nn.functional.convolution import Padding, conv1d, padding_setting
from burnpy.nn.init import Initializer, around_zero
from burnpy.nn.module import Module, rebound
from burnpy.nn.sizes import Single, grouped, single
from burnpy.nn.variable import Param

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


class Conv1d(Module[B]):
    """1-D convolution of sequences, from (N, in, length) to (N, out, length').

    The weight is (out, in / groups, kernel length), as PyTorch's: see `burnpy.nn.functional.conv1d`.

    Args:
        in_channels: the number of input channels.
        out_channels: the number of output channels.
        kernel_size: the length of the kernel.
        stride: the step between positions of the kernel.
        padding: zeros added at each end: a number for both, or (before, after); or "same" or "valid".
        dilation: the step between elements of the kernel.
        groups: the number of groups of channels; must divide both channel counts.
        bias: whether the layer has a bias.
        device: the device of the layer.
        initializer: the initializer of the weight; by default, as for the bias, uniform in ±1/√(in · kernel / groups).
        generator: the source of random initial values.

    Raises:
        ArgumentError: a setting is invalid.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> Conv1d(3, 8, 3, padding=1, device=NumPy)(Tensor[NumPy].ones((2, 3, 5))).shape
    (2, 8, 5)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Single,
        *,
        stride: Single = 1,
        padding: Padding = 0,
        dilation: Single = 1,
        groups: int = 1,
        bias: bool = True,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        grouped("Conv1d", in_channels, out_channels, groups)
        size = single("Conv1d", "kernel_size", kernel_size)
        self.stride = single("Conv1d", "stride", stride)
        self.padding: Padding = padding_setting("Conv1d", padding, (self.stride,))
        self.dilation = single("Conv1d", "dilation", dilation)
        self.groups = groups
        shape = (out_channels, in_channels // groups, size)
        default = around_zero(shape[1] * size)
        self.weight = Param((initializer or default)(shape, device=device, generator=generator))
        self.bias = Param(default((out_channels,), device=device, generator=generator)) if bias else None

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Convolve (N, in, length) to (N, out, length'); N may be omitted."""
        return conv1d(
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
        """The number of input channels."""
        return self.weight.shape[1] * self.groups

    @property
    def out_channels(self) -> int:
        """The number of output channels."""
        return self.weight.shape[0]

    @property
    def kernel_size(self) -> int:
        """The length of the kernel."""
        return self.weight.shape[2]

    def valid(self: Conv1d[Autodiff[I]]) -> Conv1d[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)
