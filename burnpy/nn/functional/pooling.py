"""Pools: one number for each window of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from burnpy.backend.backend import Backend
from burnpy.backend.errors import ArgumentError
from burnpy.nn.functional.checks import exact_dims, floats
from burnpy.nn.functional.windows import refuse_too_small
from burnpy.nn.sizes import Pair, pair
from burnpy.tensor.calling import explained

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)

_FORM, _HINT = "(N, channels, height, width)", "; of one image make a batch with x.unsqueeze(0)"


@explained
def max_pool2d(
    x: Tensor[B],
    kernel_size: Pair,
    *,
    stride: Pair | None = None,
    padding: Pair = 0,
    dilation: Pair = 1,
    ceil_mode: bool = False,
) -> Tensor[B]:
    """The largest of each window; of equals the first, to which the gradient goes.

    Args:
        x: shape (N, channels, height, width).
        kernel_size: of the window.
        stride: from one window to the next; the size of the window, unless given.
        padding: around the images, smaller than anything; at most half of the window.
        dilation: from one element of a window to the next.
        ceil_mode: whether a last window may reach beyond the image.

    Returns:
        Shape (N, channels, height', width').

    Raises:
        ShapeError: x is of another form, or smaller than a window.
        ArgumentError: a setting makes no sense.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> max_pool2d(Tensor[NumPy].arange(16).reshape(1, 1, 4, 4), 2).tolist()
    [[[[5.0, 7.0], [13.0, 15.0]]]]
    """
    (x,) = floats("max_pool2d", x=x)
    exact_dims("max_pool2d", "x", x, 4, _FORM, _HINT)
    dilations = pair("max_pool2d", "dilation", dilation)
    kernel, strides, pads = _window("max_pool2d", kernel_size, stride, padding)
    refuse_too_small("max_pool2d", x, kernel, strides, pads, dilations, ceil_mode)
    device: Any = x.device
    return x._like(device.max_pool2d(x._primitive, kernel, strides, pads, dilations, bool(ceil_mode)))


@explained
def avg_pool2d(
    x: Tensor[B],
    kernel_size: Pair,
    *,
    stride: Pair | None = None,
    padding: Pair = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor[B]:
    """The mean of each window.

    Args:
        x: shape (N, channels, height, width).
        kernel_size: of the window.
        stride: from one window to the next; the size of the window, unless given.
        padding: zeros around the images; at most half of the window.
        ceil_mode: whether a last window may reach beyond the image.
        count_include_pad: whether these zeros count.

    Returns:
        Shape (N, channels, height', width').

    Raises:
        ShapeError: x is of another form, or smaller than a window.
        ArgumentError: a setting makes no sense.
    """
    (x,) = floats("avg_pool2d", x=x)
    exact_dims("avg_pool2d", "x", x, 4, _FORM, _HINT)
    kernel, strides, pads = _window("avg_pool2d", kernel_size, stride, padding)
    refuse_too_small("avg_pool2d", x, kernel, strides, pads, (1, 1), ceil_mode)
    device: Any = x.device
    return x._like(device.avg_pool2d(x._primitive, kernel, strides, pads, bool(ceil_mode), bool(count_include_pad)))


@explained
def adaptive_avg_pool2d(x: Tensor[B], output_size: Pair) -> Tensor[B]:
    """The means of as many windows of equal size, or nearly, as make images of ``output_size``.

    Args:
        x: shape (N, channels, height, width).
        output_size: height and width to make; 1 for the mean of each image.

    Raises:
        ShapeError: x is of another form.
        ArgumentError: a size is not positive.
    """
    (x,) = floats("adaptive_avg_pool2d", x=x)
    exact_dims("adaptive_avg_pool2d", "x", x, 4, _FORM, _HINT)
    size = pair("adaptive_avg_pool2d", "output_size", output_size)
    device: Any = x.device
    return x._like(device.adaptive_avg_pool2d(x._primitive, size))


def _window(
    operation: str, kernel_size: Pair, stride: Pair | None, padding: Pair
) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    kernel = pair(operation, "kernel_size", kernel_size)
    strides = kernel if stride is None else pair(operation, "stride", stride)
    pads = pair(operation, "padding", padding, 0)
    if any(2 * pad > size for pad, size in zip(pads, kernel, strict=True)):
        raise ArgumentError(
            f"{operation}() was given padding={pads} for a window of {kernel}; it is at most half of the window"
        )
    return kernel, strides, pads
