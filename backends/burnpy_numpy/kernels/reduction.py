"""Products of rows, and of everything, as kernels; NumPy multiplies one element after the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.primitives import Dims
from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.kernel import template_kernel

_BYTES = 64
"""The size of the parts of rows that are multiplied at a time."""
_LONG = 256
"""The same of rows of at least `_MANY` such parts: several vectors, as each product waits for the last one."""
_MANY = 4
_PART = 1 << 10
"""The length of the rows into which an array is divided, if it can be, to multiply all its elements. Products of longer
rows often are subnormal numbers on the way to 0, with which processors multiply slowly."""


def last_dims_product(x: Any, dims: Dims) -> Any:
    """Return the products over the last dimensions, or of parts of everything; None without a kernel for it."""
    count = math.prod([x.shape[d] for d in dims])
    if count == x.size and count % _PART == 0:
        count = _PART
    size = x.dtype.itemsize
    width = (_LONG if count * size >= _MANY * _LONG else _BYTES) // size
    kernel = template_kernel(row_products, x.dtype, width) if count > 1 else None
    if kernel is None:
        return None
    rows = x.size // count
    out = np.empty(rows, x.dtype)
    kernel.run((np.ascontiguousarray(x), out), (count,), rows, count)
    return out


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
