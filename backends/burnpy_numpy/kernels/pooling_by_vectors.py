"""Pooling by vectors of neighbouring windows: those that touch, and the gradient of max pooling of any windows.

Where windows touch, the stride is the size of a window, and there is no padding and no dilation; a vector holds one
element of each of several windows in a row.

Of other windows, a kernel first stores the number of the chosen element of each. Each element of x then gathers the
gradients of the windows that chose it. A vector holds neighbouring windows in both steps: with a stride of s, they have
elements that lie s apart in x.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.operations.convolution import Pair
from burnpy.backend.primitives import Shape
from burnpy_numpy.kernels.compiler.loops import Int, Loops
from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.kernel import template_kernel
from burnpy_numpy.kernels.launch import TemplateKernel, block_width


class _Tiles(NamedTuple):
    """Neighbouring windows, while their part of a kernel is written."""

    number: Int  #: the number of the first among the windows of all planes
    in_plane: Int  #: its number among those of its plane
    lines: list[Int]  #: for each row of a window, the place of its first element


class _Kernel(Loops):
    """A kernel on windows side by side. A vector has ``width`` of them: a power of 2, at most those in a row.

    The sizes: height and width of x, numbers of windows in a column and in a row. ``begin`` and ``end`` are planes.
    """

    def __init__(self, dtype: str, rows: int, columns: int, width: int, table: int) -> None:
        super().__init__(width, table, 4)
        self.dtype, self._rows, self._columns = dtype, rows, columns

    @contextmanager
    def tiles(self) -> Generator[_Tiles]:
        """Write loops over all windows. The last vector of a row may overlap with the one before."""
        height, wide_x, high, wide = self.sizes
        vectors = self.assign(f"lshr i64 {wide + (self.width - 1)}, {self.width.bit_length() - 1}")
        last = wide - self.width
        with self.loop(self.begin, self.end) as plane, self.loop(0, high) as i:
            first = plane * (height * wide_x)
            line = first + i * self._rows * wide_x
            row = i * wide
            before = plane * (high * wide)
            with self.loop(0, vectors) as k:
                j = self.smaller(k * self.width, last)
                place = line + j * self._columns
                lines = [place + wide_x * r for r in range(self._rows)]
                in_plane = row + j
                yield _Tiles(before + in_plane, in_plane, lines)

    def load_line(self, array: str, place: str) -> list[Vector]:
        """Load a row of each window: a vector for each column."""
        count, scalar = self._columns * self.width, self.scalar(self.dtype)
        kind = f"<{count} x {scalar}>"
        whole = self.assign(f"load {kind}, ptr {self.element(array, place, self.dtype)}, align {_SIZES[self.dtype]}")
        parts = [range(c, count, self._columns) for c in range(self._columns)]
        return [
            Vector(self.assign(f"shufflevector {kind} {whole}, {kind} poison, {_indices(part)}"), self.dtype)
            for part in parts
        ]

    def store_line(self, xs: list[Vector], array: str, place: str) -> None:
        """Store a row of each window, as `load_line` loads one."""
        count, scalar = self._columns * self.width, self.scalar(self.dtype)
        kind, part = f"<{count} x {scalar}>", self.type(self.dtype)
        whole = "poison"
        for column, x in enumerate(xs):
            spread = [k // self._columns if k % self._columns == column else None for k in range(count)]
            apart = self.assign(f"shufflevector {part} {x.text}, {part} poison, {_indices(spread)}")
            chosen = [k + count if k % self._columns == column else k for k in range(count)]
            whole = self.assign(f"shufflevector {kind} {whole}, {kind} {apart}, {_indices(chosen)}")
        self.write(f"store {kind} {whole}, ptr {self.element(array, place, self.dtype)}, align {_SIZES[self.dtype]}")

    def load_windows(self, array: str, number: str) -> Vector:
        """Load a number for each window."""
        return self.load_at(array, number, self.dtype)


_SIZES = {"float32": 4, "float64": 8}


def _indices(positions: range | list[int] | list[int | None]) -> str:
    """Return the mask of a ``shufflevector``; None for an element that does not matter."""
    return f"<{len(positions)} x i32> <{', '.join('i32 ' + ('poison' if k is None else str(k)) for k in positions)}>"


def tiled_max_pool(dtype: str, rows: int, columns: int, width: int) -> str:
    """Return the text of the kernel of max pooling; NaN for a window with a NaN.

    The table: x, and the result. The arguments are those of `_Kernel`.
    """
    w = _Kernel(dtype, rows, columns, width, 2)
    x, out = w.table
    with w.tiles() as tiles:
        values = [value for line in tiles.lines for value in w.load_line(x, line)]
        top = reduce(lambda a, b: w.extreme("maximum", a, b), values)
        w.store_at(top, out, tiles.number)
    return w.function()


def tiled_max_pool_backward(dtype: str, rows: int, columns: int, width: int) -> str:
    """Return the text of the kernel that writes the gradient of each window at its first NaN or else first maximum.

    The other elements of windows get 0. The table: the gradients and the maxima by window, x, and the gradient of x.
    Where no element of a window is as large as its maximum, none has the gradient. The arguments are those of
    `_Kernel`.
    """
    w = _Kernel(dtype, rows, columns, width, 4)
    grads, maxima, x, out = w.table
    zero = w.constant(0.0, dtype)
    with w.tiles() as tiles:
        rest, top = w.load_windows(grads, tiles.number), w.load_windows(maxima, tiles.number)
        for line in tiles.lines:
            parts = []
            for value in w.load_line(x, line):
                below = w.binary("and", w.compare("ult", value, top), w.compare("ord", value, value))
                parts.append(w.select(below, zero, rest))
                rest = w.select(below, rest, zero)  # which is written once
            w.store_line(parts, out, line)
    return w.function()


def tiled_avg_pool(dtype: str, rows: int, columns: int, width: int) -> str:
    """Return the text of the kernel of average pooling.

    The table: x, the factor of each window of a plane, and the result. The arguments are those of `_Kernel`.
    """
    w = _Kernel(dtype, rows, columns, width, 3)
    x, shares, out = w.table
    with w.tiles() as tiles:
        total = reduce(w.add, [value for line in tiles.lines for value in w.load_line(x, line)])
        share = w.load_windows(shares, tiles.in_plane)
        w.store_at(w.mul(total, share), out, tiles.number)
    return w.function()


def tiled_avg_pool_backward(dtype: str, rows: int, columns: int, width: int) -> str:
    """Return the text of the kernel of the gradient of average pooling.

    The table: the gradients by window, the factor of each window of a plane, and the gradient of x. The arguments are
    those of `_Kernel`.
    """
    w = _Kernel(dtype, rows, columns, width, 3)
    grads, shares, out = w.table
    with w.tiles() as tiles:
        grad = w.mul(w.load_windows(grads, tiles.number), w.load_windows(shares, tiles.in_plane))
        for line in tiles.lines:
            w.store_line([grad] * columns, out, line)
    return w.function()


_BYTES = 64
"""The size of a vector of windows in a row."""
_FAR = 8
"""The distance of windows up to which there are kernels."""
_BLOCKS = 16
"""The number of blocks of planes, at most. Each has memory for a plane of windows."""
_NONE = 255
"""The number that stands for no element of a window."""


class Windows(NamedTuple):
    """The windows of a plane."""

    kernel: Pair  #: their size
    stride: Pair  #: their distance
    padding: Pair  #: the padding of x
    dilation: Pair  #: the distance of the elements of a window

    def shifts(self) -> list[list[tuple[int, int]]]:
        """Return, for each residue of columns of x modulo the stride, the elements of windows that they are.

        Column s · q + residue is element ``c`` of window q + shift: a list of (c, shift), the first window first.
        """
        (_, columns), (_, stride), (_, before), (_, step) = self
        places = [[divmod(m + before - c * step, stride) for c in range(columns)] for m in range(stride)]
        return [[(c, q) for c, (q, rest) in reversed([*enumerate(found)]) if not rest] for found in places]


class Gradient:
    """The kernel of the gradient of max pooling for images of a shape, and its memory.

    Args:
        windows: the windows of a plane.
        shape: the shape of x, (N, C, H, W).
        dtype: the dtype of x: float32 or float64.
        counts: the numbers of windows in a column and in a row.
        padded: whether windows may reach beyond x.
    """

    def __init__(self, windows: Windows, shape: Shape, dtype: Any, counts: Pair, padded: bool) -> None:
        self._windows, self._shape, self._dtype, self._counts, self._padded = windows, shape, dtype, counts, padded
        self._width = block_width(counts[1], _BYTES // dtype.itemsize)
        shifts = [q for found in windows.shifts() for _, q in found]
        self._lead = max(0, -min(shifts, default=0))
        columns = -(-shape[3] // (windows.stride[1] * self._width)) * self._width + max(0, max(shifts, default=0))
        self._length = self._lead + max(columns, counts[1])

    def kernel(self) -> TemplateKernel | None:
        """Return the kernel; None if windows lie far apart, or kernels are off."""
        if max(self._windows.stride) > _FAR:
            return None
        flat = [n for pair in self._windows for n in pair]
        return template_kernel(max_pool_backward, self._dtype, *flat, self._padded, self._width)

    def run(self, kernel: TemplateKernel, grad: Any, out: Any, x: Any) -> Any:
        """Return the gradient of x, from the gradients and maxima by window."""
        planes, (high, wide) = self._shape[0] * self._shape[1], self._counts
        some = -(-planes // _BLOCKS)
        blocks = -(-planes // some)
        chosen = np.full((blocks, high + 1, self._length), _NONE, np.uint8)
        grads = np.zeros((blocks, high + 1, self._length), self._dtype)
        total = np.empty(self._shape, self._dtype)
        sizes = (*self._shape[2:], high, wide, self._lead, self._length, planes, some)
        arrays = [*map(np.ascontiguousarray, (grad, out, x)), total, chosen, grads]
        kernel.run(arrays, sizes, blocks, some * float(self._shape[2] * self._shape[3]))
        return total


def max_pool_backward(dtype: str, *numbers: int) -> str:
    """Return the text of the kernel that gives the gradient of each window to its first NaN or else first maximum.

    The table: the gradients and the maxima by window, x, the gradient of x, and memory for the chosen elements (bytes,
    all `_NONE`) and the gradients (zeros) of a plane of windows for each block. That memory has one line more than rows
    of windows, and in each line this many places before the first window and after the last that each element of x has
    one in place of a window beyond them. Where no element of a window is as large as its maximum, none has its
    gradient.

    The sizes: height and width of x, numbers of windows in a column and in a row, the number of places before a line's
    first window, the length of a line, the numbers of planes in all and in a block. ``begin`` and ``end`` are blocks.

    Args:
        dtype: float32 or float64.
        numbers: those of `Windows`, whether windows may reach beyond x, and the number of windows in a vector.
    """
    pairs = zip(numbers[:8:2], numbers[1:8:2], strict=True)
    return _MaxPoolBackward(dtype, Windows(*pairs), bool(numbers[8]), numbers[9]).text()


class _MaxPoolBackward(Loops):
    """The kernel. The arguments are those of `max_pool_backward`."""

    def __init__(self, dtype: str, windows: Windows, padded: bool, width: int) -> None:
        super().__init__(width, 6, 8)
        self._dtype, self._windows, self._padded = dtype, windows, padded
        self._byte = f"<{width} x i8>"

    def text(self) -> str:
        """Return the text of the module."""
        planes, some = self.sizes[6:]
        with self.loop(self.begin, self.end) as block:
            last = self.smaller((block + 1) * some, planes)
            with self.loop(block * some, last) as plane:
                self._choose(block, plane)
                self._gather(block, plane)
        return self.function()

    def _line(self, block: str, i: str) -> str:
        """Return the place of the first window of a row of windows in the memory of a block."""
        high, _, lead, length = self.sizes[2:6]
        return (block * (high + 1) + i) * length + lead

    def _choose(self, block: str, plane: str) -> None:
        """Store the chosen elements and the gradients of the windows of a plane."""
        height, wide_x, high, wide = self.sizes[:4]
        (rows, _), (down, across), (above, before), (step, _) = self._windows
        count = self.ceil_div(wide, self.width)
        last = wide - self.width
        with self.loop(0, high) as i:
            first = plane * (height * wide_x)
            places = [i * down + (r * step - above) for r in range(rows)]
            bits = [self.icmp("ult", place, height) for place in places]  # negative ones are large
            pairs = zip(places, bits, strict=True)
            starts = [first + self.chosen(bit, place, 0) * wide_x for place, bit in pairs]
            row = (plane * high + i) * wide
            line = self._line(block, i)
            for begin, end, masked in self._tiles(count):
                with self.loop(begin, end) as tile:
                    j = self.smaller(tile * self.width, last)
                    grads, top = (self._load(array, row + j) for array in self.table[:2])
                    column = j * across - before
                    self._chosen(starts, bits, column, masked, top, line + j)
                    self.store_at(grads, self.table[5], line + j)

    def _load(self, array: str, place: str) -> Vector:
        return self.load_at(array, place, self._dtype)

    def _tiles(self, count: Int) -> list[tuple[Int | int, Int, bool]]:
        """Return ranges of the vectors of a row of windows, and whether elements may be read beyond the row of x.

        The last vector may overlap with the one before, and is one of these.
        """
        (_, columns), (_, across), (_, before), (_, apart) = self._windows
        size = self.width * across
        begin = self.smaller(-(-before // size), count)
        reach = (columns - 1) * apart // across * across + size
        room = self.sizes[1] + (before - reach)
        end = self.smaller((room + size) // size, count - 1)
        end = self.larger(end, begin)
        return [(0, begin, True), (begin, end, False), (end, count, True)]

    def _chosen(self, starts: list[Int], bits: list[str], column: Int, masked: bool, top: Vector, place: str) -> None:
        """Store the numbers of the chosen elements of neighbouring windows, whose first one begins at a column."""
        (rows, columns), (_, across), _, (_, apart) = self._windows
        taps = [divmod(c * apart, across) for c in range(columns)]
        beyond = masked and self._padded
        inside = [self._inside(column + c * apart, across) for c in range(columns)] if beyond else []
        kind = self.type("int32")
        chosen = f"splat (i32 {_NONE})"
        for r in reversed(range(rows)):
            loaded = {q: self._apart(starts[r], column + q * across, masked) for q, _ in taps}
            for c, (shift, residue) in reversed([*enumerate(taps)]):
                x = loaded[shift][residue]
                fits = self.binary("or", self.compare("oge", x, top), self.compare("uno", x, x))
                if self._padded:
                    fits = self.binary("and", fits, self.splat(bits[r], "bool"))
                if beyond:
                    fits = self.binary("and", fits, Vector(inside[c], "bool"))
                number = f"splat (i32 {r * columns + c})"
                chosen = self.assign(f"select {self.type('bool')} {fits.text}, {kind} {number}, {kind} {chosen}")
        small = self.assign(f"trunc {kind} {chosen} to {self._byte}")
        self.write(f"store {self._byte} {small}, ptr {self.element(self.table[4], place, 'bool')}, align 1")

    def _apart(self, row: str, column: Int, masked: bool) -> list[Vector]:
        """Load neighbours in a row of x, as vectors of elements that lie as far apart as windows."""
        across = self._windows.stride[1]
        columns = [column + k * self.width for k in range(across)]
        masks = [self._inside(c, 1) if masked else None for c in columns]
        source = self.element(self.table[2], row, self._dtype)
        pairs = zip(columns, masks, strict=True)
        xs = [self.load(self.element(source, c, self._dtype), self._dtype, mask) for c, mask in pairs]
        return [self._picked(xs, [m + across * k for k in range(self.width)]) for m in range(across)]

    def _inside(self, column: str, step: int) -> str:
        """Return a mask: whether the columns from one on, at distances of ``step``, are in x."""
        kind, lanes = self.type("int64"), ", ".join(f"i64 {k * step}" for k in range(self.width))
        places = self.assign(f"add {kind} {self.splat(column, 'int64').text}, <{lanes}>")
        return self.assign(f"icmp ult {kind} {places}, {self.splat(self.sizes[1], 'int64').text}")

    def _picked(self, xs: list[Vector], places: list[int]) -> Vector:
        """Return elements of several vectors, counted through all of them."""
        if len(xs) == 1:
            return xs[0]
        kind, result = self.type(self._dtype), "poison"
        for n, x in enumerate(xs):
            lanes = [k % self.width + self.width if k // self.width == n else j for j, k in enumerate(places)]
            mask = f"<{self.width} x i32> <{', '.join(f'i32 {k}' for k in lanes)}>"
            result = self.assign(f"shufflevector {kind} {result}, {kind} {x.text}, {mask}")
        return Vector(result, self._dtype)

    def _gather(self, block: str, plane: str) -> None:
        """Write the gradients of a plane of x: for each row and column modulo the stride other elements of windows."""
        height = self.sizes[0]
        (rows, columns), (down, _), (above, _), (step, _) = self._windows
        groups = (height + (above + down - 1)) // down
        with self.loop(above // down, groups) as t:
            for m in range(down):
                y = t * down + (m - above)
                found = [(r * columns, r * step // down) for r in reversed(range(rows)) if r * step % down == m]
                bit = self.icmp("ult", y, height)
                with self.loop(0, self.assign(f"zext i1 {bit} to i64")):
                    lines = [(first, self._line_above(block, t, shift)) for first, shift in found]
                    self._write_row((plane * height + y) * self.sizes[1], lines)

    def _line_above(self, block: str, t: Int, shift: int) -> str:
        """Return the place of the first window of row t - shift; of the line after the last if there is none."""
        high, i = self.sizes[2], t - shift
        return self._line(block, self.chosen(self.icmp("ult", i, high), i, high))

    def _write_row(self, start: str, lines: list[tuple[int, str]]) -> None:
        """Write the gradients of a row of x, from lines of windows and the numbers of the first elements in it."""
        across, size = self._windows.stride[1], self._windows.stride[1] * self.width
        wide_x = self.sizes[1]
        whole = wide_x // size
        blocks = self.ceil_div(wide_x, size)
        for begin, end, masked in ((0, whole, False), (whole, blocks, True)):
            with self.loop(begin, end) as k:
                q, column = k * self.width, k * size
                sums = [
                    [self._part(line + (q + shift), first + c) for first, line in lines for c, shift in found]
                    for found in self._windows.shifts()
                ]
                totals = [reduce(self.add, parts) if parts else self.constant(0.0, self._dtype) for parts in sums]
                for n in range(across):
                    elements = range(n * self.width, (n + 1) * self.width)
                    x = self._picked(totals, [e % across * self.width + e // across for e in elements])
                    at = column + n * self.width
                    mask = self._inside(at, 1) if masked else None
                    self.store(x, self.element(self.table[3], start + at, self._dtype), mask)

    def _part(self, place: str, number: int) -> Vector:
        """Return the gradients of neighbouring windows that chose the element with a number; 0 for others."""
        at = self.element(self.table[4], place, "bool")
        chosen = self.assign(f"load {self._byte}, ptr {at}, align 1")
        fits = Vector(self.assign(f"icmp eq {self._byte} {chosen}, splat (i8 {number})"), "bool")
        return self.select(fits, self._load(self.table[5], place), self.constant(0.0, self._dtype))
