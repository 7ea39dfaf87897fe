"""Convolution."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypeVar

from burnpy.backend.backend import Backend
from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.nn.functional.checks import floats
from burnpy.nn.functional.windows import refuse_no_images, refuse_too_small
from burnpy.nn.sizes import Pair, pair, whole
from burnpy.tensor.call_errors import explained
from burnpy.tensor.joining import cat
from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)

Padding: TypeAlias = Pair | Literal["same", "valid"]
"""Zero padding of height and width, the same on both sides of each; or the name of a mode."""


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
        padding: zeros added on each side of the images; "valid" for none, "same" to preserve height and width, which
            requires a stride of 1; if the total is odd, the extra zero is added at the end.
        dilation: the step between elements of the kernel.
        groups: the number of groups of channels, each convolved with its own part of the weight.

    Returns:
        Shape (N, out, height', width'), or without N for a single image; height' is
        ⌊(height + 2 · padding - dilation · (kernel - 1) - 1) / stride⌋ + 1.

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
            "conv2d() takes weight of shape (out, in / groups, kernel height, kernel width), and was given shape "
            f"{sizes}"
        )
    strides, dilations = pair("conv2d", "stride", stride), pair("conv2d", "dilation", dilation)
    groups = whole("conv2d", "groups", groups)
    if groups < 1 or sizes[0] % groups:
        raise ArgumentError(
            f"conv2d() was given groups={groups!r} for {sizes[0]} output channels, which they must divide"
        )
    if shape[-3] != sizes[1] * groups:
        raise ShapeError(
            f"conv2d() was given x of shape {shape}, with {shape[-3]} channels, and weight of shape {sizes} "
            f"with groups={groups}, which takes {sizes[1] * groups}"
        )
    if bias is not None and bias.shape != sizes[:1]:
        raise ShapeError(
            f"conv2d() was given weight of shape {sizes} and bias of shape {bias.shape}, which must be {sizes[:1]}"
        )
    kernel = (sizes[2], sizes[3])
    pads = padding_of("conv2d", padding, strides)
    if pads is None:
        x, pads = _same_padding(x, kernel, dilations)
        shape = x.shape
    refuse_too_small("conv2d", shape, kernel, strides, pads, dilations)
    device: Any = x.device
    images = (x if len(shape) == 4 else x.unsqueeze(0))._primitive
    if bias is None:
        out = x._like(device.conv2d(images, weight._primitive, strides, pads, dilations, groups))
    else:
        primitive = device.conv2d_bias(images, weight._primitive, bias._primitive, strides, pads, dilations, groups)
        out = x._like(primitive)
    return out if len(shape) == 4 else out.squeeze(0)


def padding_of(operation: str, padding: Padding, stride: tuple[int, int]) -> tuple[int, int] | None:
    """Return the padding of height and width as two ints, or None for "same".

    Raises:
        ArgumentError: the padding is invalid, or "same" with a stride other than 1.
    """
    if not isinstance(padding, str):
        return pair(operation, "padding", padding, 0)
    if padding == "valid":
        return 0, 0
    if padding != "same":
        raise ArgumentError(f'{operation}() was given padding={padding!r}; of words there are "same" and "valid"')
    if stride != (1, 1):
        raise ArgumentError(f'{operation}() was given padding="same" with stride={stride}; it takes a stride of 1')
    return None


def _same_padding(
    x: Tensor[B], kernel: tuple[int, int], dilation: tuple[int, int]
) -> tuple[Tensor[B], tuple[int, int]]:
    """Return x and the padding that preserves its size; if the total is odd, x gets the extra zeros at the end."""
    total = [gap * (size - 1) for size, gap in zip(kernel, dilation, strict=True)]
    for dim, zeros in ((x.ndim - 2, total[0]), (x.ndim - 1, total[1])):
        if zeros % 2:
            extra = (*x.shape[:dim], 1, *x.shape[dim + 1 :])
            x = cat([x, Tensor.zeros(extra, dtype=x.dtype, device=x.device)], dim)
    return x, (total[0] // 2, total[1] // 2)
