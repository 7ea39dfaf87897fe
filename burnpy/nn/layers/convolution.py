"""Convolution layers."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

from burnpy.nn.argument_checks import Size, check_choice, grouped, pair, single, triple
from burnpy.nn.functional.convolution import (
    Padding,
    conv1d,
    conv2d,
    conv3d,
    padding_setting,
    padding_sides,
    same_sides,
)
from burnpy.nn.functional.padding import pad
from burnpy.nn.init import Initializer, around_zero
from burnpy.nn.module import Module, rebound
from burnpy.nn.variable import Param
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from collections.abc import Callable

    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor


PaddingMode: TypeAlias = Literal["zeros", "reflect", "replicate", "circular"]
"""The values around the input of a convolution."""


class Convolution(Module[B]):
    """The base class of the convolution layers: their settings, weight and bias.

    A subclass names the function that it calls, and the one that validates its sizes: `single` for sequences, `pair`
    for images, `triple` for volumes.
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
        padding_mode: PaddingMode = "zeros",
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
        check_choice(layer, "padding_mode", padding_mode, get_args(PaddingMode))
        self.padding_mode: PaddingMode = padding_mode
        outer, inner = (in_channels, out_channels) if self._transposed else (out_channels, in_channels)
        shape = (outer, inner // groups, *(kernel if isinstance(kernel, tuple) else (kernel,)))
        default = around_zero(prod(shape[1:]))
        self.weight = Param((initializer or default)(shape, device=device, generator=generator))
        self.bias = Param(default((out_channels,), device=device, generator=generator)) if bias else None

    def _padding_setting(self, padding: Any) -> Any:
        """Return the validated padding, in its shortest form."""
        stride = self.stride if isinstance(self.stride, tuple) else (self.stride,)
        return padding_setting(type(self).__name__, padding, stride)

    def _ends(self) -> list[int]:
        """Return the elements to add before and after each dimension, as `pad` takes them: the last one first."""
        stride, dilation = ((n,) if isinstance(n, int) else n for n in (self.stride, self.dilation))
        sides = padding_sides(type(self).__name__, self.padding, stride)
        if sides is None:
            sides = same_sides(self.weight.shape[2:], dilation)
        return [n for side in reversed(sides) for n in side]

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Convolve sequences (N, in, length), images or volumes; N may be omitted."""
        padding = self.padding
        if self.padding_mode != "zeros":
            x, padding = pad(x, self._ends(), mode=self.padding_mode), 0
        return self._function(  # type: ignore[no-any-return]  # a function of burnpy.nn.functional
            x,
            self.weight.value,
            None if self.bias is None else self.bias.value,
            stride=self.stride,
            padding=padding,
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
    """1-D convolution of sequences, from (N, in, length) to (N, out, length'): see `burnpy.nn.functional.conv1d`.

    The weight is (out, in / groups, kernel length), as PyTorch's. The arguments and errors are those of `Conv2d`; a
    size is one number, and ``padding`` a number for both ends, (before, after), "same" or "valid".

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
        padding_mode: the values around the input: "zeros", or those of `pad` with "reflect", "replicate" or "circular".
        device: the device of the layer.
        initializer: the initializer of the weight; by default, as for the bias, uniform in ±1/√(in · kernel / groups).
        generator: the source of random initial values.

    Raises:
        ArgumentError: a setting is invalid.

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


class Conv3d(Convolution[B]):
    """3-D convolution of volumes, from (N, in, depth, height, width) to (N, out, depth', height', width').

    The weight is (out, in / groups, kernel depth, kernel height, kernel width), as PyTorch's: see
    `burnpy.nn.functional.conv3d`. The arguments and errors are those of `Conv2d`; a size is one number or three.

    >>> Conv3d(3, 8, 3, padding=1, device=NumPy)(Tensor[NumPy].ones((2, 3, 4, 5, 5))).shape
    (2, 8, 4, 5, 5)
    """

    stride: tuple[int, int, int]
    dilation: tuple[int, int, int]
    _function = staticmethod(conv3d)
    _size = staticmethod(triple)

    @property
    def kernel_size(self) -> tuple[int, ...]:
        """The depth, height and width of the kernel."""
        return self.weight.shape[2:]

    def valid(self: Conv3d[Autodiff[I]]) -> Conv3d[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)
