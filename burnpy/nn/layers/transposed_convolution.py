"""Transposed convolution of sequences, images and volumes: the transposes of the functions in `convolution`.

Source: Dumoulin and Visin, A guide to convolution arithmetic for deep learning, 2016."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.nn.argument_checks import (
    Pair,
    Single,
    Size,
    Triple,
    batch_of,
    by_parts,
    layer_size,
    sizes_of,
    times,
    window_dims,
)
from burnpy.nn.init import Initializer
from burnpy.nn.layers.convolution import Convolution, operands
from burnpy.nn.module import rebound
from burnpy.tensor.call_errors import explained
from burnpy.tensor.joining import cat
from burnpy.tensor.tensor import ComplexTensor, Tensor
from burnpy.typevars import B, I, X

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator


@explained
def conv_transpose1d(
    x: X,
    weight: X,
    bias: X | None = None,
    *,
    stride: Single = 1,
    padding: Single = 0,
    output_padding: Single = 0,
    groups: int = 1,
    dilation: Single = 1,
) -> X:
    """Convolve sequences in the transposed sense, as `conv_transpose2d` does images.

    x has shape (N, in, length), or (in, length) for a single sequence; weight (in, out / groups, kernel length); bias
    (out,). The result has shape (N, out, length'), or without N for a single sequence. Other arguments and the errors
    are those of `conv_transpose2d`, with one number in place of two.

    >>> x, weight = Tensor[NumPy].from_data([[1.0, 2.0]]), Tensor[NumPy].ones((1, 1, 3))
    >>> conv_transpose1d(x, weight, stride=2).tolist()
    [[1.0, 1.0, 3.0, 2.0, 2.0]]
    """
    settings = (stride, padding, output_padding, dilation, groups)
    out: X = _transposed("conv_transpose1d", x, weight, bias, *settings)
    return out


@explained
def conv_transpose2d(
    x: X,
    weight: X,
    bias: X | None = None,
    *,
    stride: Pair = 1,
    padding: Pair = 0,
    output_padding: Pair = 0,
    groups: int = 1,
    dilation: Pair = 1,
) -> X:
    """Convolve images in the transposed sense, as `torch.nn.functional.conv_transpose2d`.

    Args:
        x: shape (N, in, height, width), or (in, height, width) for a single image.
        weight: shape (in, out / groups, kernel height, kernel width), as PyTorch's.
        bias: shape (out,).
        stride: the step between the positions of the kernel in the output.
        padding: rows and columns removed from each side of the output.
        output_padding: rows and columns added to one side of the output; less than the stride or the dilation.
        groups: the number of groups of channels, each with its own part of the weight.
        dilation: the step between elements of the kernel.

    Returns:
        Shape (N, out, height', width'), or without N for a single image; height' is
        (height - 1) · stride - 2 · padding + dilation · (kernel - 1) + output_padding + 1.

    Raises:
        ShapeError: the shapes do not match, or nothing is left of the output.
        DTypeError: x is wider than the weights.
        ArgumentError: a setting is invalid.

    >>> x, weight = Tensor[NumPy].from_data([[[1.0, 2.0]]]), Tensor[NumPy].ones((1, 1, 1, 2))
    >>> conv_transpose2d(x, weight, stride=2, output_padding=(0, 1)).tolist()
    [[[1.0, 1.0, 2.0, 2.0, 0.0]]]
    """
    settings = (stride, padding, output_padding, dilation, groups)
    out: X = _transposed("conv_transpose2d", x, weight, bias, *settings)
    return out


@explained
def conv_transpose3d(
    x: X,
    weight: X,
    bias: X | None = None,
    *,
    stride: Triple = 1,
    padding: Triple = 0,
    output_padding: Triple = 0,
    groups: int = 1,
    dilation: Triple = 1,
) -> X:
    """Convolve volumes in the transposed sense, as `conv_transpose2d` does images.

    x has shape (N, in, depth, height, width), or without N for a single volume; weight (in, out / groups, kernel depth,
    kernel height, kernel width); bias (out,). The result has shape (N, out, depth', height', width'), or no N for a
    single volume. Other arguments and the errors are those of `conv_transpose2d`, with one number for all three
    dimensions or three.

    >>> x, weight = Tensor[NumPy].from_data([[[[1.0, 2.0]]]]), Tensor[NumPy].ones((1, 1, 1, 1, 2))
    >>> conv_transpose3d(x, weight, stride=2, output_padding=(0, 0, 1)).tolist()
    [[[[1.0, 1.0, 2.0, 2.0, 0.0]]]]
    """
    settings = (stride, padding, output_padding, dilation, groups)
    out: X = _transposed("conv_transpose3d", x, weight, bias, *settings)
    return out


def _transposed(
    operation: str,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Size,
    padding: Size,
    output_padding: Size,
    dilation: Size,
    groups: int,
) -> Any:
    """Convolve sequences, images or volumes, which the end of the operation's name says, in the transposed sense."""
    if x.__class__ is ComplexTensor or weight.__class__ is ComplexTensor:
        settings = (stride, padding, output_padding, dilation, groups)
        return by_parts(operation, _transposed, x, weight, bias, *settings)
    x, weight, bias, groups = operands(operation, x, weight, bias, groups, transposed=True)
    dims = window_dims(operation)
    strides, gaps = sizes_of(operation, "stride", stride), sizes_of(operation, "dilation", dilation)
    pads = sizes_of(operation, "padding", padding, 0)
    extra = sizes_of(operation, "output_padding", output_padding, 0)
    for more, step, gap in zip(extra, strides, gaps, strict=True):
        if more >= max(step, gap):  # more would be zeros that no window reaches
            raise ArgumentError(
                f"{operation}() got output_padding={more} with stride={step} and dilation={gap}; expected a "
                "number below one of them"
            )
    channels, spatial = weight.shape[1] * groups, len(weight.shape) - 2
    windows = zip(x.shape[-spatial:], strides, gaps, weight.shape[2:], strict=True)
    reach = [(count - 1) * step + gap * (k - 1) + 1 for count, step, gap, k in windows]
    sizes = [full - 2 * pad + more for full, pad, more in zip(reach, pads, extra, strict=True)]
    if min(sizes) < 1 or 0 in x.shape[-spatial:]:
        given, shown = ((*x.shape[:-2], x.shape[-1]), sizes[1:]) if dims == 1 else (x.shape, sizes)
        raise ShapeError(
            f"{operation}() got x with shape {given}; its output would be empty, of size {times(tuple(shown))}; "
            "use less padding"
        )
    batch = batch_of(x, spatial)
    device: Any = x.device
    exact = all(more < step for more, step in zip(extra, strides, strict=True))
    cut, whole_sizes = (pads, sizes) if exact else ((0,) * spatial, reach)
    settings = ((batch.shape[0], channels, *whole_sizes), strides, cut, gaps, groups)
    transposed = device.conv3d_input if dims == 3 else device.conv2d_input
    out = x._like(transposed(batch._primitive, weight._primitive, *settings))
    if not exact:
        out = _cut(out, pads, sizes)
    if bias is not None:
        out = out + bias.reshape((channels, *(1,) * spatial))
    out = out if len(x.shape) == spatial + 2 else out.squeeze(0)
    return out.squeeze(-2) if dims == 1 else out


def _cut(out: Tensor[B], padding: tuple[int, ...], sizes: list[int]) -> Tensor[B]:
    """Return the part of all dims but two that begins after the padding, extended by zeros to its sizes."""
    for dim, pad, size in zip(range(2, out.ndim), padding, sizes, strict=True):
        missing = pad + size - out.shape[dim]
        if missing > 0:
            shape = (*out.shape[:dim], missing, *out.shape[dim + 1 :])
            out = cat([out, Tensor.zeros(shape, dtype=out.dtype, device=out.device)], dim)
        out = out[(..., slice(pad, pad + size), *((slice(None),) * (out.ndim - 1 - dim)))]
    return out


class TransposedConvolution(Convolution[B]):
    """The base class of the transposed convolution layers."""

    _settings = ("stride", "padding", "output_padding", "dilation", "groups")
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
        self.output_padding: Any = layer_size(self, "output_padding", output_padding, 0)

    def _padding_setting(self, padding: Any) -> Any:
        """Return the validated padding: one number for both sides of a dimension."""
        return layer_size(self, "padding", padding, 0)


class ConvTranspose1d(TransposedConvolution[B]):
    """1-D transposed convolution of sequences, from (N, in, length) to (N, out, length').

    The weight is (in, out / groups, kernel length), as PyTorch's: see `burnpy.nn.functional.conv_transpose1d`. The
    arguments and errors are those of `ConvTranspose2d`; a size is one number.

    >>> ConvTranspose1d(3, 8, 2, stride=2, device=NumPy)(Tensor[NumPy].ones((2, 3, 5))).shape
    (2, 8, 10)
    """

    stride: int
    padding: int
    output_padding: int
    dilation: int
    _function = staticmethod(conv_transpose1d)

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

    >>> ConvTranspose2d(3, 8, 2, stride=2, device=NumPy)(Tensor[NumPy].ones((2, 3, 5, 5))).shape
    (2, 8, 10, 10)
    """

    stride: tuple[int, int]
    padding: tuple[int, int]
    output_padding: tuple[int, int]
    dilation: tuple[int, int]
    _function = staticmethod(conv_transpose2d)

    @property
    def kernel_size(self) -> tuple[int, ...]:
        """The height and width of the kernel."""
        return self.weight.shape[2:]

    def valid(self: ConvTranspose2d[Autodiff[I]]) -> ConvTranspose2d[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


class ConvTranspose3d(TransposedConvolution[B]):
    """3-D transposed convolution of volumes, from (N, in, depth, height, width) to (N, out, depth', height', width').

    The weight is (in, out / groups, kernel depth, kernel height, kernel width), as PyTorch's: see
    `burnpy.nn.functional.conv_transpose3d`. The arguments and errors are those of `ConvTranspose2d`; a size is one
    number or three.

    >>> ConvTranspose3d(3, 8, 2, stride=2, device=NumPy)(Tensor[NumPy].ones((2, 3, 2, 5, 5))).shape
    (2, 8, 4, 10, 10)
    """

    stride: tuple[int, int, int]
    padding: tuple[int, int, int]
    output_padding: tuple[int, int, int]
    dilation: tuple[int, int, int]
    _function = staticmethod(conv_transpose3d)

    @property
    def kernel_size(self) -> tuple[int, ...]:
        """The depth, height and width of the kernel."""
        return self.weight.shape[2:]

    def valid(self: ConvTranspose3d[Autodiff[I]]) -> ConvTranspose3d[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)
