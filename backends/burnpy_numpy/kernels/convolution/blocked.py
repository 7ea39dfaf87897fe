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
from functools import lru_cache
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
from burnpy_numpy.kernels.convolution.packing import pack_columns, pack_windows
from burnpy_numpy.kernels.convolution.tiles import Tiles, Where, tiles
from burnpy_numpy.kernels.kernel import described
from burnpy_numpy.kernels.launch import TemplateKernel
from burnpy_numpy.kernels.packed_weights import packed_weights

if TYPE_CHECKING:
    from burnpy_numpy.kernels.plans import KernelCall

_PART_BYTES = 4 << 20
"""The most bytes of the source and the result of a part of the batch."""
_PANEL_BYTES = 512 << 10
"""The most bytes of weight that are packed before they are used."""
_FEW_PIXELS = 1 << 11
"""The number of pixels of the result below which packing the weight takes a noticeable share of the time."""
_KEPT = 8
"""The number of sizes of a part of the batch whose calls are kept."""
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
        found = blocks_of(BlockedConvolution, x, weight, out, where, backward, epilogue)
        return found.run(x, weight, bias, out, epilogue)
    except Uncompiled:
        return False


def blocks_of(
    kind: Any, x: Any, weight: Any, out: Any, where: Where, backward: bool, epilogue: Epilogue | None
) -> BlockedConvolution:
    """Return the convolution of arrays like these, which is described once for their shapes."""
    images = (x, out) if epilogue is None else (x, out, *epilogue.arrays)
    far = tuple([image.strides[0] if image.ndim > 1 else 0 for image in images])
    shapes = x.shape, weight.shape, out.shape
    found: BlockedConvolution = described(
        kind, *shapes, (x.dtype, out.dtype), far, where, backward, parameters_of(epilogue)
    )
    return found


class _Part(NamedTuple):
    """The work of a kernel for a part of a batch."""

    tiles: Tiles
    kernel: TemplateKernel
    source: Shape  #: of the blocks of x
    block: Shape  #: the shape of a block of the result
    sizes: tuple[int, ...]  #: of the kernel
    to_sizes: tuple[int, ...]  #: of the kernel that reorders members of x
    back_sizes: tuple[int, ...]  #: of the kernel that reorders the result


