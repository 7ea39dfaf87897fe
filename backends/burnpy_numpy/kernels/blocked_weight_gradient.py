"""The gradient of a convolution by its weight as a kernel on blocks of channels: see `blocked_convolution`."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from burnpy_numpy.cpu_threads import shared
from burnpy_numpy.kernels.blocked_tables import Where, ranges
from burnpy_numpy.kernels.channel_blocks import (
    CHAIN,
    PRODUCTS,
    Planes,
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
from burnpy_numpy.kernels.launch import TemplateKernel
from burnpy_numpy.kernels.loops import Loops
from burnpy_numpy.kernels.target import target


def weight_gradient_of_blocks(grad: Any, x: Any, out: Any, where: Where) -> bool:
    """Compute the gradient of a convolution by the weight into ``out``; return False if kernels cannot be compiled.

    Args:
        grad: the gradient by the result, C-contiguous.
        x: the input, C-contiguous.
        out: C-contiguous memory for the result.
        where: stride, padding and dilation.
    """
    try:
        _WeightGradient(grad, x, out, where).run()
    except Uncompiled:
        return False
    return True


class _WeightGradient:
    """The gradient by the weight of one convolution whose channels are lanes."""

    def __init__(self, grad: Any, x: Any, out: Any, where: Where) -> None:
        self.grad, self.x, self.out = grad, x, out
        self.dtype, self.width = x.dtype, vector_width(x.dtype)
        self.channels, self.depth, *window = out.shape
        self.source, self.result, self.window = pair_of(x.shape[2:]), pair_of(grad.shape[2:]), pair_of(window)
        self.taps = math.prod(self.window)
        self.stride = where[0]
        self.ranges = ranges(self.source, self.result, self.window, where)
        self.vectors = 2 if self.depth > self.width else 1
        self.lanes = self.vectors * self.width
        self.rows = 8 if target().registers >= 32 else 4  #: channels of the gradient in a block
        self.blocks, self.columns = -(-self.depth // self.lanes), -(-self.channels // self.rows)

    def run(self) -> None:
        """Compute all."""
        (high, wide), members, pixels = self.result, len(self.x), math.prod(self.source)
        step = max(1, min(members, CHAIN // (high * wide)))
        chunk = max(1, CHAIN // (step * wide))  # rows
        sums = np.empty((self.blocks, self.taps, self.columns * self.rows, self.lanes), self.dtype)
        x = np.empty((self.blocks, step, *self.source, self.lanes), self.dtype)
        grad = np.empty((self.columns, step, *self.result, self.rows), self.dtype)
        kernel, to_x, to_grad, back = block_kernels(
            self.dtype,
            (blocked_weight_gradient, self.rows, self.vectors),
            (to_blocks, self.lanes),
            (to_blocks, self.rows),
            (from_blocks, self.lanes),
        )
        table = (x, grad, sums, self.ranges)
        distances = (pixels, self.stride[0] * self.source[1], self.stride[1], high * wide, wide)
        each = high * wide * sums[0, 0].size / PRODUCTS
        for begin in range(0, members, step):
            count = min(step, members - begin)
            self._reorder(to_x, self.x[begin:], x, count)
            self._reorder(to_grad, self.grad[begin:], grad, count)
            blocks = (count, chunk, self.taps, self.columns, step * pixels, step * high * wide)
            sizes = (*blocks, *distances, int(begin == 0))
            shared(partial(kernel, table, sizes), self.blocks * self.taps, each * count)
        kernel.note()
        row = sums[0, 0].size  # the channels of the gradient are members, the elements of the window are pixels
        planes = Planes(self.channels, self.depth, 1, self.taps, self.depth * self.taps, self.taps, 0)
        shared(
            partial(back, (sums, self.out), (*planes, row * self.taps, self.lanes, 0, row)),
            self.blocks,
            row * self.taps,
        )

    def _reorder(self, kernel: TemplateKernel, x: Any, blocks: Any, members: int) -> None:
        """Reorder some members of an array to blocks of channels."""
        sizes = (*planes_of(x, members, x.shape[3]), blocks[0].size, *distances_of(blocks), 0, 0)

        def work(first: int, last: int) -> None:
            kernel((x, blocks, np.zeros(self.width, self.dtype)), sizes, first, last)

        shared(work, len(blocks), members * blocks[0, 0].size)


def blocked_weight_gradient(dtype: str, width: int, rows: int, vectors: int) -> str:
    """Return the text of the kernel of the gradient by the weight on blocks of channels.

    The table: x [blocks][pixels][vectors · width], the gradient by the result [blocks][pixels][rows], the sums
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
    with w.loop("%begin", "%end") as unit:
        c, tap = w.assign(f"sdiv i64 {unit}, {count}"), w.assign(f"srem i64 {unit}, {count}")
        top, left, bottom, right, distance = (w.number(ranges, w.plus(w.times(tap, 5), k)) for k in range(5))
        pixels = w.element(x, w.times(w.plus(w.times(c, x_pixels), distance), lanes), dtype)
        chunks = w.assign(f"sdiv i64 {w.plus(w.minus(bottom, top), w.plus(chunk, -1))}, {chunk}")
        with w.loop("0", blocks) as b:
            cell = w.element(out, w.times(w.plus(w.times(unit, blocks), b), rows * lanes), dtype)
            with w.inside(0, begins):
                for k in range(rows * vectors):
                    w.store(zero, w.element(cell, str(k * width), dtype), None)
            with w.loop("0", chunks) as part:
                totals = [[w.variable(zero) for _ in range(vectors)] for _ in range(rows)]
                first = w.plus(top, w.times(part, chunk))
                last = w.smaller(w.plus(first, chunk), bottom)
                with w.loop("0", members) as n, w.loop(first, last) as row:
                    source = w.plus(w.times(n, x_member), w.times(row, x_row))
                    place = w.plus(w.times(b, grad_pixels), w.plus(w.times(n, grad_member), w.times(row, grad_row)))
                    with w.loop(left, right) as column:
                        at = w.plus(source, w.times(column, x_step))
                        xs = load_vectors(w, w.element(pixels, w.times(at, lanes), dtype), vectors, dtype)
                        factors = w.element(grad, w.times(w.plus(place, column), rows), dtype)
                        for i, sums in enumerate(totals):
                            add_products(w, sums, w.load_one(w.element(factors, str(i), dtype), dtype), xs)
                for i, sums in enumerate(totals):
                    for j, total in enumerate(sums):
                        to = w.element(cell, str((i * vectors + j) * width), dtype)
                        w.store(w.add(w.get(total, dtype), w.load(to, dtype, None)), to, None)
    return w.function()
