"""Convolution of images and of sequences, and its transposes, the transposed convolutions.

A sequence is convolved as an image of height 1, so that `conv1d` is `conv2d` with one size in place of two.

Source: Dumoulin and Visin, A guide to convolution arithmetic for deep learning, 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.nn.argument_checks import Pair, Single, Size, floats, pair, row, whole
from burnpy.nn.functional.windows import check_form, check_kernel
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
    """Convolve sequences with a weight (strictly, cross-correlate), as `torch.nn.functional.conv1d`.

    Args:
        x: shape (N, in, length), or (in, length) for a single sequence.
        weight: shape (out, in / groups, kernel length), as PyTorch's.
        bias: shape (out,).
        stride: the step between positions of the kernel.
        padding: zeros added at each end: a number for both, or (before, after); "valid" for none, "same" to preserve
            the length, which requires a stride of 1; if the total is odd, the extra zero is added at the end.
        dilation: the step between elements of the kernel.
        groups: the number of groups of channels, each convolved with its own part of the weight.

    Returns:
        Shape (N, out, length'), or without N for a single sequence; length' is
        ⌊(length + before + after - dilation · (kernel - 1) - 1) / stride⌋ + 1.

    Raises:
        ShapeError: the shapes do not match, or the kernel does not fit in the padded sequence.
        DTypeError: x is wider than the weights.
        ArgumentError: a setting is invalid.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
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

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> conv2d(Tensor[NumPy].ones((1, 1, 3, 3)), Tensor[NumPy].ones((1, 1, 2, 2))).tolist()
    [[[[4.0, 4.0], [4.0, 4.0]]]]
    """
    return _convolved("conv2d", x, weight, bias, stride, padding, dilation, groups)


@explained
def conv_transpose1d(
    x: Tensor[B],
    weight: Tensor[B],
    bias: Tensor[B] | None = None,
    *,
    stride: Single = 1,
    padding: Single = 0,
    output_padding: Single = 0,
    groups: int = 1,
    dilation: Single = 1,
) -> Tensor[B]:
    """Convolve sequences in the transposed sense, as `torch.nn.functional.conv_transpose1d`.

    Args:
        x: shape (N, in, length), or (in, length) for a single sequence.
        weight: shape (in, out / groups, kernel length), as PyTorch's.
        bias: shape (out,).
        stride: the step between the positions of the kernel in the output.
        padding: elements removed from each end of the output.
        output_padding: elements added to one end of the output; less than the stride or the dilation.
        groups: the number of groups of channels, each with its own part of the weight.
        dilation: the step between elements of the kernel.

    Returns:
        Shape (N, out, length'), or without N for a single sequence; length' is
        (length - 1) · stride - 2 · padding + dilation · (kernel - 1) + output_padding + 1.

    Raises:
        ShapeError: the shapes do not match, or nothing is left of the output.
        DTypeError: x is wider than the weights.
        ArgumentError: a setting is invalid.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> x, weight = Tensor[NumPy].from_data([[1.0, 2.0]]), Tensor[NumPy].ones((1, 1, 3))
    >>> conv_transpose1d(x, weight, stride=2).tolist()
    [[1.0, 1.0, 3.0, 2.0, 2.0]]
    """
    return _transposed("conv_transpose1d", x, weight, bias, stride, padding, output_padding, dilation, groups)


@explained
def conv_transpose2d(
    x: Tensor[B],
    weight: Tensor[B],
    bias: Tensor[B] | None = None,
    *,
    stride: Pair = 1,
    padding: Pair = 0,
    output_padding: Pair = 0,
    groups: int = 1,
    dilation: Pair = 1,
) -> Tensor[B]:
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

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> x, weight = Tensor[NumPy].from_data([[[1.0, 2.0]]]), Tensor[NumPy].ones((1, 1, 1, 2))
    >>> conv_transpose2d(x, weight, stride=2, output_padding=(0, 1)).tolist()
    [[[1.0, 1.0, 2.0, 2.0, 0.0]]]
    """
    return _transposed("conv_transpose2d", x, weight, bias, stride, padding, output_padding, dilation, groups)


def sides_of(operation: str, padding: Padding, stride: tuple[int, ...]) -> tuple[Sides, ...] | None:
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


def padding_setting(operation: str, padding: Padding, stride: tuple[int, ...]) -> Padding:
    """Return a validated padding in its shortest form, which a layer shows: numbers where both sides are equal.

    Raises:
        ArgumentError: as `sides_of`.
    """
    sides = sides_of(operation, padding, stride)
    if sides is None:
        return "same"
    if all(before == after for before, after in sides):
        return sides[0][0] if len(sides) == 1 else tuple([before for before, _ in sides])
    return sides[0] if len(sides) == 1 else sides


def _listed_sides(operation: str, padding: Any, dims: int) -> tuple[Sides, ...]:
    """Convert padding as `sides_of` does: the slow path, for sequences, other integers, and errors."""
    each = padding if isinstance(padding, Sequence) else (padding,) * dims
    if dims == 1 and len(each) == 2:
        each = (each,)
    try:
        if len(each) != dims:
            raise ArgumentError
        return tuple([pair(operation, "padding", side, 0) for side in each])
    except ArgumentError:
        form = "(before, after)" if dims == 1 else "(height, width), where each may be (before, after)"
        raise ArgumentError(
            f"{operation}() got padding={padding!r:.80}; expected an int of at least 0, {form}, "
            'or one of the words "same" and "valid"'
        ) from None


def _operands(
    operation: str, x: Tensor[B], weight: Tensor[B], bias: Tensor[B] | None, groups: int, transposed: bool = False
) -> tuple[Tensor[B], Tensor[B], Tensor[B] | None, int]:
    """Return x and weight, as images if they are sequences, bias, and groups, whose shapes and channels fit.

    Raises:
        KindError, DeviceError, DTypeError: see `floats`.
        ShapeError: the shapes do not match.
        ArgumentError: the groups do not divide the first channels of the weight.
    """
    x, weight, bias = floats(operation, 2, x=x, weight=weight, bias=bias)
    shape, sizes = x._primitive.shape, weight._primitive.shape
    dims = 1 if operation.endswith("1d") else 2
    check_form(operation, shape, dims, "in")
    if len(sizes) != dims + 2:
        channels = "in, out / groups" if transposed else "out, in / groups"
        kernel = "kernel length" if dims == 1 else "kernel height, kernel width"
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
    return (x, weight, bias, number) if dims == 2 else (x.unsqueeze(-2), weight.unsqueeze(-2), bias, number)


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
    """Convolve images or sequences, which the end of the operation's name says."""
    x, weight, bias, groups = _operands(operation, x, weight, bias, groups)
    sequences = operation.endswith("1d")
    size = row if sequences else pair
    strides, gaps = size(operation, "stride", stride), size(operation, "dilation", dilation)
    sides = sides_of(operation, padding, strides[1:] if sequences else strides)
    kernel: tuple[int, int] = weight._primitive.shape[2:]
    if sides is None:  # "same"
        sides = tuple(
            [(gap * (size - 1) // 2, -(-gap * (size - 1) // 2)) for size, gap in zip(kernel, gaps, strict=True)]
        )
    elif sequences:
        sides = ((0, 0), *sides)
    (above, below), (left, right) = sides
    pads = (above, left)
    if above != below or left != right:
        x, pads = _evenly_padded(x, sides)
    shape = x._primitive.shape
    check_kernel(operation, shape, kernel, strides, pads, gaps)
    device: Any = x._device
    images = (x if len(shape) == 4 else x.unsqueeze(0))._primitive
    if bias is None:
        out = x._like(device.conv2d(images, weight._primitive, strides, pads, gaps, groups))
    else:
        primitive = device.conv2d_bias(images, weight._primitive, bias._primitive, strides, pads, gaps, groups)
        out = x._like(primitive)
    out = out if len(shape) == 4 else out.squeeze(0)
    return out.squeeze(-2) if sequences else out


def _evenly_padded(x: Tensor[B], sides: tuple[Sides, ...]) -> tuple[Tensor[B], Sides]:
    """Return x with the zeros that one side has more than the other, and the padding that is left for both sides."""
    for dim, (before, after) in enumerate(sides, x.ndim - 2):
        if before != after:
            extra = (*x.shape[:dim], abs(before - after), *x.shape[dim + 1 :])
            zeros = Tensor.zeros(extra, dtype=x.dtype, device=x.device)
            x = cat([zeros, x] if before > after else [x, zeros], dim)
    return x, (min(sides[0]), min(sides[1]))


def _transposed(
    operation: str,
    x: Tensor[B],
    weight: Tensor[B],
    bias: Tensor[B] | None,
    stride: Size,
    padding: Size,
    output_padding: Size,
    dilation: Size,
    groups: int,
) -> Tensor[B]:
    """Convolve images or sequences, which the end of the operation's name says, in the transposed sense."""
    x, weight, bias, groups = _operands(operation, x, weight, bias, groups, transposed=True)
    sequences = operation.endswith("1d")
    size = row if sequences else pair
    strides, gaps = size(operation, "stride", stride), size(operation, "dilation", dilation)
    pads, extra = size(operation, "padding", padding, 0), size(operation, "output_padding", output_padding, 0)
    for more, step, gap in zip(extra, strides, gaps, strict=True):
        if more >= max(step, gap):  # more would be zeros that no window reaches
            raise ArgumentError(
                f"{operation}() got output_padding={more} with stride={step} and dilation={gap}; expected a "
                "number below one of them"
            )
    shape, (channels, *kernel) = x.shape, weight.shape[1:]
    reach = [
        (count - 1) * step + gap * (k - 1) + 1
        for count, step, gap, k in zip(shape[-2:], strides, gaps, kernel, strict=True)
    ]
    sizes = [full - 2 * pad + more for full, pad, more in zip(reach, pads, extra, strict=True)]
    if min(sizes) < 1 or min(shape[-2:]) < 1:
        shown = sizes[1:] if sequences else sizes
        raise ShapeError(
            f"{operation}() got x with shape {(*shape[:-2], shape[-1]) if sequences else shape}; its output "
            f"would be empty, of size {' × '.join(map(str, shown))}; use less padding"
        )
    images = x if len(shape) == 4 else x.unsqueeze(0)
    device: Any = x.device
    channels = channels * groups
    exact = all(more < step for more, step in zip(extra, strides, strict=True))
    cut, whole_sizes = (pads, sizes) if exact else ((0, 0), reach)
    settings = ((images.shape[0], channels, *whole_sizes), strides, cut, gaps, groups)
    out = x._like(device.conv2d_input(images._primitive, weight._primitive, *settings))
    if not exact:
        out = _cut(out, pads, sizes)
    if bias is not None:
        out = out + bias.reshape((channels, 1, 1))
    out = out if len(shape) == 4 else out.squeeze(0)
    return out.squeeze(-2) if sequences else out


def _cut(out: Tensor[B], padding: tuple[int, int], sizes: list[int]) -> Tensor[B]:
    """Return the part of the last two dims that begins after the padding, extended by zeros to its sizes."""
    for dim, pad, size in zip((2, 3), padding, sizes, strict=True):
        missing = pad + size - out.shape[dim]
        if missing > 0:
            shape = (*out.shape[:dim], missing, *out.shape[dim + 1 :])
            out = cat([out, Tensor.zeros(shape, dtype=out.dtype, device=out.device)], dim)
        out = out[(..., slice(pad, pad + size), *((slice(None),) * (3 - dim)))]
    return out
