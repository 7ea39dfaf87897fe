"""Convolution of volumes by the kernels for images: see `burnpy_numpy.kernels.convolution.conv2d`.

The planes of a result are its members: each has its windows in a volume, one plane further than the one before. So
nothing is laid out anew but the padding, and the rows and columns that a stride skips: for some planes at a time, which
stay in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.convolution import window_counts
from burnpy.backend.primitives import Shape
from burnpy_numpy.kernels.compiler.target import target
from burnpy_numpy.kernels.convolution import conv2d
from burnpy_numpy.kernels.convolution.channel_lanes import FORWARD, MIN_LANES, better_by_channels
from burnpy_numpy.kernels.convolution.conv2d import NARROW, convolution, gradient_by_phases, kernel_of, run_forward
from burnpy_numpy.kernels.convolution.tiles import Windows, row_efficiency
from burnpy_numpy.kernels.convolution.weight_gradients import run_by_weight, weight_gradient

if TYPE_CHECKING:
    from burnpy_array import ArrayBackend

LAID_OUT = 1 << 20
"""The size in bytes of the planes that are laid out at a time."""


class VolumeWindows(Windows):
    """The windows of a convolution over volumes of shape (C, D, H, W), from one plane of the result to the next.

    Args:
        shape: the shape of a volume.
        weight: the shape of the weight.
        where: stride, padding and dilation.
        groups: the number of groups.
        lanes: the number of elements of a register.
        registers: the number of registers.
        itemsize: the size of an element in bytes.
    """

    def __init__(
        self,
        shape: Shape,
        weight: Shape,
        where: tuple[Shape, ...],
        groups: int,
        lanes: int,
        registers: int,
        itemsize: int,
    ) -> None:
        (down, *stride), (zeros, *padding), (gap, *dilation) = where
        planes: Any = (tuple(stride), tuple(padding), tuple(dilation))
        super().__init__((shape[0], *shape[2:]), (*weight[:2], *weight[3:]), planes, groups, lanes, registers)
        self.depth = window_counts(shape, weight[2:], *where)[0]
        self.step = down * self.plane  #: the distance of the windows of a plane of the result and of the next
        self.length = math.prod(weight[1:])
        self.in_place = self.in_place and not zeros
        self._down, self._front, self._reach = down, zeros, (weight[2] - 1) * gap
        self._taps = np.arange(weight[2]) * (gap * self.plane)
        most = (LAID_OUT // (self.member * itemsize) - self._reach - 1) // down + 1
        least = -(-3 * self._reach // down)  # fewer planes would share too many with the next ones
        #: the planes of the result whose windows lie in one array
        self.chunk = self.depth if self.in_place else min(max(most, least, 1), self.depth)
        self.channel = self.plane * (shape[1] if self.in_place else self._planes_of(self.chunk))

    @cached_property
    def elements(self) -> Any:
        """The distances of the elements of a window: by channel, plane, row and column."""
        channels = np.arange(self.weight[1]) * self.channel
        return np.add.outer(np.add.outer(channels, self._taps), self.window.reshape(-1)).reshape(-1)

    def _planes_of(self, count: int) -> int:
        """Return the number of planes in the windows of some planes of the result."""
        return (count - 1) * self._down + self._reach + 1

    def batches(self, x: Any, result: Any) -> Iterator[tuple[int, Any, Any]]:
        """Yield the planes of one volume after the other."""
        for volume, planes in zip(x, result.reshape((len(x), -1)), strict=True):
            yield self.depth, volume, planes

    def distances(self, channels: int) -> tuple[int, int]:
        """Return the distances of planes and of channels in the result."""
        area = math.prod(self.counts)
        return area, self.depth * area

    def together(self, members: int, itemsize: int) -> int:
        return members

    def group(self, members: int) -> int:
        return members

    def parts(self, x: Any, members: int, apart: bool = False) -> Iterator[tuple[int, int, Any]]:
        """Yield start and stop of some of all planes of the result, and the array that a kernel reads.

        That is the volume as it lies, or a copy that is valid until the next.
        """
        if self.in_place:
            yield 0, members, np.ascontiguousarray(x)
            return
        memory = np.zeros((self.shape[0], self._planes_of(self.chunk), *self.stride, *self.planes), x.dtype)
        for start in range(0, members, self.chunk):
            stop = min(start + self.chunk, members)
            top = start * self._down - self._front
            first = max(top, 0)
            last = max(min(top + self._planes_of(stop - start), x.shape[1]), first)
            memory[:, : first - top], memory[:, last - top :] = 0, 0
            self.lay_out(x[:, first:last], memory[:, first - top : last - top])
            yield start, stop, memory


@lru_cache(maxsize=256)
def volume_windows(shape: Shape, weight: Shape, where: tuple[Shape, ...], groups: int, itemsize: int) -> VolumeWindows:
    """Return the `VolumeWindows` of a convolution of elements of some size in bytes."""
    return VolumeWindows(shape, weight, where, groups, target().vector // itemsize, target().registers, itemsize)


def convolve_volumes(b: ArrayBackend, x: Any, weight: Any, bias: Any, where: tuple[Shape, ...], groups: int) -> Any:
    """Return a convolution; None without a kernel for it.

    Args:
        b: the device.
        x: the input, (N, C, D, H, W).
        weight: the weight, (O, C / groups, depth, height, width).
        bias: the bias, (O,), or None.
        where: stride, padding and dilation.
        groups: the number of groups.
    """
    counts = window_counts(x.shape, weight.shape[2:], *where)
    if not _suits(x, weight, weight.shape, counts) or (bias is not None and bias.dtype is not x.dtype):
        return None
    return _convolved(b, x, weight, bias, where, groups)


def _convolved(b: ArrayBackend, x: Any, weight: Any, bias: Any, where: tuple[Shape, ...], groups: int) -> Any:
    windows = volume_windows(x.shape[1:], weight.shape, where, groups, x.dtype.itemsize)
    if windows.counts[1] < NARROW:
        return None
    kernel = kernel_of(convolution, windows.forward, x.dtype)
    if kernel is None:
        return None
    out = np.empty((len(x), weight.shape[0], windows.depth, *windows.counts), x.dtype)
    return b._call(run_forward, kernel, windows, x, weight, bias, out, ())


def volume_weight_gradient(
    b: ArrayBackend, grad: Any, x: Any, shape: Shape, where: tuple[Shape, ...], groups: int
) -> Any:
    """Return the gradient of the weight, of a shape; None without a kernel for it; see `convolve_volumes`."""
    if not _suits(grad, x, shape, grad.shape[2:]):
        return None
    windows = volume_windows(x.shape[1:], shape, where, groups, x.dtype.itemsize)
    kernel = kernel_of(weight_gradient, windows.backward, x.dtype)
    return None if kernel is None else b._call(run_by_weight, kernel, windows, grad, x).reshape(shape)


def volume_input_gradient(
    b: ArrayBackend, grad: Any, weight: Any, shape: Shape, where: tuple[Shape, ...], groups: int
) -> Any:
    """Return the gradient of the input, of a shape; None without a kernel for it; see `convolve_volumes`. It is a
    convolution with the flipped weight, or, with a stride, one for each rest of the places."""
    if not _suits(grad, weight, weight.shape, grad.shape[2:]) or not np.isfinite(weight).all():
        return None

    def convolved(part: Any, one: tuple[Shape, ...]) -> Any:
        return _convolved(b, grad, part, None, one, groups)

    return gradient_by_phases(grad, weight, shape, where, groups, convolved)


def _suits(x: Any, y: Any, weight: Shape, counts: Shape) -> bool:
    """Return whether kernels are used for two arrays of a convolution with a weight and a result of these shapes."""
    least, by_rows = min(weight[1] * weight[2], weight[0]), FORWARD * row_efficiency(counts[2], x.itemsize)
    return (
        min(counts) > 0
        and counts[2] >= NARROW
        and x.shape[0] * math.prod(counts) * math.prod(weight) >= conv2d.MIN_PRODUCTS
        and (x.dtype is float32 or x.dtype is float64)
        and y.dtype is x.dtype
        and not (least >= MIN_LANES and better_by_channels(least, weight[0], x, by_rows))
    )
