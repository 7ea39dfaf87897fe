"""Transposed convolution of sequences, images and volumes: the transposes of the functions in `convolution`.

Source: Dumoulin and Visin, A guide to convolution arithmetic for deep learning, 2016.
"""

from __future__ import annotations

from typing import Any

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.nn.argument_checks import Pair, Single, Size, Triple
from burnpy.nn.functional.convolution import operands
from burnpy.nn.functional.windows import batch_of, by, dims_of, sizes_of
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
    """Convolve sequences in the transposed sense, as `conv_transpose2d` does images.

    x has shape (N, in, length), or (in, length) for a single sequence; weight (in, out / groups, kernel length); bias
    (out,). The result has shape (N, out, length'), or without N for a single sequence. Other arguments and the errors
    are those of `conv_transpose2d`, with one number in place of two.

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

    >>> x, weight = Tensor[NumPy].from_data([[[1.0, 2.0]]]), Tensor[NumPy].ones((1, 1, 1, 2))
    >>> conv_transpose2d(x, weight, stride=2, output_padding=(0, 1)).tolist()
    [[[1.0, 1.0, 2.0, 2.0, 0.0]]]
    """
    return _transposed("conv_transpose2d", x, weight, bias, stride, padding, output_padding, dilation, groups)


@explained
def conv_transpose3d(
    x: Tensor[B],
    weight: Tensor[B],
    bias: Tensor[B] | None = None,
    *,
    stride: Triple = 1,
    padding: Triple = 0,
    output_padding: Triple = 0,
    groups: int = 1,
    dilation: Triple = 1,
) -> Tensor[B]:
    """Convolve volumes in the transposed sense, as `conv_transpose2d` does images.

    x has shape (N, in, depth, height, width), or without N for a single volume; weight (in, out / groups, kernel depth,
    kernel height, kernel width); bias (out,). The result has shape (N, out, depth', height', width'), or no N for a
    single volume. Other arguments and the errors are those of `conv_transpose2d`, with one number for all three
    dimensions or three.

    >>> x, weight = Tensor[NumPy].from_data([[[[1.0, 2.0]]]]), Tensor[NumPy].ones((1, 1, 1, 1, 2))
    >>> conv_transpose3d(x, weight, stride=2, output_padding=(0, 0, 1)).tolist()
    [[[[1.0, 1.0, 2.0, 2.0, 0.0]]]]
    """
    return _transposed("conv_transpose3d", x, weight, bias, stride, padding, output_padding, dilation, groups)


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
    """Convolve sequences, images or volumes, which the end of the operation's name says, in the transposed sense."""
    x, weight, bias, groups = operands(operation, x, weight, bias, groups, transposed=True)
    dims = dims_of(operation)
    strides, gaps = sizes_of(operation, "stride", stride), sizes_of(operation, "dilation", dilation)
    pads = sizes_of(operation, "padding", padding, 0)
    extra = sizes_of(operation, "output_padding", output_padding, 0)
    for more, step, gap in zip(extra, strides, gaps, strict=True):
        if more >= max(step, gap):  # more would be zeros that no window reaches
            raise ArgumentError(
                f"{operation}() got output_padding={more} with stride={step} and dilation={gap}; expected a "
                "number below one of them"
            )
    shape, (channels, *kernel) = x.shape, weight.shape[1:]
    places = shape[-len(kernel) :]
    reach = [
        (count - 1) * step + gap * (k - 1) + 1
        for count, step, gap, k in zip(places, strides, gaps, kernel, strict=True)
    ]
    sizes = [full - 2 * pad + more for full, pad, more in zip(reach, pads, extra, strict=True)]
    if min(sizes) < 1 or min(places) < 1:
        given, shown = ((*shape[:-2], shape[-1]), sizes[1:]) if dims == 1 else (shape, sizes)
        raise ShapeError(
            f"{operation}() got x with shape {given}; its output would be empty, of size {by(tuple(shown))}; "
            "use less padding"
        )
    batch = batch_of(x, len(kernel))
    device: Any = x.device
    channels = channels * groups
    exact = all(more < step for more, step in zip(extra, strides, strict=True))
    cut, whole_sizes = (pads, sizes) if exact else ((0,) * len(kernel), reach)
    settings = ((batch.shape[0], channels, *whole_sizes), strides, cut, gaps, groups)
    transposed = device.conv3d_input if dims == 3 else device.conv2d_input
    out = x._like(transposed(batch._primitive, weight._primitive, *settings))
    if not exact:
        out = _cut(out, pads, sizes)
    if bias is not None:
        out = out + bias.reshape((channels, *(1,) * len(kernel)))
    out = out if len(shape) == len(kernel) + 2 else out.squeeze(0)
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
