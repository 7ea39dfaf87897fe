"""Pooling: maxima or means over windows of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from burnpy.backend.backend import Backend
from burnpy.backend.errors import ArgumentError
from burnpy.nn.functional.checks import floats
from burnpy.nn.functional.windows import batch_of, refuse_no_images, refuse_too_small
from burnpy.nn.sizes import Pair, pair, whole
from burnpy.tensor.call_errors import explained

if TYPE_CHECKING:
    from burnpy.tensor.int_tensor import IntTensor
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)


@overload
def max_pool2d(
    x: Tensor[B],
    kernel_size: Pair,
    *,
    stride: Pair | None = None,
    padding: Pair = 0,
    dilation: Pair = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor[B]: ...
@overload
def max_pool2d(
    x: Tensor[B],
    kernel_size: Pair,
    *,
    stride: Pair | None = None,
    padding: Pair = 0,
    dilation: Pair = 1,
    ceil_mode: bool = False,
    return_indices: Literal[True],
) -> tuple[Tensor[B], IntTensor[B]]: ...
@overload
def max_pool2d(
    x: Tensor[B],
    kernel_size: Pair,
    *,
    stride: Pair | None = None,
    padding: Pair = 0,
    dilation: Pair = 1,
    ceil_mode: bool = False,
    return_indices: bool,
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]: ...
@explained
def max_pool2d(
    x: Tensor[B],
    kernel_size: Pair,
    *,
    stride: Pair | None = None,
    padding: Pair = 0,
    dilation: Pair = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]:
    """Max pooling: the largest element of each window.

    The gradient goes to that element; of several equal ones to the first. A window with NaN gives NaN, and the gradient
    goes to the first NaN.

    Args:
        x: shape (N, channels, height, width), or (channels, height, width) for a single image.
        kernel_size: the size of the window.
        stride: the step between windows; ``kernel_size`` by default.
        padding: implicit padding with -inf on each side; at most half of the window.
        dilation: the step between elements of a window.
        ceil_mode: whether the last window may extend beyond the image.
        return_indices: whether to return the flat, row-major index of each maximum in its plane as well:
            ``x.flatten(-2).gather(-1, indices.flatten(-2))`` are the maxima.

    Returns:
        Shape (N, channels, height', width'), or without N for a single image; with indices of the same shape.

    Raises:
        ShapeError: x has another number of dimensions, or is smaller than a window.
        ArgumentError: a setting is invalid.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> max_pool2d(Tensor[NumPy].arange(16).reshape(1, 4, 4), 2).tolist()
    [[[5.0, 7.0], [13.0, 15.0]]]
    >>> max_pool2d(Tensor[NumPy].arange(16).reshape(1, 4, 4), 2, return_indices=True)[1].tolist()
    [[[5, 7], [13, 15]]]
    """
    (x,) = floats("max_pool2d", 1, x=x)
    refuse_no_images("max_pool2d", x.shape)
    dilations = pair("max_pool2d", "dilation", dilation)
    kernel, strides, pads = _window("max_pool2d", kernel_size, stride, padding)
    refuse_too_small("max_pool2d", x.shape, kernel, strides, pads, dilations, ceil_mode)
    device: Any = x.device
    settings = (batch_of(x)._primitive, kernel, strides, pads, dilations, bool(ceil_mode))
    out = x._like(device.max_pool2d(*settings))
    if not return_indices:
        return out if x.ndim == 4 else out.squeeze(0)
    indices = x._int(device.max_pool2d_indices(*settings))
    return (out, indices) if x.ndim == 4 else (out.squeeze(0), indices.squeeze(0))


@explained
def avg_pool2d(
    x: Tensor[B],
    kernel_size: Pair,
    *,
    stride: Pair | None = None,
    padding: Pair = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor[B]:
    """Average pooling: the mean of each window.

    Args:
        x: shape (N, channels, height, width), or (channels, height, width) for a single image.
        kernel_size: the size of the window.
        stride: the step between windows; ``kernel_size`` by default.
        padding: zeros added on each side; at most half of the window.
        ceil_mode: whether the last window may extend beyond the image.
        count_include_pad: whether padding counts as elements of a window.
        divisor_override: the divisor of each window's sum; by default the number of its elements.

    Returns:
        Shape (N, channels, height', width'), or without N for a single image.

    Raises:
        ShapeError: x has another number of dimensions, or is smaller than a window.
        ArgumentError: a setting is invalid.
    """
    (x,) = floats("avg_pool2d", 1, x=x)
    refuse_no_images("avg_pool2d", x.shape)
    kernel, strides, pads = _window("avg_pool2d", kernel_size, stride, padding)
    refuse_too_small("avg_pool2d", x.shape, kernel, strides, pads, (1, 1), ceil_mode)
    device: Any = x.device
    settings = (kernel, strides, pads, bool(ceil_mode), bool(count_include_pad))
    out = x._like(device.avg_pool2d(batch_of(x)._primitive, *settings, divisor_of("avg_pool2d", divisor_override)))
    return out if x.ndim == 4 else out.squeeze(0)


@explained
def adaptive_avg_pool2d(x: Tensor[B], output_size: Pair) -> Tensor[B]:
    """Adaptive average pooling: the means of windows chosen so that the output has ``output_size``.

    The windows have equal size, or nearly.

    Args:
        x: shape (N, channels, height, width), or (channels, height, width) for a single image.
        output_size: height and width of the output; 1 for the mean of each image.

    Returns:
        Shape (N, channels, *output_size), or without N for a single image.

    Raises:
        ShapeError: x has another number of dimensions.
        ArgumentError: a size is not positive.
    """
    (x,) = floats("adaptive_avg_pool2d", 1, x=x)
    refuse_no_images("adaptive_avg_pool2d", x.shape)
    size = pair("adaptive_avg_pool2d", "output_size", output_size)
    device: Any = x.device
    out = x._like(device.adaptive_avg_pool2d(batch_of(x)._primitive, size))
    return out if x.ndim == 4 else out.squeeze(0)


def divisor_of(operation: str, divisor: int | None) -> int | None:
    """Return a validated ``divisor_override``; None stays None.

    Raises:
        ArgumentError: it is not an int, or is 0.
    """
    if divisor is None:
        return None
    number = whole(operation, "divisor_override", divisor)
    if number == 0:
        raise ArgumentError(f"{operation}() was given divisor_override=0; nothing is divided by 0")
    return number


def _window(
    operation: str, kernel_size: Pair, stride: Pair | None, padding: Pair
) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Return kernel size, stride and padding of a pool as pairs of ints, validated."""
    kernel = pair(operation, "kernel_size", kernel_size)
    strides = kernel if stride is None else pair(operation, "stride", stride)
    pads = pair(operation, "padding", padding, 0)
    if 2 * pads[0] > kernel[0] or 2 * pads[1] > kernel[1]:
        raise ArgumentError(
            f"{operation}() was given padding={pads} for a window of {kernel}; it is at most half of the window"
        )
    return kernel, strides, pads
