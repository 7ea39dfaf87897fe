"""Convolution of sequences, images and volumes.

A sequence is convolved as an image of height 1, so that `conv1d` is `conv2d` with one size in place of two.

Source: Dumoulin and Visin, A guide to convolution arithmetic for deep learning, 2016."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args, overload

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.nn.argument_checks import (
    Pair,
    Single,
    Size,
    Triple,
    by_parts,
    channels_first,
    check_choice,
    check_form,
    check_kernel,
    floats,
    form_of,
    grouped,
    layer_size,
    sizes_of,
    whole,
    window_dims,
)
from burnpy.nn.init import Initializer, around_zero
from burnpy.nn.layers.padding import Padding, Sides, pad, padding_setting, padding_sides, same_sides
from burnpy.nn.module import Module, rebound
from burnpy.nn.param import Param
from burnpy.tensor.call_errors import explained
from burnpy.tensor.joining import cat
from burnpy.tensor.tensor import ComplexTensor, Tensor
from burnpy.typevars import B, I, X

if TYPE_CHECKING:
    from collections.abc import Callable

    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator


@explained
def conv1d(
    x: X,
    weight: X,
    bias: X | None = None,
    *,
    stride: Single = 1,
    padding: Padding = 0,
    dilation: Single = 1,
    groups: int = 1,
) -> X:
    """Convolve sequences with a weight, as `conv2d` convolves images.

    x has shape (N, in, length), or (in, length) for a single sequence; weight (out, in / groups, kernel length); bias
    (out,). The result has shape (N, out, length'), or without N for a single sequence. ``padding`` is a number for both
    ends, or (before, after); other arguments and the errors are those of `conv2d`.

    >>> conv1d(Tensor[NumPy].arange(4).reshape(1, 4), Tensor[NumPy].ones((1, 1, 2)), padding=(1, 0)).tolist()
    [[0.0, 1.0, 3.0, 5.0]]
    """
    out: X = _convolved("conv1d", x, weight, bias, stride, padding, dilation, groups)
    return out


@explained
def conv2d(
    x: X,
    weight: X,
    bias: X | None = None,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> X:
    """Convolve images with a weight (strictly, cross-correlate), as `torch.nn.functional.conv2d`.

    Args:
        x: shape (N, in, height, width), or (in, height, width) for a single image; complex if the weight is.
        weight: shape (out, in / groups, kernel height, kernel width), as PyTorch's.
        bias: shape (out,).
        stride: the step between positions of the kernel.
        padding: zeros added on each side of the images: one number for all, or one for height and one for width. Either
            may be (before, after): ``((0, 1), 2)`` adds a row below and two columns at both sides. "valid" adds none;
            "same" preserves height and width and requires a stride of 1; if the total is odd, the extra zero is at the
            end.
        dilation: the step between elements of the kernel.
        groups: the number of groups of channels, each convolved with its own part of the weight.

    Returns:
        Shape (N, out, height', width'), or without N for a single image; height' is
        ⌊(height + above + below - dilation · (kernel - 1) - 1) / stride⌋ + 1.

    Raises:
        ShapeError: the shapes do not match, or the kernel does not fit in the padded image.
        DTypeError: x is wider than the weights.
        ArgumentError: a setting is invalid.

    >>> conv2d(Tensor[NumPy].ones((1, 1, 3, 3)), Tensor[NumPy].ones((1, 1, 2, 2))).tolist()
    [[[[4.0, 4.0], [4.0, 4.0]]]]
    """
    out: X = _convolved("conv2d", x, weight, bias, stride, padding, dilation, groups)
    return out


@explained
def conv3d(
    x: X,
    weight: X,
    bias: X | None = None,
    *,
    stride: Triple = 1,
    padding: Padding = 0,
    dilation: Triple = 1,
    groups: int = 1,
) -> X:
    """Convolve volumes with a weight, as `conv2d` convolves images.

    x has shape (N, in, depth, height, width), or without N for a single volume; weight (out, in / groups, kernel depth,
    kernel height, kernel width); bias (out,). The result has shape (N, out, depth', height', width'), or no N for a
    single volume. Other arguments and the errors are those of `conv2d`, with one number for all three dimensions or
    three.

    >>> conv3d(Tensor[NumPy].ones((1, 2, 2, 3)), Tensor[NumPy].ones((1, 1, 2, 2, 2))).tolist()
    [[[[8.0, 8.0]]]]
    """
    out: X = _convolved("conv3d", x, weight, bias, stride, padding, dilation, groups)
    return out


def operands(
    operation: str, x: Tensor[B], weight: Tensor[B], bias: Tensor[B] | None, groups: int, transposed: bool = False
) -> tuple[Tensor[B], Tensor[B], Tensor[B] | None, int]:
    """Return x and weight, as images if they are sequences, bias, and groups, whose shapes and channels fit.

    The end of the operation's name tells sequences, images and volumes.
    """
    x, weight, bias = floats(operation, 2, x=x, weight=weight, bias=bias)
    shape, sizes = x._primitive.shape, weight._primitive.shape
    dims = window_dims(operation)
    check_form(operation, shape, dims, "in")
    if len(sizes) != dims + 2:
        channels = "in, out / groups" if transposed else "out, in / groups"
        kernel = ", ".join(f"kernel {size}" for size in form_of(dims).split(", "))
        raise ShapeError(f"{operation}() takes weight of shape ({channels}, {kernel}), got shape {sizes}")
    if 0 in sizes[2:]:
        raise ShapeError(f"{operation}() got weight of shape {sizes}, whose kernel has no elements")
    number = groups if groups.__class__ is int else whole(operation, "groups", groups)
    if number < 1 or sizes[0] % number:
        word = "input" if transposed else "output"
        raise ArgumentError(
            f"{operation}() got groups={groups!r:.80} for {sizes[0]} {word} channels, which they must divide"
        )
    channels, others = shape[-dims - 1], sizes[1] * number
    taken, made = (sizes[0], others) if transposed else (others, sizes[0])
    if channels != taken:
        raise ShapeError(
            f"{operation}() got x of shape {shape}, with {channels} channels, and weight of shape {sizes} "
            f"with groups={number}, which takes {taken}{channels_first(shape, taken, len(shape) == dims + 2)}"
        )
    if bias is not None and bias._primitive.shape != (made,):
        raise ShapeError(
            f"{operation}() got weight of shape {sizes} with groups={number} and bias of shape {bias.shape}, "
            f"which must be {(made,)}"
        )
    return (x.unsqueeze(-2), weight.unsqueeze(-2), bias, number) if dims == 1 else (x, weight, bias, number)


def _convolved(
    operation: str, x: Any, weight: Any, bias: Any, stride: Size, padding: Padding, dilation: Size, groups: int
) -> Any:
    """Convolve sequences, images or volumes, which the end of the operation's name says."""
    if x.__class__ is ComplexTensor or weight.__class__ is ComplexTensor:
        return by_parts(operation, _convolved, x, weight, bias, stride, padding, dilation, groups)
    x, weight, bias, groups = operands(operation, x, weight, bias, groups)
    kernel: tuple[int, ...] = weight._primitive.shape[2:]
    dims = 1 if operation == "conv1d" else len(kernel)  # sequences are images by now
    strides, gaps = sizes_of(operation, "stride", stride), sizes_of(operation, "dilation", dilation)
    sides = padding_sides(operation, padding, strides[1:] if dims == 1 else strides)
    if sides is None:
        sides = same_sides(kernel, gaps)
    elif dims == 1:
        sides = ((0, 0), *sides)
    pads, ends = zip(*sides, strict=True)
    if pads != ends:
        x, pads = _evenly_padded(x, sides)
    shape = x._primitive.shape
    check_kernel(operation, shape, kernel, strides, pads, gaps)
    device: Any = x._device
    single = len(shape) == len(kernel) + 1
    batch = (x.unsqueeze(0) if single else x)._primitive
    settings = (strides, pads, gaps, groups)
    if bias is None:
        convolve = device.conv3d if dims == 3 else device.conv2d
        out = x._like(convolve(batch, weight._primitive, *settings))
    else:
        convolve = device.conv3d_bias if dims == 3 else device.conv2d_bias
        out = x._like(convolve(batch, weight._primitive, bias._primitive, *settings))
    out = out.squeeze(0) if single else out
    return out.squeeze(-2) if dims == 1 else out


def _evenly_padded(x: Tensor[B], sides: tuple[Sides, ...]) -> tuple[Tensor[B], tuple[int, ...]]:
    """Return x with the zeros that one side has more than the other, and the padding that is left for both sides."""
    for dim, (before, after) in enumerate(sides, x.ndim - len(sides)):
        if before != after:
            extra = (*x.shape[:dim], abs(before - after), *x.shape[dim + 1 :])
            zeros = Tensor.zeros(extra, dtype=x.dtype, device=x.device)
            x = cat([zeros, x] if before > after else [x, zeros], dim)
    return x, tuple([min(side) for side in sides])


PaddingMode: TypeAlias = Literal["zeros", "reflect", "replicate", "circular"]
"""The values around the input of a convolution."""


class Convolution(Module[B]):
    """The base class of the convolution layers: their settings, weight and bias.

    A subclass names the function that it calls, and the settings that it passes to it by name.
    """

    weight: Param[B]
    bias: Param[B] | None
    groups: int
    _function: ClassVar[Callable[..., Any]]
    _settings: ClassVar[tuple[str, ...]] = ("stride", "padding", "dilation", "groups")
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
        kernel = layer_size(self, "kernel_size", kernel_size)
        self.stride: Any = layer_size(self, "stride", stride)
        self.padding: Any = self._padding_setting(padding)
        self.dilation: Any = layer_size(self, "dilation", dilation)
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

    @overload
    def forward(self, x: Tensor[B]) -> Tensor[B]: ...
    @overload
    def forward(self, x: ComplexTensor[B]) -> ComplexTensor[B]: ...
    def forward(self, x: Any) -> Any:
        """Convolve sequences (N, in, length), images or volumes; N may be omitted."""
        settings = {name: getattr(self, name) for name in self._settings}
        if self.padding_mode != "zeros":
            x, settings["padding"] = pad(x, self._ends(), mode=self.padding_mode), 0
        return self._function(x, self.weight.value, None if self.bias is None else self.bias.value, **settings)

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

    @property
    def kernel_size(self) -> tuple[int, ...]:
        """The depth, height and width of the kernel."""
        return self.weight.shape[2:]

    def valid(self: Conv3d[Autodiff[I]]) -> Conv3d[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)
