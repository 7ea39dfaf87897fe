"""Windows of images as columns, and the sum of windows: unfold and fold."""

from __future__ import annotations

from typing import Any

from burnpy.backend.errors import ShapeError
from burnpy.backend.operations.convolution import inside, padded, padded_shape, window_counts, window_keys
from burnpy.nn.argument_checks import Pair, batch_of, check_form, check_kernel, floats, pair
from burnpy.nn.module import FunctionLayer, Stateless
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B


@explained
def unfold(x: Tensor[B], kernel_size: Pair, *, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1) -> Tensor[B]:
    """Make each window of images a column of a matrix ("im2col"), as `torch.nn.functional.unfold`.

    Args:
        x: shape (N, channels, height, width), or (channels, height, width) for a single image.
        kernel_size: the size of a window.
        dilation: the step between elements of a window.
        padding: zeros added on each side of the images.
        stride: the step between windows.

    Returns:
        Shape (N, channels · kernel height · kernel width, windows), or without N for a single image: the windows in
        row-major order of their positions, the elements of a window by channel, row and column.

    Raises:
        ShapeError: x has another number of dimensions, or is smaller than a window.
        ArgumentError: a setting is invalid.

    >>> unfold(Tensor[NumPy].arange(6).reshape(1, 2, 3), 2).tolist()
    [[0.0, 1.0], [1.0, 2.0], [3.0, 4.0], [4.0, 5.0]]
    """
    (x,) = floats("unfold", 1, x=x)
    check_form("unfold", x.shape, 2)
    kernel, strides = pair("unfold", "kernel_size", kernel_size), pair("unfold", "stride", stride)
    pads, gaps = pair("unfold", "padding", padding, 0), pair("unfold", "dilation", dilation)
    check_kernel("unfold", x.shape, kernel, strides, pads, gaps)
    device: Any = x.device
    images = batch_of(x, 2)
    n, c = images.shape[:2]
    counts = window_counts(images.shape, kernel, strides, pads, gaps)
    shape = padded_shape(images.shape, kernel, strides, pads, gaps, counts)
    whole = padded(device, images._primitive, shape, pads, 0.0)
    length = counts[0] * counts[1]
    parts = [
        device.reshape(device.slice(whole, key), (n, c, 1, length))
        for key in window_keys(kernel, strides, gaps, counts)
    ]
    out = x._like(device.reshape(device.cat(parts, 2), (n, c * kernel[0] * kernel[1], length)))
    return out if x.ndim == 4 else out.squeeze(0)


@explained
def fold(
    x: Tensor[B],
    output_size: Pair,
    kernel_size: Pair,
    *,
    dilation: Pair = 1,
    padding: Pair = 0,
    stride: Pair = 1,
) -> Tensor[B]:
    """Add the columns of a matrix as windows of images ("col2im"), as `torch.nn.functional.fold`.

    It is the transpose of `unfold`: elements of the image that several windows share are the sums of theirs.

    Args:
        x: shape (N, channels · kernel height · kernel width, windows), or without N for a single image.
        output_size: height and width of the images.
        kernel_size: the size of a window.
        dilation: the step between elements of a window.
        padding: zeros that were added on each side of the images.
        stride: the step between windows.

    Returns:
        Shape (N, channels, *output_size), or without N for a single image.

    Raises:
        ShapeError: the shape of x does not fit the sizes.
        ArgumentError: a setting is invalid.

    >>> fold(Tensor[NumPy].ones((4, 2)), (2, 3), 2).tolist()
    [[[1.0, 2.0, 1.0], [1.0, 2.0, 1.0]]]
    """
    (x,) = floats("fold", 1, x=x)
    if x.ndim not in (2, 3):
        raise ShapeError(
            f"fold() takes x of shape (N, channels · kernel, windows), or of one image without N, got {x.shape}"
        )
    size = pair("fold", "output_size", output_size)
    kernel, strides = pair("fold", "kernel_size", kernel_size), pair("fold", "stride", stride)
    pads, gaps = pair("fold", "padding", padding, 0), pair("fold", "dilation", dilation)
    check_kernel("fold", size, kernel, strides, pads, gaps)
    counts, area = window_counts(size, kernel, strides, pads, gaps), kernel[0] * kernel[1]
    length = counts[0] * counts[1]
    if x.shape[-1] != length or x.shape[-2] % area:
        raise ShapeError(
            f"fold() got x of shape {x.shape} for images of {size[0]} × {size[1]}; with {counts[0]} × {counts[1]} "
            f"windows of {kernel[0]} × {kernel[1]}, expected a last dim of {length}, and a dim before it divisible by "
            f"{area}"
        )
    device: Any = x.device
    n, c = x.shape[0] if x.ndim == 3 else 1, x.shape[-2] // area
    columns = device.reshape(x._primitive, (n, c, area, *counts))
    shape = (n, c, *size)
    whole = padded_shape(shape, kernel, strides, pads, gaps, counts)
    total = device.full(whole, 0.0, x.dtype)
    everything = slice(None, None, 1)
    for k, key in enumerate(window_keys(kernel, strides, gaps, counts)):
        total = device.accumulate_slice(total, key, device.slice(columns, (everything, everything, k)))
    out = x._like(total if whole == shape else device.slice(total, inside(shape, pads)))
    return out if x.ndim == 3 else out.squeeze(0)


class Unfold(FunctionLayer, Stateless):
    """The windows of images as the columns of a matrix: see `burnpy.nn.functional.unfold`.

    >>> Unfold(2)(Tensor[NumPy].ones((5, 3, 4, 4))).shape
    (5, 12, 9)
    """

    _function = staticmethod(unfold)
    _settings = ("kernel_size", "dilation", "padding", "stride")

    def __init__(self, kernel_size: Pair, *, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1) -> None:
        self.kernel_size = pair("Unfold", "kernel_size", kernel_size)
        self.dilation = pair("Unfold", "dilation", dilation)
        self.padding = pair("Unfold", "padding", padding, 0)
        self.stride = pair("Unfold", "stride", stride)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Return the windows of (N, channels, height, width), shape (N, channels · kernel, windows)."""
        return self._result(x)


class Fold(FunctionLayer, Stateless):
    """Images as the sums of windows that are the columns of a matrix: see `burnpy.nn.functional.fold`.

    >>> Fold(4, 2)(Tensor[NumPy].ones((5, 12, 9))).shape
    (5, 3, 4, 4)
    """

    _function = staticmethod(fold)
    _settings = ("output_size", "kernel_size", "dilation", "padding", "stride")

    def __init__(
        self, output_size: Pair, kernel_size: Pair, *, dilation: Pair = 1, padding: Pair = 0, stride: Pair = 1
    ) -> None:
        self.output_size = pair("Fold", "output_size", output_size)
        self.kernel_size = pair("Fold", "kernel_size", kernel_size)
        self.dilation = pair("Fold", "dilation", dilation)
        self.padding = pair("Fold", "padding", padding, 0)
        self.stride = pair("Fold", "stride", stride)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Return the images of windows of shape (N, channels · kernel, windows)."""
        return self._result(x)
