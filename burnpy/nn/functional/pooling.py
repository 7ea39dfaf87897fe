"""Pools: one number for each window of an image."""

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
    """The largest of each window; of equals the first, and of NaN the first, to which the gradient goes.

    Args:
        x: shape (N, channels, height, width); of one image (channels, height, width).
        kernel_size: of the window.
        stride: from one window to the next; the size of the window, unless given.
        padding: around the images, smaller than anything; at most half of the window.
        dilation: from one element of a window to the next.
        ceil_mode: whether a last window may reach beyond the image.
        return_indices: whether to say besides where each of them was in its plane, whose elements are numbered row by
            row: ``x.flatten(-2).gather(-1, indices.flatten(-2))`` are the largest.

    Returns:
        Shape (N, channels, height', width'), without the N where x is one image; with indices of the same shape.

    Raises:
        ShapeError: x is of another form, or smaller than a window.
        ArgumentError: a setting makes no sense.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> max_pool2d(Tensor[NumPy].arange(16).reshape(1, 4, 4), 2).tolist()
    [[[5.0, 7.0], [13.0, 15.0]]]
    >>> max_pool2d(Tensor[NumPy].arange(16).reshape(1, 4, 4), 2, return_indices=True)[1].tolist()
    [[[5, 7], [13, 15]]]
    """
    (x,) = floats("max_pool2d", x=x)
    refuse_no_images("max_pool2d", x)
    dilations = pair("max_pool2d", "dilation", dilation)
    kernel, strides, pads = _window("max_pool2d", kernel_size, stride, padding)
    refuse_too_small("max_pool2d", x, kernel, strides, pads, dilations, ceil_mode)
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
    """The mean of each window.

    Args:
        x: shape (N, channels, height, width); of one image (channels, height, width).
        kernel_size: of the window.
        stride: from one window to the next; the size of the window, unless given.
        padding: zeros around the images; at most half of the window.
        ceil_mode: whether a last window may reach beyond the image.
        count_include_pad: whether these zeros count.
        divisor_override: what to divide each window's sum by; the number of elements that count, unless given.

    Returns:
        Shape (N, channels, height', width'), without the N where x is one image.

    Raises:
        ShapeError: x is of another form, or smaller than a window.
        ArgumentError: a setting makes no sense.
    """
    (x,) = floats("avg_pool2d", x=x)
    refuse_no_images("avg_pool2d", x)
    kernel, strides, pads = _window("avg_pool2d", kernel_size, stride, padding)
    refuse_too_small("avg_pool2d", x, kernel, strides, pads, (1, 1), ceil_mode)
    device: Any = x.device
    settings = (kernel, strides, pads, bool(ceil_mode), bool(count_include_pad))
    out = x._like(device.avg_pool2d(batch_of(x)._primitive, *settings, divisor_of("avg_pool2d", divisor_override)))
    return out if x.ndim == 4 else out.squeeze(0)


@explained
def adaptive_avg_pool2d(x: Tensor[B], output_size: Pair) -> Tensor[B]:
    """The means of as many windows of equal size, or nearly, as make images of ``output_size``.

    Args:
        x: shape (N, channels, height, width); of one image (channels, height, width).
        output_size: height and width to make; 1 for the mean of each image.

    Returns:
        Shape (N, channels, *output_size), without the N where x is one image.

    Raises:
        ShapeError: x is of another form.
        ArgumentError: a size is not positive.
    """
    (x,) = floats("adaptive_avg_pool2d", x=x)
    refuse_no_images("adaptive_avg_pool2d", x)
    size = pair("adaptive_avg_pool2d", "output_size", output_size)
    device: Any = x.device
    out = x._like(device.adaptive_avg_pool2d(batch_of(x)._primitive, size))
    return out if x.ndim == 4 else out.squeeze(0)


def divisor_of(operation: str, divisor: int | None) -> int | None:
    """What sums are divided by, None where that is a number of elements.

    Raises:
        ArgumentError: it is no int, or 0.
    """
    if divisor is None:
        return None
    found = whole(operation, "divisor_override", divisor)
    if found == 0:
        raise ArgumentError(f"{operation}() was given divisor_override=0; nothing is divided by 0")
    return found


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
