"""Padding with an array's own elements by a kernel that copies a row, and then the elements beside it; copies whose
neighbours lie apart, by squares in registers; and conversions between float32 and floats of 16 bits, as NumPy takes a
hundred times as long to round to float16."""

from __future__ import annotations

import math
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.shape import Pairs
from burnpy.backend.primitives import Shape
from burnpy_numpy.kernels.compiler.loops import Int, Loops
from burnpy_numpy.kernels.compiler.target import target
from burnpy_numpy.kernels.convolution.channel_blocks import Squares
from burnpy_numpy.kernels.kernel import template_kernel
from burnpy_numpy.kernels.launch import block_starts, block_width

_ROW_BYTES = 64
"""The size of the parts of rows that are copied at a time."""
_CONVERTED = 16
"""The number of elements that are converted at a time."""
_MIN_TRANSPOSED, _MOST_MATRICES = 4, 1 << 14
"""The least length of each dimension of matrices that a kernel transposes, and the most matrices."""


def run_padded(x: Any, pairs: Pairs, how: str) -> Any:
    """Return x, padded as by `pad_ends` with numbers of elements that are not negative; None without a kernel for it.

    Args:
        x: not empty.
        pairs: how many elements are added before and after each dimension.
        how: "reflect", "replicate" or "circular".
    """
    dtype = x.dtype
    if not x.ndim or not (dtype is float32 or dtype is float64):
        return None
    width = block_width(x.shape[-1], _ROW_BYTES // dtype.itemsize)
    kernel = template_kernel(padded_rows, dtype, width)
    if kernel is None:
        return None
    found = _sources(x.shape, pairs, how, width)
    out = np.empty(found.shape, dtype)
    arrays = (np.ascontiguousarray(x), out, found.rows, found.places, found.columns, found.starts)
    kernel.run(arrays, found.sizes, found.outer, math.prod(found.shape) / found.outer)
    return out


class _Sources:
    """The places that the elements of a padded array come from. See `padded_rows`."""

    def __init__(self, shape: Shape, pairs: Pairs, how: str, width: int) -> None:
        self.shape = tuple([low + size + high for size, (low, high) in zip(shape, pairs, strict=True)])
        each = [_positions(size, *pair, how) for size, pair in zip(shape, pairs, strict=True)]
        first = next((d for d, pair in enumerate(pairs[:-1]) if any(pair)), len(shape) - 1)
        zero = np.zeros(1, np.int64)
        self.rows = reduce(
            lambda rows, d: np.add.outer(rows * shape[d], each[d]).ravel(), range(first, len(shape) - 1), zero
        )
        self.outer = math.prod(shape[:first])
        low, size, wide = pairs[-1][0], shape[-1], self.shape[-1]
        self.places = np.concatenate((np.arange(low), np.arange(low + size, wide)))
        self.columns = each[-1][self.places]
        self.starts = block_starts(size, width)
        inner = math.prod(shape[first:-1])
        self.sizes = (len(self.rows), inner, size, wide, low, len(self.places), len(self.starts))


_sources = lru_cache(64)(_Sources)


def _positions(size: int, low: int, high: int, how: str) -> Any:
    """Return where the elements of a padded dimension are in it."""
    places = np.arange(-low, size + high)
    if how == "circular":
        return places % size
    if how == "replicate":
        return np.clip(places, 0, size - 1)
    return np.minimum(np.abs(places), 2 * (size - 1) - places)


def padded_rows(dtype: str, width: int) -> str:
    """Return the text of the kernel that copies rows, and single elements of them before and behind.

    The table: x (outer, rows of x, columns of x), the result (outer, rows, columns), and int64: the row of x of each
    row, the column of each element beside the copied ones, its column in x, and the first column of each vector. The
    sizes: rows, rows of x, columns of x, columns, the first column of a copied row, elements beside it, and vectors.
    ``begin`` and ``end`` are outer elements.
    """
    w = Loops(width, 6, 7)
    x, out, sources, places, columns, starts = w.table
    rows, inner, size, wide, low, beside, vectors = w.sizes
    with w.loop(w.begin, w.end) as o, w.loop(0, rows) as r:
        row = o * inner + w.number(sources, r)
        source = w.element(x, row * size, dtype)
        target = w.element(out, (o * rows + r) * wide, dtype)
        middle = w.element(target, low, dtype)
        with w.loop(0, vectors) as v:
            start = w.number(starts, v)
            w.store_at(w.load_at(source, start, dtype), middle, start)
        with w.of_width(1), w.loop(0, beside) as k:
            element = w.load_at(source, w.number(columns, k), dtype)
            w.store_at(element, target, w.number(places, k))
    return w.function()


def is_transposed(x: Any) -> bool:
    """Return whether a kernel makes a C-contiguous copy of an array, which is not C-contiguous."""
    return not x.dtype.hasobject and _transposed(x.shape, x.strides, x.itemsize) is not None


def transposed(x: Any) -> Any:
    """Return a C-contiguous copy of an array, which is not C-contiguous; None without a kernel for it."""
    found = None if x.dtype.hasobject else _transposed(x.shape, x.strides, x.itemsize)
    if found is None:
        return None
    sources, targets, sizes = found
    width = target().vector // x.itemsize
    kernel = template_kernel(transposed_copy, f"float{8 * x.itemsize}", width)
    if kernel is None:
        return None
    out, blocks = np.empty(x.shape, x.dtype), len(sources) * -(-sizes[1] // width)
    kernel.run((x, out, sources, targets), sizes, blocks, 2 * x.size / blocks)
    return out


class _Transposed(NamedTuple):
    """A copy as transposed matrices: the places of each in the array and in the copy, and `transposed_copy`'s sizes."""

    sources: Any
    targets: Any
    sizes: tuple[int, int, int, int]


@lru_cache(64)
def _transposed(shape: Shape, strides: Shape, itemsize: int) -> _Transposed | None:
    """Return how a C-contiguous copy of an array transposes matrices; None if it is none that a kernel makes."""
    dims = list[list[int]]()
    for n, step in zip(shape, strides, strict=True):
        if step % itemsize:
            return None
        if dims and dims[-1][1] == n * step // itemsize:  # the elements of two dimensions lie as those of one
            dims[-1] = [dims[-1][0] * n, step // itemsize]
        elif n > 1:
            dims.append([n, step // itemsize])
    near = next((k for k, (_, step) in enumerate(dims[:-1]) if step == 1), None)
    if near is None or itemsize not in (4, 8) or dims[-1][1] == 1:
        return None
    goals = [math.prod(n for n, _ in dims[k + 1 :]) for k in range(len(dims))]
    (count, _), (lines, far) = dims[near], dims[-1]
    others = [k for k in range(len(dims) - 1) if k != near]
    matrices = math.prod(dims[k][0] for k in others)
    if min(count, lines) < _MIN_TRANSPOSED or matrices > _MOST_MATRICES:
        return None
    sources = targets = np.zeros(1, np.int64)
    for k in others:
        n, step = dims[k]
        sources = np.add.outer(sources, np.arange(n) * step).ravel()
        targets = np.add.outer(targets, np.arange(n) * goals[k]).ravel()
    return _Transposed(sources, targets, (count, lines, far, goals[near]))


def transposed_copy(dtype: str, width: int) -> str:
    """Return the text of the kernel that copies matrices whose columns lie together to rows that do.

    The table: the array, the copy, and int64: the first elements of each matrix in both. The sizes: the elements of a
    column and of a row, and the distances of columns in the array and of rows in the copy. ``begin`` and ``end`` are
    vectors of rows of all matrices.

    Args:
        dtype: a float of the size of an element.
        width: the number of elements of a vector.
    """
    w = Squares(width, table=4, sizes=4)
    (x, out, sources, targets), (count, lines, far, row) = w.table, w.sizes
    groups, last = w.ceil_div(lines, width), lines - 1
    with w.loop(w.begin, w.end) as unit:
        matrix, group = divmod(unit, groups)
        first = group * width
        source, target = w.element(x, w.number(sources, matrix), dtype), w.number(targets, matrix) + first
        starts = [w.smaller(first + k, last) * far for k in range(width)]

        def copy(masked: bool) -> None:
            kept = w.below(lines - first) if masked else None
            for column, left in w.squares(count):
                mask = None if left is None else w.below(left)
                xs = [w.load(w.element(source, start + column, dtype), dtype, mask) for start in starts]
                for k, v in enumerate(w.transposed(xs)):
                    with w.inside(k, left):
                        place = target + (column + k) * row
                        w.store(v, w.element(out, place, dtype), kept)

        w.in_two_ways(copy, [(first + width, lines)])
    return w.function()


def converted(x: Any, dtype: Any) -> Any:
    """Return a C-contiguous array of float32, or of float64, rounded to 16 bits, or one of 16 bits as float32. None
    without a kernel for it. The array has as many elements as a vector, or more."""
    if not target().fuses:
        return None
    if dtype is float32:
        kernel = template_kernel(widened, x.dtype, _CONVERTED)
    else:
        kernel = template_kernel(rounded, x.dtype, dtype, _CONVERTED)
    if kernel is None:
        return None
    out = np.empty(x.shape, dtype)
    kernel.run((x, out), (x.size,), -(-x.size // _CONVERTED), _CONVERTED)
    return out


def rounded(source: str, dtype: str, width: int) -> str:
    """Return the text of the kernel that rounds floats to the nearest floats of 16 bits, ties to even.

    The table: x and the results. The sizes: the number of elements, no fewer than ``width``. ``begin`` and ``end`` are
    vectors; the last one may overlap with the one before.

    Args:
        source: float32 or float64.
        dtype: float16 or bfloat16.
        width: the number of elements of a vector.
    """
    w = Loops(width, 2, 1)
    with w.loop(w.begin, w.end) as v:
        start = _vector_start(w, v)
        x = w.load_at(w.table[0], start, source)
        x = x if source == "float32" else w.to_odd(x)
        w.store_at(w.to_half(x, dtype), w.table[1], start)
    return w.function()


def widened(dtype: str, width: int) -> str:
    """Return the text of the kernel that converts floats of 16 bits to float32; see `rounded`."""
    w = Loops(width, 2, 1)
    with w.loop(w.begin, w.end) as v:
        start = _vector_start(w, v)
        x = w.from_half(w.load_at(w.table[0], start, dtype))
        w.store_at(x, w.table[1], start)
    return w.function()


def _vector_start(w: Loops, vector: Int) -> Int:
    """Return the first element of a vector."""
    return w.smaller(vector * w.width, w.sizes[0] - w.width)
