"""The kernels of convolution as LLVM's intermediate representation, for vectors of neighbours in a row of the result.

With the channels first, neighbours of the result are sums of products of neighbours of x, each with one weight. So
nothing is transposed: `convolution` computes a block of several channels times several vectors in registers, in one
loop over the elements of a window, and `weight_gradient` a block of several channels times several elements of a
window in one loop over the vectors of the result. Where these elements and vectors lie is listed in tables, so that
one kernel serves every size of window, stride, dilation and number of groups.

Source of the blocks in registers: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008; of
convolution without a matrix of windows: Zhang, Franchetti and Low, High Performance Zero-Memory Overhead Direct
Convolutions, 2018.
"""

from __future__ import annotations

from burnpy_numpy.kernels.loops import Loops
from burnpy_numpy.kernels.vectors import Vector


def convolution(dtype: str, width: int, channels: int, vectors: int) -> str:
    """Return the text of the kernel of convolution: out = bias + Σ weight · x over the elements of each window.

    The table: x, weight, out, bias, and int64: the place of each element of the window;
    the places in x and in out of each vector; the first channel of each block, and where its x begins. The sizes: the
    numbers of members, elements, and tiles of vectors; the distances of members of x and of out, and of channels of
    out. ``begin`` and ``end`` are blocks. All places and distances count elements of the dtype.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector.
        channels: the number of channels in a block.
        vectors: the number of vectors in a tile.
    """
    w = Loops(width, 9, 6)
    x, weight, out, bias, elements, places, targets, firsts, sources = w.table
    members, length, tiles, x_member, out_member, out_channel = w.sizes
    with w.loop("0", members) as n, w.loop("%begin", "%end") as b:
        first = w.number(firsts, b)
        source = w.element(w.element(x, w.times(n, x_member), dtype), w.number(sources, b), dtype)
        target = w.element(out, w.plus(w.times(n, out_member), w.times(first, out_channel)), dtype)
        rows = [w.element(weight, w.times(w.plus(first, c), length), dtype) for c in range(channels)]
        with w.loop("0", tiles) as t:
            at = [w.plus(w.times(t, vectors), v) for v in range(vectors)]
            starts = [w.element(source, w.number(places, v), dtype) for v in at]
            totals = [[w.variable(w.constant(0.0, dtype)) for _ in at] for _ in range(channels)]
            with w.loop("0", length) as k:
                place = w.number(elements, k)
                xs = [w.load(w.element(start, place, dtype), dtype, None) for start in starts]
                for sums, row in zip(totals, rows, strict=True):
                    _add_products(w, sums, w.load_one(w.element(row, k, dtype), dtype), xs)
            for c in range(channels):
                added = w.load_one(w.element(bias, w.plus(first, c), dtype), dtype)
                channel = w.element(target, w.times(out_channel, c), dtype)
                for total, v in zip(totals[c], at, strict=True):
                    result = w.add(w.get(total, dtype), added)
                    w.store(result, w.element(channel, w.number(targets, v), dtype), None)
    return w.function()


def weight_gradient(dtype: str, width: int, channels: int, elements: int) -> str:
    """Return the text of the kernel of the gradient by the weight: out += Σ grad · x over all windows.

    The table: x, grad, out as (blocks, columns, channels, elements), and int64: the place of each element of the
    window; the places in x and in grad of each vector; the channels of grad in each block, and where its x begins. The
    sizes: the numbers of members, of those to add up at a time, of columns of elements, whole vectors and all vectors;
    the distances of members of x and of grad; and of how many elements count in vectors that are not whole, the last
    ones. ``begin`` and ``end`` are blocks. All places and distances count elements of the dtype.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector.
        channels: the number of channels of grad in a block.
        elements: the number of elements of the window in a column.
    """
    w = Loops(width, 8, 8)
    x, grad, out, taps, places, targets, rows, sources = w.table
    members, several, columns, whole, count, x_member, grad_member, left = w.sizes
    counts = ", ".join(f"i64 {k}" for k in range(width))
    skipped = w.splat(w.assign(f"sub i64 {width}, {left}"), "int64")
    mask = Vector(w.assign(f"icmp uge <{width} x i64> <{counts}>, {skipped.text}"), "bool")
    rounds = w.assign(f"sdiv i64 {w.plus(members, w.plus(several, -1))}, {several}")
    with w.loop("0", rounds) as r, w.loop("%begin", "%end") as b, w.loop("0", columns) as column:
        totals = [[w.variable(w.constant(0.0, dtype)) for _ in range(elements)] for _ in range(channels)]
        source = w.element(x, w.number(sources, b), dtype)
        start = w.times(column, elements)
        xs = [w.element(source, w.number(taps, w.plus(start, k)), dtype) for k in range(elements)]
        start = w.times(b, channels)
        grads = [w.element(grad, w.number(rows, w.plus(start, c)), dtype) for c in range(channels)]
        with w.loop(w.times(r, several), w.smaller(w.times(w.plus(r, 1), several), members)) as n:
            far_x, far_grad = w.times(n, x_member), w.times(n, grad_member)
            for begin, end, where in (("0", whole, None), (whole, count, mask)):
                with w.loop(begin, end) as v:
                    at, target = w.plus(w.number(places, v), far_x), w.plus(w.number(targets, v), far_grad)
                    right = [_loaded(w, w.element(p, at, dtype), dtype, where) for p in xs]
                    for c in range(channels):
                        factor = _loaded(w, w.element(grads[c], target, dtype), dtype, where)
                        _add_products(w, totals[c], factor, right)
        cell = w.times(w.plus(w.times(b, columns), column), channels * elements)
        for c in range(channels):
            for k in range(elements):
                place = w.element(out, w.plus(cell, c * elements + k), dtype)
                added = w.add(w.load_one(place, dtype), w.total(w.get(totals[c][k], dtype)))
                w.store_one(added, place)
    return w.function()


def _loaded(w: Loops, pointer: str, dtype: str, mask: Vector | None) -> Vector:
    """Load a vector, with zeros for the elements that a mask excludes."""
    x = w.load(pointer, dtype, None)
    return x if mask is None else w.select(mask, x, w.constant(0.0, dtype))


def _add_products(w: Loops, totals: list[str], factor: Vector, xs: list[Vector]) -> None:
    """Add the products of a factor and several vectors to as many variables."""
    for total, x in zip(totals, xs, strict=True):
        w.set(total, w.fma(factor, x, w.get(total, x.dtype)))
