"""Scans as kernels, several beside each other, products of rows, and the recursion over time of the CTC loss.

A scan combines each element along a dimension with the combination of all before it, one after the other, which is the
order of ``numpy.ufunc.accumulate``. Sums and products of float32 are kept in float64, as their roundings add up. The
processor computes several scans at a time, as one waits for its last result. NumPy multiplies the elements of a row in
that order, too; the kernel multiplies vectors of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from burnpy.backend.dtypes import int64
from burnpy.backend.operations.losses import IMPOSSIBLE
from burnpy.backend.primitives import Dims
from burnpy_numpy.kernels.compiler.loops import Int, Loops
from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.convolution.channel_blocks import vector_width
from burnpy_numpy.kernels.kernel import template_kernel
from burnpy_numpy.kernels.launch import TemplateKernel, block_starts, block_width

_SCANNED_ROWS = 8
"""The number of rows that are scanned at a time."""
_COLUMN_BYTES = 64
"""The size of the parts of columns that are scanned at a time, which are a line of the cache."""
_ROW_BYTES = 64
"""The size of the parts of rows whose product is computed, which are multiplied at a time."""
_LONG_ROW_BYTES = 256
"""The same of rows of at least `_MIN_LONG_ROW` such parts: several vectors, as each product waits for the last one."""
_MIN_LONG_ROW = 4
_ROW_OF_TOTAL = 1 << 10
"""The length of the rows into which an array is divided, if it can be, to multiply all its elements. Products of longer
rows often are subnormal numbers on the way to 0, with which processors multiply slowly."""
EXTREMES = {"max": "ge", "min": "le"}
"""The combinations that give the index, too, by the comparison with which a later element takes the place."""


class _Scan:
    """A kernel, and how it divides an array."""

    def __init__(self, kernel: TemplateKernel, dim: int, width: int, combine: str) -> None:
        self.kernel, self.dim, self.width, self.combine = kernel, dim, width, combine

    def __call__(self, x: Any, factor: Any = None) -> tuple[Any, Any]:
        """Return the scan, and the indices of extremes, if it has any."""
        length = x.shape[self.dim]
        starts, sizes = _blocks(x.size, length, _beside(x, self.dim), self.width)
        x, out = np.ascontiguousarray(x), np.empty(x.shape, x.dtype)
        other = None if factor is None else np.ascontiguousarray(factor)
        if self.combine in ("max", "min"):
            other = np.empty(x.shape, int64)
        arrays = [a for a in (x, out, starts, other) if a is not None]
        self.kernel.run(arrays, sizes, len(starts), length * self.width)
        return out, other


def _blocks(size: int, length: int, inner: int, width: int) -> tuple[Any, tuple[int, int, int]]:
    """Return the first element of each block of scans, and the sizes of a kernel: see `scan`."""
    if inner == 1:  # blocks of rows
        return block_starts(size // length, width) * length, (length, 1, length)
    firsts = np.arange(0, size, length * inner)
    return np.add.outer(firsts, block_starts(inner, width)).reshape(-1), (length, inner, 1)


def _width(scans: int, inner: int, dtype: Any) -> int:
    return block_width(scans, _SCANNED_ROWS) if inner == 1 else block_width(inner, _COLUMN_BYTES // dtype.itemsize)


def scan_of(combine: str, x: Any, dim: int, reverse: bool) -> _Scan | None:
    """Return the scan of x along a dimension, with ``reverse`` from the end; None if kernels are off."""
    inner = _beside(x, dim)
    width = _width(x.size // x.shape[dim], inner, x.dtype)
    kernel = template_kernel(scan, x.dtype, combine, width, inner > 1 or width == 1, reverse)
    return None if kernel is None else _Scan(kernel, dim, width, combine)


def run_products_of_others(grad: Any, x: Any, length: int, inner: int) -> Any:
    """Return the product of all others of each scan, times its gradient; None if kernels are off.

    Args:
        grad: the gradient of each product, (outer, inner).
        x: the factors, (outer, length, inner).
        length: the number of factors.
        inner: the number of products beside each other.
    """
    width = _width(x.size // length, inner, x.dtype)
    kernel = template_kernel(products_of_others, x.dtype, width, inner > 1 or width == 1)
    if kernel is None:
        return None
    starts, sizes = _blocks(x.size, length, inner, width)
    out, later = np.empty(x.shape, x.dtype), np.empty(len(starts) * length * width, x.dtype)
    arrays = (np.ascontiguousarray(x), out, starts, np.ascontiguousarray(grad), later)
    kernel.run(arrays, sizes, len(starts), 2 * length * width)
    return out


def _beside(x: Any, dim: int) -> int:
    """Return the number of elements that lie beside each other along the dimensions after ``dim``."""
    return math.prod(x.shape[dim + 1 :])


def scan(dtype: str, combine: str, width: int, adjacent: bool, reverse: bool) -> str:
    """Return the text of the kernel of a scan along a dimension.

    The table: x, out, the first element of each block (int64), and for ``max`` and ``min`` the index of the extreme
    (int64), for ``recurrence`` the factors: out[k] = x[k] + factor[k] · out[k - 1], or from the end
    out[k] = x[k] + factor[k + 1] · out[k + 1]. The sizes: the length of the scans, the distance of an element from the
    one before, and the distance of two scans of a block. ``begin`` and ``end`` are blocks. All places and distances
    count elements.

    Scans that lie apart are read and written as square tiles, which are transposed: a line of the cache is used as a
    whole, before lines of other scans replace it.

    Args:
        dtype: float32 or float64; except for recurrences also int64.
        combine: "add", "mul", "max", "min" or "recurrence".
        width: the number of scans in a block.
        adjacent: whether the scans of a block lie beside each other, so that their elements are vectors.
        reverse: whether to scan from the end.
    """
    w = Loops(width, 3 if combine in ("add", "mul") else 4, 3)
    x, out, starts, *rest = w.table
    length, step, far = w.sizes
    steps = _Steps(w, dtype, combine, reverse)
    with w.loop(w.begin, w.end) as b:
        start = w.number(starts, b)
        places = [start] if adjacent else [start + far * k for k in range(width)]
        xs, results = w.lanes(x, places, dtype), [w.lanes(out, places, dtype)]
        others = [w.lanes(array, places, steps.kind) for array in rest]
        if combine == "recurrence":
            given = [xs, *others]
        else:
            given, results = [xs], [*results, *others]
        steps.begin()
        _walk(w, dtype, length, step, reverse, given, results, steps.next)
    return w.function()


def products_of_others(dtype: str, width: int, adjacent: bool) -> str:
    """Return the text of the kernel of the products of all others along a dimension, times a factor of each product.

    The product of the elements after each is stored first, and then multiplied with those before.

    The table: x, out, the first element of each block (int64), the factors, and memory of a vector for each element of
    a block, for each block. The sizes and the arguments are those of `scan`.
    """
    w = Loops(width, 5, 3)
    x, out, starts, factors, memory = w.table
    length, step, far = w.sizes
    one, last = w.constant(1.0, dtype), length - 1
    so_far = w.variable(one)
    with w.loop(w.begin, w.end) as b:
        start = w.number(starts, b)
        places = [start] if adjacent else [start + far * k for k in range(width)]
        xs, outs = w.lanes(x, places, dtype), w.lanes(out, places, dtype)
        outer = start // (length * step)
        number = start - outer * ((length - 1) * step)
        factor = w.load_at(factors, number, dtype)
        later = w.element(memory, b * (length * width), dtype)

        def store(k: Int, x: Vector) -> tuple[Vector, ...]:
            after = w.get(so_far, dtype)
            w.store_at(after, later, (last - k) * width)
            w.set(so_far, w.mul(x, after))
            return ()

        def multiply(k: Int, x: Vector) -> tuple[Vector, ...]:
            before, after = w.get(so_far, dtype), w.load_at(later, k * width, dtype)
            w.set(so_far, w.mul(before, x))
            return (w.mul(factor, w.mul(before, after)),)

        w.set(so_far, one)
        _walk(w, dtype, length, step, True, [xs], [], store)
        w.set(so_far, one)
        _walk(w, dtype, length, step, False, [xs], [outs], multiply)
    return w.function()


def _walk(
    w: Loops,
    dtype: str,
    length: Int,
    step: Int,
    reverse: bool,
    given: list[list[str]],
    results: list[list[str]],
    body: Callable[..., tuple[Vector, ...]],
) -> None:
    """Write loops over the elements of a block of scans, forward or from the end.

    Args:
        w: the kernel.
        dtype: the dtype of the inputs.
        length: the length of the scans.
        step: the distance of an element from the one before.
        reverse: whether to begin at the end.
        given: the lanes of arrays that are read, see `Loops.load_lanes`.
        results: the lanes of arrays that are written.
        body: a function of the number of the step and of the elements of the arrays, which returns the results.
    """
    width = w.width
    tiles = w.int_of(0) if len(given[0]) == 1 else length // width
    if len(given[0]) > 1:
        with w.loop(0, tiles) as t:
            first = t * width
            place = length - width - first if reverse else first
            tile = [w.load_tile(lanes, place, dtype) for lanes in given]
            order = reversed(range(width)) if reverse else range(width)
            made = [body(first + n, *(xs[k] for xs in tile)) for n, k in enumerate(order)]
            if reverse:
                made.reverse()
            for lanes, values in zip(results, zip(*made, strict=True), strict=True):
                w.store_tile(list(values), lanes, place)
    with w.loop(tiles * width, length) as k:
        place = (length - 1 - k if reverse else k) * step
        values = body(k, *(w.load_lanes(lanes, place, dtype) for lanes in given))
        for lanes, value in zip(results, values, strict=True):
            w.store_lanes(value, lanes, place)


def last_dims_product(x: Any, dims: Dims) -> Any:
    """Return the products over the last dimensions, or of parts of everything; None without a kernel for it."""
    count = math.prod([x.shape[d] for d in dims])
    if count == x.size and count % _ROW_OF_TOTAL == 0:
        count = _ROW_OF_TOTAL
    size = x.dtype.itemsize
    width = (_LONG_ROW_BYTES if count * size >= _MIN_LONG_ROW * _LONG_ROW_BYTES else _ROW_BYTES) // size
    kernel = template_kernel(row_products, x.dtype, width) if count > 1 else None
    if kernel is None:
        return None
    rows = x.size // count
    out = np.empty(rows, x.dtype)
    kernel.run((np.ascontiguousarray(x), out), (count,), rows, count)
    return out


def row_products(dtype: str, width: int) -> str:
    """Return the text of the kernel of the products of the rows of a matrix. The table: the matrix, and the products.
    The sizes: the number of columns. ``begin`` and ``end`` are rows."""
    w = Loops(width, 2, 1)
    x, out = w.table
    (columns,) = w.sizes
    whole = columns // width
    mask = w.below(columns % width)
    one = w.constant(1.0, dtype)
    with w.loop(w.begin, w.end) as r:
        row = w.element(x, r * columns, dtype)
        total = w.variable(one)
        with w.loop(0, whole) as t:
            factor = w.load_at(row, t * width, dtype)
            w.set(total, w.mul(w.get(total, dtype), factor))
        factor = w.load(w.element(row, whole * width, dtype), dtype, mask)
        factor = w.select(Vector(mask, "bool"), factor, one)
        w.store_one(w.product(w.mul(w.get(total, dtype), factor)), w.element(out, r, dtype))
    return w.function()


class _Steps:
    """The steps of a scan, one element of each scan of a block at a time, from a value that changes no element."""

    def __init__(self, w: Loops, dtype: str, combine: str, reverse: bool) -> None:
        self._w, self._dtype, self._combine, self._reverse = w, dtype, combine, reverse
        self.kind = "int64" if combine in EXTREMES else dtype  # of the array besides x and out
        self._float = "f" if dtype.startswith("float") else ""
        least, most = (-math.inf, math.inf) if self._float else (-(1 << 63), (1 << 63) - 1)
        start = {"mul": 1.0, "max": least, "min": most}.get(combine, -0.0)
        self._wide = "float64" if dtype == "float32" and combine not in EXTREMES else dtype
        self._start = w.constant(start, self._wide)
        self._so_far, self._index = w.variable(self._start), w.variable(w.constant(0, "int64"))

    def begin(self) -> None:
        """Start another block."""
        self._w.set(self._so_far, self._start)

    def next(self, k: str, x: Vector, factor: Vector | None = None) -> tuple[Vector, ...]:
        """Add the k-th elements of a block, and return the scans up to them, and the indices of extremes."""
        w, so_far = self._w, self._w.get(self._so_far, self._wide)
        if self._combine in EXTREMES:
            if self._float:
                later = w.binary("or", w.compare(f"o{EXTREMES[self._combine]}", x, so_far), w.compare("uno", x, x))
            else:
                comparison = f"icmp s{EXTREMES[self._combine]} {w.type(x.dtype)} {x.text}, {so_far.text}"
                later = Vector(w.assign(comparison), "bool")
            now = w.select(later, x, so_far)
            at = w.select(later, w.splat(k, "int64"), w.get(self._index, "int64"))
            w.set(self._so_far, now)
            w.set(self._index, at)
            return now, at
        if self._wide != self._dtype:
            x = w.convert("fpext", x, self._wide)
            factor = None if factor is None else w.convert("fpext", factor, self._wide)
        if factor is None:
            now = w.binary(self._float + self._combine, so_far, x)
            w.set(self._so_far, now)
        elif self._reverse:
            now = w.add(x, so_far)
            w.set(self._so_far, w.mul(factor, now))
        else:  # the first factor is not used
            first = w.splat(w.icmp("eq", k, 0), "bool")
            now = w.add(x, w.select(first, self._start, w.mul(factor, so_far)))
            w.set(self._so_far, now)
        return (now if self._wide == self._dtype else w.convert("fptrunc", now, self._dtype),)


_PRODUCTS_PER_STATE = 40
"""The products that take as long as a state at a step, which has three exponentials and a logarithm."""


def run_recursion(emitted: Any, skips: Any, kept: Any) -> bool:
    """Write the log probabilities of the states after each step but the first; return False if kernels are off.

    Args:
        emitted: the log probability of each state at each step, (time, batch, states), whose number is a multiple of
            `vector_width`.
        skips: whether the state before may be skipped, (batch, states).
        kept: the result, (time, batch, 2 + states), whose first step and first two columns are there already.
    """
    time, members, states = emitted.shape
    width = vector_width(emitted.dtype)
    kernel = template_kernel(ctc_recursion, emitted.dtype, width)
    if kernel is not None:
        sizes = (time, members, states, states // width)
        kernel.run((emitted, skips.astype(emitted.dtype), kept), sizes, members, time * states * _PRODUCTS_PER_STATE)
    return kernel is not None


def ctc_recursion(dtype: str, width: int) -> str:
    """Return the text of the kernel of the recursion: log(Σ exp) of a state and the two before, plus the emission.

    The table: the arrays of `run_recursion`, the second as numbers. The sizes: steps, members, states, and vectors of
    states. ``begin`` and ``end`` are members.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector.
    """
    w = Loops(width, 3, 4)
    emitted, skips, kept = w.table
    time, members, states, vectors = w.sizes
    row = states + 2
    with w.loop(w.begin, w.end) as n, w.loop(1, time) as t:
        place = t * members + n
        now = w.element(emitted, place * states, dtype)
        after = w.element(kept, place * row, dtype)
        before = w.element(kept, (place - members) * row, dtype)
        allowed = w.element(skips, n * states, dtype)
        with w.loop(0, vectors) as v:
            s = v * width
            skipped, further, stay = (w.load_at(before, s + k, dtype) for k in range(3))
            allows = w.compare("ogt", w.load_at(allowed, s, dtype), w.constant(0.0, dtype))
            skipped = w.select(allows, skipped, w.constant(IMPOSSIBLE, dtype))
            largest = w.extreme("maximum", w.extreme("maximum", stay, further), skipped)
            first, second, third = (w.function_of("exp", w.sub(x, largest)) for x in (stay, further, skipped))
            total = w.function_of("log", w.add(w.add(first, second), third))
            w.store_at(w.add(total, w.add(largest, w.load_at(now, s, dtype))), after, s + 2)
    return w.function()
