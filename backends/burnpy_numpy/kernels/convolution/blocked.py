"""Convolution of many channels and its gradients as kernels on blocks of channels, for vectors of channels.

`channel_blocks` reorders a part of the batch into a buffer, and the result out of one, so that all other arrays have
the channels first. `blocked_convolution` computes a tile of several pixels times one or two vectors of channels of the
result in registers, in one loop over the pairs of `tiles` and the channels of the source; with a gradient as
its source and the weight packed the other way, it computes the gradient of the input. `blocked_weight_gradient`
computes a block of channels of the gradient times vectors of channels of x, in one loop over pixels. Padding is not
multiplied.

Source: Georganas et al., Anatomy of High-Performance Deep Learning Convolutions on SIMD Architectures, 2018.

Each number is a sum of sums of about `CHAIN` products, which depend on shapes alone. So the result for a member does
not depend on the rest of the batch or on threads, and the error is as small as for short sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from burnpy.backend.primitives import Shape
from burnpy_numpy.cpu_threads import COUNT
from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.convolution.channel_blocks import (
    CHAIN,
    PRODUCTS,
    SCRATCH,
    WINDOW,
    Epilogue,
    PartCalls,
    Planes,
    Planned,
    Squares,
    Template,
    Uncompiled,
    add_products,
    block_kernels,
    distances_of,
    from_blocks,
    load_vectors,
    pair_of,
    parameters_of,
    planes_of,
    to_blocks,
    vector_width,
)
from burnpy_numpy.kernels.convolution.tiles import Tiles, Where, tiles
from burnpy_numpy.kernels.launch import TemplateKernel
from burnpy_numpy.kernels.packed_weights import packed_weights

if TYPE_CHECKING:
    from burnpy_numpy.kernels.plans import KernelCall

_PART = 4 << 20
"""The most bytes of the source and the result of a part of the batch."""
_PANEL = 512 << 10
"""The most bytes of weight that are packed before they are used."""
_FEW_PIXELS = 1 << 11
"""The number of pixels of the result below which packing the weight takes a noticeable share of the time."""
_MEMBERS = 8
"""The number of members of the batch that threads do not divide, as a tile has about as many."""


def convolve_blocks(
    x: Any, weight: Any, bias: Any, out: Any, where: Where, backward: bool, epilogue: Epilogue | None = None
) -> bool:
    """Compute a convolution, or the gradient of its input, into ``out``; return False if the weight is not finite.

    Products with padding are left out or not, as tiles are chosen: only products of finite numbers with 0 are nothing.

    Args:
        x: the input (N, C, H, W), or the gradient of the result (N, O, …).
        weight: the weight (O, C, height, width).
        bias: the bias of the result's channels, or None.
        out: C-contiguous memory for the result.
        where: stride, padding and dilation.
        backward: whether to compute the gradient of the input.
        epilogue: what follows.
    """
    try:
        return BlockedConvolution(x, weight, bias, out, where, backward, epilogue).run()
    except Uncompiled:
        return False


class _Part(NamedTuple):
    """The work of a kernel for a part of a batch."""

    tiles: Tiles
    kernel: TemplateKernel
    source: Shape  #: of the blocks of x
    block: Shape  #: the shape of a block of the result
    sizes: tuple[int, ...]  #: of the kernel


class BlockedConvolution:
    """One convolution whose channels are lanes; the arguments are those of `convolve_blocks`."""

    def __init__(
        self, x: Any, weight: Any, bias: Any, out: Any, where: Where, backward: bool, epilogue: Epilogue | None
    ) -> None:
        self.x, self.weight, self.out, self.where, self.backward = x, weight, out, where, backward
        self.epilogue = epilogue
        self.dtype, self.width = x.dtype, vector_width(x.dtype)
        self.members, self.depth, *source = x.shape
        _, self.channels, *result = out.shape
        self.source, self.result, self.window = pair_of(source), pair_of(result), pair_of(weight.shape[2:])
        self.taps = math.prod(self.window)
        self.vectors = 2 if self.channels > self.width else 1
        self.lanes = self.vectors * self.width
        self.blocks = -(-self.channels // self.lanes)
        self.template, self.source_lanes, self.summed = self._described()
        self.panel = self.taps * self.summed * self.lanes  #: the elements of the packed weight for a block
        self.bias = np.zeros(self.blocks * self.lanes, self.dtype)
        if bias is not None:
            self.bias[: self.channels] = bias
        self.finite = True
        most = max(1, _PANEL // (self.panel * self.dtype.itemsize))
        self.chunk = min(most, self.blocks)  #: the blocks that are computed at a time, one after the other
        each = (math.prod(x.shape[1:]) + math.prod(out.shape[1:])) * x.itemsize
        self.step = max(_MEMBERS, _PART // max(1, each) // _MEMBERS * _MEMBERS)  #: the members of a part of the batch
        self.pack, self.to, self.back, _ = block_kernels(
            self.dtype,
            self._packing(),
            (to_blocks, self.source_lanes),
            (from_blocks, self.lanes, *parameters_of(epilogue)),
            (self.template, self._tiles(min(self.step, self.members)).rows, self.vectors),
        )

    def _described(self) -> tuple[Template, int, int]:
        """Return the kernel's template, the lanes of the source, and the channels that are added up for each result."""
        return blocked_convolution, 2 * self.width, self.depth

    def _tiles(self, members: int) -> Tiles:
        """Return the tiles of a part of the batch."""
        wide = self.vectors > 1
        return tiles(members, self.source, self.result, self.window, self.where, self.backward, wide)

    def run(self) -> bool:
        """Compute all; return whether the weight is finite."""
        pixels = math.prod(self.result)
        each = pixels * self.panel / PRODUCTS
        groups = -(-self.members // _MEMBERS)
        by_members = COUNT > 1 and self.blocks < 2 * COUNT <= 2 * groups
        packed = self._packed(self.members * pixels < _FEW_PIXELS, by_members)
        if not self.finite:
            return False
        if by_members:
            step = min(self.step, -(-groups // (2 * COUNT)) * _MEMBERS)
            parts, rest = divmod(self.members, step)
            self._by_members(0, step, parts, packed, each)
            if rest:
                self._by_members(parts * step, rest, 1, packed, each)
        else:
            for begin in range(0, self.members, self.step):
                self._by_blocks(begin, min(self.step, self.members - begin), packed, each)
        return self.finite

    def _packed(self, few: bool, whole: bool) -> Any:
        """Return the packed weight if it is kept, from now on or already, or if the ``whole`` is needed; else None.

        With ``few`` pixels packing takes a noticeable share of the time.
        """
        how = (self.backward, self.lanes)
        packed = packed_weights.find(self.weight, how)
        keeps = packed is None and few and packed_weights.keeps(self.weight, how)
        if packed is None and (keeps or whole):
            packed, calls = np.empty((self.blocks, self.panel), self.dtype), PartCalls()
            finite = self._pack(calls, packed)
            calls.run(self.blocks, self.panel)
            self.finite = not finite.any()
            if keeps and self.finite:
                packed_weights.add(self.weight, how, packed)
        return packed

    def _pack(self, calls: PartCalls, panels: Any) -> Any:
        """Add the call that packs the weight for some blocks; return memory that it fills, with zeros if the weight is
        finite. The weight's input channels, or else its output channels, are members."""
        finite = np.zeros((self.blocks, self.width), self.dtype)
        calls.add(self.pack, (self.weight, panels, (finite, 0, finite.strides[0])), self._pack_sizes())
        return finite

    def _packing(self) -> tuple[Any, ...]:
        """Return the template of the kernel that packs the weight, and its parameters.

        Neighbours in memory are windows of the lanes, or else of the channels that are added up.
        """
        if not self._has_neighbours():
            return pack_columns, self.lanes, self.taps
        return (pack_windows, self.lanes, self.taps) if self.taps <= WINDOW else (to_blocks, self.lanes)

    def _has_neighbours(self) -> bool:
        """Return whether the windows of neighbouring lanes lie together in the weight."""
        return self.backward

    def _pack_sizes(self) -> tuple[int, ...]:
        """Return the sizes of the kernel that packs the weight."""
        taps, members = self.taps, self.summed
        if not self._has_neighbours():
            return self.channels, members * taps
        if taps <= WINDOW:
            return self.channels, members
        planes = Planes(members, self.channels, 1, taps, self.channels * taps, taps, 0)
        return (*planes, self.panel, self.lanes, 0, self.lanes * members, 0, 0)

    def _by_blocks(self, begin: int, members: int, packed: Any, each: float) -> None:
        """Compute the result for some members from ``begin`` on; threads share its blocks.

        The weight of a block is packed, unless it is ``packed`` already, just before it is used.
        """
        part, item = self._described_part(members), self.dtype.itemsize
        x = self._reordered(begin, members, part)
        calls, finite = PartCalls(), None
        panel, block = self.panel * item, math.prod(part.block) * item
        apart = 0 if packed is not None else -(-self.chunk * panel // 64) * 64
        if packed is None:
            packed = SCRATCH, 0, -panel
            finite = self._pack(calls, packed)
        memory = SCRATCH, apart, -block
        calls.add(part.kernel, (x, packed, memory, self.bias, *part.tiles.tables), part.sizes)
        target, *others = ((array, at, 0) for array, at, _ in self._targets(begin, 0))
        calls.add(self.back, (memory, target, *others), self._back_sizes(part, members))
        calls.run(self.blocks, each * members, self.chunk, apart + self.chunk * block)
        if finite is not None and finite.any():
            self.finite = False
        part.kernel.note()

    def _by_members(self, begin: int, members: int, parts: int, packed: Any, each: float) -> None:
        """Compute the result for parts of this many members, from ``begin`` on; threads share the parts."""
        part, item, calls = self._described_part(members), self.dtype.itemsize, PartCalls()
        x, far = (SCRATCH, 0, 0), self.x.strides[0]
        memory = SCRATCH, math.prod(part.source) * item, 0
        checked = np.zeros((parts, self.width), self.dtype)
        given = (self.x, begin * far, members * far), x, (checked, 0, checked.strides[0])
        calls.add(self.to, given, self._to_sizes(part, members), end=part.source[0])
        calls.add(part.kernel, (x, packed, memory, self.bias, *part.tiles.tables), part.sizes, end=self.blocks)
        calls.add(self.back, (memory, *self._targets(begin, members)), self._back_sizes(part, members), end=self.blocks)
        scratch = (math.prod(part.source) + self.blocks * math.prod(part.block)) * item
        calls.run(parts, each * self.blocks * members, 1, scratch, zeros=part.tiles.members > members)
        part.kernel.note()

    def _targets(self, begin: int, step: int) -> list[tuple[Any, int, int]]:
        """Return the result and an epilogue's arrays, from a member on, and the bytes of ``step`` members of each."""
        others = () if self.epilogue is None else self.epilogue.arrays
        members = [(x, x.strides[0] if x.ndim > 1 else 0) for x in (self.out, *others)]
        return [(x, begin * far, step * far) for x, far in members]

    def _described_part(self, members: int) -> _Part:
        """Return the work of the kernel for a part of the batch."""
        found, lanes = self._tiles(members), self.source_lanes
        (kernel,) = block_kernels(self.dtype, (self.template, found.rows, self.vectors))
        source = (-(-self.depth // lanes), found.members, self.source[0], found.source_row, lanes)
        block = (found.members, self.result[0], found.result_row, self.lanes)
        counts = (math.prod(source[1:4]), math.prod(block[:3]), self.taps, len(found.tables[0]))
        sizes = (*counts, found.source_step, found.result_step, *self._depths())
        return _Part(found, kernel, source, block, sizes)

    def _to_sizes(self, part: _Part, members: int) -> tuple[int, ...]:
        """Return the sizes of the kernel that reorders members of x."""
        planes, shape = planes_of(self.x, members, part.tiles.source_row), part.source
        return (*planes, math.prod(shape[1:]), *distances_of(shape), *part.tiles.zeros)

    def _back_sizes(self, part: _Part, members: int) -> tuple[int, ...]:
        """Return the sizes of the kernel that reorders the result."""
        planes = planes_of(self.out, members, part.tiles.result_row)
        return (*planes, math.prod(part.block), *distances_of(part.block))

    def planned(self) -> Planned | None:
        """Return it for plans; None if the weight is not finite, or the batch has several parts."""
        part = self._described_part(self.members) if self.members <= self.step else None
        packed = self._packed(True, True)
        if part is None or part.tiles.members != self.members or not self.finite:
            return None
        scratch = [(part.source, self.dtype), ((self.blocks, *part.block), self.dtype)]
        checked, last = np.zeros((part.source[0], self.width), self.dtype), part.source[0]
        work = self.members * math.prod(self.result) * self.panel / PRODUCTS

        def calls(arrays: Sequence[str], scratch: Sequence[str]) -> list[KernelCall]:
            from burnpy_numpy.kernels.plans import template_call

            x, *others, out = arrays
            source, memory = scratch
            made = [
                template_call(self.to.function, (x, source, checked), self._to_sizes(part, self.members), 0, last, 0)
            ]
            table, back = (
                (source, packed, memory, self.bias, *part.tiles.tables),
                self._back_sizes(part, self.members),
            )
            for start in range(0, self.blocks, self.chunk):
                blocks = start, min(start + self.chunk, self.blocks)
                made.append(template_call(part.kernel.function, table, part.sizes, *blocks, work))
                made.append(template_call(self.back.function, (memory, out, *others), back, *blocks, 0))
            return made

        return Planned(scratch, calls)

    def _depths(self) -> tuple[int, ...]:
        """Return the sizes of sums over channels: all, and those added up at a time."""
        lanes = self.source_lanes
        return self.depth, max(1, CHAIN // self.taps // lanes) * lanes

    def _reordered(self, begin: int, members: int, part: _Part) -> Any:
        """Return some members of x as blocks of channels."""
        x, calls = np.empty(part.source, self.dtype), PartCalls()
        x[:, members:] = 0  # what tiles multiply but nobody reads should not be slow
        checked = np.zeros((len(x), self.width), self.dtype)
        given = (self.x, begin * self.x.strides[0], 0), x, (checked, 0, checked.strides[0])
        calls.add(self.to, given, self._to_sizes(part, members))
        calls.run(len(x), members * self.source_lanes * math.prod(self.source))
        return x


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
    """Return the text of the kernel that packs a weight [members][lanes of all blocks][taps] in the same order.

    The sizes: the lanes of all blocks, and the members. Lanes beyond the last are 0. The rest is as for `pack_columns`.
    """
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


def blocked_convolution(dtype: str, width: int, rows: int, vectors: int) -> str:
    """Return the text of the kernel of convolution on blocks of channels.

    The table: the source [blocks][pixels][2 · width], the packed weight [blocks][taps][channels][vectors · width], the
    result [blocks][pixels][vectors · width], the bias, and the arrays of `Tiles`. The sizes: the pixels of the source
    and of the result, taps, tiles, the steps of pixels of a tile in the source and in the result, the channels of the
    source, and those in a chunk, whole blocks. ``begin`` and ``end`` are blocks of the result.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector.
        rows: the number of pixels of a tile.
        vectors: the number of vectors of channels of a tile.
    """
    w = Loops(width, 10, 8)
    x, weight, out, bias, sources, results, lists, limits, taps, places = w.table
    x_pixels, out_pixels, count, number, x_step, out_step, depth, chunk = w.sizes
    lanes, channels = 2 * width, vectors * width
    block = str(lanes)
    x_row, out_row = w.times(x_step, lanes), w.times(out_step, channels)
    chunks = w.ceil_div(depth, chunk)
    with w.loop("%begin", "%end") as b, w.loop("0", chunks) as part, w.loop("0", number) as t:
        first, stop = w.times(part, chunk), w.smaller(w.times(w.plus(part, 1), chunk), depth)
        begin = w.quotient(first, lanes)
        end = w.ceil_div(stop, lanes)
        source, which = w.number(sources, t), w.number(lists, t)
        totals = [[w.variable(w.constant(0.0, dtype)) for _ in range(vectors)] for _ in range(rows)]
        with w.loop(w.number(limits, which), w.number(limits, w.plus(which, 1))) as pair:
            place = w.plus(source, w.number(places, pair))
            panel = w.times(w.plus(w.times(b, count), w.number(taps, pair)), depth)
            with w.loop(begin, end) as c:
                pixel = w.element(x, w.times(w.plus(w.times(c, x_pixels), place), lanes), dtype)
                pixels = [w.element(pixel, w.times(x_row, i), dtype) for i in range(rows)]
                done = w.times(c, lanes)
                factors = w.element(weight, w.times(w.plus(panel, done), channels), dtype)
                with w.loop("0", w.smaller(block, w.minus(stop, done))) as k:
                    line = w.element(factors, w.times(k, channels), dtype)
                    ys = load_vectors(w, line, vectors, dtype)
                    for sums, start in zip(totals, pixels, strict=True):
                        add_products(w, sums, w.load_one_at(start, k, dtype), ys)
        # the bias is added to the first chunk, and each other chunk to the sum of those before
        target = w.element(out, w.times(w.plus(w.times(b, out_pixels), w.number(results, t)), channels), dtype)
        is_first = w.icmp("eq", part, "0")
        added = w.element(bias, w.times(b, channels), dtype)
        for i, sums in enumerate(totals):
            to = w.element(target, w.times(out_row, i), dtype)
            before = load_vectors(w, w.either(is_first, added, to), vectors, dtype)
            for j, (total, y) in enumerate(zip(sums, before, strict=True)):
                w.store_at(w.add(w.get(total, dtype), y), to, str(j * width))
    return w.function()