class BlockedConvolution:
    """The convolutions, of arrays of some shapes, whose channels are lanes; see `convolve_blocks`.

    Calls are made once and kept: they are given arrays by number, see `PartCalls`.

    Args:
        source: the shape of x.
        weight: the shape of the weight.
        result: the shape of the result.
        dtypes: the dtypes of x and the weight, and of the result.
        far: the bytes from a member to the next: of x, of the result, and of an epilogue's arrays, where 0 is for one
            value for each channel.
        where: stride, padding and dilation.
        backward: whether to compute the gradient of the input.
        epilogue: the parameters of the epilogue, the operations that follow.
    """

    def __init__(
        self,
        source: Shape,
        weight: Shape,
        result: Shape,
        dtypes: tuple[Any, Any],
        far: tuple[int, ...],
        where: Where,
        backward: bool,
        epilogue: tuple[Any, ...],
    ) -> None:
        dtype, _ = self.dtypes = dtypes
        self.shapes, self.far, self.where, self.backward = (source, result), far, where, backward
        self.dtype, self.width = dtype, vector_width(dtype)
        self.members, self.depth, *plane = source
        _, self.channels, *result_plane = result
        self.source, self.result, self.window = pair_of(plane), pair_of(result_plane), pair_of(weight[2:])
        self.taps = math.prod(self.window)
        self.vectors = 2 if self.channels > self.width else 1
        self.lanes = self.vectors * self.width
        self.blocks = -(-self.channels // self.lanes)
        self.template, self.source_lanes, self.summed = self._described()
        self.panel = self.taps * self.summed * self.lanes  #: the elements of the packed weight for a block
        most = max(1, _PANEL_BYTES // (self.panel * dtype.itemsize))
        self.chunk = min(most, self.blocks)  #: the blocks that are computed at a time, one after the other
        each = (math.prod(source[1:]) + math.prod(result[1:])) * dtype.itemsize
        self.step = max(_MEMBERS, _PART_BYTES // max(1, each) // _MEMBERS * _MEMBERS)  #: members of a part
        self.pack, self.to, self.back, _ = block_kernels(
            dtype,
            self._packing(),
            (to_blocks, self.source_lanes),
            (from_blocks, self.lanes, *epilogue),
            (self.template, self._tiles(min(self.step, self.members)).rows, self.vectors),
        )
        self.part = lru_cache(_KEPT)(self._described_part)
        self.to_calls, self.block_calls = lru_cache(_KEPT)(self._to_calls), lru_cache(_KEPT)(self._block_calls)
        self.member_calls = lru_cache(_KEPT)(self._member_calls)

    def _described(self) -> tuple[Template, int, int]:
        """Return the kernel's template, the lanes of the source, and the channels that are added up for each result."""
        return blocked_convolution, 2 * self.width, self.depth

    def _tiles(self, members: int) -> Tiles:
        wide = self.vectors > 1
        return tiles(members, self.source, self.result, self.window, self.where, self.backward, wide)

    def run(self, x: Any, weight: Any, bias: Any, out: Any, epilogue: Epilogue | None) -> bool:
        """Compute all; return whether the weight is finite."""
        pixels = math.prod(self.result)
        each = pixels * self.panel / PRODUCTS
        groups = -(-self.members // _MEMBERS)
        by_members = COUNT > 1 and self.blocks < 2 * COUNT <= 2 * groups
        packed, finite = self._packed(weight, self.members * pixels < _FEW_PIXELS, by_members)
        if not finite:
            return False
        images = (x, out) if epilogue is None else (x, out, *epilogue.arrays)
        rest = weight if packed is None else packed, self._added(bias)
        if by_members:
            step = min(self.step, -(-groups // (2 * COUNT)) * _MEMBERS)
            parts, left = divmod(self.members, step)
            self._by_members(images, rest, step, parts, each)
            if left:
                self._by_members(_from(parts * step, images), rest, left, 1, each)
            return True
        for begin in range(0, self.members, self.step):
            members = min(self.step, self.members - begin)
            finite &= self._by_blocks(_from(begin, images), rest, members, packed is None, each)
        return finite

    def _added(self, bias: Any) -> Any:
        """Return a bias of whole blocks."""
        added = np.zeros(self.blocks * self.lanes, self.dtype)
        if bias is not None:
            added[: self.channels] = bias
        return added

    def _packed(self, weight: Any, few: bool, whole: bool) -> tuple[Any, bool]:
        """Return the packed weight if it is kept, from now on or already, or if the ``whole`` is needed, else None; and
        whether the weight is finite, as far as that is known. With ``few`` pixels packing takes a noticeable share of
        the time."""
        how = (self.backward, self.lanes)
        packed = packed_weights.find(weight, how)
        if packed is not None:
            return packed, True
        keeps = few and packed_weights.keeps(weight, how)
        if not (keeps or whole):
            return None, True
        packed, calls, checked = np.empty((self.blocks, self.panel), self.dtype), PartCalls(), self._checked()
        self._pack(calls, weight, packed, checked)
        calls.run(self.blocks, self.panel)
        finite = not checked.any()
        if keeps and finite:
            packed_weights.add(weight, how, packed)
        return packed, finite

    def _checked(self) -> Any:
        """Return memory that packing fills, with zeros if the weight is finite."""
        return np.zeros((self.blocks, self.width), self.dtype)

    def _pack(self, calls: PartCalls, weight: Any, panels: Any, checked: Any) -> None:
        """Add the call that packs the weight for some blocks. The weight's input channels, or else its output channels,
        are members."""
        calls.add(self.pack, (weight, panels, (checked, 0, self.width * self.dtype.itemsize)), self._pack_sizes())

    def _packing(self) -> tuple[Any, ...]:
        """Return the template of the kernel that packs the weight, and its parameters. Neighbours in memory are windows
        of the lanes, or else of the channels that are added up."""
        if not self._has_neighbours():
            return pack_columns, self.lanes, self.taps
        return (pack_windows, self.lanes, self.taps) if self.taps <= WINDOW else (to_blocks, self.lanes)

    def _has_neighbours(self) -> bool:
        """Return whether the windows of neighbouring lanes lie together in the weight."""
        return self.backward

    def _pack_sizes(self) -> tuple[int, ...]:
        taps, members = self.taps, self.summed
        if not self._has_neighbours():
            return self.channels, members * taps
        if taps <= WINDOW:
            return self.channels, members
        planes = Planes(members, self.channels, 1, taps, self.channels * taps, taps, 0)
        return (*planes, self.panel, self.lanes, 0, self.lanes * members, 0, 0)

    def _by_blocks(self, images: Sequence[Any], rest: Sequence[Any], members: int, packs: bool, each: float) -> bool:
        """Compute the result for some members; threads share its blocks. Return whether the weight is finite. The
        weight of a block is packed, unless it is already, just before it is used. For the arrays see `_from`."""
        part, (x, *others) = self.part(members), images
        source, checked = np.empty(part.source, self.dtype), [self._checked()] if packs else []
        source[:, members:] = 0  # what tiles multiply but nobody reads should not be slow
        self.to_calls(members).run(len(source), members * self.source_lanes * math.prod(self.source), given=(x, source))
        calls, scratch = self.block_calls(members, packs)
        given = source, *others, *rest, *checked
        calls.run(self.blocks, each * members, self.chunk, scratch, given=given)
        part.kernel.note()
        return not (packs and checked[0].any())

    def _to_calls(self, members: int) -> PartCalls:
        """Return the calls that reorder this many members; their arrays: those, and their blocks."""
        part, calls = self.part(members), PartCalls(2)
        checked = np.zeros((part.source[0], self.width), self.dtype)
        calls.add(self.to, (0, 1, (checked, 0, checked.strides[0])), part.to_sizes)
        return calls

    def _block_calls(self, members: int, packs: bool) -> tuple[PartCalls, int]:
        """Return the calls that compute blocks of the result for this many members, and the bytes of memory they need.
        Their arrays: the blocks of x, the other images, the weight, the bias, and memory for `_pack` if it
        ``packs``."""
        part, item, images = self.part(members), self.dtype.itemsize, len(self.far)
        calls, panel, block = PartCalls(images + 2 + packs), self.panel * item, math.prod(part.block) * item
        apart = 0
        packed: Any = images
        if packs:
            apart, packed = -(-self.chunk * panel // 64) * 64, (SCRATCH, 0, -panel)
            self._pack(calls, images, packed, images + 2)
        memory = SCRATCH, apart, -block
        calls.add(part.kernel, (0, packed, memory, images + 1, *part.tiles.tables), part.sizes)
        calls.add(self.back, (memory, *range(1, images)), part.back_sizes)
        return calls, apart + self.chunk * block

    def _by_members(self, images: Sequence[Any], rest: Sequence[Any], members: int, parts: int, each: float) -> None:
        """Compute the result for parts of this many members, with a packed weight; threads share the parts."""
        part, checked = self.part(members), np.zeros((parts, self.width), self.dtype)
        scratch = (math.prod(part.source) + self.blocks * math.prod(part.block)) * self.dtype.itemsize
        work, zeros = each * self.blocks * members, part.tiles.members > members
        self.member_calls(members).run(parts, work, 1, scratch, zeros, given=(*images, *rest, checked))
        part.kernel.note()

    def _member_calls(self, members: int) -> PartCalls:
        """Return the calls that compute the result for a part of this many members. Their arrays: the images, the
        packed weight, the bias, and memory for each part."""
        part, item, images = self.part(members), self.dtype.itemsize, len(self.far)
        calls, (given, *targets) = PartCalls(images + 3), [(k, 0, far * members) for k, far in enumerate(self.far)]
        x, memory = (SCRATCH, 0, 0), (SCRATCH, math.prod(part.source) * item, 0)
        calls.add(self.to, (given, x, (images + 2, 0, self.width * item)), part.to_sizes, end=part.source[0])
        table = x, images, memory, images + 1, *part.tiles.tables
        calls.add(part.kernel, table, part.sizes, end=self.blocks)
        calls.add(self.back, (memory, *targets), part.back_sizes, end=self.blocks)
        return calls

    def _described_part(self, members: int) -> _Part:
        """Return the work of the kernel for a part of the batch."""
        found, lanes = self._tiles(members), self.source_lanes
        (kernel,) = block_kernels(self.dtype, (self.template, found.rows, self.vectors))
        source = (-(-self.depth // lanes), found.members, self.source[0], found.source_row, lanes)
        block = (found.members, self.result[0], found.result_row, self.lanes)
        counts = (math.prod(source[1:4]), math.prod(block[:3]), self.taps, len(found.tables[0]))
        sizes = (*counts, found.source_step, found.result_step, *self._depths())
        images = zip(self.shapes, self.far, self.dtypes, (found.source_row, found.result_row), strict=False)
        to, back = (planes_of(shape, far // dtype.itemsize, members, row) for shape, far, dtype, row in images)
        to_sizes = (*to, math.prod(source[1:]), *distances_of(source), *found.zeros)
        return _Part(found, kernel, source, block, sizes, to_sizes, (*back, math.prod(block), *distances_of(block)))

    def planned(self, weight: Any, bias: Any) -> Planned | None:
        """Return it for plans; None if the weight is not finite, or the batch has several parts."""
        part = self.part(self.members) if self.members <= self.step else None
        packed, finite = self._packed(weight, True, True)
        if part is None or part.tiles.members != self.members or not finite:
            return None
        scratch = [(part.source, self.dtype), ((self.blocks, *part.block), self.dtype)]
        checked, last = np.zeros((part.source[0], self.width), self.dtype), part.source[0]
        work, added = self.members * math.prod(self.result) * self.panel / PRODUCTS, self._added(bias)

        def calls(arrays: Sequence[str], scratch: Sequence[str]) -> list[KernelCall]:
            from burnpy_numpy.kernels.plans import template_call

            x, *others, out = arrays
            source, memory = scratch
            made = [template_call(self.to.function, (x, source, checked), part.to_sizes, 0, last, 0)]
            table = source, packed, memory, added, *part.tiles.tables
            for start in range(0, self.blocks, self.chunk):
                blocks = start, min(start + self.chunk, self.blocks)
                made.append(template_call(part.kernel.function, table, part.sizes, *blocks, work))
                made.append(template_call(self.back.function, (memory, out, *others), part.back_sizes, *blocks, 0))
            return made

        return Planned(scratch, calls)

    def _depths(self) -> tuple[int, ...]:
        """Return the sizes of sums over channels: all, and those added up at a time."""
        lanes = self.source_lanes
        return self.depth, max(1, CHAIN // self.taps // lanes) * lanes


def _from(begin: int, images: Sequence[Any]) -> Sequence[Any]:
    """Return the input, the result and an epilogue's arrays from a member of the batch on."""
    return images if begin == 0 else [x[begin:] if x.ndim > 1 else x for x in images]


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
    x_row, out_row = x_step * lanes, out_step * channels
    chunks = w.ceil_div(depth, chunk)
    with w.loop(w.begin, w.end) as b, w.loop(0, chunks) as part, w.loop(0, number) as t:
        first, stop = part * chunk, w.smaller((part + 1) * chunk, depth)
        begin = first // lanes
        end = w.ceil_div(stop, lanes)
        source, which = w.number(sources, t), w.number(lists, t)
        totals = [[w.variable(w.constant(0.0, dtype)) for _ in range(vectors)] for _ in range(rows)]
        with w.loop(w.number(limits, which), w.number(limits, which + 1)) as pair:
            place = source + w.number(places, pair)
            panel = (b * count + w.number(taps, pair)) * depth
            with w.loop(begin, end) as c:
                pixel = w.element(x, (c * x_pixels + place) * lanes, dtype)
                pixels = [w.element(pixel, x_row * i, dtype) for i in range(rows)]
                done = c * lanes
                factors = w.element(weight, (panel + done) * channels, dtype)
                with w.loop(0, w.smaller(lanes, stop - done)) as k:
                    line = w.element(factors, k * channels, dtype)
                    ys = load_vectors(w, line, vectors, dtype)
                    for sums, start in zip(totals, pixels, strict=True):
                        add_products(w, sums, w.load_one_at(start, k, dtype), ys)
        # the bias is added to the first chunk, and each other chunk to the sum of those before
        target = w.element(out, (b * out_pixels + w.number(results, t)) * channels, dtype)
        is_first = w.icmp("eq", part, 0)
        added = w.element(bias, b * channels, dtype)
        for i, sums in enumerate(totals):
            to = w.element(target, out_row * i, dtype)
            before = load_vectors(w, w.either(is_first, added, to), vectors, dtype)
            for j, (total, y) in enumerate(zip(sums, before, strict=True)):
                w.store_at(w.add(w.get(total, dtype), y), to, j * width)
    return w.function()
