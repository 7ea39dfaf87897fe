"""The kernel of products of rows as LLVM's intermediate representation."""

from __future__ import annotations

from burnpy_numpy.kernels.loops import Loops
from burnpy_numpy.kernels.vectors import Vector


def row_products(dtype: str, width: int) -> str:
    """Return the text of the kernel of the products of the rows of a matrix.

    The table: the matrix, and the products. The sizes: the number of columns. ``begin`` and ``end`` are rows.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector.
    """
    w = Loops(width, 2, 1)
    x, out = w.table
    (columns,) = w.sizes
    whole = w.assign(f"sdiv i64 {columns}, {width}")
    lanes = ", ".join(f"i64 {k}" for k in range(width))
    left = w.splat(w.assign(f"srem i64 {columns}, {width}"), "int64")
    mask = w.assign(f"icmp ult <{width} x i64> <{lanes}>, {left.text}")
    one = w.constant(1.0, dtype)
    with w.loop("%begin", "%end") as r:
        row = w.element(x, w.times(r, columns), dtype)
        total = w.variable(one)
        with w.loop("0", whole) as t:
            factor = w.load(w.element(row, w.times(t, width), dtype), dtype, None)
            w.set(total, w.mul(w.get(total, dtype), factor))
        factor = w.load(w.element(row, w.times(whole, width), dtype), dtype, mask)
        factor = w.select(Vector(mask, "bool"), factor, one)
        w.store_one(w.product(w.mul(w.get(total, dtype), factor)), w.element(out, r, dtype))
    return w.function()
