"""Convolution and transposed convolution of images and of sequences.

Transposed convolutions are the transposes of the linear maps `conv2d` and `conv1d` of x.

Source: Dumoulin and Visin, A guide to convolution arithmetic for deep learning, 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.nn.argument_checks import Pair, Single, floats, pair, single, whole
from burnpy.nn.functional.windows import refuse_no_images, refuse_no_sequences, refuse_too_small
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
    """1-D convolution of sequences with a weight (strictly, cross-correlation), as `torch.nn.functional.conv1d`.

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
    x, weight, bias = floats("conv1d", 2, x=x, weight=weight, bias=bias)
    refuse_no_sequences("conv1d", x.shape, "in")
    if weight.ndim != 3:
        raise ShapeError(f"conv1d() takes weight of shape (out, in / groups, kernel length), got {weight.shape}")
    steps, gaps = single("conv1d", "stride", stride), single("conv1d", "dilation", dilation)
    groups = _checked_channels("conv1d", x.shape, weight.shape, None if bias is None else bias.shape, groups, 1)
    sides = sides_of("conv1d", padding, (steps,))
    across = (0, 0)
    images, weight = x.unsqueeze(-2), weight.unsqueeze(-2)
    return _convolved(
        "conv1d", images, weight, bias, (1, steps), None if sides is None else (across, sides[0]), (1, gaps), groups
    ).squeeze(-2)


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
    """2-D convolution of images with a weight (strictly, cross-correlation), as `torch.nn.functional.conv2d`.

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
    x, weight, bias = floats("conv2d", 2, x=x, weight=weight, bias=bias)
    shape, sizes = x.shape, weight.shape
    refuse_no_images("conv2d", shape, "in")
    if len(sizes) != 4:
        raise ShapeError(
            f"conv2d() takes weight of shape (out, in / groups, kernel height, kernel width), got shape {sizes}"
        )
    strides, dilations = pair("conv2d", "stride", stride), pair("conv2d", "dilation", dilation)
    groups = _checked_channels("conv2d", shape, sizes, None if bias is None else bias.shape, groups, 2)
    sides = sides_of("conv2d", padding, strides)
    return _convolved("conv2d", x, weight, bias, strides, sides, dilations, groups)


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
            raise ArgumentError(f'{operation}() got padding={padding!r:.80}; of words there are "same" and "valid"')
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
    """The slow path of `sides_of`, for sequences, other integers, and errors."""
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


def _checked_channels(operation: str, shape: Any, sizes: Any, bias_shape: Any, groups: int, dims: int) -> int:
    """Check that the channels of x, weight and bias match; return the number of groups as an int."""
    groups = whole(operation, "groups", groups)
    if groups < 1 or sizes[0] % groups:
        raise ArgumentError(
            f"{operation}() got groups={groups!r:.80} for {sizes[0]} output channels, which they must divide"
        )
    channels = shape[-dims - 1]
    if channels != sizes[1] * groups:
        raise ShapeError(
            f"{operation}() got x of shape {shape}, with {channels} channels, and weight of shape {sizes} "
            f"with groups={groups}, which takes {sizes[1] * groups}"
        )
    if bias_shape is not None and bias_shape != sizes[:1]:
        raise ShapeError(
            f"{operation}() got weight of shape {sizes} and bias of shape {bias_shape}, which must be {sizes[:1]}"
        )
    return groups


def _convolved(
    operation: str,
    x: Tensor[B],
    weight: Tensor[B],
    bias: Tensor[B] | None,
    stride: tuple[int, int],
    sides: tuple[Sides, ...] | None,
    dilation: tuple[int, int],
    groups: int,
) -> Tensor[B]:
    """Convolve a batch of images, or one image, whose channels have been checked."""
    sizes = weight.shape
    kernel = (sizes[2], sizes[3])
    if sides is None:  # "same"
        sides = tuple(
            [(gap * (size - 1) // 2, -(-gap * (size - 1) // 2)) for size, gap in zip(kernel, dilation, strict=True)]
        )
    (above, below), (left, right) = sides
    pads = (above, left)
    if above != below or left != right:
        x, pads = _evenly_padded(x, sides)
    shape = x.shape
    refuse_too_small(operation, shape, kernel, stride, pads, dilation)
    device: Any = x.device
    images = (x if len(shape) == 4 else x.unsqueeze(0))._primitive
    if bias is None:
        out = x._like(device.conv2d(images, weight._primitive, stride, pads, dilation, groups))
    else:
        primitive = device.conv2d_bias(images, weight._primitive, bias._primitive, stride, pads, dilation, groups)
        out = x._like(primitive)
    return out if len(shape) == 4 else out.squeeze(0)


def _evenly_padded(x: Tensor[B], sides: tuple[Sides, ...]) -> tuple[Tensor[B], Sides]:
    """Return x with the zeros that one side has more than the other, and the padding that is left for both sides."""
    for dim, (before, after) in enumerate(sides, x.ndim - 2):
        if before != after:
            extra = (*x.shape[:dim], abs(before - after), *x.shape[dim + 1 :])
            zeros = Tensor.zeros(extra, dtype=x.dtype, device=x.device)
            x = cat([zeros, x] if before > after else [x, zeros], dim)
    return x, (min(sides[0]), min(sides[1]))


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
    """1-D transposed convolution of sequences, as `torch.nn.functional.conv_transpose1d`.

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
    name = "conv_transpose1d"
    x, weight, bias = floats(name, 2, x=x, weight=weight, bias=bias)
    refuse_no_sequences(name, x.shape, "in")
    if weight.ndim != 3:
        raise ShapeError(f"{name}() takes weight of shape (in, out / groups, kernel length), got {weight.shape}")
    groups = _checked_transposed_channels(name, x.shape, weight.shape, None if bias is None else bias.shape, groups, 1)
    steps, gaps = single(name, "stride", stride), single(name, "dilation", dilation)
    pads, extra = single(name, "padding", padding, 0), single(name, "output_padding", output_padding, 0)
    images, weight = x.unsqueeze(-2), weight.unsqueeze(-2)
    return _transposed_convolved(
        name, images, weight, bias, (1, steps), (0, pads), (0, extra), (1, gaps), groups
    ).squeeze(-2)


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
    """2-D transposed convolution of images, as `torch.nn.functional.conv_transpose2d`.

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
    name = "conv_transpose2d"
    x, weight, bias = floats(name, 2, x=x, weight=weight, bias=bias)
    refuse_no_images(name, x.shape, "in")
    if weight.ndim != 4:
        raise ShapeError(
            f"{name}() takes weight of shape (in, out / groups, kernel height, kernel width), got {weight.shape}"
        )
    groups = _checked_transposed_channels(name, x.shape, weight.shape, None if bias is None else bias.shape, groups, 2)
    strides, gaps = pair(name, "stride", stride), pair(name, "dilation", dilation)
    pads, extra = pair(name, "padding", padding, 0), pair(name, "output_padding", output_padding, 0)
    return _transposed_convolved(name, x, weight, bias, strides, pads, extra, gaps, groups)


def _refuse_large_output_padding(
    operation: str, extra: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> None:
    """Check that output padding is less than the stride or the dilation: more were zeros that no window reaches.

    Raises:
        ArgumentError: it is not.
    """
    for more, step, gap in zip(extra, stride, dilation, strict=True):
        if more >= max(step, gap):
            raise ArgumentError(
                f"{operation}() got output_padding={more} with stride={step} and dilation={gap}; it is less than "
                "one of them"
            )


def _checked_transposed_channels(
    operation: str, shape: Any, sizes: Any, bias_shape: Any, groups: int, dims: int
) -> int:
    """Check that the channels of x, weight and bias match; return the number of groups as an int."""
    groups = whole(operation, "groups", groups)
    channels = shape[-dims - 1]
    if groups < 1 or sizes[0] % groups:
        raise ArgumentError(
            f"{operation}() got groups={groups!r:.80} for {sizes[0]} input channels, which they must divide"
        )
    if channels != sizes[0]:
        raise ShapeError(
            f"{operation}() got x of shape {shape}, with {channels} channels, and weight of shape {sizes}, which "
            f"takes {sizes[0]}"
        )
    if bias_shape is not None and bias_shape != (sizes[1] * groups,):
        raise ShapeError(
            f"{operation}() got weight of shape {sizes} with groups={groups} and bias of shape {bias_shape}, "
            f"which must be {(sizes[1] * groups,)}"
        )
    return groups


def _transposed_convolved(
    operation: str,
    x: Tensor[B],
    weight: Tensor[B],
    bias: Tensor[B] | None,
    stride: tuple[int, int],
    padding: tuple[int, int],
    extra: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
) -> Tensor[B]:
    """Convolve a batch of images, or one image, whose channels have been checked, in the transposed sense."""
    _refuse_large_output_padding(operation, extra, stride, dilation)
    shape, (channels, *kernel) = x.shape, weight.shape[1:]
    reach = [
        (size - 1) * step + gap * (k - 1) + 1
        for size, step, gap, k in zip(shape[-2:], stride, dilation, kernel, strict=True)
    ]
    sizes = [full - 2 * pad + more for full, pad, more in zip(reach, padding, extra, strict=True)]
    if min(sizes) < 1 or min(shape[-2:]) < 1:
        shown = sizes[1:] if operation.endswith("1d") else sizes
        raise ShapeError(
            f"{operation}() got x with shape {shape if len(shown) == 2 else (*shape[:-2], shape[-1])}; its output "
            f"would be empty, of size {' × '.join(map(str, shown))}; use less padding"
        )
    images = x if len(shape) == 4 else x.unsqueeze(0)
    device: Any = x.device
    count, channels = images.shape[0], channels * groups
    exact = all(more < step for more, step in zip(extra, stride, strict=True))
    pads, whole_sizes = (padding, sizes) if exact else ((0, 0), reach)
    settings = ((count, channels, *whole_sizes), stride, pads, dilation, groups)
    out = x._like(device.conv2d_input(images._primitive, weight._primitive, *settings))
    if not exact:
        out = _cut(out, padding, sizes)
    if bias is not None:
        out = out + bias.reshape((channels, 1, 1))
    return out if len(shape) == 4 else out.squeeze(0)


def _cut(out: Tensor[B], padding: tuple[int, int], sizes: list[int]) -> Tensor[B]:
    """Return the part of the last two dims that begins after the padding, extended by zeros to its sizes."""
    for dim, pad, size in zip((2, 3), padding, sizes, strict=True):
        missing = pad + size - out.shape[dim]
        if missing > 0:
            shape = (*out.shape[:dim], missing, *out.shape[dim + 1 :])
            out = cat([out, Tensor.zeros(shape, dtype=out.dtype, device=out.device)], dim)
        out = out[(..., slice(pad, pad + size), *((slice(None),) * (3 - dim)))]
    return out
