"""Kernels that pack the weight of a convolution, so that the lanes of a block lie together, and unpack its gradient."""

from __future__ import annotations

from burnpy_numpy.kernels.convolution.channel_blocks import Squares


def pack_columns(dtype: str, width: int, lanes: int, taps: int) -> str:
    """Return the text of the kernel that packs a weight [lanes of all blocks][members][taps].

    The table: the weight, the packed weight [blocks][taps][members][lanes], and a vector as for `to_blocks`. The sizes:
    the lanes of all blocks, and the columns, which are taps of members. ``begin`` and ``end`` are blocks. Lanes beyond
    the last are those of the last.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector, a power of 2.
        lanes: the number of lanes in a block, a multiple of the width.
        taps: the number of elements of a window.
    """
    w = Squares(width, table=3, sizes=2)
    (weight, packed, finite), (channels, columns) = w.table, w.sizes
    panel, last = w.times(columns, lanes), w.plus(channels, -1)
    cycle, tap = taps * width, w.quotient(panel, taps)
    places = w.stack_memory(cycle, "int64")  # of the columns of as many members as a vector has elements
    with w.loop("0", str(width)) as member, w.loop("0", str(taps)) as k:
        place = w.plus(w.times(member, lanes), w.times(k, tap))
        w.set_number(w.element(places, w.plus(w.times(member, taps), k), "int64"), place)
    checked = w.variable(w.load(finite, dtype))
    with w.loop("%begin", "%end") as b, w.loop("0", str(lanes // width)) as group:
        first = w.plus(w.times(b, lanes), w.times(group, width))
        lines = [w.times(w.smaller(w.plus(first, k), last), columns) for k in range(width)]
        target = w.plus(w.times(b, panel), w.times(group, width))
        for column, left in w.squares(columns):
            mask = None if left is None else w.below(left)
            xs = [w.load(w.element(weight, w.plus(line, column), dtype), dtype, mask) for line in lines]
            w.check(checked, xs)
            turn, at = w.divided(column, str(cycle))
            start, at = w.plus(target, w.times(turn, width * lanes)), w.element(places, at, "int64")
            for lane, v in enumerate(w.transposed(xs)):
                with w.inside(lane, left):
                    w.store_at(v, packed, w.plus(start, w.number(at, lane)))
    w.store(w.get(checked, dtype), finite)
    return w.function()


def pack_windows(dtype: str, width: int, lanes: int, taps: int) -> str:
    """Return the text of the kernel that packs a weight [members][lanes of all blocks][taps] in the same order. The
    sizes: the lanes of all blocks, and the members. Lanes beyond the last are 0. The rest is as for `pack_columns`."""
    w = Squares(width, table=3, sizes=2)
    (weight, packed, finite), (channels, members) = w.table, w.sizes
    tap, far = w.times(members, lanes), w.times(channels, taps)
    checked = w.variable(w.load(finite, dtype))
    with w.loop("%begin", "%end") as b, w.loop("0", members) as n, w.loop("0", str(lanes // width)) as group:
        first = w.plus(w.times(b, lanes), w.times(group, width))
        source = w.plus(w.times(n, far), w.times(first, taps))
        target = w.plus(w.plus(w.times(b, w.times(tap, taps)), w.times(n, lanes)), w.times(group, width))

        def pack(masked: bool) -> None:
            left = w.times(w.minus(channels, first), taps)
            masks = [w.below(w.plus(left, -j * width)) if masked else None for j in range(taps)]
            xs = [w.load(w.element(weight, w.plus(source, j * width), dtype), dtype, m) for j, m in enumerate(masks)]
            w.check(checked, xs)
            for k, v in enumerate(w.by_taps(xs)):
                w.store_at(v, packed, w.plus(target, w.times(tap, k)))

        w.in_two_ways(pack, [(w.plus(first, width), channels)])
    w.store(w.get(checked, dtype), finite)
    return w.function()


def unpack_windows(dtype: str, width: int, lanes: int, taps: int) -> str:
    """Return the text of the kernel that reorders sums to a weight [members][lanes of all blocks][taps].

    The table: the sums [blocks][taps][members][lanes], and the weight. The sizes: the lanes of all blocks, the members,
    and the distance of taps in the sums. ``begin`` and ``end`` are blocks. Lanes beyond the last are not read.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector, a power of 2.
        lanes: the number of lanes in a block, a multiple of the width.
        taps: the number of elements of a window.
    """
    w = Squares(width, table=2, sizes=3)
    (sums, weight), (channels, members, tap) = w.table, w.sizes
    with w.loop("%begin", "%end") as b, w.loop("0", members) as n, w.loop("0", str(lanes // width)) as group:
        first = w.plus(w.times(b, lanes), w.times(group, width))
        source = w.plus(w.plus(w.times(b, w.times(tap, taps)), w.times(n, lanes)), w.times(group, width))
        target = w.plus(w.times(n, w.times(channels, taps)), w.times(first, taps))

        def unpack(masked: bool) -> None:
            left = w.times(w.minus(channels, first), taps)
            xs = [w.load_at(sums, w.plus(source, w.times(tap, k)), dtype) for k in range(taps)]
            for j, v in enumerate(w.by_windows(xs)):
                mask = w.below(w.plus(left, -j * width)) if masked else None
                w.store(v, w.element(weight, w.plus(target, j * width), dtype), mask)

        w.in_two_ways(unpack, [(w.plus(first, width), channels)])
    return w.function()
