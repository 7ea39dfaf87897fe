"""Pooling: maxima or means over windows of sequences or images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from burnpy.backend.errors import ArgumentError
from burnpy.nn.functional.windows import as_given, pooling_windows
from burnpy.nn.sizes import Pair, Single, Size, whole
from burnpy.tensor.call_errors import explained
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import IntTensor, Tensor


@overload
def max_pool1d(
    x: Tensor[B],
    kernel_size: Single,
    *,
    stride: Single | None = None,
    padding: Single = 0,
    dilation: Single = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor[B]: ...
@overload
def max_pool1d(
    x: Tensor[B],
    kernel_size: Single,
    *,
    stride: Single | None = None,
    padding: Single = 0,
    dilation: Single = 1,
    ceil_mode: bool = False,
    return_indices: Literal[True],
) -> tuple[Tensor[B], IntTensor[B]]: ...
@overload
def max_pool1d(
    x: Tensor[B],
    kernel_size: Single,
    *,
    stride: Single | None = None,
    padding: Single = 0,
    dilation: Single = 1,
    ceil_mode: bool = False,
    return_indices: bool,
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]: ...
@explained
def max_pool1d(
    x: Tensor[B],
    kernel_size: Single,
    *,
    stride: Single | None = None,
    padding: Single = 0,
    dilation: Single = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]:
    """Max pooling of sequences: the maximum of each window, as `max_pool2d` of images.

    Args:
        x: shape (N, channels, length), or (channels, length) for a single sequence.
        kernel_size: the size of the window.
        stride: the step between windows; ``kernel_size`` by default.
        padding: implicit padding with -inf at each end; at most half of the window.
        dilation: the step between elements of a window.
        ceil_mode: whether the last window may extend beyond the sequence.
        return_indices: whether to return the index of each maximum in its sequence as well.

    Returns:
        Shape (N, channels, length'), or without N for a single sequence; with indices of the same shape.

    Raises:
        ShapeError: x has another number of dimensions, or is smaller than a window.
        ArgumentError: a setting is invalid.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> max_pool1d(Tensor[NumPy].from_data([[1.0, 3.0, 2.0, 0.0]]), 2).tolist()
    [[3.0, 2.0]]
    """
    return _max_pool("max_pool1d", x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


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
    return _max_pool("max_pool2d", x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@explained
def avg_pool1d(
    x: Tensor[B],
    kernel_size: Single,
    *,
    stride: Single | None = None,
    padding: Single = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor[B]:
    """Average pooling of sequences: the mean of each window.

    Args:
        x: shape (N, channels, length), or (channels, length) for a single sequence.
        kernel_size: the size of the window.
        stride: the step between windows; ``kernel_size`` by default.
        padding: zeros added at each end; at most half of the window.
        ceil_mode: whether the last window may extend beyond the sequence.
        count_include_pad: whether padding counts as elements of a window.

    Returns:
        Shape (N, channels, length'), or without N for a single sequence.

    Raises:
        ShapeError: x has another number of dimensions, or is smaller than a window.
        ArgumentError: a setting is invalid.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> avg_pool1d(Tensor[NumPy].from_data([[1.0, 3.0, 2.0, 0.0]]), 2).tolist()
    [[2.0, 1.0]]
    """
    return _avg_pool("avg_pool1d", x, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


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
    return _avg_pool("avg_pool2d", x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def divisor_of(operation: str, divisor: int | None) -> int | None:
    """Return a validated ``divisor_override``; None stays None.

    Raises:
        ArgumentError: it is not an int, or is 0.
    """
    if divisor is None:
        return None
    number = whole(operation, "divisor_override", divisor)
    if number == 0:
        raise ArgumentError(f"{operation}() got divisor_override=0; nothing is divided by 0")
    return number


def _max_pool(
    operation: str,
    x: Tensor[B],
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    dilation: Size,
    ceil_mode: bool,
    return_indices: bool,
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]:
    """Return the maxima of the windows of sequences or images, and their indices if those are asked for."""
    images, window = pooling_windows(operation, x, kernel_size, stride, padding, dilation, ceil_mode)
    device: Any = images.device
    settings = (images._primitive, *window, bool(ceil_mode))
    out = as_given(operation, images._like(device.max_pool2d(*settings)), x)
    if not return_indices:
        return out
    return out, as_given(operation, images._int(device.max_pool2d_indices(*settings)), x)


def _avg_pool(
    operation: str,
    x: Tensor[B],
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Tensor[B]:
    """Return the means of the windows of sequences or images."""
    images, window = pooling_windows(operation, x, kernel_size, stride, padding, 1, ceil_mode)
    device: Any = images.device
    flags = (bool(ceil_mode), bool(count_include_pad))
    out = device.avg_pool2d(images._primitive, *window[:3], *flags, divisor_of(operation, divisor))
    return as_given(operation, images._like(out), x)
