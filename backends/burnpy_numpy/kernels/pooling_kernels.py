"""The kernels of pooling as LLVM's intermediate representation: windows of any kind, one after the other."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import reduce
from typing import NamedTuple

from burnpy_numpy.kernels.loops import Loops
from burnpy_numpy.kernels.vectors import Vector

_KINDS = {"float32": "float", "float64": "double"}


class _Window(NamedTuple):
    """One window, while its part of a kernel is written."""

    number: str  #: its number among those of all planes
    in_plane: str  #: its number among those of its plane
    elements: list[tuple[str, str]]  #: the places of its elements, and bits that say whether they are within x


class _Windows(Loops):
    """A kernel on the windows of planes.

    The sizes: height and width of x, numbers of windows in a column and in a row; stride, padding and dilation, each
    for both. ``begin`` and ``end`` are planes.

    Args:
        dtype: float32 or float64.
        rows: the number of rows of a window.
        columns: the number of columns of a window.
        padded: whether windows may reach beyond x. Elements beyond x are read from the place of another element.
        table: the number of addresses in the kernel's table.
    """

    def __init__(self, dtype: str, rows: int, columns: int, padded: bool, table: int) -> None:
        super().__init__(1, table, 10)
        self.dtype, self._rows, self._columns, self._padded = dtype, rows, columns, padded

    @contextmanager
    def windows(self) -> Generator[_Window]:
        """Write loops over all windows."""
        height, width, high, wide, down, across, above, before, row_step, column_step = self.sizes
        with self.loop("%begin", "%end") as plane, self.loop("0", high) as i:
            first = self.times(plane, self.times(height, width))
            rows = self._places(self.minus(self.times(i, down), above), row_step, self._rows, height)
            lines = [(self.plus(first, self.times(row, width)), inside) for row, inside in rows]
            row_start = self.times(i, wide)
            plane_start = self.times(plane, self.times(high, wide))
            with self.loop("0", wide) as j:
                columns = self._places(self.minus(self.times(j, across), before), column_step, self._columns, width)
                elements = [
                    (self.plus(line, column), self.assign(f"and i1 {row_inside}, {inside}") if self._padded else "true")
                    for line, row_inside in lines
                    for column, inside in columns
                ]
                in_plane = self.plus(row_start, j)
                yield _Window(self.plus(plane_start, in_plane), in_plane, elements)

    def _places(self, start: str, step: str, count: int, size: str) -> list[tuple[str, str]]:
        """The rows or columns of a window, or 0 for those beyond x, and bits that say which those are."""
        positions = []
        for k in range(count):
            place, inside = self.plus(start, self.times(step, k)), "true"
            if self._padded:
                inside = self.assign(f"icmp ult i64 {place}, {size}")  # negative ones are large without a sign
                place = self.either(inside, place, "0", "i64")
            positions.append((place, inside))
        return positions

    def one(self, array: str, index: str) -> Vector:
        """Load one number of an array."""
        return self.load_one(self.element(array, index, self.dtype), self.dtype)

    def kept(self, inside: str, x: Vector) -> Vector:
        """Write x, or 0 where a bit is not set."""
        return self.select(self.splat(inside, "bool"), x, self.constant(0.0, self.dtype))

    def add_at(self, array: str, index: str, x: Vector) -> None:
        """Add to one number of an array."""
        self.store_one(self.add(self.one(array, index), x), self.element(array, index, self.dtype))


def max_pool_backward(dtype: str, rows: int, columns: int, padded: bool) -> str:
    """Return the text of the kernel, which adds the gradient of each window at its first NaN or else first maximum.

    The table: the gradients and the maxima by window, x, and the gradient by x, which is 0 at first. Where no element
    of a window is as large as its maximum, none has the gradient. The arguments are those of `_Windows`.
    """
    w = _Windows(dtype, rows, columns, padded, 4)
    grads, maxima, x, out = w.table
    kind = _KINDS[dtype]
    with w.windows() as window:
        top = w.assign(f"load {kind}, ptr {w.element(maxima, window.number, dtype)}")
        chosen, some = window.elements[0][0], "false"
        for place, inside in reversed(window.elements):
            value = w.assign(f"load {kind}, ptr {w.element(x, place, dtype)}")
            nan = w.assign(f"fcmp uno {kind} {value}, {value}")
            fits = w.assign(f"or i1 {nan}, {w.assign(f'fcmp oge {kind} {value}, {top}')}")
            if padded:
                fits = w.assign(f"and i1 {fits}, {inside}")
            chosen, some = w.either(fits, place, chosen, "i64"), w.assign(f"or i1 {some}, {fits}")
        w.add_at(out, chosen, w.kept(some, w.one(grads, window.number)))
    return w.function()


def avg_pool(dtype: str, rows: int, columns: int, padded: bool) -> str:
    """Return the text of the kernel of average pooling.

    The table: x, the factor of each window of a plane, and the result. The arguments are those of `_Windows`.
    """
    w = _Windows(dtype, rows, columns, padded, 3)
    x, shares, out = w.table
    with w.windows() as window:
        values = [w.one(x, place) for place, _ in window.elements]
        if padded:
            values = [w.kept(inside, x) for x, (_, inside) in zip(values, window.elements, strict=True)]
        total = reduce(w.add, values)
        w.store_one(w.mul(total, w.one(shares, window.in_plane)), w.element(out, window.number, dtype))
    return w.function()


def avg_pool_backward(dtype: str, rows: int, columns: int, padded: bool) -> str:
    """Return the text of the kernel of the gradient of average pooling.

    The table: the gradients by window, the factor of each window of a plane, and the gradient by x, which is 0 at
    first. The arguments are those of `_Windows`.
    """
    w = _Windows(dtype, rows, columns, padded, 3)
    grads, shares, out = w.table
    with w.windows() as window:
        grad = w.mul(w.one(grads, window.number), w.one(shares, window.in_plane))
        for place, inside in window.elements:
            w.add_at(out, place, w.kept(inside, grad) if padded else grad)
    return w.function()
