"""Convolution of volumes by the kernels for images: see `burnpy_numpy.kernels.convolution.images`.

The planes of a result are its members: each has its windows in a volume, one plane further than the one before. So
nothing is laid out anew but the padding, and the rows and columns that a stride skips: for some planes at a time, which
stay in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.windows import window_counts
from burnpy.backend.primitives import Shape
from burnpy_numpy.cpu_threads import COUNT, shared
from burnpy_numpy.kernels.compiler.target import target
from burnpy_numpy.kernels.convolution import images
from burnpy_numpy.kernels.convolution.channel_lanes import better_by_channels
from burnpy_numpy.kernels.convolution.images import (
    GRADIENT_ROWS,
    NARROW,
    PRODUCTS_PER_ELEMENT,
    convolution,
    kernel_of,
    phases_of,
    turned,
    weight_gradient,
)
from burnpy_numpy.kernels.convolution.windows import Windows

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

    def laid_out(self, volume: Any, begin: int, end: int) -> Iterator[tuple[int, int, Any]]:
        """Yield planes of the result, from ``begin`` to ``end``, and what kernels read for them, in one dimension.

        That is the volume as it lies, from the first window on, or a copy that is valid until the next.
        """
        if self.in_place:
            yield begin, end, np.ascontiguousarray(volume).reshape(-1)[begin * self.step :]
            return
        memory = np.zeros((self.shape[0], self._planes_of(self.chunk), *self.stride, *self.planes), volume.dtype)
        for start in range(begin, end, self.chunk):
            stop = min(start + self.chunk, end)
            top = start * self._down - self._front
            first = max(top, 0)
            last = max(min(top + self._planes_of(stop - start), volume.shape[1]), first)
            memory[:, : first - top], memory[:, last - top :] = 0, 0
            self.lay_out(volume[:, first:last], memory[:, first - top : last - top])
            yield start, stop, memory.reshape(-1)


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
    return None if kernel is None else b._call(_forward, kernel, windows, x, weight, bias)


def volume_weight_gradient(
    b: ArrayBackend, grad: Any, x: Any, shape: Shape, where: tuple[Shape, ...], groups: int
) -> Any:
    """Return the gradient by the weight, of a shape; None without a kernel for it; see `convolve_volumes`."""
    if not _suits(grad, x, shape, grad.shape[2:]):
        return None
    windows = volume_windows(x.shape[1:], shape, where, groups, x.dtype.itemsize)
    kernel = kernel_of(weight_gradient, windows.backward, x.dtype)
    return None if kernel is None else b._call(_by_weight, kernel, windows, grad, x, shape)


def volume_input_gradient(
    b: ArrayBackend, grad: Any, weight: Any, shape: Shape, where: tuple[Shape, ...], groups: int
) -> Any:
    """Return the gradient by the input, of a shape; None without a kernel for it; see `convolve_volumes`.

    It is a convolution with the flipped weight, or, with a stride, one for each rest of the places.
    """
    if not _suits(grad, weight, weight.shape, grad.shape[2:]) or not np.isfinite(weight).all():
        return None
    flipped, total = turned(weight, groups), None
    if where[0] != (1, 1, 1):
        total = np.zeros(shape, grad.dtype)
    for rests, part, padding, dilation, inside in phases_of(shape, grad.shape, weight.shape, where):
        settings = ((1, 1, 1), padding, dilation)
        out = _convolved(b, grad, flipped[(slice(None), slice(None), *part)], None, settings, groups)
        if out is None:
            return None
        out = out[(slice(None), slice(None), *inside)]
        if total is None:
            return out
        total[(slice(None), slice(None), *map(slice, rests, [None] * 3, where[0]))] = out
    return total


def _suits(x: Any, y: Any, weight: Shape, counts: Shape) -> bool:
    """Return whether kernels are used for two arrays of a convolution with a weight and a result of these shapes."""
    least = min(weight[1] * weight[2], weight[0])
    return (
        min(counts) > 0
        and counts[2] >= NARROW
        and x.shape[0] * math.prod(counts) * math.prod(weight) >= images.MIN_PRODUCTS
        and (x.dtype is float32 or x.dtype is float64)
        and y.dtype is x.dtype
        and not better_by_channels(least, weight[0], counts[2], x)
    )


def _forward(kernel: Any, windows: VolumeWindows, x: Any, weight: Any, bias: Any) -> Any:
    tables, o, depth = windows.forward, weight.shape[0], windows.depth
    weight = np.ascontiguousarray(weight)
    added = np.zeros(o, x.dtype) if bias is None else np.ascontiguousarray(bias)
    out = np.empty((len(x), o, depth, *windows.counts), x.dtype)
    area, tiles, blocks = math.prod(windows.counts), len(tables.places) // tables.block[1], len(tables.channels)
    each = area * math.prod(weight.shape) / PRODUCTS_PER_ELEMENT
    for volume, result in zip(x, out.reshape((len(x), o * depth * area)), strict=True):

        def work(
            begin: int, end: int, first: int = 0, last: int = blocks, volume: Any = volume, result: Any = result
        ) -> None:
            for start, stop, source in windows.laid_out(volume, begin, end):
                table = (source, weight, result[start * area :], added, *windows.forward_tables)
                kernel(table, (stop - start, windows.length, tiles, windows.step, area, depth * area), first, last)

        if depth >= COUNT:
            shared(work, depth, each)
        else:
            shared(partial(work, 0, depth), blocks, each * depth / blocks)
    kernel.note()
    return out


def _by_weight(kernel: Any, windows: VolumeWindows, grad: Any, x: Any, shape: Shape) -> Any:
    tables, o, depth = windows.backward, shape[0], windows.depth
    area = math.prod(windows.counts)
    (size, wide), blocks = tables.block, len(tables.channels)
    columns, vectors = len(tables.elements) // wide, len(tables.places)
    sums = np.zeros((blocks, columns, size, wide), x.dtype)
    rows = np.ascontiguousarray(tables.channels * (depth * area))
    most = max(64, GRADIENT_ROWS // (size * tables.width * x.itemsize))
    several = max(1, most // vectors)
    grads = np.ascontiguousarray(grad).reshape((len(x), o * depth * area))
    pairs = zip(x, grads, strict=True)
    parts = ((*part, member) for volume, member in pairs for part in windows.laid_out(volume, 0, depth))
    for start, stop, source, member in parts:
        planes, own = stop - start, member[start * area :]

        def work(first: int, last: int, planes: int = planes, source: Any = source, member: Any = own) -> None:
            for begin in range(0, vectors, most):
                end = min(begin + most, vectors)
                places, targets = tables.places[begin:], tables.targets[begin:]
                table = (source, member, sums, tables.elements, places, targets, rows, tables.sources)
                whole = min(max(tables.whole - begin, 0), end - begin)
                kernel(
                    table, (planes, several, columns, whole, end - begin, windows.step, area, tables.left), first, last
                )

        shared(work, blocks, planes * area * windows.length * o / blocks / PRODUCTS_PER_ELEMENT)
    kernel.note()
    out = np.empty((o, windows.length), x.dtype)
    out[tables.channels] = sums.swapaxes(1, 2).reshape((blocks, size, -1))[:, :, : windows.length]
    return out.reshape(shape)
