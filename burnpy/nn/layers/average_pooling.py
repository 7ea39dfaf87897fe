"""Pooling by averages and by power averages, of sequences, images and volumes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.backend.dtypes import epsilon, largest
from burnpy.backend.errors import ArgumentError
from burnpy.nn.argument_checks import (
    Pair,
    Single,
    Size,
    Triple,
    above_zero,
    as_batch,
    as_given,
    floats,
    layer_size,
    sizes_of,
    whole,
    window_dims,
)
from burnpy.nn.layers.max_pooling import (
    WindowPooling,
    checked_windows,
    in_two_passes,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from burnpy.tensor.call_errors import explained
from burnpy.typevars import B

if TYPE_CHECKING:
    from collections.abc import Callable

    from burnpy.tensor.tensor import Tensor


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
    flags, by = (bool(ceil_mode), bool(count_include_pad)), _divisor(operation, divisor)
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


def _divisor(operation: str, divisor: int | None) -> int | None:
    """Return a validated ``divisor_override``; None stays None."""
    if divisor is None:
        return None
    number = whole(operation, "divisor_override", divisor)
    if number == 0:
        raise ArgumentError(f"{operation}() got divisor_override=0; expected another number")
    return number


@explained
def lp_pool1d(
    x: Tensor[B], norm_type: float, kernel_size: Single, *, stride: Single | None = None, ceil_mode: bool = False
) -> Tensor[B]:
    """Compute the p-norm of each window of sequences, as `lp_pool2d` of images.

    x has shape (N, channels, length), or (channels, length) for a single sequence. The result has shape (N, channels,
    length'), or without N for a single sequence. Other arguments and the errors are those of `lp_pool2d`.

    >>> lp_pool1d(Tensor[NumPy].from_data([[3.0, 4.0, 0.0, 0.0]]), 2.0, 2).tolist()
    [[5.0, 0.0]]
    """
    return _lp_pool("lp_pool1d", x, norm_type, kernel_size, stride, ceil_mode)


@explained
def lp_pool2d(
    x: Tensor[B], norm_type: float, kernel_size: Pair, *, stride: Pair | None = None, ceil_mode: bool = False
) -> Tensor[B]:
    """Compute the p-norm of each window of images, ``(Σ xᵖ)^(1/p)``, as `torch.nn.functional.lp_pool2d`.

    Powers have the sign that the formula gives, so that an odd p may give the root of a negative sum, which is NaN. A
    window of zeros has gradient 0. A window that extends beyond the image counts as full: the mean of its powers takes
    the place of the others.

    Args:
        x: shape (N, channels, height, width), or (channels, height, width) for a single image.
        norm_type: the power p, above 0; ``math.inf`` for the largest magnitude.
        kernel_size: the size of the window.
        stride: the step between windows; ``kernel_size`` by default.
        ceil_mode: whether the last window may extend beyond the image.

    Returns:
        Shape (N, channels, height', width'), or without N for a single image.

    Raises:
        ShapeError: x has another number of dimensions, or is smaller than a window.
        ArgumentError: a setting is invalid.

    Source: Gulcehre et al., Learned-Norm Pooling for Deep Feedforward and Recurrent Neural Networks, 2014.

    >>> lp_pool2d(Tensor[NumPy].from_data([[[3.0, 4.0], [0.0, 0.0]]]), 2.0, 2).tolist()
    [[[5.0]]]
    """
    return _lp_pool("lp_pool2d", x, norm_type, kernel_size, stride, ceil_mode)


@explained
def lp_pool3d(
    x: Tensor[B], norm_type: float, kernel_size: Triple, *, stride: Triple | None = None, ceil_mode: bool = False
) -> Tensor[B]:
    """Compute the p-norm of each window of volumes, as `lp_pool2d` of images.

    x has shape (N, channels, depth, height, width), or without N for a single volume. The result has shape (N,
    channels, depth', height', width'), or without N for a single volume. Other arguments and the errors are those of
    `lp_pool2d`.

    >>> lp_pool3d(Tensor[NumPy].ones((1, 2, 2, 4)), 1.0, 2).tolist()
    [[[[8.0, 8.0]]]]
    """
    return _lp_pool("lp_pool3d", x, norm_type, kernel_size, stride, ceil_mode)


_POOLS: dict[int, tuple[Callable[..., Any], Callable[..., Any]]] = {
    1: (max_pool1d, avg_pool1d),
    2: (max_pool2d, avg_pool2d),
    3: (max_pool3d, avg_pool3d),
}
"""The maximum and the mean of windows of sequences, images and volumes."""


def _lp_pool(
    operation: str, x: Tensor[B], norm_type: float, kernel_size: Size, stride: Size | None, ceil_mode: bool
) -> Tensor[B]:
    """Return the norms of windows."""
    (x,) = floats(operation, 1, x=x)
    above_zero(operation, norm_type=norm_type)
    maxima, averages = _POOLS[window_dims(operation)]
    if norm_type == math.inf:
        return maxima(x.abs(), kernel_size, stride=stride, ceil_mode=ceil_mode)  # type: ignore[no-any-return]  # a Tensor
    count = float(math.prod(sizes_of(operation, "kernel_size", kernel_size)))
    scale = _power_scale(x, norm_type, count)
    means: Tensor[B] = averages((x / scale).pow(norm_type), kernel_size, stride=stride, ceil_mode=ceil_mode)
    total = means * count
    zero = total == 0.0  # where a root would have an infinite derivative
    return total.where(~zero, 1.0).pow(1.0 / norm_type).where(~zero, 0.0) * scale


def _power_scale(x: Tensor[B], norm_type: float, count: float) -> Tensor[B] | float:
    """Return the number to divide x by so that sums of powers neither overflow nor vanish; 1 where they do not."""
    if 0 in x.shape:
        return 1.0
    most, eps = largest(x.dtype), epsilon(x.dtype)
    magnitude = x.detach().abs().amax()
    scale = magnitude / magnitude.clamp((4 / most / eps) ** (1 / norm_type), (most / count) ** (1 / norm_type))
    return scale.where(scale.isfinite() & (scale > 0.0), 1.0)


class AvgPool1d(WindowPooling):
    """Average pooling over windows of sequences: see `burnpy.nn.functional.avg_pool1d`."""

    kernel_size: int
    stride: int | None
    padding: int
    _function = staticmethod(avg_pool1d)
    _settings = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")

    def __init__(
        self,
        kernel_size: Single,
        *,
        stride: Single | None = None,
        padding: Single = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self._set_window(kernel_size, stride, padding, ceil_mode)
        self.count_include_pad = count_include_pad


class AvgPool(WindowPooling):
    """The base class of average pooling with a divisor, of images and volumes."""

    _settings = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")

    def __init__(
        self,
        kernel_size: Size,
        *,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        self._set_window(kernel_size, stride, padding, ceil_mode)
        self.count_include_pad = count_include_pad
        self.divisor_override = _divisor(type(self).__name__, divisor_override)


class AvgPool2d(AvgPool):
    """Average pooling over windows of images: see `burnpy.nn.functional.avg_pool2d`.

    >>> AvgPool2d(2)(Tensor[NumPy].ones((2, 3, 4, 4))).shape
    (2, 3, 2, 2)
    """

    kernel_size: tuple[int, int]
    stride: tuple[int, int] | None
    padding: tuple[int, int]
    _function = staticmethod(avg_pool2d)


class AvgPool3d(AvgPool):
    """Average pooling over windows of volumes: see `burnpy.nn.functional.avg_pool3d`."""

    kernel_size: tuple[int, int, int]
    stride: tuple[int, int, int] | None
    padding: tuple[int, int, int]
    _function = staticmethod(avg_pool3d)


class LpPool(WindowPooling):
    """The base class of pooling by norms."""

    _settings = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self, norm_type: float, kernel_size: Size, *, stride: Size | None = None, ceil_mode: bool = False
    ) -> None:
        above_zero(type(self).__name__, norm_type=norm_type)
        self.norm_type = norm_type
        self.kernel_size: Any = layer_size(self, "kernel_size", kernel_size)
        self.stride: Any = None if stride is None else layer_size(self, "stride", stride)
        self.ceil_mode = ceil_mode


class LpPool1d(LpPool):
    """Norms over windows of sequences: see `burnpy.nn.functional.lp_pool1d`."""

    kernel_size: int
    stride: int | None
    _function = staticmethod(lp_pool1d)


class LpPool2d(LpPool):
    """Norms over windows of images: see `burnpy.nn.functional.lp_pool2d`.

    >>> LpPool2d(2.0, 2)(Tensor[NumPy].ones((3, 4, 4))).shape
    (3, 2, 2)
    """

    kernel_size: tuple[int, int]
    stride: tuple[int, int] | None
    _function = staticmethod(lp_pool2d)


class LpPool3d(LpPool):
    """Norms over windows of volumes: see `burnpy.nn.functional.lp_pool3d`."""

    kernel_size: tuple[int, int, int]
    stride: tuple[int, int, int] | None
    _function = staticmethod(lp_pool3d)
