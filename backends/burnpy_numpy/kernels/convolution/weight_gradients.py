"""The gradient of a convolution's weight as kernels: on blocks of channels, see `blocked`, and on rows, see `conv2d`.

Where threads share groups of members, each lays out its members in memory of its own. Memory that another thread has
just read takes some ten times as long to write.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.primitives import Shape
from burnpy_numpy.cpu_threads import COUNT
from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.compiler.target import target
from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.convolution.channel_blocks import (
    CHAIN,
    GROUPS,
    PRODUCTS,
    SCRATCH,
    WINDOW,
    PartCalls,
    Planes,
    Template,
    Uncompiled,
    add_products,
    block_kernels,
    distances_of,
    from_blocks,
    load_vectors,
    pair_of,
    planes_of,
    to_blocks,
    vector_width,
)
from burnpy_numpy.kernels.convolution.packing import unpack_windows
from burnpy_numpy.kernels.convolution.tiles import Where, Windows, ranges
from burnpy_numpy.kernels.kernel import contiguous, described
from burnpy_numpy.kernels.launch import TemplateKernel

_PART_BYTES = 16 << 20
"""The most bytes of x and of the gradient in a part of the batch."""
GRADIENT_ROWS = 1 << 14
"""The maximum size in bytes of those channels of a gradient that are read again and again for a block of a weight."""
_KEPT = 8
"""The number of sizes of a part of the batch whose calls are kept."""
_FEW_BLOCKS = 2
"""The number of blocks of channels up to which threads share groups of members instead."""


def weight_gradient_of_blocks(grad: Any, x: Any, out: Any, where: Where) -> bool:
    """Compute the gradient of a convolution's weight into ``out``; return False if kernels cannot be compiled.

    Args:
        grad: the gradient of the result, C-contiguous.
        x: the input, C-contiguous.
        out: C-contiguous memory for the result.
        where: stride, padding and dilation.
    """
    try:
        gradient_of(BlockedWeightGradient, grad, x, out, where).run(grad, x, out)
    except Uncompiled:
        return False
    return True


def gradient_of(kind: Any, grad: Any, x: Any, out: Any, where: Where) -> BlockedWeightGradient:
    """Return the gradient of the weight for arrays like these, which is described once for their shapes."""
    far = x.strides[0] // x.itemsize, grad.strides[0] // x.itemsize
    found: BlockedWeightGradient = described(kind, grad.shape, x.shape, out.shape, x.dtype, far, where)
    return found


def run_by_weight(kernel: TemplateKernel, windows: Windows, grad: Any, x: Any) -> Any:
    """Return the gradient of a convolution, of images or of volumes, by its weight, with the channels first. Threads
    share groups of members, each with memory of its own, or else the blocks of channels. The sums of a group are added
    up apart, so that the result does not depend on that."""
    tables, o, item = windows.backward, grad.shape[1], x.itemsize
    grad = contiguous(grad)
    member, channel = windows.distances(o)
    (size, wide), blocks = tables.block, len(tables.channels)
    columns, vectors = len(tables.elements) // wide, len(tables.places)
    rows = np.ascontiguousarray(tables.channels * channel)
    most = max(64, GRADIENT_ROWS // (size * tables.width * item))
    several = max(1, most // vectors)
    group = windows.group(len(x))
    sums = np.zeros((-(-len(x) // group), blocks, columns, size, wide), x.dtype)

    def add(calls: PartCalls, given: Sequence[Any], count: int, end: int = 0) -> None:
        for begin in range(0, vectors, most):
            last = min(begin + most, vectors)
            table = (*given, tables.elements, tables.places[begin:], tables.targets[begin:], rows, tables.sources)
            sizes = (count, several, columns, min(max(tables.whole - begin, 0), last - begin), last - begin)
            calls.add(kernel, table, (*sizes, windows.step, member, tables.left), end=end)

    for members, batch, grads in windows.batches(x, grad):
        each = grads.size * windows.length / members / blocks / PRODUCTS
        if len(sums) > 1:
            _add_groups(add, windows, batch, grads, sums, (group, several, each * blocks))
            continue
        together = windows.together(members, item)
        for start, stop, source in windows.parts(batch, members):
            calls = PartCalls()
            for first in range(start, stop, together):
                place = (first - start) * windows.step * item
                given = (source, place, 0), (grads, first * member * item, 0), sums
                add(calls, given, min(together, stop - first))
            calls.run(blocks, each * (stop - start), blocks)
    kernel.note()
    out = np.empty((o, windows.length), x.dtype)
    out[tables.channels] = np.add.reduce(sums).swapaxes(1, 2).reshape((blocks, size, -1))[:, :, : windows.length]
    return out


def _add_groups(
    add: Callable[..., None], windows: Windows, x: Any, grads: Any, sums: Any, sizes: tuple[int, int, float]
) -> None:
    """Add up groups of members of x, each in one of ``sums``; threads share the groups.

    Args:
        add: a function that adds the calls for some members.
        windows: the windows.
        x: the batch.
        grads: the gradient of the result, C-contiguous.
        sums: the sums, with a group's side by side.
        sizes: the members of a group, those that are added up at a time, and the elements of work of one.
    """
    group, several, work = sizes
    whole, far = len(x) // group, grads.size // len(x) * x.itemsize
    for begin in (0, whole * group):
        calls, end = PartCalls(), min(begin + group, len(x))
        for first in range(begin, end, several):
            count = min(several, end - first)
            source = windows.source(calls, x, (first, count, group))
            given = source, (grads, first * far, group * far), (sums[begin // group :], 0, sums.strides[0])
            add(calls, given, count, len(sums[0]))
        if begin < end:
            room = several * windows.member * x.itemsize
            calls.run(whole if begin == 0 else 1, work * (end - begin), scratch=room, zeros=True)


class BlockedWeightGradient:
    """The gradients, of weights of some shape, on blocks of channels; see `weight_gradient_of_blocks`.

    Calls that are made often are kept: they are given arrays by number, see `PartCalls`.

    Args:
        grad: the shape of the gradient of the result.
        x: the shape of the input.
        out: the shape of the weight.
        dtype: the dtype of all of them.
        far: the elements from a member to the next: of x, and of the gradient.
        where: stride, padding and dilation.
    """

    def __init__(self, grad: Shape, x: Shape, out: Shape, dtype: Any, far: tuple[int, int], where: Where) -> None:
        self.dtype, self.width, self.members = dtype, vector_width(dtype), x[0]
        self.depth, *source = x[1:]
        self.source, self.result = pair_of(source), pair_of(grad[2:])
        window = pair_of(out[2:])
        self.taps = math.prod(window)
        self.ranges = ranges(self.source, self.result, window, where)
        self.vectors = 2 if self.depth > self.width else 1
        self.lanes = self.vectors * self.width
        self.blocks = -(-self.depth // self.lanes)
        self.template, rows, grad_lanes, self.channels = self._described(out[0])
        self.columns = -(-self.channels // rows)  #: blocks of the gradient
        self.cell = self.columns * rows * self.lanes  #: the sums for an element of the window
        high, wide = self.result
        self.step = max(1, min(self.members, CHAIN // (high * wide)))  #: members that are added up at a time
        chunk = max(1, CHAIN // (self.step * wide))  # rows that are added up at a time
        steps = (where[0][0] * self.source[1], where[0][1], high * wide, wide)
        self.sizes = (chunk, self.taps, self.columns), (math.prod(self.source), *steps)
        self.kernel, to_x, to_grad, self.back = block_kernels(
            dtype,
            (self.template, rows, self.vectors),
            (to_blocks, self.lanes),
            (to_blocks, grad_lanes),
            (unpack_windows, self.lanes, self.taps) if self.taps <= WINDOW else (from_blocks, self.lanes),
        )
        self.images = _Images(x, far[0], self.lanes, to_x), _Images(grad, far[1], grad_lanes, to_grad)
        self.to_calls, self.whole_calls = lru_cache(2 * _KEPT)(self._to_calls), cache(self._whole_calls)

    def _described(self, outputs: int) -> tuple[Template, int, int, int]:
        """Return the kernel's template, its rows, the gradient's lanes, and the channels multiplied by each of x."""
        rows = 8 if target().registers >= 32 else 4
        return blocked_weight_gradient, rows, rows, outputs

    def run(self, grad: Any, x: Any, out: Any) -> None:
        """Compute all, by parts of the batch whose buffers are not too large."""
        held = -(-self.members // (GROUPS * self.step)) * self.step
        small = GROUPS * self.blocks * self.taps * self.cell <= x.size + grad.size
        if held < self.members and small and self.blocks <= _FEW_BLOCKS and self.channels > 1:
            self._finish(self._by_groups(held, (x, grad)), out)
            return
        each = sum(math.prod(images.shape[1:]) for images in self.images) * self.dtype.itemsize
        step = max(self.step, _PART_BYTES // max(1, each) // self.step * self.step)
        if step >= self.members and self.blocks >= COUNT:
            self._whole((x, grad), out)
            return
        sums = np.empty((self.blocks * self.taps, self.cell), self.dtype)
        work = math.prod(self.result) * self.cell / PRODUCTS
        for begin in range(0, self.members, step):
            end, calls = min(begin + step, self.members), PartCalls(2)
            self._add(calls, end - begin, sums, begin=begin == 0)
            calls.run(
                len(sums), work * (end - begin), len(sums), given=self._reordered((x[begin:end], grad[begin:end]))
            )
        self._finish(sums, out)

    def _by_groups(self, held: int, given: Sequence[Any]) -> Any:
        """Return the sums, by groups of this many members, which threads share, each with memory of its own."""
        groups, item, count = self.members // held, self.dtype.itemsize, self.blocks * self.taps
        sums = np.empty((-(-self.members // held), count, self.cell), self.dtype)
        shapes = [images.blocks(self.step) for images in self.images]
        places = [0, *np.cumsum([-(-math.prod(shape) * item // 64) * 64 for shape in shapes]).tolist()]
        counts, distances = self.sizes
        for begin in (0, groups * held):
            calls, end = PartCalls(), min(begin + held, self.members)
            for start in range(begin, end, self.step):
                size, pixels = min(self.step, end - start), [math.prod(shape[1:-1]) for shape in shapes]
                for x, images, place in zip(given, self.images, places, strict=False):
                    far = images.far * item
                    table = (x, start * far, held * far), (SCRATCH, place, 0), (SCRATCH, places[-1], 0)
                    calls.add(images.kernel, table, images.sizes(size, self.step), end=-(-x.shape[1] // images.lanes))
                reordered = (SCRATCH, 0, 0), (SCRATCH, places[1], 0), (sums[begin // held :], 0, sums.strides[0])
                sizes = (size, *counts, *pixels, *distances, int(start == begin))
                calls.add(self.kernel, (*reordered, self.ranges), sizes, end=count)
            if begin < end:
                work = math.prod(self.result) * self.cell * count * (end - begin) / PRODUCTS
                calls.run(groups if begin == 0 else 1, work, scratch=places[-1] + self.width * item)
        return np.add.reduce(sums)

    def _whole(self, given: Sequence[Any], out: Any) -> None:
        """Compute all from one part of the batch: the sums of a block leave the cache in their final order."""
        size = self.taps * self.cell
        work = size * math.prod(self.result) * self.members / PRODUCTS
        arrays = *self._reordered(given), out
        self.whole_calls().run(self.blocks, work, 1, size * self.dtype.itemsize, given=arrays)
        self.kernel.note()

    def _whole_calls(self) -> PartCalls:
        """Return the calls of `_whole`; their arrays: the blocks of x and of the gradient, and the result."""
        calls, sums = PartCalls(3), (SCRATCH, 0, -self.taps * self.cell * self.dtype.itemsize)
        self._add(calls, self.members, sums, self.taps)
        calls.add(self.back, (sums, 2), self._back_sizes())
        return calls

    def _add(self, calls: PartCalls, count: int, sums: Any, taps: int = 1, begin: bool = True) -> None:
        """Add the calls that add the products of this many members to sums, which ``begin`` with them. Each block of
        the job is an element of the window, or so many of them. The first two arrays of the calls are the members'
        blocks of x and of the gradient."""
        counts, distances = self.sizes
        shapes = [images.blocks(count) for images in self.images]
        pixels = [math.prod(shape[1:-1]) for shape in shapes]
        for start in range(0, count, self.step):
            sizes = (min(self.step, count - start), *counts, *pixels, *distances, int(begin and not start))
            places = ((k, start * math.prod(x[2:]) * self.dtype.itemsize, 0) for k, x in enumerate(shapes))
            calls.add(self.kernel, (*places, sums, self.ranges), sizes, taps)

    def _finish(self, sums: Any, out: Any) -> None:
        """Reorder sums into the result."""
        calls = PartCalls()
        calls.add(self.back, (sums, out), self._back_sizes())
        calls.run(self.blocks, self.taps * self.cell, self.blocks)
        self.kernel.note()

    def _back_sizes(self) -> tuple[int, ...]:
        """Return the sizes of the kernel that reorders sums into the result; the gradient's channels are members."""
        taps = self.taps
        if taps <= WINDOW:
            return self.depth, self.channels, self.cell
        planes = Planes(self.channels, self.depth, 1, taps, self.depth * taps, taps, 0)
        return *planes, self.cell * taps, self.lanes, 0, self.cell

    def _reordered(self, given: Sequence[Any]) -> list[Any]:
        """Return members of x and of the gradient as blocks of channels."""
        found = []
        for k, (array, images) in enumerate(zip(given, self.images, strict=True)):
            blocks = np.empty(images.blocks(len(array)), self.dtype)
            self.to_calls(k, len(array)).run(len(blocks), blocks[0].size, given=(array, blocks))
            found.append(blocks)
        return found

    def _to_calls(self, which: int, members: int) -> PartCalls:
        """Return the calls that reorder members of x or of the gradient; their arrays: those, and their blocks."""
        images, calls = self.images[which], PartCalls(2)
        checked = np.zeros((images.blocks(members)[0], self.width), self.dtype)
        calls.add(images.kernel, (0, 1, (checked, 0, checked.strides[0])), images.sizes(members, members))
        return calls


