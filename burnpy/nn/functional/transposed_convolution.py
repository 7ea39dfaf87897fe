"""Transposed convolution of images and of sequences: the transposes of the linear maps `conv2d` and `conv1d` of x.

Source: Dumoulin and Visin, A guide to convolution arithmetic for deep learning, 2016.
"""

from __future__ import annotations

from typing import Any

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.nn.functional.checks import floats
from burnpy.nn.functional.windows import refuse_no_images, refuse_no_sequences
from burnpy.nn.sizes import Pair, Single, pair, single, whole
from burnpy.tensor.call_errors import explained
from burnpy.tensor.joining import cat
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B


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
    groups = _checked_channels(name, x.shape, weight.shape, None if bias is None else bias.shape, groups, 1)
    steps, gaps = single(name, "stride", stride), single(name, "dilation", dilation)
    pads, extra = single(name, "padding", padding, 0), single(name, "output_padding", output_padding, 0)
    images, weight = x.unsqueeze(-2), weight.unsqueeze(-2)
    return _transposed(name, images, weight, bias, (1, steps), (0, pads), (0, extra), (1, gaps), groups).squeeze(-2)


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
    groups = _checked_channels(name, x.shape, weight.shape, None if bias is None else bias.shape, groups, 2)
    strides, gaps = pair(name, "stride", stride), pair(name, "dilation", dilation)
    pads, extra = pair(name, "padding", padding, 0), pair(name, "output_padding", output_padding, 0)
    return _transposed(name, x, weight, bias, strides, pads, extra, gaps, groups)


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


def _checked_channels(operation: str, shape: Any, sizes: Any, bias_shape: Any, groups: int, dims: int) -> int:
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


def _transposed(
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
