"""Convolutions with the channels first that reorder no weight: depthwise, and of one image with a few windows.

A depthwise convolution computes each plane by itself, for vectors of neighbours in a row. Padding is neither stored nor
laid out: elements beyond a row are masked, and rows beyond a plane are left out. With a stride of 2 across, a vector is
every second element of two neighbouring ones. Each number is summed in the order of the window, so it does not depend
on the rest of the batch or on threads.

A few windows, for plans, are copied next to each other, and each element of the result is the sum of products of two
rows. So a weight is read once, which takes most of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from burnpy.backend.dtypes import float32
from burnpy.backend.operations.convolution import window_counts
from burnpy.backend.primitives import Shape
from burnpy_numpy.kernels.compiler.loops import Int, Loops
from burnpy_numpy.kernels.compiler.target import target
from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.convolution.channel_blocks import (
    PRODUCTS,
    Epilogue,
    Planned,
    block_kernels,
    computed,
    others_of,
    parameters_of,
    vector_width,
)
from burnpy_numpy.kernels.convolution.tiles import Where
from burnpy_numpy.kernels.kernel import described, template_kernel
from burnpy_numpy.kernels.launch import TemplateKernel

if TYPE_CHECKING:
    from burnpy_array import ArrayBackend
    from burnpy_numpy.kernels.plans import KernelCall

_ROWS_TOGETHER = 4
"""The number of rows of the result that are computed together, inside of the padding."""
_UNROLLED = 49
"""The size of the windows up to which rows are computed together."""
_WIDEST = 2
"""The largest stride across."""


def is_by_planes(x: Any, weight: Any, where: Where, groups: int) -> bool:
    """Return whether a convolution is depthwise, with a stride that the kernel has."""
    return bool(groups == x.shape[1] and weight.shape[1] == 1 and where[0][1] <= _WIDEST)


def convolve_planes(
    b: ArrayBackend, x: Any, weight: Any, bias: Any, shape: Shape, where: Where, out: Any, epilogue: Epilogue | None
) -> Any:
    """Return a depthwise convolution; None if it has no kernel, or the weight is not finite.

    Padding is not multiplied: only products of finite numbers with 0 are nothing.

    Args:
        b: the device.
        x: the input (N, C, H, W).
        weight: the weight (O, 1, height, width), where O is a multiple of C.
        bias: the bias (O,), or None.
        shape: the shape of the result.
        where: stride, padding and dilation.
        out: C-contiguous memory for the result; new memory if None.
        epilogue: what follows.
    """
    found = _described(x, weight, shape, where, epilogue)
    if found is None:
        return None
    kernel, sizes, each = found

    def run() -> Any:
        result = np.empty(shape, x.dtype) if out is None else out
        others = () if epilogue is None else epilogue.arrays
        table = (np.ascontiguousarray(x), np.ascontiguousarray(weight), _added(bias, shape, x), result, *others)
        kernel.run(table, sizes, shape[0] * shape[1], each)
        return result

    return b._call(run)


def planned_planes(
    x: Any, weight: Any, bias: Any, shape: Shape, where: Where, epilogue: Epilogue | None = None
) -> Planned | None:
    """Return a depthwise convolution for plans; None if `convolve_planes` has no kernel for it."""
    found = _described(x, weight, shape, where, epilogue)
    if found is None:
        return None
    kernel, sizes, each = found
    weight, added, planes = np.ascontiguousarray(weight), _added(bias, shape, x), shape[0] * shape[1]

    def calls(arrays: Sequence[str], scratch: Sequence[str]) -> list[KernelCall]:
        from burnpy_numpy.kernels.plans import template_call

        given, *others, out = arrays
        return [template_call(kernel.function, (given, weight, added, out, *others), sizes, 0, planes, planes * each)]

    return Planned((), calls)


def _added(bias: Any, shape: Shape, x: Any) -> Any:
    """Return the bias of each channel, C-contiguous."""
    return np.zeros(shape[1], x.dtype) if bias is None else np.ascontiguousarray(bias)


def _described(
    x: Any, weight: Any, shape: Shape, where: Where, epilogue: Epilogue | None
) -> tuple[TemplateKernel, tuple[int, ...], float] | None:
    """Return the kernel, its sizes and the work of a plane; None without one, or if the weight is not finite."""
    found = described(_of_shapes, x.shape, weight.shape[2:], shape, x.dtype, where, parameters_of(epilogue))
    return found if found is not None and np.isfinite(weight).all() else None


def _of_shapes(
    source: Shape, window: Shape, shape: Shape, dtype: Any, where: Where, epilogue: tuple[Any, ...]
) -> tuple[TemplateKernel, tuple[int, ...], float] | None:
    stride, padding, dilation = where
    name, how = "float32" if dtype is float32 else "float64", (*window, *stride, *dilation)
    kernel = template_kernel(depthwise, name, vector_width(dtype), *how, *epilogue)
    if kernel is None:
        return None
    (_, channels, rows, columns), (high, wide) = shape, source[2:]
    top, bottom = -(-padding[0] // stride[0]), (high - 1 + padding[0] - (window[0] - 1) * dilation[0]) // stride[0] + 1
    inside = (top, max(0, min(bottom, rows) - top) // _ROWS_TOGETHER) if window[0] * window[1] <= _UNROLLED else (0, 0)
    sizes = (high, wide, rows, columns, *padding, channels, channels // source[1], min(inside[0], rows), inside[1])
    return kernel, sizes, rows * columns * window[0] * window[1] / PRODUCTS


def depthwise(
    dtype: str, width: int, high: int, wide: int, down: int, across: int, deep: int, long: int, *epilogue: Any
) -> str:
    """Return the text of the kernel.

    The table: x, weight, bias, out, and the arrays of an epilogue. The sizes: rows and columns of x and of the result,
    the padding, the channels of the result and for each of x, the first row whose window lies inside of x, and the
    number of blocks of such rows. ``begin`` and ``end`` are planes of the result.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector.
        high: the rows of the window.
        wide: the columns of the window.
        down: the stride of rows.
        across: the stride of columns, 1 or 2.
        deep: the dilation of rows.
        long: the dilation of columns.
        epilogue: the parameters of an `Epilogue`, if there is one.
    """
    w = _Planes(dtype, width, _Window(high, wide, down, across, deep, long), epilogue)
    vectors = w.ceil_div(w.columns, width)
    rest = w.top + w.blocks * _ROWS_TOGETHER
    with w.loop(w.begin, w.end) as plane, w.loop(0, vectors) as j:
        w.start_columns(plane, j)
        with w.loop(0, w.blocks) as block:
            w.compute_rows(w.top + block * _ROWS_TOGETHER, _ROWS_TOGETHER, None)
        for begin, end in ((0, w.top), (rest, w.rows)):
            with w.loop(begin, end) as row:
                w.compute_rows(row, 1, w.window_rows_inside(row))
    return w.function()


class _Window(NamedTuple):
    """The size of a window, its strides and its dilations: the parameters of `depthwise`."""

    high: int
    wide: int
    down: int
    across: int
    deep: int
    long: int


class _Planes(Loops):
    """The kernel `depthwise`: planes of the result, a vector of columns at a time, and for these, row by row. With a
    stride across, neighbours in the result are as far apart in x. A column of the window is therefore read as
    ``across`` neighbouring vectors of x, of whose elements every ``across``-th is used."""

    def __init__(self, dtype: str, width: int, window: _Window, epilogue: Sequence[Any]) -> None:
        super().__init__(width, 4 + others_of(epilogue), 10)
        self.x, self.weight, self.bias, self.out, *self.others = self.table
        self.x_rows, self.x_columns, self.rows, self.columns, self.above, self.before = self.sizes[:6]
        self.channels, self.multiple, self.top, self.blocks = self.sizes[6:]
        self.dtype, self.window, self.epilogue = dtype, window, epilogue
        self.taps = [divmod(k * window.long, window.across) for k in range(window.wide)]
        """For each column of the window, the distance of its vectors of x, and the first of their elements."""

    def start_columns(self, plane: Int, j: Int) -> None:
        """Write what all rows share, for the j-th vector of columns of a plane."""
        across = self.window.across
        self.channel = plane % self.channels
        member = plane // self.multiple
        self.source = member * (self.x_rows * self.x_columns)
        self.plane, self.column = plane, j * self.width
        self.start = self.column * across - self.before
        self.masks = {
            (q, part): _below(self, self.start + (q * across + part * self.width), self.x_columns)
            for q in dict(self.taps)
            for part in range(across)
        }
        self.mask = _below(self, self.column, self.columns)
        self.weights = self.channel * (self.window.high * self.window.wide)
        self.added = self.load_one_at(self.bias, self.channel, self.dtype)

    def window_rows_inside(self, row: Int) -> tuple[Int, Int]:
        """Return the first row of the window that lies inside of x, and the end of those, for a row of the result."""
        deep = self.window.deep
        before_first = self.above - row * self.window.down
        first = self.ceil_div(_positive(self, before_first), deep)
        beyond = self.x_rows + before_first + (deep - 1)
        end = _positive(self, beyond) // deep
        return first, self.smaller(end, self.window.high)

    def compute_rows(self, first: Int, count: int, inside: tuple[Int, Int] | None) -> None:
        """Write rows of the result: all rows of the window, unrolled, or for one row those of a range, in a loop."""
        totals = [self.variable(self.added) for _ in range(count)]
        corner = first * self.window.down - self.above
        loaded: dict[tuple[Any, ...], Vector] = {}
        if inside is None:
            for k in range(self.window.high):
                self.add_products(totals, corner, k, loaded)
        else:
            with self.loop(*inside) as tap:
                self.add_products(totals, corner, tap, loaded)
        for i, total in enumerate(totals):
            self.store_row(self.plane * self.rows + (first + i), total)

    def add_products(self, totals: list[str], corner: Int, tap: Int | int, loaded: dict[Any, Vector]) -> None:
        """Write the products of a row of the window for each of ``totals``; for one alone if the row is no constant."""
        line = self.weights + tap * self.window.wide
        factors = [self.load_one_at(self.weight, line + dx, self.dtype) for dx in range(self.window.wide)]
        down, deep = self.window.down, self.window.deep
        for i, total in enumerate(totals):
            distance = i * down + tap * deep if isinstance(tap, int) else tap * deep
            row = corner + distance
            for (q, which), factor in zip(self.taps, factors, strict=True):
                xs = []
                for part in range(self.window.across):
                    key = distance, q, part
                    if key not in loaded:
                        loaded[key] = self.load_part(row, q, part)
                    xs.append(loaded[key])
                self.set(total, self.fma(_every(self, xs, which), factor, self.get(total, self.dtype)))

    def load_part(self, row: str, q: int, part: int) -> Vector:
        """Load one of the neighbouring vectors of a row of x; elements beyond the row are 0."""
        first = self.start + (q * self.window.across + part * self.width)
        at = self.source + row * self.x_columns + first
        return self.load(self.element(self.x, at, self.dtype), self.dtype, self.masks[q, part])

    def store_row(self, row: str, total: str) -> None:
        """Write the epilogue of a row, and store the result."""
        place = row * self.columns + self.column
        value = self.get(total, self.dtype)
        result = computed(self, value, self.epilogue, self.others, place, self.channel, self.mask)
        self.store(result, self.element(self.out, place, result.dtype), self.mask)


def _positive(w: Loops, x: Int) -> Int:
    """Return a 64-bit int, or 0 if that is larger."""
    return w.larger(x, 0)


def _below(w: Loops, first: str, count: str) -> str:
    """Return the mask of the elements of a vector whose places, from the first one on, are inside of a row."""
    lanes = ", ".join(f"i32 {k}" for k in range(w.width))
    places, limit = (w.splat(w.assign(f"trunc i64 {n} to i32"), "int32").text for n in (first, count))
    kind = w.type("int32")
    return w.assign(f"icmp ult {kind} {w.assign(f'add {kind} {places}, <{lanes}>')}, {limit}")


def _every(w: Loops, xs: list[Vector], first: int) -> Vector:
    """Return a vector, or every second element of two, from the first one on."""
    if len(xs) == 1:
        return xs[0]
    kind, places = w.type(xs[0].dtype), ", ".join(f"i32 {first + 2 * k}" for k in range(w.width))
    text = f"shufflevector {kind} {xs[0].text}, {kind} {xs[1].text}, <{w.width} x i32> <{places}>"
    return Vector(w.assign(text), xs[0].dtype)


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
        from burnpy_numpy.kernels.plans import template_call

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