class _Images(NamedTuple):
    """Images that a kernel reorders to blocks of channels."""

    shape: Shape
    far: int  #: the elements from a member to the next
    lanes: int  #: of a block
    kernel: TemplateKernel

    def blocks(self, members: int) -> Shape:
        """Return the shape of the blocks of this many members."""
        _, channels, high, wide = self.shape
        return -(-channels // self.lanes), members, high, wide, self.lanes

    def sizes(self, members: int, room: int) -> tuple[int, ...]:
        """Return the sizes of the kernel for this many members, whose blocks have room for so many."""
        shape = self.blocks(room)
        planes = planes_of(self.shape, self.far, members, shape[3])
        return (*planes, math.prod(shape[1:]), *distances_of(shape), 0, 0)


def blocked_weight_gradient(dtype: str, width: int, rows: int, vectors: int) -> str:
    """Return the text of the kernel of the gradient of the weight on blocks of channels.

    The table: x [blocks][pixels][vectors · width], the gradient of the result [blocks][pixels][rows], the sums
    [blocks of x][taps][blocks of the gradient][rows][vectors · width], and int64: for each tap, the first row and
    column of the result whose source is inside x, those after the last, and the distance of x from the result. The
    sizes: members, rows in a chunk, taps, blocks of the gradient; the pixels of a block of x and of the gradient; the
    distances in x of members, rows and columns of the result, and in the gradient of members and rows; and whether
    sums begin, and are not continued. ``begin`` and ``end`` are pairs of a block of x and a tap.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector.
        rows: the number of channels of a block of the gradient.
        vectors: the number of vectors of a block of x.
    """
    w = Loops(width, 4, 12)
    x, grad, out, ranges = w.table
    members, chunk, count, blocks, x_pixels, grad_pixels, x_member, x_row, x_step, grad_member, grad_row, begins = (
        w.sizes
    )
    lanes = vectors * width
    zero = w.constant(0.0, dtype)
    with w.loop(w.begin, w.end) as unit:
        c, tap = unit // count, unit % count
        top, left, bottom, right, distance = (w.number(ranges, tap * 5 + k) for k in range(5))
        pixels = w.element(x, (c * x_pixels + distance) * lanes, dtype)
        chunks = w.ceil_div(bottom - top, chunk)
        with w.loop(0, blocks) as b:
            cell = w.element(out, (unit * blocks + b) * (rows * lanes), dtype)
            with w.inside(0, begins):
                for k in range(rows * vectors):
                    w.store_at(zero, cell, k * width)
            with w.loop(0, chunks) as part:
                totals = [[w.variable(zero) for _ in range(vectors)] for _ in range(rows)]
                first = top + part * chunk
                last = w.smaller(first + chunk, bottom)
                with w.loop(0, members) as n, w.loop(first, last) as row:
                    source = n * x_member + row * x_row
                    place = b * grad_pixels + (n * grad_member + row * grad_row)
                    with w.loop(left, right) as column:
                        at = source + column * x_step
                        xs = load_vectors(w, w.element(pixels, at * lanes, dtype), vectors, dtype)
                        factors = w.element(grad, (place + column) * rows, dtype)
                        for i, sums in enumerate(totals):
                            add_products(w, sums, w.load_one_at(factors, i, dtype), xs)
                for i, sums in enumerate(totals):
                    for j, total in enumerate(sums):
                        to = w.element(cell, (i * vectors + j) * width, dtype)
                        w.store(w.add(w.get(total, dtype), w.load(to, dtype)), to)
    return w.function()


def weight_gradient(dtype: str, width: int, channels: int, elements: int) -> str:
    """Return the text of the kernel of the gradient of the weight: out += Σ grad · x over all windows.

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
    mask = Vector(w.lanes_where("uge", width - left), "bool")
    rounds = w.ceil_div(members, several)
    with w.loop(0, rounds) as r, w.loop(w.begin, w.end) as b, w.loop(0, columns) as column:
        totals = [[w.variable(w.constant(0.0, dtype)) for _ in range(elements)] for _ in range(channels)]
        source = w.element(x, w.number(sources, b), dtype)
        start = column * elements
        xs = [w.element(source, w.number(taps, start + k), dtype) for k in range(elements)]
        start = b * channels
        grads = [w.element(grad, w.number(rows, start + c), dtype) for c in range(channels)]
        with w.loop(r * several, w.smaller((r + 1) * several, members)) as n:
            far_x, far_grad = n * x_member, n * grad_member
            for begin, end, where in ((0, whole, None), (whole, count, mask)):
                with w.loop(begin, end) as v:
                    at, target = w.number(places, v) + far_x, w.number(targets, v) + far_grad
                    right = [_loaded(w, w.element(p, at, dtype), dtype, where) for p in xs]
                    for c in range(channels):
                        factor = _loaded(w, w.element(grads[c], target, dtype), dtype, where)
                        add_products(w, totals[c], factor, right)
        cell = (b * columns + column) * (channels * elements)
        for c in range(channels):
            for k in range(elements):
                place = w.element(out, cell + (c * elements + k), dtype)
                added = w.add(w.load_one(place, dtype), w.total(w.get(totals[c][k], dtype)))
                w.store_one(added, place)
    return w.function()


def _loaded(w: Loops, pointer: str, dtype: str, mask: Vector | None) -> Vector:
    """Load a vector, with zeros for the elements that a mask excludes."""
    x = w.load(pointer, dtype)
    return x if mask is None else w.select(mask, x, w.constant(0.0, dtype))
