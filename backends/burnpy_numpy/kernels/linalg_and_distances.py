"""Triangular equations, factors of batches of small matrices, outer products, and distances of rows, as kernels.

The factors are those of Cholesky and LU: for so few numbers a call of LAPACK takes longer than its arithmetic.
Distances are computed without an array of all differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from burnpy.backend.dtypes import int64
from burnpy_numpy.kernels.compiler.instructions import applied
from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.convolution.channel_blocks import vector_width
from burnpy_numpy.kernels.kernel import template_kernel
from burnpy_numpy.kernels.launch import block_starts, block_width

_SOLVED_COLUMNS = 8
"""The number of columns that are solved at a time."""
_OUTER_BYTES = 64
"""The size of the parts of the rows of outer products that are computed at a time."""


def run_substitution(a: Any, b: Any, upper: bool, unitriangular: bool) -> Any:
    """Return the solutions of triangular equations; None if kernels are off."""
    columns = b.shape[-1]
    width = block_width(columns, _SOLVED_COLUMNS)
    kernel = template_kernel(substitution, a.dtype, upper, unitriangular, width)
    if kernel is None:
        return None
    n, out, starts = a.shape[-1], np.empty(b.shape, b.dtype), block_starts(columns, width)
    arrays = (np.ascontiguousarray(a), np.ascontiguousarray(b), out, starts)
    kernel.run(arrays, (n, columns, len(starts)), math.prod(a.shape[:-2]), n * n * columns)
    return out


def run_cholesky_factor(x: Any) -> Any:
    """Return Cholesky's factors; None if kernels are off, or if a matrix is not positive definite."""
    kernel = template_kernel(cholesky_factor, x.dtype)
    if kernel is None:
        return None
    n, out, wrong = x.shape[-1], np.empty(x.shape, x.dtype), np.zeros(1, int64)
    kernel.run((np.ascontiguousarray(x), out, wrong), (n,), math.prod(x.shape[:-2]), n * n * n / 3)
    return None if wrong[0] else out


def run_lu_factor(x: Any) -> Any:
    """Return LU factors, LAPACK's pivots, and the permutations by columns; None if kernels are off."""
    kernel = template_kernel(lu_factor, x.dtype)
    if kernel is None:
        return None
    *batch, rows, columns = x.shape
    count = min(rows, columns)
    out, pivots, order = np.array(x, order="C"), np.empty((*batch, count), int64), np.empty((*batch, rows), int64)
    kernel.run((out, pivots, order), (rows, columns, count), math.prod(batch), rows * columns * count / 2)
    return out, pivots, order


def substitution(dtype: str, upper: bool, unitriangular: bool, width: int) -> str:
    """Return the text of the kernel of the solutions of triangular equations, several columns at a time.

    The table: the matrices, (batch, n, n), the right sides, (batch, n, columns), the solutions, and int64, the first
    column of each vector. The sizes: n, columns and vectors. ``begin`` and ``end`` are matrices.

    Args:
        dtype: float32 or float64.
        upper: whether the upper triangle is read.
        unitriangular: whether the diagonal is taken as ones.
        width: the number of columns of a vector.
    """
    w = Loops(width, 4, 3)
    a, b, out, starts = w.table
    n, columns, vectors = w.sizes
    last = n - 1
    with w.loop(w.begin, w.end) as m:
        matrix = w.element(a, m * (n * n), dtype)
        right, solution = (w.element(p, m * (n * columns), dtype) for p in (b, out))
        with w.loop(0, vectors) as v:
            column = w.number(starts, v)
            with w.loop(0, n) as k:
                row = last - k if upper else k
                line, place = w.element(matrix, row * n, dtype), row * columns + column
                total = w.variable(w.load_at(right, place, dtype))
                with w.loop(0, k) as j:
                    known = last - j if upper else j
                    factor = w.load_one_at(line, known, dtype)
                    at = w.element(solution, known * columns + column, dtype)
                    w.set(total, w.sub(w.get(total, dtype), w.mul(factor, w.load(at, dtype))))
                solved = w.get(total, dtype)
                if not unitriangular:
                    solved = w.div(solved, w.load_one_at(line, row, dtype))
                w.store_at(solved, solution, place)
    return w.function()


