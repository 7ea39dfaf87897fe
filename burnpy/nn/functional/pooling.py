"""Pooling of sequences and images: maxima or means over windows, of a given size or for an output of a given size.

A sequence is pooled as an image of height 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from burnpy.backend.errors import ShapeError
from burnpy.nn.argument_checks import OutputPair, Pair, Single, Size, divisor_of, output_pair, pair, single
from burnpy.nn.functional.windows import as_given, as_images, checked_windows
from burnpy.tensor.call_errors import explained
from burnpy.typevars import B

if TYPE_CHECKING:
    from typing import TypedDict, Unpack

    from burnpy.tensor.tensor import IntTensor, Tensor

    class SequenceWindows(TypedDict, total=False):
        """The windows of `max_pool1d`, for type checkers."""

        stride: Single | None
        padding: Single
        dilation: Single
        ceil_mode: bool

    class ImageWindows(TypedDict, total=False):
        """The windows of `max_pool2d`, for type checkers."""

        stride: Pair | None
        padding: Pair
        dilation: Pair
        ceil_mode: bool


@overload
def max_pool1d(
    x: Tensor[B], kernel_size: Single, *, return_indices: Literal[False] = False, **windows: Unpack[SequenceWindows]
) -> Tensor[B]: ...
@overload
def max_pool1d(
    x: Tensor[B], kernel_size: Single, *, return_indices: Literal[True], **windows: Unpack[SequenceWindows]
) -> tuple[Tensor[B], IntTensor[B]]: ...
@overload
def max_pool1d(
    x: Tensor[B], kernel_size: Single, *, return_indices: bool, **windows: Unpack[SequenceWindows]
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
    """Compute the maximum of each window of sequences, as `max_pool2d` of images.

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
    x: Tensor[B], kernel_size: Pair, *, return_indices: Literal[False] = False, **windows: Unpack[ImageWindows]
) -> Tensor[B]: ...
@overload
def max_pool2d(
    x: Tensor[B], kernel_size: Pair, *, return_indices: Literal[True], **windows: Unpack[ImageWindows]
) -> tuple[Tensor[B], IntTensor[B]]: ...
@overload
def max_pool2d(
    x: Tensor[B], kernel_size: Pair, *, return_indices: bool, **windows: Unpack[ImageWindows]
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
    """Compute the maximum of each window of images.

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
    """Compute the mean of each window of sequences.

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
    """Compute the mean of each window of images.

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


@explained
def adaptive_avg_pool1d(x: Tensor[B], output_size: Single) -> Tensor[B]:
    """Compute the means of windows of sequences, chosen so that the output has ``output_size``.

    Args:
        x: shape (N, channels, length), or (channels, length) for a single sequence.
        output_size: the length of the output.

    Returns:
        Shape (N, channels, output_size), or without N for a single sequence.

    Raises:
        ShapeError: x has another number of dimensions.
        ArgumentError: the size is not positive.
    """
    return _adaptive_avg_pool("adaptive_avg_pool1d", x, output_size)


@explained
def adaptive_avg_pool2d(x: Tensor[B], output_size: OutputPair) -> Tensor[B]:
    """Compute the means of windows of images, chosen so that the output has ``output_size``.

    The windows have equal size, or nearly.

    Args:
        x: shape (N, channels, height, width), or (channels, height, width) for a single image.
        output_size: height and width of the output; 1 for the mean of each image, None for the size of the input.

    Returns:
        Shape (N, channels, *output_size), or without N for a single image.

    Raises:
        ShapeError: x has another number of dimensions.
        ArgumentError: a size is not positive.
    """
    return _adaptive_avg_pool("adaptive_avg_pool2d", x, output_size)


@overload
def adaptive_max_pool1d(x: Tensor[B], output_size: Single, *, return_indices: Literal[False] = False) -> Tensor[B]: ...
@overload
def adaptive_max_pool1d(
    x: Tensor[B], output_size: Single, *, return_indices: Literal[True]
) -> tuple[Tensor[B], IntTensor[B]]: ...
@overload
def adaptive_max_pool1d(
    x: Tensor[B], output_size: Single, *, return_indices: bool
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]: ...
@explained
def adaptive_max_pool1d(
    x: Tensor[B], output_size: Single, *, return_indices: bool = False
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]:
    """Compute the maxima of windows of sequences, chosen so that the output has ``output_size``.

    Args:
        x: shape (N, channels, length), or (channels, length) for a single sequence.
        output_size: the length of the output.
        return_indices: whether to return the index of each maximum in its sequence as well.

    Returns:
        Shape (N, channels, output_size), or without N for a single sequence; with indices of the same shape.

    Raises:
        ShapeError: x has another number of dimensions, or no elements to choose from.
        ArgumentError: the size is not positive.
    """
    return _adaptive_max_pool("adaptive_max_pool1d", x, output_size, return_indices)


@overload
def adaptive_max_pool2d(
    x: Tensor[B], output_size: OutputPair, *, return_indices: Literal[False] = False
) -> Tensor[B]: ...
@overload
def adaptive_max_pool2d(
    x: Tensor[B], output_size: OutputPair, *, return_indices: Literal[True]
) -> tuple[Tensor[B], IntTensor[B]]: ...
@overload
def adaptive_max_pool2d(
    x: Tensor[B], output_size: OutputPair, *, return_indices: bool
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]: ...
@explained
def adaptive_max_pool2d(
    x: Tensor[B], output_size: OutputPair, *, return_indices: bool = False
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]:
    """Compute the maxima of windows of images, chosen so that the output has ``output_size``.

    The windows are the same as for `adaptive_avg_pool2d`. Among equal maxima the first has the gradient; a window with
    NaN gives NaN.

    Args:
        x: shape (N, channels, height, width), or (channels, height, width) for a single image.
        output_size: height and width of the output; 1 for the maximum of each image, None for the size of the input.
        return_indices: whether to return the flat, row-major index of each maximum in its plane as well.

    Returns:
        Shape (N, channels, *output_size), or without N for a single image; with indices of the same shape.

    Raises:
        ShapeError: x has another number of dimensions, or no elements to choose from.
        ArgumentError: a size is not positive.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> adaptive_max_pool2d(Tensor[NumPy].arange(9).reshape(1, 3, 3), 2).tolist()
    [[[4.0, 5.0], [7.0, 8.0]]]
    """
    return _adaptive_max_pool("adaptive_max_pool2d", x, output_size, return_indices)


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
    """Return the maxima of windows, and their indices if ``return_indices``."""
    images = as_images(operation, x)
    windows = checked_windows(operation, images, kernel_size, stride, padding, dilation, ceil_mode)
    device: Any = images._device
    settings = (images._primitive, *windows, bool(ceil_mode))
    out = as_given(operation, x, images._like(device.max_pool2d(*settings)))
    if not return_indices:
        return out
    return out, as_given(operation, x, images._int(device.max_pool2d_indices(*settings)))


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
    """Return the means of windows."""
    images = as_images(operation, x)
    windows = checked_windows(operation, images, kernel_size, stride, padding, 1, ceil_mode)
    device: Any = images._device
    flags = (bool(ceil_mode), bool(count_include_pad))
    out = device.avg_pool2d(images._primitive, *windows[:3], *flags, divisor_of(operation, divisor))
    return as_given(operation, x, images._like(out))


def _adaptive_avg_pool(operation: str, x: Tensor[B], output_size: Single | OutputPair) -> Tensor[B]:
    """Return the means of windows that fit the size of the output."""
    images = as_images(operation, x)
    device: Any = images._device
    out = device.adaptive_avg_pool2d(images._primitive, _output_size(operation, images, output_size))
    return as_given(operation, x, images._like(out))


def _adaptive_max_pool(
    operation: str, x: Tensor[B], output_size: Single | OutputPair, return_indices: bool
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]:
    """Return the maxima of windows that fit the size of the output, and their indices if ``return_indices``."""
    images = as_images(operation, x)
    size = _output_size(operation, images, output_size)
    n, channels, high, wide = images.shape
    if not high or not wide:
        raise ShapeError(f"{operation}() got x of shape {x.shape}, which has no elements to choose from")
    device: Any = images._device
    index = device.adaptive_max_pool2d_indices(images._primitive, size)
    flat = device.discrete.reshape(index, (n, channels, size[0] * size[1]))
    values = images._like(device.gather(images.flatten(2)._primitive, 2, flat)).reshape((n, channels, *size))
    out = as_given(operation, x, values)
    return (out, as_given(operation, x, images._int(index))) if return_indices else out


def _output_size(operation: str, images: Tensor[Any], output_size: Any) -> tuple[int, int]:
    """Return the height and width of the output of adaptive pooling; None keeps the size of the images."""
    if operation.endswith("1d"):
        return 1, single(operation, "output_size", output_size)
    high, wide = output_pair(operation, output_size)
    if high is None or wide is None:  # whose size may be 0
        return pair(operation, "output_size", (high or images.shape[-2], wide or images.shape[-1]))
    return high, wide
