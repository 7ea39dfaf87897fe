"""Max and average pooling and their gradients, by kernels that are chosen here; see also `pooling_by_vectors`."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cached_property, lru_cache, reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from burnpy.backend.dtypes import float32, float64, int64
from burnpy.backend.operations.convolution import Pair, padded_shape
from burnpy.backend.operations.pooling import window_shares
from burnpy.backend.primitives import Shape
from burnpy_numpy.kernels.compiler.loops import Int, Loops
from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.kernel import template_kernel
from burnpy_numpy.kernels.launch import TemplateKernel, block_width
from burnpy_numpy.kernels.pooling_by_vectors import (
    Gradient,
    Windows,
    tiled_avg_pool,
    tiled_avg_pool_backward,
    tiled_max_pool,
    tiled_max_pool_backward,
)


def max_pool_indices(dtype: str, rows: int, columns: int, padded: bool, width: int) -> str:
    """Return the text of the kernel of the index, within a plane, of the first NaN or else maximum of each window.

    The table: x, and the indices (int64). The sizes: height and width of x, numbers of windows in a column and in a
    row; stride, padding and dilation, each for both; and the number of vectors of a row of windows. ``begin`` and
    ``end`` are planes.

    Args:
        dtype: float32 or float64.
        rows: the number of rows of a window.
        columns: the number of columns of a window.
        padded: whether windows may reach beyond x.
        width: the number of windows of a vector; the last vector of a row may have windows of the one before.
    """
    w = Loops(width, 2, 11)
    x, out = w.table
    height, length, high, wide, down, across, above, before, row_step, column_step, vectors = w.sizes
    lanes = Vector(f"<{', '.join(f'i64 {k}' for k in range(width))}>", "int64")
    steps, none = w.binary("mul", lanes, w.splat(across, "int64")), w.constant(0, "int64")
    final = wide - width
    with w.loop(w.begin, w.end) as plane, w.loop(0, high) as i, w.loop(0, vectors) as vector:
        source = w.element(x, plane * (height * length), dtype)
        j, top = w.smaller(vector * width, final), i * down - above
        left = w.binary("add", steps, w.splat(j * across - before, "int64"))
        best, index = w.constant(-math.inf, dtype), w.constant(-1, "int64")
        for r in range(rows):
            row = top + row_step * r
            row_inside = w.icmp("ult", row, height)  # negative ones are large without a sign
            line = w.splat(w.chosen(row_inside, row, 0) * length, "int64")
            for c in range(columns):
                column = w.binary("add", left, w.splat(column_step * c, "int64"))
                inside = _compared(w, "ult", column, w.splat(length, "int64"))
                inside = w.binary("and", inside, w.splat(row_inside, "bool"))
                place = w.binary("add", line, w.select(inside, column, none) if padded else column)
                value = _gathered(w, source, place, dtype)
                larger = w.binary("and", w.compare("ugt", value, best), w.compare("ord", best, best))
                taken = w.binary("or", larger, _compared(w, "slt", index, none))  # the first one, if it is -∞
                taken = w.binary("and", taken, inside) if padded else taken
                best, index = w.select(taken, value, best), w.select(taken, place, index)
        at = (plane * high + i) * wide + j
        w.store_at(index, out, at)
    return w.function()


def _compared(w: Loops, how: str, x: Vector, y: Vector) -> Vector:
    """Compare ints."""
    return Vector(w.assign(f"icmp {how} {w.type('int64')} {x.text}, {y.text}"), "bool")


def _gathered(w: Loops, source: str, places: Vector, dtype: str) -> Vector:
    """Load the elements at some places."""
    kind, scalar, text = w.type(dtype), w.scalar(dtype), "poison"
    for k in range(w.width):
        place = w.assign(f"extractelement {w.type('int64')} {places.text}, i32 {k}")
        one = w.assign(f"load {scalar}, ptr {w.element(source, place, dtype)}")
        text = w.assign(f"insertelement {kind} {text}, {scalar} {one}, i32 {k}")
    return Vector(text, dtype)


_MOST = 64
"""The number of elements of a window up to which a kernel is made for it."""
_FEW = 1 << 12
"""The number of elements of windows up to which their maxima are found one by one: fewer than NumPy's calls pay for."""
_MOST_KEPT = 1 << 12
"""The number of windows of a plane up to which their factors are kept for the next call."""
_BYTES = 64
"""The size of a vector of windows side by side."""
_SIDE_BY_SIDE = 8
"""The number of windows whose maxima are found at a time."""
_TILED_COST = 0.5
"""The time for an element of windows side by side, computed as vectors, in elements of `burnpy_numpy.cpu_threads`."""
Template: TypeAlias = Callable[..., str]


