"""Triangular equations, Cholesky's and LU factors of batches of small matrices, and outer products, as kernels.

For so few numbers a call of LAPACK takes longer than its arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import int64
from burnpy_numpy.kernels.compiler.loops import Loops
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
