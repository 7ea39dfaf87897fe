"""Convolution of sequences, images and volumes.

A sequence is convolved as an image of height 1, so that `conv1d` is `conv2d` with one size in place of two.

Source: Dumoulin and Visin, A guide to convolution arithmetic for deep learning, 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.nn.argument_checks import Pair, Single, Size, Triple, floats, pair, whole
from burnpy.nn.functional.windows import check_form, check_kernel, dims_of, form_of, sizes_of
from burnpy.tensor.call_errors import explained
from burnpy.tensor.joining import cat
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B

Padding: TypeAlias = int | Sequence[int | Sequence[int]] | Literal["same", "valid"]
"""Zero padding: of each dimension a number for both sides, or (before, after); one number for all dimensions; or the
name of a mode."""
Sides: TypeAlias = tuple[int, int]
"""The zeros before and after a dimension."""


@explained
def conv1d(
    x: Tensor[B],
    weight: Tensor[B],
    bias: Tensor[B] | None = None,
    *,
    stride: Single = 1,
    padding: Padding = 0,
    dilation: Single = 1,
    groups: int = 1,
) -> Tensor[B]:
    """Convolve sequences with a weight, as `conv2d` convolves images.

    x has shape (N, in, length), or (in, length) for a single sequence; weight (out, in / groups, kernel length); bias
    (out,). The result has shape (N, out, length'), or without N for a single sequence. ``padding`` is a number for both
    ends, or (before, after); other arguments and the errors are those of `conv2d`.

    >>> conv1d(Tensor[NumPy].arange(4).reshape(1, 4), Tensor[NumPy].ones((1, 1, 2)), padding=(1, 0)).tolist()
    [[0.0, 1.0, 3.0, 5.0]]
    """
    return _convolved("conv1d", x, weight, bias, stride, padding, dilation, groups)


@explained
def conv2d(
    x: Tensor[B],
    weight: Tensor[B],
    bias: Tensor[B] | None = None,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Tensor[B]:
    """Convolve images with a weight (strictly, cross-correlate), as `torch.nn.functional.conv2d`.

    Args:
        x: shape (N, in, height, width), or (in, height, width) for a single image.
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
    return _convolved("conv2d", x, weight, bias, stride, padding, dilation, groups)


@explained
def conv3d(
    x: Tensor[B],
    weight: Tensor[B],
    bias: Tensor[B] | None = None,
    *,
    stride: Triple = 1,
    padding: Padding = 0,
    dilation: Triple = 1,
    groups: int = 1,
) -> Tensor[B]:
    """Convolve volumes with a weight, as `conv2d` convolves images.

    x has shape (N, in, depth, height, width), or without N for a single volume; weight (out, in / groups, kernel depth,
    kernel height, kernel width); bias (out,). The result has shape (N, out, depth', height', width'), or no N for a
    single volume. Other arguments and the errors are those of `conv2d`, with one number for all three dimensions or
    three.

    >>> conv3d(Tensor[NumPy].ones((1, 2, 2, 3)), Tensor[NumPy].ones((1, 1, 2, 2, 2))).tolist()
    [[[[8.0, 8.0]]]]
    """
    return _convolved("conv3d", x, weight, bias, stride, padding, dilation, groups)


def padding_sides(operation: str, padding: Padding, stride: tuple[int, ...]) -> tuple[Sides, ...] | None:
    """Return the zeros before and after each dimension, as many as there are strides, or None for "same".

    Raises:
        ArgumentError: the padding is invalid, or "same" with a stride other than 1.
    """
    if isinstance(padding, int) and padding >= 0:
        return ((padding, padding),) * len(stride)
    if isinstance(padding, tuple) and len(padding) == len(stride) == 2:  # as a layer has it, without a loop
        high, wide = padding
        if isinstance(high, int) and isinstance(wide, int) and high >= 0 and wide >= 0:
            return (high, high), (wide, wide)
    if isinstance(padding, str):
        if padding == "valid":
            return ((0, 0),) * len(stride)
        if padding != "same":
            raise ArgumentError(f'{operation}() got padding={padding!r:.80}; expected a number, "same" or "valid"')
        if stride != (1,) * len(stride):
            shown = stride[0] if len(stride) == 1 else stride
            raise ArgumentError(f'{operation}() got padding="same" with stride={shown}; expected a stride of 1')
        return None
    return _listed_sides(operation, padding, len(stride))


def same_sides(kernel: tuple[int, ...], dilation: tuple[int, ...]) -> tuple[Sides, ...]:
    """Return the padding "same": what preserves the sizes, with the extra element of an odd total at the end."""
    totals = [gap * (size - 1) for size, gap in zip(kernel, dilation, strict=True)]
    return tuple([(total // 2, total - total // 2) for total in totals])


def padding_setting(operation: str, padding: Padding, stride: tuple[int, ...]) -> Padding:
    """Return a validated padding in its shortest form, which a layer shows: numbers where both sides are equal.

    Raises:
        ArgumentError: as `padding_sides`.
    """
    sides = padding_sides(operation, padding, stride)
    if sides is None:
        return "same"
    if all(before == after for before, after in sides):
        return sides[0][0] if len(sides) == 1 else tuple([before for before, _ in sides])
    return sides[0] if len(sides) == 1 else sides


def _listed_sides(operation: str, padding: Any, dims: int) -> tuple[Sides, ...]:
    """Convert padding as `padding_sides` does: the slow path, for sequences, other integers, and errors."""
    each = padding if isinstance(padding, Sequence) else (padding,) * dims
    if dims == 1 and len(each) == 2:
        each = (each,)
    try:
        if len(each) != dims:
            raise ArgumentError
        return tuple([pair(operation, "padding", side, 0) for side in each])
    except ArgumentError:
        form = "(before, after)" if dims == 1 else f"({form_of(dims)}), where each may be (before, after)"
        raise ArgumentError(
            f"{operation}() got padding={padding!r:.80}; expected an int of at least 0, {form}, "
            'or one of the words "same" and "valid"'
        ) from None


def operands(
    operation: str, x: Tensor[B], weight: Tensor[B], bias: Tensor[B] | None, groups: int, transposed: bool = False
) -> tuple[Tensor[B], Tensor[B], Tensor[B] | None, int]:
    """Return x and weight, as images if they are sequences, bias, and groups, whose shapes and channels fit.

    The end of the operation's name tells sequences, images and volumes.

    Raises:
        KindError, DeviceError, DTypeError: see `floats`.
        ShapeError: the shapes do not match.
        ArgumentError: the groups do not divide the first channels of the weight.
    """
    x, weight, bias = floats(operation, 2, x=x, weight=weight, bias=bias)
    shape, sizes = x._primitive.shape, weight._primitive.shape
    dims = dims_of(operation)
    check_form(operation, shape, dims, "in")
    if len(sizes) != dims + 2:
        channels = "in, out / groups" if transposed else "out, in / groups"
        kernel = ", ".join(f"kernel {size}" for size in form_of(dims).split(", "))
        raise ShapeError(f"{operation}() takes weight of shape ({channels}, {kernel}), got shape {sizes}")
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
            f"with groups={number}, which takes {taken}"
        )
    if bias is not None and bias._primitive.shape != (made,):
        raise ShapeError(
            f"{operation}() got weight of shape {sizes} with groups={number} and bias of shape {bias.shape}, "
            f"which must be {(made,)}"
        )
    return (x.unsqueeze(-2), weight.unsqueeze(-2), bias, number) if dims == 1 else (x, weight, bias, number)


def _convolved(
    operation: str,
    x: Tensor[B],
    weight: Tensor[B],
    bias: Tensor[B] | None,
    stride: Size,
    padding: Padding,
    dilation: Size,
    groups: int,
) -> Tensor[B]:
    """Convolve sequences, images or volumes, which the end of the operation's name says."""
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