def cholesky_factor(dtype: str) -> str:
    """Return the text of the kernel of lower factors, row by row. The table: the matrices, (batch, n, n), read in the
    lower triangle only, the factors, and an int64 that is set to 1 if a matrix is not positive definite. The sizes: n.
    ``begin`` and ``end`` are matrices."""
    w = Loops(1, 3, 1)
    x, out, note = w.table
    (n,) = w.sizes
    wrong = w.count(0)
    with w.loop(w.begin, w.end) as m:
        start = m * (n * n)
        matrix, factor = w.element(x, start, dtype), w.element(out, start, dtype)
        with w.loop(0, n) as i:
            row = i * n
            line, left = w.element(matrix, row, dtype), w.element(factor, row, dtype)
            squares = w.variable(w.load_at(line, i, dtype))
            with w.loop(0, i) as j:
                other = w.element(factor, j * n, dtype)
                total = w.variable(w.load_at(line, j, dtype))
                with w.loop(0, j) as k:
                    product = w.mul(*(w.load_at(p, k, dtype) for p in (left, other)))
                    w.set(total, w.sub(w.get(total, dtype), product))
                entry = w.div(w.get(total, dtype), w.load_at(other, j, dtype))
                w.store_at(entry, left, j)
                w.set(squares, w.sub(w.get(squares, dtype), w.mul(entry, entry)))
            rest = w.get(squares, dtype)
            positive = w.first(w.compare("ogt", rest, w.constant(0.0, dtype)))
            w.set_number(wrong, w.assign(f"select i1 {positive}, i64 {w.number(wrong, 0)}, i64 1"))
            w.store_at(w.call("sqrt", rest), left, i)
            with w.loop(i + 1, n) as j:
                w.store_at(w.constant(0.0, dtype), left, j)
    w.assign(f"atomicrmw or ptr {note}, i64 {w.number(wrong, 0)} monotonic")
    return w.function()


def lu_factor(dtype: str) -> str:
    """Return the text of the kernel of LU factors with the first largest element of a column, or its first NaN, as
    pivot.

    The table: the matrices, (batch, rows, columns), in whose place the factors are written, the pivots, counted from 1,
    int64, (batch, count), and the permutations, int64, (batch, rows). The sizes: rows, columns and the smaller of both.
    ``begin`` and ``end`` are matrices.
    """
    w = Loops(1, 3, 3)
    x, pivots, orders = w.table
    rows, columns, count = w.sizes
    row = w.count(0)
    with w.loop(w.begin, w.end) as m:
        matrix = w.element(x, m * (rows * columns), dtype)
        chosen, order = w.element(pivots, m * count, "int64"), w.element(orders, m * rows, "int64")
        with w.loop(0, rows) as i:
            w.set_number(w.element(order, i, "int64"), i)
        with w.loop(0, count) as k:
            upper = w.element(matrix, k * columns, dtype)
            most = w.variable(w.call("fabs", w.load_one_at(upper, k, dtype)))
            w.set_number(row, k)
            with w.loop(k + 1, rows) as i:
                size = w.call("fabs", w.load_one_at(matrix, i * columns + k, dtype))
                best = w.get(most, dtype)
                above = w.binary("and", w.compare("ugt", size, best), w.compare("ord", best, best))
                w.set(most, w.select(above, size, best))
                w.set_number(row, w.chosen(w.first(above), i, w.number(row, 0)))
            other = w.number(row, 0)
            w.set_number(w.element(chosen, k, "int64"), other + 1)
            _exchange(w, [w.element(order, place, "int64") for place in (k, other)], "int64")
            lower = w.element(matrix, other * columns, dtype)
            with w.loop(0, columns) as j:
                _exchange(w, [w.element(line, j, dtype) for line in (upper, lower)], dtype)
            pivot = w.load_one_at(upper, k, dtype)
            zero = w.compare("oeq", pivot, w.constant(0.0, dtype))
            divisor = w.select(zero, w.constant(1.0, dtype), pivot)  # a column of zeros stays so
            with w.loop(k + 1, rows) as i:
                line = w.element(matrix, i * columns, dtype)
                factor = w.div(w.load_one_at(line, k, dtype), divisor)
                w.store_one(factor, w.element(line, k, dtype))
                with w.loop(k + 1, columns) as j:
                    product = w.mul(factor, w.load_one_at(upper, j, dtype))
                    at = w.element(line, j, dtype)
                    w.store_one(w.sub(w.load_one(at, dtype), product), at)
    return w.function()


