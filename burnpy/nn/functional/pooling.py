"""Pooling of sequences, images and volumes over windows of a given size: maxima, means and norms.

A sequence is pooled as an image of height 1, and a volume in two passes: over height and width, then over the depth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from burnpy.nn.argument_checks import Pair, Single, Size, Triple, divisor_of
from burnpy.nn.functional.windows import as_batch, as_given, checked_windows
from burnpy.tensor.call_errors import explained
from burnpy.typevars import B

if TYPE_CHECKING:
    from typing import TypedDict, Unpack

    from burnpy.backend.primitives import Shape
    from burnpy.tensor.tensor import IntTensor, Tensor

    class Windows(TypedDict, total=False):
        """The windows of max pooling, for type checkers: numbers, one or one for each dimension."""

        stride: Size | None
        padding: Size
        dilation: Size
        ceil_mode: bool


@overload
def max_pool1d(
    x: Tensor[B], kernel_size: Single, *, return_indices: Literal[False] = False, **windows: Unpack[Windows]
) -> Tensor[B]: ...
@overload
def max_pool1d(
    x: Tensor[B], kernel_size: Single, *, return_indices: Literal[True], **windows: Unpack[Windows]
) -> tuple[Tensor[B], IntTensor[B]]: ...
@overload
def max_pool1d(
    x: Tensor[B], kernel_size: Single, *, return_indices: bool, **windows: Unpack[Windows]
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

    x has shape (N, channels, length), or (channels, length) for a single sequence. The result has shape (N, channels,
    length'), or without N for a single sequence, as do the indices, which count within a sequence. Other arguments and
    the errors are those of `max_pool2d`, with one number in place of two.

    >>> max_pool1d(Tensor[NumPy].from_data([[1.0, 3.0, 2.0, 0.0]]), 2).tolist()
    [[3.0, 2.0]]
    """
    return _max_pool("max_pool1d", x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@overload
def max_pool2d(
    x: Tensor[B], kernel_size: Pair, *, return_indices: Literal[False] = False, **windows: Unpack[Windows]
) -> Tensor[B]: ...
@overload
def max_pool2d(
    x: Tensor[B], kernel_size: Pair, *, return_indices: Literal[True], **windows: Unpack[Windows]
) -> tuple[Tensor[B], IntTensor[B]]: ...
@overload
def max_pool2d(
    x: Tensor[B], kernel_size: Pair, *, return_indices: bool, **windows: Unpack[Windows]
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

    >>> max_pool2d(Tensor[NumPy].arange(16).reshape(1, 4, 4), 2).tolist()
    [[[5.0, 7.0], [13.0, 15.0]]]
    >>> max_pool2d(Tensor[NumPy].arange(16).reshape(1, 4, 4), 2, return_indices=True)[1].tolist()
    [[[5, 7], [13, 15]]]
    """
    return _max_pool("max_pool2d", x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@overload
def max_pool3d(
    x: Tensor[B], kernel_size: Triple, *, return_indices: Literal[False] = False, **windows: Unpack[Windows]
) -> Tensor[B]: ...
@overload
def max_pool3d(
    x: Tensor[B], kernel_size: Triple, *, return_indices: Literal[True], **windows: Unpack[Windows]
) -> tuple[Tensor[B], IntTensor[B]]: ...
@overload
def max_pool3d(
    x: Tensor[B], kernel_size: Triple, *, return_indices: bool, **windows: Unpack[Windows]
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]: ...
@explained
def max_pool3d(
    x: Tensor[B],
    kernel_size: Triple,
    *,
    stride: Triple | None = None,
    padding: Triple = 0,
    dilation: Triple = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor[B] | tuple[Tensor[B], IntTensor[B]]:
    """Compute the maximum of each window of volumes, as `max_pool2d` of images.

    x has shape (N, channels, depth, height, width), or without N for a single volume. The result has shape (N,
    channels, depth', height', width'), or without N for a single volume, as do the indices, which are flat and
    row-major in a volume. Other arguments and the errors are those of `max_pool2d`, with one number for all three
    dimensions or three.

    >>> max_pool3d(Tensor[NumPy].arange(16).reshape(1, 2, 2, 4), 2).tolist()
    [[[[13.0, 15.0]]]]
    """
    return _max_pool("max_pool3d", x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


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
    """Compute the mean of each window of sequences, as `avg_pool2d` of images.

    x has shape (N, channels, length), or (channels, length) for a single sequence. The result has shape (N, channels,
    length'), or without N for a single sequence. Other arguments and the errors are those of `avg_pool2d`, with one
    number in place of two.

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

    >>> x = Tensor[NumPy].arange(0.0, 16.0).reshape(1, 1, 4, 4)
    >>> avg_pool2d(x, 2).tolist()
    [[[[2.5, 4.5], [10.5, 12.5]]]]
    """
    return _avg_pool("avg_pool2d", x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@explained
def avg_pool3d(
    x: Tensor[B],
    kernel_size: Triple,
    *,
    stride: Triple | None = None,
    padding: Triple = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor[B]:
    """Compute the mean of each window of volumes, as `avg_pool2d` of images.

    x has shape (N, channels, depth, height, width), or without N for a single volume. The result has shape (N,
    channels, depth', height', width'), or without N for a single volume. Other arguments and the errors are those of
    `avg_pool2d`, with one number for all three dimensions or three.

    >>> avg_pool3d(Tensor[NumPy].arange(16).reshape(1, 2, 2, 4), 2).tolist()
    [[[[6.5, 8.5]]]]
    """
    return _avg_pool("avg_pool3d", x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


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
    batch = as_batch(operation, x)
    windows = checked_windows(operation, batch, kernel_size, stride, padding, dilation, ceil_mode)
    device: Any = batch._device
    values, indices = (_maxima if len(windows[0]) == 2 else _maxima_of_volumes)(
        device, batch._primitive, windows, bool(ceil_mode), return_indices
    )
    out = as_given(operation, x, batch._like(values))
    return (out, as_given(operation, x, batch._int(indices))) if return_indices else out


def _maxima(device: Any, x: Any, windows: tuple[Shape, ...], ceil_mode: bool, return_indices: bool) -> tuple[Any, Any]:
    """Return the maxima of the windows of images, and their indices, or None in place of those."""
    values = device.max_pool2d(x, *windows, ceil_mode)
    return values, device.max_pool2d_indices(x, *windows, ceil_mode) if return_indices else None


def _maxima_of_volumes(
    device: Any, x: Any, windows: tuple[Shape, ...], ceil_mode: bool, return_indices: bool
) -> tuple[Any, Any]:
    """Return the maxima of the windows of volumes, and their indices, or None in place of those.

    The first of equal maxima in each plane, and then in the depth, is the first in row-major order.
    """
    n, c, deep, high, wide = x.shape
    planes, depth = in_two_passes(windows)
    values, within = _maxima(device, device.reshape(x, (n, c * deep, high, wide)), planes, ceil_mode, return_indices)
    counts = values.shape[2:]
    area = counts[0] * counts[1]
    columns = device.reshape(values, (n, c, deep, area))
    values, chosen = _maxima(device, columns, depth, ceil_mode, return_indices)
    shape = (n, c, values.shape[2], *counts)
    if return_indices:
        d = device.discrete
        flat = d.reshape(chosen, (n, c, values.shape[2] * area))
        within = d.gather(d.reshape(within, (n, c, deep * area)), 2, flat)
        chosen = d.reshape(d.add(d.mul(d.floor_divide(flat, area), high * wide), within), shape)
    return device.reshape(values, shape), chosen


def in_two_passes(windows: tuple[Shape, ...]) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
    """Return the windows over height and width of volumes, and those over the depth alone.

    >>> in_two_passes(((3, 2, 2), (2, 1, 1), (1, 0, 0), (1, 1, 1)))
    (((2, 2), (1, 1), (0, 0), (1, 1)), ((3, 1), (2, 1), (1, 0), (1, 1)))
    """
    alone = zip(windows, (1, 1, 0, 1), strict=False)
    return tuple(sizes[1:] for sizes in windows), tuple((sizes[0], one) for sizes, one in alone)


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
    batch = as_batch(operation, x)
    windows = checked_windows(operation, batch, kernel_size, stride, padding, 1, ceil_mode)[:3]
    device: Any = batch._device
    flags, by = (bool(ceil_mode), bool(count_include_pad)), divisor_of(operation, divisor)
    values = batch._primitive
    if len(windows[0]) == 3:
        n, c, deep, high, wide = values.shape
        planes, depth = in_two_passes(windows)
        values = device.reshape(values, (n, c * deep, high, wide))
        values = device.avg_pool2d(values, *planes, *flags, None if by is None else 1)
        counts = values.shape[2:]
        columns = device.reshape(values, (n, c, deep, counts[0] * counts[1]))
        values = device.avg_pool2d(columns, *depth, *flags, by)
        values = device.reshape(values, (n, c, values.shape[2], *counts))
    else:
        values = device.avg_pool2d(values, *windows, *flags, by)
    return as_given(operation, x, batch._like(values))
