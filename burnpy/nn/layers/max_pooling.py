"""Max pooling of sequences, images and volumes, and the base classes of pooling layers."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, overload

from burnpy.backend.errors import ArgumentError
from burnpy.nn.argument_checks import (
    Pair,
    Single,
    Size,
    Triple,
    as_batch,
    as_given,
    check_kernel,
    layer_size,
    sizes_of,
    window_dims,
)
from burnpy.nn.module import FunctionLayer, Stateless
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


def checked_windows(
    operation: str,
    batch: Tensor[Any],
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    dilation: Size,
    ceil_mode: bool,
) -> tuple[Shape, Shape, Shape, Shape]:
    """Return kernel size, stride, padding and dilation for each dimension, after a check that the windows fit."""
    kernel = sizes_of(operation, "kernel_size", kernel_size)
    strides = kernel if stride is None else sizes_of(operation, "stride", stride)
    pads, gaps = sizes_of(operation, "padding", padding, 0), sizes_of(operation, "dilation", dilation)
    _check_windows(operation, batch._primitive.shape, kernel, strides, pads, gaps, bool(ceil_mode))
    return kernel, strides, pads, gaps


@lru_cache(1024)
def _check_windows(
    operation: str, shape: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool
) -> None:
    """Check that padding is at most half of the window, and that windows fit; once for each shape."""
    if any(2 * pad > size for pad, size in zip(padding, kernel, strict=True)):
        pad, window = (padding[1], kernel[1]) if window_dims(operation) == 1 else (padding, kernel)
        raise ArgumentError(
            f"{operation}() got padding={pad} for a window of {window}; expected at most half of the window"
        )
    check_kernel(operation, shape, kernel, stride, padding, dilation, ceil_mode)


def _maxima(device: Any, x: Any, windows: tuple[Shape, ...], ceil_mode: bool, return_indices: bool) -> tuple[Any, Any]:
    """Return the maxima of the windows of images, and their indices, or None in place of those."""
    values = device.max_pool2d(x, *windows, ceil_mode)
    return values, device.max_pool2d_indices(x, *windows, ceil_mode) if return_indices else None


def _maxima_of_volumes(
    device: Any, x: Any, windows: tuple[Shape, ...], ceil_mode: bool, return_indices: bool
) -> tuple[Any, Any]:
    """Return the maxima of the windows of volumes, and their indices, or None in place of those. The first of equal
    maxima in each plane, and then in the depth, is the first in row-major order."""
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


class Pooling(FunctionLayer, Stateless):
    """The base class of the pooling layers: a function of `burnpy.nn.functional` with its settings and errors."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Pool sequences (N, channels, length), images or volumes over their windows; N may be omitted."""
        return self._result(x)


class WindowPooling(Pooling):
    """The base class of pooling over windows of one size."""

    ceil_mode: bool

    def _set_window(self, kernel_size: Size, stride: Size | None, padding: Size, ceil_mode: bool) -> None:
        """Set the validated settings that max and average pooling have."""
        self.kernel_size: Any = layer_size(self, "kernel_size", kernel_size)
        self.stride: Any = None if stride is None else layer_size(self, "stride", stride)
        self.padding: Any = layer_size(self, "padding", padding, 0)
        self.ceil_mode = ceil_mode


class MaxPooling(Pooling):
    """The base class of max pooling, which can return indices."""

    @explained
    def with_indices(self, x: Tensor[B]) -> tuple[Tensor[B], IntTensor[B]]:
        """Return the result of `forward` and the flat, row-major index of each maximum in its plane or volume."""
        both: Any = self._result(x, return_indices=True)
        values, indices = both
        return values, indices


class MaxPool(WindowPooling, MaxPooling):
    """The base class of the max pooling layers over windows of one size."""

    _settings = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: Size,
        *,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
    ) -> None:
        self._set_window(kernel_size, stride, padding, ceil_mode)
        self.dilation: Any = layer_size(self, "dilation", dilation)


class MaxPool1d(MaxPool):
    """Max pooling over windows of sequences: see `burnpy.nn.functional.max_pool1d`.

    >>> MaxPool1d(2)(Tensor[NumPy].ones((2, 3, 4))).shape
    (2, 3, 2)
    """

    kernel_size: int
    stride: int | None
    padding: int
    dilation: int
    _function = staticmethod(max_pool1d)


class MaxPool2d(MaxPool):
    """Max pooling over windows of images: see `burnpy.nn.functional.max_pool2d`.

    >>> MaxPool2d(2)(Tensor[NumPy].ones((2, 3, 4, 4))).shape
    (2, 3, 2, 2)
    """

    kernel_size: tuple[int, int]
    stride: tuple[int, int] | None
    padding: tuple[int, int]
    dilation: tuple[int, int]
    _function = staticmethod(max_pool2d)


class MaxPool3d(MaxPool):
    """Max pooling over windows of volumes: see `burnpy.nn.functional.max_pool3d`.

    >>> MaxPool3d(2)(Tensor[NumPy].ones((2, 3, 4, 4, 6))).shape
    (2, 3, 2, 2, 3)
    """

    kernel_size: tuple[int, int, int]
    stride: tuple[int, int, int] | None
    padding: tuple[int, int, int]
    dilation: tuple[int, int, int]
    _function = staticmethod(max_pool3d)
