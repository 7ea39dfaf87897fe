"""Products of few rows with a matrix of 8-bit or 4-bit ints, which a kernel converts in registers.

A product with one row takes as long as reading the matrix, so that a quarter or an eighth of the bytes is a quarter or
an eighth of the time where the matrix is not in the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.dtypes import uint8
from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.kernel import template_kernel

_BYTES = 64
"""The size of a vector of floats in bytes."""
_TILE = 4
"""The number of rows of x that are multiplied by each converted vector of the matrix."""
_UNROLLED = 4
"""The number of vectors of a row of the matrix that are converted at a time."""
_AHEAD = 4096
"""The bytes by which the matrix is read ahead, as processors themselves do not read beyond a page of memory."""


def run_quantized_product(x: Any, weight: Any, scale: Any) -> Any:
    """Return the product of `Backend.quantized_matmul` for C-contiguous matrices; None without a kernel, or if groups
    are too short."""
    width, bits = _BYTES // x.itemsize, 4 if weight.dtype is uint8 else 8
    (rows, columns), (outputs, groups) = x.shape, scale.shape
    count = weight.shape[1] // groups
    if count < width:
        return None
    vectors = count // width
    constant = vectors if groups > 1 and count % width == 0 and vectors <= _UNROLLED else 0
    out, done = np.empty((rows, outputs), x.dtype), 0
    for tile in (_TILE, 1):
        some = (rows - done) // tile * tile
        if some:
            kernel = template_kernel(quantized_rows, x.dtype, width, bits, tile, constant)
            if kernel is None:
                return None
            arrays = (x[done : done + some], weight, scale, out[done : done + some])
            kernel.run(arrays, (some, outputs, columns, groups, count), outputs, some * columns)
            done += some
    return out


def quantized_rows(dtype: str, width: int, bits: int, tile: int, vectors: int) -> str:
    """Return the text of the kernel of products of rows with the rows of a quantized matrix.

    The table: x (rows, in), the matrix (out, bytes), scale (out, groups) and the products (rows, out). The sizes: rows,
    out, in, groups, and bytes in a group, no fewer than ``width``. ``begin`` and ``end`` are rows of the matrix.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector.
        bits: the size of an int, 8 or 4.
        tile: the number of rows of x at a time, which divides their number.
        vectors: the number of vectors in a group; 0 if it is known only when the kernel runs.
    """
    w = Loops(width, 4, 5)
    x, weight, scale, out = w.table
    rows, outputs, columns, groups, count = w.sizes
    zero, parts = w.constant(0.0, dtype), 8 // bits
    size = w.times(count, parts)
    whole = w.times(w.assign(f"sdiv i64 {count}, {width}"), width)
    unrolled = w.times(w.assign(f"sdiv i64 {count}, {width * _UNROLLED}"), _UNROLLED)
    lanes = ", ".join(f"i64 {k}" for k in range(width))
    counted = w.splat(w.minus(w.plus(whole, width), count), "int64")  # lanes of the last vector that were in `whole`
    mask = w.assign(f"icmp uge <{width} x i64> <{lanes}>, {counted.text}")
    with w.loop("%begin", "%end") as o, w.loop("0", w.assign(f"sdiv i64 {rows}, {tile}")) as r:
        line, scales = w.times(w.times(o, groups), count), w.element(scale, w.times(o, groups), dtype)
        first = w.times(r, tile)
        starts = [w.element(x, w.times(w.plus(first, t), columns), dtype) for t in range(tile)]
        totals = [w.variable(zero) for _ in range(tile)]
        with w.loop("0", groups) as g:
            packed = w.element(weight, w.plus(line, w.times(g, count)), "int8")
            near = [w.element(start, w.times(g, size), dtype) for start in starts]
            sums = [[w.variable(zero) for _ in range(_UNROLLED if tile == 1 else 1)] for _ in range(tile)]

            def step(at: str, k: int, where: str | None) -> None:
                for part, ints in enumerate(_converted(w, w.element(packed, at, "int8"), bits, dtype)):
                    place = at if part == 0 else w.plus(at, count)
                    for t in range(tile):
                        total = sums[t][k % len(sums[t])]
                        value = w.load(w.element(near[t], place, dtype), dtype, where)
                        w.set(total, w.fma(ints, value, w.get(total, dtype)))

            if vectors:
                w.prefetch(w.element(packed, str(_AHEAD), "int8"))
                for k in range(vectors):
                    step(str(k * width), k, None)
            else:
                with w.loop("0", w.assign(f"sdiv i64 {unrolled}, {_UNROLLED}")) as j:
                    at = w.times(j, width * _UNROLLED)
                    w.prefetch(w.element(packed, w.plus(at, _AHEAD), "int8"))
                    for k in range(_UNROLLED):
                        step(w.plus(at, k * width), k, None)
                with w.loop(unrolled, w.assign(f"sdiv i64 {whole}, {width}")) as j:
                    step(w.times(j, width), 0, None)
                with w.inside(0, w.minus(count, whole)):
                    step(w.minus(count, str(width)), 1, mask)
            factor = w.load_one(w.element(scales, g, dtype), dtype)
            for total, mine in zip(totals, sums, strict=True):
                one = w.get(mine[0], dtype)
                for other in mine[1:]:
                    one = w.add(one, w.get(other, dtype))
                w.set(total, w.fma(one, factor, w.get(total, dtype)))
        for t, total in enumerate(totals):
            place = w.plus(w.times(w.plus(first, t), outputs), o)
            w.store_one(w.total(w.get(total, dtype)), w.element(out, place, dtype))
    return w.function()


def _converted(w: Loops, pointer: str, bits: int, dtype: str) -> list[Vector]:
    """Load bytes, and return their ints as floats: a vector of one for each byte, or two for its two halves."""
    packed = w.load(pointer, "int8", None)
    if bits == 8:
        return [w.convert("sitofp", w.convert("sext", packed, "int32"), dtype)]
    wide = w.convert("zext", packed, "int32")
    halves = w.binary("and", wide, w.constant(15, "int32")), w.binary("lshr", wide, w.constant(4, "int32"))
    return [w.convert("sitofp", w.binary("sub", half, w.constant(8, "int32")), dtype) for half in halves]
