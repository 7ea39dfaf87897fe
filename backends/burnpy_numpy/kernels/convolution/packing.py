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
    panel, last = columns * lanes, channels - 1
    cycle, tap = taps * width, panel // taps
    places = w.stack_memory(cycle, "int64")  # of the columns of as many members as a vector has elements
    with w.loop(0, width) as member, w.loop(0, taps) as k:
        place = member * lanes + k * tap
        w.set_number(w.element(places, member * taps + k, "int64"), place)
    checked = w.variable(w.load(finite, dtype))
    with w.loop(w.begin, w.end) as b, w.loop(0, lanes // width) as group:
        first = b * lanes + group * width
        lines = [w.smaller(first + k, last) * columns for k in range(width)]
        target = b * panel + group * width
        for column, left in w.squares(columns):
            mask = None if left is None else w.below(left)
            xs = [w.load(w.element(weight, line + column, dtype), dtype, mask) for line in lines]
            w.check(checked, xs)
            turn, rest = divmod(column, cycle)
            start, at = target + turn * (width * lanes), w.element(places, rest, "int64")
            for lane, v in enumerate(w.transposed(xs)):
                with w.inside(lane, left):
                    w.store_at(v, packed, start + w.number(at, lane))
    w.store(w.get(checked, dtype), finite)
    return w.function()


def pack_windows(dtype: str, width: int, lanes: int, taps: int) -> str:
    """Return the text of the kernel that packs a weight [members][lanes of all blocks][taps] in the same order. The
    sizes: the lanes of all blocks, and the members. Lanes beyond the last are 0. The rest is as for `pack_columns`."""
    w = Squares(width, table=3, sizes=2)
    (weight, packed, finite), (channels, members) = w.table, w.sizes
    tap, far = members * lanes, channels * taps
    checked = w.variable(w.load(finite, dtype))
    with w.loop(w.begin, w.end) as b, w.loop(0, members) as n, w.loop(0, lanes // width) as group:
        first = b * lanes + group * width
        source = n * far + first * taps
        target = b * (tap * taps) + n * lanes + group * width

        def pack(masked: bool) -> None:
            left = (channels - first) * taps
            masks = [w.below(left - j * width) if masked else None for j in range(taps)]
            xs = [w.load(w.element(weight, source + j * width, dtype), dtype, m) for j, m in enumerate(masks)]
            w.check(checked, xs)
            for k, v in enumerate(w.by_taps(xs)):
                w.store_at(v, packed, target + tap * k)

        w.in_two_ways(pack, [(first + width, channels)])
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
    with w.loop(w.begin, w.end) as b, w.loop(0, members) as n, w.loop(0, lanes // width) as group:
        first = b * lanes + group * width
        source = b * (tap * taps) + n * lanes + group * width
        target = n * (channels * taps) + first * taps

        def unpack(masked: bool) -> None:
            left = (channels - first) * taps
            xs = [w.load_at(sums, source + tap * k, dtype) for k in range(taps)]
            for j, v in enumerate(w.by_windows(xs)):
                mask = w.below(left - j * width) if masked else None
                w.store(v, w.element(weight, target + j * width, dtype), mask)

        w.in_two_ways(unpack, [(first + width, channels)])
    return w.function()
