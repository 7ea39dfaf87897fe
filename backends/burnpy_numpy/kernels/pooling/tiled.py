"""The templates of pooling over windows that touch and do not overlap.

The stride is the size of a window, and there is no padding and no dilation. A vector holds one element of each of
several windows in a row.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import reduce
from typing import NamedTuple

from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.compiler.vectors import Vector


class _Tiles(NamedTuple):
    """Neighbouring windows, while their part of a kernel is written."""

    number: str  #: the number of the first among the windows of all planes
    in_plane: str  #: its number among those of its plane
    lines: list[str]  #: for each row of a window, the place of its first element


class _Kernel(Loops):
    """A kernel on windows side by side.

    The sizes: height and width of x, numbers of windows in a column and in a row. ``begin`` and ``end`` are planes.

    Args:
        dtype: float32 or float64.
        rows: the number of rows of a window.
        columns: the number of columns of a window.
        width: the number of windows in a vector: a power of 2, and at most the number of windows in a row.
        table: the number of addresses in the kernel's table.
    """

    def __init__(self, dtype: str, rows: int, columns: int, width: int, table: int) -> None:
        super().__init__(width, table, 4)
        self.dtype, self._rows, self._columns = dtype, rows, columns

    @contextmanager
    def tiles(self) -> Generator[_Tiles]:
        """Write loops over all windows. The last vector of a row may overlap with the one before."""
        height, wide_x, high, wide = self.sizes
        vectors = self.assign(f"lshr i64 {self.plus(wide, self.width - 1)}, {self.width.bit_length() - 1}")
        last = self.plus(wide, -self.width)
        with self.loop("%begin", "%end") as plane, self.loop("0", high) as i:
            first = self.times(plane, self.times(height, wide_x))
            line = self.plus(first, self.times(self.times(i, self._rows), wide_x))
            row = self.times(i, wide)
            before = self.times(plane, self.times(high, wide))
            with self.loop("0", vectors) as k:
                j = self.smaller(self.times(k, self.width), last)
                place = self.plus(line, self.times(j, self._columns))
                lines = [self.plus(place, self.times(wide_x, r)) for r in range(self._rows)]
                in_plane = self.plus(row, j)
                yield _Tiles(self.plus(before, in_plane), in_plane, lines)

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
        return self.load(self.element(array, number, self.dtype), self.dtype, None)


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
        w.store(top, w.element(out, tiles.number, dtype), None)
    return w.function()


def tiled_max_pool_backward(dtype: str, rows: int, columns: int, width: int) -> str:
    """Return the text of the kernel that writes the gradient of each window at its first NaN or else first maximum.

    The other elements of windows get 0. The table: the gradients and the maxima by window, x, and the gradient by x.
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
        w.store(w.mul(total, share), w.element(out, tiles.number, dtype), None)
    return w.function()


def tiled_avg_pool_backward(dtype: str, rows: int, columns: int, width: int) -> str:
    """Return the text of the kernel of the gradient of average pooling.

    The table: the gradients by window, the factor of each window of a plane, and the gradient by x. The arguments are
    those of `_Kernel`.
    """
    w = _Kernel(dtype, rows, columns, width, 3)
    grads, shares, out = w.table
    with w.tiles() as tiles:
        grad = w.mul(w.load_windows(grads, tiles.number), w.load_windows(shares, tiles.in_plane))
        for line in tiles.lines:
            w.store_line([grad] * columns, out, line)
    return w.function()