def run_max_pool(x: Any, counts: Pair, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair) -> Any:
    """Return the maxima of ``counts`` windows; None without a kernel for them."""
    pool = pool_of(x.shape, x.dtype, counts, kernel, stride, padding, dilation)
    compiled = pool.max_kernel(backward=False)
    if compiled is None:
        return None
    out = pool.new_windows()
    pool.run(compiled, x, out)
    return out


def run_max_pool_indices(x: Any, counts: Pair, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair) -> Any:
    """Return the indices, within their planes, of the maxima of windows; None without a kernel for them."""
    return pool_of(x.shape, x.dtype, counts, kernel, stride, padding, dilation).max_pool_indices(x)


def run_max_pool_backward(
    grad: Any, x: Any, out: Any, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> Any:
    """Return the gradient of max pooling; None without a kernel for such windows."""
    if not grad.dtype is out.dtype is x.dtype:
        return None
    pool = pool_of(x.shape, x.dtype, out.shape[2:], kernel, stride, padding, dilation)
    if not pool.tiled:
        return pool.max_pool_backward(grad, out, x)
    compiled = pool.max_kernel(backward=True)
    if compiled is None:
        return None
    total = pool.new_gradient()
    pool.run(compiled, grad, out, x, total)
    return total


def run_avg_pool(
    x: Any, counts: Pair, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool, divisor: int | None
) -> Any:
    """Return the averages of ``counts`` windows; None without a kernel for them."""
    pool = pool_of(x.shape, x.dtype, counts, kernel, stride, padding, (1, 1))
    compiled = pool.kernel(avg_pool, tiled_avg_pool)
    if compiled is None:
        return None
    out = pool.new_windows()
    pool.run(compiled, x, pool.shares(count_include_pad, divisor), out)
    return out


def run_avg_pool_backward(
    grad: Any, shape: Shape, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool, divisor: int | None
) -> Any:
    """Return the gradient of average pooling; None without a kernel for such windows."""
    pool = pool_of(shape, grad.dtype, grad.shape[2:], kernel, stride, padding, (1, 1))
    compiled = pool.kernel(avg_pool_backward, tiled_avg_pool_backward)
    if compiled is None:
        return None
    total = pool.new_gradient()
    pool.run(compiled, grad, pool.shares(count_include_pad, divisor), total)
    return total


class Pool:
    """The windows of a pooling operation, and how its kernels are called.

    Args:
        shape: the shape of x, (N, C, H, W).
        dtype: the dtype of x.
        counts: the numbers of windows in a column and in a row.
        kernel: the size of a window.
        stride: the distance of windows.
        padding: the padding of x.
        dilation: the distance of the elements of a window.
    """

    def __init__(
        self, shape: Shape, dtype: Any, counts: Pair, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
    ) -> None:
        self._shape, self._dtype, self._counts = shape, dtype, counts
        self._windows, self._dilation = (kernel, stride, padding), dilation
        self._suits = math.prod(counts) > 0 and math.prod(kernel) <= _MOST and (dtype is float32 or dtype is float64)
        covered = (counts[0] * kernel[0], counts[1] * kernel[1])
        # windows that touch, do not overlap, and lie within x
        inside = covered[0] <= shape[2] and covered[1] <= shape[3]
        self.tiled = stride == kernel and padding == (0, 0) and dilation == (1, 1) and inside
        self.covers = self.tiled and covered == shape[2:]  #: whether each element of x is in one of them
        self.planes, self.elements = math.prod(shape[:2]), float(math.prod(shape[2:]))
        self._few = self.planes * math.prod(counts) * math.prod(kernel) <= _FEW
        self._padded = padded_shape(shape, kernel, stride, padding, dilation, counts) != shape
        self._shares: dict[tuple[bool, int | None], Any] = {}
        self._places = (*shape[2:], *counts, *stride, *padding, *dilation)
        if self.tiled:
            width = block_width(counts[1], _BYTES // dtype.itemsize)
            self._parameters = (dtype.name, *kernel, width)
            self.sizes = (*shape[2:], *counts)
            self.elements *= _TILED_COST
        else:
            self._parameters = (dtype.name, *kernel, self._padded)
            self.sizes = self._places

    def kernel(self, template: Template | None, tiled: Template) -> TemplateKernel | None:
        """Return the kernel of an operation.

        None if x is of another dtype, windows are large, there is no template, or kernels are off.

        Args:
            template: the template for windows of any kind.
            tiled: the template for windows that touch and do not overlap.
        """
        chosen = tiled if self.tiled else template
        return template_kernel(chosen, *self._parameters) if chosen is not None and self._suits else None

    def max_kernel(self, backward: bool) -> TemplateKernel | None:
        """Return the kernel for maxima of adjacent windows, or for their gradient; None if there is none.

        Its table is x and the result, or the gradient of the maxima, the maxima, x, and the result.
        """
        if backward:
            return self.kernel(None, tiled_max_pool_backward)
        return self.kernel(max_pool if self._few else None, tiled_max_pool)

    def run(self, kernel: TemplateKernel, *arrays: Any) -> None:
        """Run a kernel for all planes; the last array is the result."""
        kernel.run([*map(np.ascontiguousarray, arrays)], self.sizes, self.planes, self.elements)

    def max_pool_indices(self, x: Any) -> Any:
        """Return the indices of maxima, within their planes; None without a kernel for them."""
        width = block_width(self._counts[1], _SIDE_BY_SIDE)
        parameters = (self._dtype.name, *self._windows[0], self._padded, width)
        kernel = template_kernel(max_pool_indices, *parameters) if self._suits else None
        if kernel is None:
            return None
        out, blocks = np.empty((*self._shape[:2], *self._counts), int64), -(-self._counts[1] // width)
        sizes = (*self._places, blocks)
        kernel.run([np.ascontiguousarray(x), out], sizes, self.planes, float(math.prod(self._shape[2:])))
        return out

    def max_pool_backward(self, grad: Any, out: Any, x: Any) -> Any:
        """Return the gradient of max pooling with windows of any kind; None without a kernel for them."""
        compiled = self._gradient.kernel() if self._suits else None
        return None if compiled is None else self._gradient.run(compiled, grad, out, x)

    @cached_property
    def _gradient(self) -> Gradient:
        windows = Windows(*self._windows, self._dilation)
        return Gradient(windows, self._shape, self._dtype, self._counts, self._padded)

    def new_windows(self) -> Any:
        """Return memory for a number for each window."""
        return np.empty((*self._shape[:2], *self._counts), self._dtype)

    def new_gradient(self) -> Any:
        """Return memory for the gradient of x: zeros, unless a kernel writes all of it."""
        return (np.empty if self.covers else np.zeros)(self._shape, self._dtype)

    def shares(self, count_include_pad: bool, divisor: int | None) -> Any:
        """Return the factors of the windows of a plane in average pooling."""
        key = count_include_pad, divisor
        out = self._shares.get(key)
        if out is None:
            out = np.empty(self._counts, self._dtype)
            out[...] = window_shares(self._shape, *self._windows, self._counts, count_include_pad, divisor)
            if out.size <= _MOST_KEPT:
                self._shares = {key: out}  # the last ones
        return out


pool_of = lru_cache(256)(Pool)


class _Window(NamedTuple):
    """One window, while its part of a kernel is written."""

    number: Int  #: its number among those of all planes
    in_plane: Int  #: its number among those of its plane
    elements: list[tuple[Int, str]]  #: the places of its elements, and bits that say whether they are within x


class _Windows(Loops):
    """A kernel on the windows of planes, which may reach beyond x if ``padded``, where other elements are read.

    The sizes: height and width of x, numbers of windows in a column and in a row; stride, padding and dilation, each
    for both. ``begin`` and ``end`` are planes.
    """

    def __init__(self, dtype: str, rows: int, columns: int, padded: bool, table: int) -> None:
        super().__init__(1, table, 10)
        self.dtype, self._rows, self._columns, self._padded = dtype, rows, columns, padded

    @contextmanager
    def windows(self) -> Generator[_Window]:
        """Write loops over all windows."""
        height, width, high, wide, down, across, above, before, row_step, column_step = self.sizes
        with self.loop(self.begin, self.end) as plane, self.loop(0, high) as i:
            first = plane * (height * width)
            rows = self._places(i * down - above, row_step, self._rows, height)
            lines = [(first + row * width, inside) for row, inside in rows]
            row_start = i * wide
            plane_start = plane * (high * wide)
            with self.loop(0, wide) as j:
                columns = self._places(j * across - before, column_step, self._columns, width)
                elements = [
                    (line + column, self.both(row_inside, inside) if self._padded else "true")
                    for line, row_inside in lines
                    for column, inside in columns
                ]
                in_plane = row_start + j
                yield _Window(plane_start + in_plane, in_plane, elements)

    def _places(self, start: Int, step: Int, count: int, size: Int) -> list[tuple[Int, str]]:
        """Return the rows or columns of a window, 0 for those outside x, and for each a bit that says whether it is
        inside."""
        positions = []
        for k in range(count):
            place, inside = start + step * k, "true"
            if self._padded:
                inside = self.icmp("ult", place, size)  # negative ones are large without a sign
                place = self.chosen(inside, place, 0)
            positions.append((place, inside))
        return positions

    def one(self, array: str, index: str | int) -> Vector:
        """Load one number of an array."""
        return self.load_one_at(array, index, self.dtype)

    def kept(self, inside: str, x: Vector) -> Vector:
        """Write x, or 0 where a bit is not set."""
        return self.select(self.splat(inside, "bool"), x, self.constant(0.0, self.dtype))

    def add_at(self, array: str, index: str | int, x: Vector) -> None:
        """Add to one number of an array."""
        self.store_one(self.add(self.one(array, index), x), self.element(array, index, self.dtype))


def max_pool(dtype: str, rows: int, columns: int, padded: bool) -> str:
    """Return the text of the kernel of max pooling; NaN for a window with a NaN.

    The table: x, and the result. The arguments are those of `_Windows`.
    """
    w = _Windows(dtype, rows, columns, padded, 2)
    x, out = w.table
    beyond = w.constant(-math.inf, dtype)
    with w.windows() as window:
        values = [w.one(x, place) for place, _ in window.elements]
        if padded:
            insides = [w.splat(inside, "bool") for _, inside in window.elements]
            values = [w.select(inside, value, beyond) for inside, value in zip(insides, values, strict=True)]
        top = reduce(lambda a, b: w.extreme("maximum", a, b), values)
        w.store_one(top, w.element(out, window.number, dtype))
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

    The table: the gradients by window, the factor of each window of a plane, and the gradient of x, which is 0 at
    first. The arguments are those of `_Windows`.
    """
    w = _Windows(dtype, rows, columns, padded, 3)
    grads, shares, out = w.table
    with w.windows() as window:
        grad = w.mul(w.one(grads, window.number), w.one(shares, window.in_plane))
        for place, inside in window.elements:
            w.add_at(out, place, w.kept(inside, grad) if padded else grad)
    return w.function()
