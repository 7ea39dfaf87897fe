"""Convolution of one image with a few windows, for plans: sums along the windows, with the weight as it lies.

The windows are copied next to each other, and each element of the result is the sum of products of two rows. So a
weight is read once, which takes most of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from burnpy.backend.operations.convolution import window_counts
from burnpy.backend.primitives import Shape
from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.compiler.target import target
from burnpy_numpy.kernels.convolution.channel_blocks import PRODUCTS, block_kernels
from burnpy_numpy.kernels.convolution.tiles import Where
from burnpy_numpy.kernels.plans import KernelCall, template_call

MOST_WINDOWS = 8
"""The largest number of windows."""


class FewWindows:
    """A convolution of one image with a few windows.

    Args:
        x: the shape of the image, (1, C, H, W).
        weight: the shape of the weight, (O, C, height, width).
        where: stride, padding and dilation.
        dtype: float32 or float64.

    Raises:
        Uncompiled: its kernels cannot be compiled.
    """

    def __init__(self, x: Shape, weight: Shape, where: Where, dtype: Any) -> None:
        self._places = _places(x, weight, where)
        self.scratch = [(self._places.shape, dtype)]
        count, self._length = self._places.shape
        self._channels = weight[0]
        self._block = min(self._channels, max(1, (24 if target().registers >= 32 else 12) // count), 4)
        self._zeros = np.zeros(self._channels, dtype)
        self._copied, self._summed = block_kernels(dtype, (window_elements,), (sums_along_windows, count, self._block))

    def calls(self, arrays: Sequence[str], scratch: Sequence[str]) -> list[KernelCall]:
        """Return the calls of kernels, given the names of the image, the weight, perhaps the bias, and the result."""
        (x, weight, *bias, out), (room,) = arrays, scratch
        copied = template_call(self._copied.function, (x, room, self._places), (), 0, self._places.size, 0)
        table, blocks = (weight, room, bias[0] if bias else self._zeros, out), -(-self._channels // self._block)
        sizes = self._length, self._channels - self._block
        work = self._places.size * self._channels / PRODUCTS
        return [copied, template_call(self._summed.function, table, sizes, 0, blocks, work)]


def _places(x: Shape, weight: Shape, where: Where) -> Any:
    """Return the place in the image of each element of each window, as int64; -1 for padding."""
    counts = window_counts(x, (weight[2], weight[3]), *where)
    rows, columns = (
        np.arange(count)[:, None] * stride - padding + np.arange(size) * dilation
        for count, size, stride, padding, dilation in zip(counts, weight[2:], *where, strict=True)
    )
    high, wide = rows[:, None, None, :, None], columns[None, :, None, None, :]
    planes = np.arange(x[1])[:, None, None] * (x[2] * x[3])
    inside = (high >= 0) & (high < x[2]) & (wide >= 0) & (wide < x[3])
    places = np.where(inside, planes + high * x[3] + wide, -1)
    return np.ascontiguousarray(places.reshape(counts[0] * counts[1], -1), np.int64)


def window_elements(dtype: str, width: int) -> str:
    """Return the text of the kernel that copies the elements of windows. The table: the image, the windows, and as
    int64 the place of each element, -1 for a zero. ``begin`` and ``end`` are elements."""
    w = Loops(width, 3, 0)
    x, out, places = w.table
    with w.loop(w.begin, w.end) as k:
        place, target = w.number(places, k), w.element(out, k, dtype)
        with w.when(f"sge i64 {place}, 0"):
            w.store_one(w.load_one_at(x, place, dtype), target)
        with w.when(f"slt i64 {place}, 0"):
            w.store_one(w.constant(0.0, dtype), target)
    return w.function()


def sums_along_windows(dtype: str, width: int, windows: int, channels: int) -> str:
    """Return the text of the kernel of the sums.

    The table: the weight, the windows, the bias, and the result. The sizes: the elements of a window, and the first
    channel of the last block. ``begin`` and ``end`` are blocks of channels; the last one may overlap.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector.
        windows: the number of windows.
        channels: the number of channels of a block.
    """
    w = Loops(width, 4, 2)
    weight, columns, bias, out = w.table
    length, last = w.sizes
    whole = length // width
    left = length - whole * width
    mask = w.below(left)
    with w.loop(w.begin, w.end) as b:
        first = w.smaller(b * channels, last)
        rows = [w.element(weight, (first + c) * length, dtype) for c in range(channels)]
        totals = [[w.variable(w.constant(0.0, dtype)) for _ in range(windows)] for _ in range(channels)]

        def add(at: str, part: str | None) -> None:
            starts = [w.element(columns, length * k, dtype) for k in range(windows)]
            xs = [w.load(w.element(start, at, dtype), dtype, part) for start in starts]
            for sums, row in zip(totals, rows, strict=True):
                factor = w.load(w.element(row, at, dtype), dtype, part)
                for total, x in zip(sums, xs, strict=True):
                    w.set(total, w.fma(factor, x, w.get(total, dtype)))

        with w.loop(0, whole) as k:
            add(k * width, None)
        with w.inside(0, left):
            add(whole * width, mask)
        for c, sums in enumerate(totals):
            channel = first + c
            added = w.load_one_at(bias, channel, dtype)
            for j, total in enumerate(sums):
                place = w.element(out, channel * windows + j, dtype)
                w.store_one(w.add(w.total(w.get(total, dtype)), added), place)
    return w.function()
