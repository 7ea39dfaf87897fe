"""Convolution layers."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.nn.argument_checks import Size, grouped, pair, single
from burnpy.nn.functional.convolution import (
    Padding,
    conv1d,
    conv2d,
    conv_transpose1d,
    conv_transpose2d,
    padding_setting,
)
from burnpy.nn.init import Initializer, around_zero
from burnpy.nn.module import Module, rebound
from burnpy.nn.variable import Param
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from collections.abc import Callable

    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor


class Convolution(Module[B]):
    """The base class of the convolution layers: their settings, weight and bias.

    A subclass names the function that it calls, and the one that validates its sizes: `single` for sequences, `pair`
    for images.
    """

    weight: Param[B]
    bias: Param[B] | None
    groups: int
    _function: ClassVar[Callable[..., Any]]
    _size: ClassVar[Callable[..., Any]]
    _transposed: ClassVar[bool] = False  # the dims of a transposed convolution's weight: input channels come first

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        *,
        stride: Size = 1,
        padding: Padding = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        layer = type(self).__name__
        grouped(layer, in_channels, out_channels, groups)
        kernel = self._size(layer, "kernel_size", kernel_size)
        self.stride: Any = self._size(layer, "stride", stride)
        self.padding: Any = self._padding_setting(padding)
        self.dilation: Any = self._size(layer, "dilation", dilation)
        self.groups = groups
        outer, inner = (in_channels, out_channels) if self._transposed else (out_channels, in_channels)
        shape = (outer, inner // groups, *(kernel if isinstance(kernel, tuple) else (kernel,)))
        default = around_zero(prod(shape[1:]))
        self.weight = Param((initializer or default)(shape, device=device, generator=generator))
        self.bias = Param(default((out_channels,), device=device, generator=generator)) if bias else None

    def _padding_setting(self, padding: Any) -> Any:
        """Return the validated padding, in its shortest form."""
        stride = self.stride if isinstance(self.stride, tuple) else (self.stride,)
        return padding_setting(type(self).__name__, padding, stride)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Convolve (N, in, length) or (N, in, height, width); N may be omitted."""
        return self._function(  # type: ignore[no-any-return]  # a function of burnpy.nn.functional
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
        return self.weight.shape[0] if self._transposed else self.weight.shape[1] * self.groups

    @property
    def out_channels(self) -> int:
        """The number of output channels."""
        return self.weight.shape[1] * self.groups if self._transposed else self.weight.shape[0]


class Conv1d(Convolution[B]):
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

    stride: int
    dilation: int
    _function = staticmethod(conv1d)
    _size = staticmethod(single)

    @property
    def kernel_size(self) -> int:
        """The length of the kernel."""
        return self.weight.shape[2]

    def valid(self: Conv1d[Autodiff[I]]) -> Conv1d[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


class Conv2d(Convolution[B]):
    """2-D convolution of images, from (N, in, height, width) to (N, out, height', width').

    The weight is (out, in / groups, kernel height, kernel width), as PyTorch's: see `burnpy.nn.functional.conv2d`.

    Args:
        in_channels: the number of input channels.
        out_channels: the number of output channels.
        kernel_size: height and width of the kernel; one number for both.
        stride: the step between positions of the kernel.
        padding: zeros added on each side of the images: a number for all, or of height and width each a number or
            (before, after); or "same" or "valid".
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
    >>> Conv2d(3, 8, 3, padding=1, device=NumPy)(Tensor[NumPy].ones((2, 3, 5, 5))).shape
    (2, 8, 5, 5)
    """

    stride: tuple[int, int]
    dilation: tuple[int, int]
    _function = staticmethod(conv2d)
    _size = staticmethod(pair)

    @property
    def kernel_size(self) -> tuple[int, ...]:
        """The height and width of the kernel."""
        return self.weight.shape[2:]

    def valid(self: Conv2d[Autodiff[I]]) -> Conv2d[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


class TransposedConvolution(Convolution[B]):
    """The base class of the transposed convolution layers."""

    _transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        *,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            bias=bias,
            device=device,
            initializer=initializer,
            generator=generator,
        )
        self.output_padding: Any = self._size(type(self).__name__, "output_padding", output_padding, 0)

    def _padding_setting(self, padding: Any) -> Any:
        """Return the validated padding: one number for both sides of a dimension."""
        return self._size(type(self).__name__, "padding", padding, 0)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Convolve (N, in, length) or (N, in, height, width) in the transposed sense; N may be omitted."""
        return self._function(  # type: ignore[no-any-return]  # a function of burnpy.nn.functional
            x,
            self.weight.value,
            None if self.bias is None else self.bias.value,
            stride=self.stride,
            padding=self.padding,
            output_padding=self.output_padding,
            dilation=self.dilation,
            groups=self.groups,
        )


class ConvTranspose1d(TransposedConvolution[B]):
    """1-D transposed convolution of sequences, from (N, in, length) to (N, out, length').

    The weight is (in, out / groups, kernel length), as PyTorch's: see `burnpy.nn.functional.conv_transpose1d`.

    Args:
        in_channels: the number of input channels.
        out_channels: the number of output channels.
        kernel_size: the length of the kernel.
        stride: the step between the positions of the kernel in the output.
        padding: elements removed from each end of the output.
        output_padding: elements added to one end of the output; less than the stride or the dilation.
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
    >>> ConvTranspose1d(3, 8, 2, stride=2, device=NumPy)(Tensor[NumPy].ones((2, 3, 5))).shape
    (2, 8, 10)
    """

    stride: int
    padding: int
    output_padding: int
    dilation: int
    _function = staticmethod(conv_transpose1d)
    _size = staticmethod(single)

    @property
    def kernel_size(self) -> int:
        """The length of the kernel."""
        return self.weight.shape[2]

    def valid(self: ConvTranspose1d[Autodiff[I]]) -> ConvTranspose1d[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


class ConvTranspose2d(TransposedConvolution[B]):
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

    stride: tuple[int, int]
    padding: tuple[int, int]
    output_padding: tuple[int, int]
    dilation: tuple[int, int]
    _function = staticmethod(conv_transpose2d)
    _size = staticmethod(pair)

    @property
    def kernel_size(self) -> tuple[int, ...]:
        """The height and width of the kernel."""
        return self.weight.shape[2:]

    def valid(self: ConvTranspose2d[Autodiff[I]]) -> ConvTranspose2d[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)
