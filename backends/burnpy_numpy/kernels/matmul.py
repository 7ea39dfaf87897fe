"""Linear layers as a kernel around OpenBLAS's product of matrices, and outer products of many pairs of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32
from burnpy.backend.primitives import DType
from burnpy_numpy.cpu_threads import Work
from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.kernel import template_kernel
from burnpy_numpy.kernels.launch import TemplateKernel, block_starts, block_width
from burnpy_numpy.openblas import NO_TRANS, ROW_MAJOR, TRANS

_BYTES = 64
"""The size of the parts of the rows of outer products that are computed at a time."""


def affine_rows(x: Any, weight: Any, bias: Any, out: Any, long: bool) -> Work | None:
    """Return the function that computes rows of x @ weight + bias into ``out``; None if kernels are off.

    Args:
        x: a C-contiguous matrix.
        weight: a matrix, C- or Fortran-contiguous.
        bias: a row.
        out: memory for the result.
        long: whether sizes are 64-bit ints for OpenBLAS.
    """
    kernel = affine_kernel(x.dtype, not weight.flags.c_contiguous, long)
    if kernel is None:
        return None
    table, sizes = (x, weight, np.ascontiguousarray(bias), out), weight.shape

    def work(start: int, stop: int) -> None:
        kernel(table, sizes, start, stop)

    kernel.note()
    return work


def affine_kernel(dtype: DType, transposed: bool, long: bool) -> TemplateKernel | None:
    """Return the kernel of x @ weight + bias, see `affine`; None if kernels are off."""
    name, width = ("float32", 16) if dtype == float32 else ("float64", 8)
    return template_kernel(affine, name, width, transposed, long)


def affine(dtype: str, width: int, transposed: bool, long: bool) -> str:
    """Return the text of the kernel of x @ weight + bias: the product is added to rows that are filled with the bias.

    The table: x (rows, in), the weight (in, out), the bias (out,) and the result. The sizes: in and out. ``begin`` and
    ``end`` are rows.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector.
        transposed: whether the columns of the weight lie together, and not its rows.
        long: whether sizes are 64-bit ints for OpenBLAS.
    """
    w = Loops(width, 4, 2)
    (x, weight, bias, out), (inner, columns) = w.table, w.sizes
    rows, vectors = w.minus("%end", "%begin"), w.assign(f"sdiv i64 {columns}, {width}")
    whole = w.times(vectors, width)
    counts = ", ".join(f"i64 {k}" for k in range(width))
    mask = w.assign(f"icmp ult <{width} x i64> <{counts}>, {w.splat(w.minus(columns, whole), 'int64').text}")
    first = w.element(out, w.times("%begin", columns), dtype)
    with w.loop("0", rows) as row:
        line = w.element(first, w.times(row, columns), dtype)
        with w.loop("0", vectors) as k:
            column = w.times(k, width)
            w.store(w.load(w.element(bias, column, dtype), dtype, None), w.element(line, column, dtype), None)
        w.store(w.load(w.element(bias, whole, dtype), dtype, mask), w.element(line, whole, dtype), mask)
    number = w.scalar(dtype)
    size = "i64" if long else "i32"
    m, n, k = (s if long else w.assign(f"trunc i64 {s} to i32") for s in (rows, columns, inner))
    source = w.element(x, w.times("%begin", inner), dtype)
    how = f"i32 {ROW_MAJOR}, i32 {NO_TRANS}, i32 {TRANS if transposed else NO_TRANS}"
    matrices = f"ptr {source}, {size} {k}, ptr {weight}, {size} {k if transposed else n}"
    name = f"burnpy_gemm_{dtype}"
    w.write(
        f"call void @{name}({how}, {size} {m}, {size} {n}, {size} {k}, {number} 1.0, {matrices}, {number} 1.0, "
        f"ptr {first}, {size} {n})"
    )
    w.declared.add(
        f"declare void @{name}(i32, i32, i32, {size}, {size}, {size}, {number}, ptr, {size}, ptr, {size}, {number}, "
        f"ptr, {size})"
    )
    return w.function()


def run_outer_products(x: Any, y: Any) -> Any:
    """Return the products of columns (…, m, 1) and rows (…, 1, n), of shape (…, m, n); None if kernels are off.

    NumPy begins its inner loop anew for each row of a result, which takes three times as long for rows of 128.
    """
    *outer, m, _ = x.shape
    n = y.shape[-1]
    width = block_width(n, _BYTES // x.dtype.itemsize)
    kernel = template_kernel(outer_products, x.dtype, width)
    if kernel is None:
        return None
    out, starts = np.empty((*outer, m, n), x.dtype), block_starts(n, width)
    arrays = (np.ascontiguousarray(x), np.ascontiguousarray(y), out, starts)
    kernel.run(arrays, (m, n, len(starts)), x.size // m, m * n)
    return out


def outer_products(dtype: str, width: int) -> str:
    """Return the text of the kernel of outer products.

    The table: x (batch, m), y (batch, n), the products (batch, m, n), and int64, the first column of each vector of n.
    The sizes: m, n and vectors. ``begin`` and ``end`` are pairs.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector.
    """
    w = Loops(width, 4, 3)
    x, y, out, starts = w.table
    m, n, vectors = w.sizes
    with w.loop("%begin", "%end") as pair:
        column, row = w.element(x, w.times(pair, m), dtype), w.element(y, w.times(pair, n), dtype)
        matrix = w.element(out, w.times(pair, w.times(m, n)), dtype)
        with w.loop("0", m) as k:
            factor = w.load_one(w.element(column, k, dtype), dtype)
            line = w.element(matrix, w.times(k, n), dtype)
            with w.loop("0", vectors) as v:
                start = w.number(starts, v)
                product = w.mul(factor, w.load(w.element(row, start, dtype), dtype, None))
                w.store(product, w.element(line, start, dtype), None)
    return w.function()
