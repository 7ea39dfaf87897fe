"""Outer products of many pairs of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.kernel import template_kernel
from burnpy_numpy.kernels.launch import block_starts, block_width

_BYTES = 64
"""The size of the parts of the rows of outer products that are computed at a time."""


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