def _exchange(w: Loops, places: list[str], dtype: str) -> None:
    """Exchange the numbers at two addresses."""
    first, second = (w.load_one(place, dtype) for place in places)
    w.store_one(second, places[0])
    w.store_one(first, places[1])


def run_outer_products(x: Any, y: Any) -> Any:
    """Return the products of columns (…, m, 1) and rows (…, 1, n), of shape (…, m, n); None if kernels are off. NumPy
    begins its inner loop anew for each row of a result, which takes three times as long for rows of 128."""
    *outer, m, _ = x.shape
    n = y.shape[-1]
    width = block_width(n, _OUTER_BYTES // x.dtype.itemsize)
    kernel = template_kernel(outer_products, x.dtype, width)
    if kernel is None:
        return None
    out, starts = np.empty((*outer, m, n), x.dtype), block_starts(n, width)
    arrays = (np.ascontiguousarray(x), np.ascontiguousarray(y), out, starts)
    kernel.run(arrays, (m, n, len(starts)), x.size // m, m * n)
    return out


def outer_products(dtype: str, width: int) -> str:
    """Return the text of the kernel of outer products. The table: x (batch, m), y (batch, n), the products (batch, m,
    n), and int64, the first column of each vector of n. The sizes: m, n and vectors. ``begin`` and ``end`` are
    pairs."""
    w = Loops(width, 4, 3)
    x, y, out, starts = w.table
    m, n, vectors = w.sizes
    with w.loop(w.begin, w.end) as pair:
        column, row = w.element(x, pair * m, dtype), w.element(y, pair * n, dtype)
        matrix = w.element(out, pair * (m * n), dtype)
        with w.loop(0, m) as k:
            factor = w.load_one_at(column, k, dtype)
            line = w.element(matrix, k * n, dtype)
            with w.loop(0, vectors) as v:
                start = w.number(starts, v)
                product = w.mul(factor, w.load_at(row, start, dtype))
                w.store_at(product, line, start)
    return w.function()


_VECTORS, _ROWS = 2, 4
"""The registers of a vector, and the rows of x that it is computed for at a time: enough sums that none waits for the
last addition."""


def run_distances(x: Any, y: Any, p: float) -> Any:
    """Return the p-norms of the differences of rows, for p = 1, 2 and ∞; None if kernels are off."""
    return _run_for_pairs(row_distances, p, x, y)


def run_tie_counts(x: Any, y: Any, out: Any) -> Any:
    """Return how many differences of rows are as large as ``out``, or NaN; None if kernels are off."""
    return _run_for_pairs(tie_counts, math.inf, x, y, contiguous(out))


def _run_for_pairs(template: Callable[..., str], p: float, x: Any, y: Any, *more: Any) -> Any:
    """Run a kernel that gives a number for each pair of rows."""
    width, rows, firsts, starts = _tiles(x, y.shape[-2])
    columns = contiguous(y.swapaxes(-1, -2))
    kernel = template_kernel(template, x.dtype, p, width, rows)
    if kernel is None:
        return None
    (*outer, n, k), m = x.shape, y.shape[-2]
    out = np.empty((*outer, n, m), x.dtype)
    arrays = (contiguous(x), columns, out, firsts, starts, *more)
    sizes = (len(firsts), n, m, k, len(starts))
    kernel.run(arrays, sizes, math.prod(outer) * len(firsts), rows * m * k)
    return out


def run_weighted_differences(grad: Any, x: Any, y: Any, out: Any, p: float) -> Any:
    """Return the sums of the differences of each row of x and all of y, each times a weight; None if kernels are off.

    For p = 1 they are those of the signs, and for p = ∞ of the signs of the differences as large as the distance.

    Args:
        grad: the weights, (…, n, m).
        x: (…, n, k).
        y: (…, m, k).
        out: the distances, (…, n, m), which are used for p = ∞ alone.
        p: 1, 2 or ∞.
    """
    width, rows, firsts, starts = _tiles(x, x.shape[-1])
    kernel = template_kernel(weighted_differences, x.dtype, p, width, rows)
    if kernel is None:
        return None
    (*outer, n, k), m = x.shape, y.shape[-2]
    total, weights = np.empty(x.shape, x.dtype), contiguous(grad)
    arrays = (
        contiguous(x),
        contiguous(y),
        weights,
        total,
        firsts,
        starts,
        contiguous(out) if math.isinf(p) else weights,
    )
    kernel.run(arrays, (len(firsts), n, m, k, len(starts)), math.prod(outer) * len(firsts), rows * m * k)
    return total


def _tiles(x: Any, columns: int) -> tuple[int, int, Any, Any]:
    """Return the size of a vector of this many columns, the rows of x beside it, and the first of each."""
    width, rows = block_width(columns, _VECTORS * vector_width(x.dtype)), block_width(x.shape[-2], _ROWS)
    return width, rows, block_starts(x.shape[-2], rows), block_starts(columns, width)


def contiguous(x: Any) -> Any:
    """Return x if it is C-contiguous, else a copy that is; transposed matrices are copied by a kernel."""
    rows, columns = x.shape[-2:]
    width = vector_width(x.dtype)
    if x.flags.c_contiguous or min(rows, columns) < width or not x.swapaxes(-1, -2).flags.c_contiguous:
        return np.ascontiguousarray(x)
    kernel = template_kernel(transposed_matrices, x.dtype, width)
    if kernel is None:
        return np.ascontiguousarray(x)
    out, lines, places = np.empty(x.shape, x.dtype), block_starts(rows, width), block_starts(columns, width)
    arrays = (x.swapaxes(-1, -2), out, lines, places)
    kernel.run(arrays, (columns, rows, len(places), len(lines)), x.size // (rows * columns), rows * columns)
    return out


def transposed_matrices(dtype: str, width: int) -> str:
    """Return the text of the kernel that transposes matrices, by squares in registers.

    The table: the matrices (batch, n, m), the transposed ones, and int64, the first column and the first row of each
    square. The sizes: n, m, and the numbers of squares along both. ``begin`` and ``end`` are matrices.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector, at most n and m.
    """
    w = Loops(width, 4, 4)
    x, out, columns, rows = w.table
    n, m, down, across = w.sizes
    with w.loop(w.begin, w.end) as b:
        start = b * (n * m)
        with w.loop(0, down) as i, w.loop(0, across) as j:
            row, column = w.number(rows, i), w.number(columns, j)
            source = start + (row * m + column)
            target = start + (column * n + row)
            lines = [w.element(x, m * k, dtype) for k in range(width)]
            for k, line in enumerate(w.load_tile(lines, source, dtype)):
                w.store_at(line, out, target + n * k)
    return w.function()


def row_distances(dtype: str, p: float, width: int, rows: int) -> str:
    """Return the text of the kernel of the p-norms of the differences of rows; for p = ∞, NaN if one is NaN.

    The squares for p = 2 may overflow and underflow.

    The table: x (batch, n, k), y transposed, (batch, k, m), the sums (batch, n, m), and int64, the first row of x of
    each tile, and the first column of each vector of m. The sizes: the number of tiles of n rows, n, m, k and the
    number of vectors. ``begin`` and ``end`` are tiles of all members of the batch.

    Args:
        dtype: float32 or float64.
        p: 1, 2 or ∞.
        width: the number of elements of a vector.
        rows: the number of rows of a tile.
    """
    w = Loops(width, 5, 5)

    def added(so_far: Vector, difference: Vector, place: str) -> Vector:
        if p == 2:
            return w.fma(difference, difference, so_far)
        size = w.call("fabs", difference)
        return w.extreme("maximum", so_far, size) if math.isinf(p) else w.add(so_far, size)

    _write_pairs(w, dtype, rows, added, lambda total: w.call("sqrt", total) if p == 2 else total)
    return w.function()


def tie_counts(dtype: str, p: float, width: int, rows: int) -> str:
    """Return the text of the kernel of the number of differences of rows whose magnitude is a given one, or NaN. The
    table, sizes and arguments are those of `row_distances`, with the magnitudes (batch, n, m) behind the table."""
    w = Loops(width, 6, 5)
    one, zero = w.constant(1.0, dtype), w.constant(0.0, dtype)

    def added(so_far: Vector, difference: Vector, place: str) -> Vector:
        magnitude = w.load_at(w.table[5], place, dtype)
        return w.add(so_far, w.select(_is_tie(w, difference, magnitude), one, zero))

    _write_pairs(w, dtype, rows, added, lambda total: total)
    return w.function()


def _is_tie(w: Loops, difference: Vector, magnitude: Vector) -> Vector:
    """Compare a magnitude with the magnitude of a difference, which counts as equal if it is NaN."""
    equal = w.compare("oeq", w.call("fabs", difference), magnitude)
    return w.binary("or", equal, w.compare("uno", difference, difference))


def _write_pairs(
    w: Loops, dtype: str, count: int, added: Callable[[Vector, Vector, str], Vector], ended: Callable[[Vector], Vector]
) -> None:
    """Write loops over pairs of ``count`` rows of a tile, and over their elements. ``added`` returns the sums of
    neighbouring pairs with a difference added, whose place among all pairs is given; ``ended`` returns the results for
    the sums."""
    x, y, out, firsts, starts, *_ = w.table
    tiles, n, m, k, vectors = w.sizes
    with w.loop(w.begin, w.end) as tile:
        member = tile // tiles
        first = member * n + w.number(firsts, tile % tiles)
        matrix = w.element(y, member * (k * m), dtype)
        numbers = [first + i for i in range(count)]
        rows = [w.element(x, number * k, dtype) for number in numbers]
        with w.loop(0, vectors) as v:
            start = w.number(starts, v)
            places = [number * m + start for number in numbers]
            totals = [w.variable(w.constant(0.0, dtype)) for _ in rows]
            with w.loop(0, k) as c:
                column = w.load_at(matrix, c * m + start, dtype)
                for row, place, total in zip(rows, places, totals, strict=True):
                    difference = w.sub(w.load_one_at(row, c, dtype), column)
                    w.set(total, added(w.get(total, dtype), difference, place))
            for place, total in zip(places, totals, strict=True):
                w.store_at(ended(w.get(total, dtype)), out, place)


def weighted_differences(dtype: str, p: float, width: int, count: int) -> str:
    """Return the text of the kernel of the sums of the differences of a row and all others, each with a weight.

    The table: x (batch, n, k), y (batch, m, k), the weights (batch, n, m), the sums (batch, n, k), int64, the first row
    of each tile of x, and the first column of each vector of k, and the distances (batch, n, m). The sizes are those of
    `row_distances`, with the vectors of k. ``begin`` and ``end`` are tiles.

    Args:
        dtype: float32 or float64.
        p: 1 for the signs of the differences in their place, 2, or ∞ for the signs where a magnitude is the distance.
        width: the number of elements of a vector.
        count: the number of rows of a tile.
    """
    w = Loops(width, 7, 5)
    zero = w.constant(0.0, dtype)
    x, y, weights, out, firsts, starts, distances = w.table
    tiles, n, m, k, vectors = w.sizes
    with w.loop(w.begin, w.end) as tile:
        member = tile // tiles
        first = member * n + w.number(firsts, tile % tiles)
        others = w.element(y, member * (k * m), dtype)
        rows = [first + i for i in range(count)]
        with w.loop(0, vectors) as v:
            start = w.number(starts, v)
            places = [row * k + start for row in rows]
            mine = [w.load_at(x, place, dtype) for place in places]
            totals = [w.variable(zero) for _ in rows]
            with w.loop(0, m) as j:
                other = w.load_at(others, j * k + start, dtype)
                for row, own, total in zip(rows, mine, totals, strict=True):
                    pair = row * m + j
                    difference = w.sub(own, other)
                    weight = w.load_one_at(weights, pair, dtype)
                    factor = difference if p == 2 else applied(w, "sign", [difference], dtype)
                    if math.isinf(p):
                        tied = _is_tie(w, difference, w.load_one_at(distances, pair, dtype))
                        factor, weight = w.select(tied, factor, zero), w.select(tied, weight, zero)
                    w.set(total, w.fma(weight, factor, w.get(total, dtype)))
            for place, total in zip(places, totals, strict=True):
                w.store_at(w.get(total, dtype), out, place)
    return w.function()
