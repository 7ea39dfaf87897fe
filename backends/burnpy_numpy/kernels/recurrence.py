"""Recurrences, by kernels that compute all steps of a block of sequences in one call.

For each element, the product of the states before it and a tile of the weight is summed up in registers, for a few
sequences at once; what a step computes of the sums, a program traced from `burnpy.backend.operations.recurrence`,
follows at once. Sequences do not depend on each other, and so threads divide them.

A tile is some neighbouring columns of the hidden state. Blocks of sequences and tiles are all of one size, and so the
last ones may overlap those before them: what is computed twice is the same both times.

Source of the blocks in registers: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

from burnpy.backend.operations import recurrence as steps
from burnpy.backend.primitives import Shape
from burnpy.backend.programs import Extent, Input, Program, trace
from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.compiler.target import target
from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.kernel import template_kernel
from burnpy_numpy.kernels.launch import TemplateKernel
from burnpy_numpy.kernels.packed_weights import packed_weights
from burnpy_numpy.matmul import product

_PRODUCTS = 8
"""The number of products that take as long as an operation of one element elsewhere."""
GATES = {"lstm": (4, 4), "gru": (3, 4), "tanh": (1, 0), "relu": (1, 0)}
"""The number of gates and of values kept for each hidden one, by kind of recurrence; "tanh" and "relu" are `rnn`."""
_ROWS = {"lstm": (3, 6), "gru": (4, 6), "tanh": (6, 6), "relu": (6, 6)}
"""The maximum number of sequences of a block of a forward pass, for 16 and for 32 registers."""
_ROWS_BACKWARD = 6
_VECTORS = (2, 4)
"""The number of vectors of a tile of a backward pass, for 16 and for 32 registers."""


class SequenceBlocks:
    """The division of sequences of hidden states into blocks, and of the hidden state into tiles of columns.

    All blocks and all tiles are of one size: the last ones may overlap those before them.

    Args:
        count: the number of sequences.
        size: the hidden size.
        itemsize: the size of an element in bytes.
        kind: the kind of steps.
        backward: whether for a backward pass.
    """

    def __init__(self, count: int, size: int, itemsize: int, kind: str, backward: bool) -> None:
        many = target().registers >= 32
        most = _ROWS_BACKWARD if backward else _ROWS[kind][many]
        self.rows = min(range(1, min(most, count) + 1), key=lambda k: -(-count // k) * k * (1 + 0.2 / k))
        self.width = min(target().vector // itemsize, 1 << (size.bit_length() - 1))
        self.vectors = min(_VECTORS[many], size // self.width) if backward else 1
        self.wide, self.size, self.count = self.width * self.vectors, size, count
        self.columns = np.minimum(np.arange(0, size, self.wide), size - self.wide)
        self.firsts = np.minimum(np.arange(0, count, self.rows), count - self.rows)

    @cached_property
    def sequences(self) -> Any:
        """The sequences of all blocks."""
        return (self.firsts[:, None] + np.arange(self.rows)).reshape(-1)

    def by_sequence(self, values: Any) -> Any:
        """Return values of the sequences of all blocks, one for each sequence."""
        if len(values) == self.count:
            return values
        out = np.empty((self.count, *values.shape[1:]), values.dtype)
        out[self.sequences] = values
        return out

    def packed(self, matrices: Any) -> Any:
        """Return matrices (depth, count, hidden size) by tile, as (tiles, depth, count, columns of a tile)."""
        if self.size % self.wide:
            tiles = matrices[:, :, self.columns[:, None] + np.arange(self.wide)]
        else:
            tiles = matrices.reshape((*matrices.shape[:2], -1, self.wide))
        return np.ascontiguousarray(tiles.transpose((2, 0, 1, 3)))


_blocks = lru_cache(maxsize=256)(SequenceBlocks)


def forward(kind: str, given: tuple[Any, ...], lengths: Any, reverse: bool, keeps: bool) -> Callable[[], Any] | None:
    """Return a function that computes the states, the cell states and the gates; None if kernels are not used.

    Args:
        kind: the kind of steps.
        given: x, hidden, cell, weight and bias; None for what the kind does not have.
        lengths: the lengths, or None.
        reverse: whether the last element is read first.
        keeps: whether to return the gates, which a backward pass uses; None otherwise.
    """
    x, hidden, cell, weight, bias = given
    shape: Shape = (*x.shape[:2], hidden.shape[1])
    blocks = _blocks(shape[0], shape[2], x.dtype.itemsize, kind, False)
    kernel = template_kernel(recurrence_forward, kind, x.dtype, blocks.width, blocks.rows, lengths is not None, keeps)
    if kernel is None:
        return None

    def compute() -> tuple[Any, Any, Any]:
        states, cells = np.empty(shape, x.dtype), None if cell is None else np.empty(shape, x.dtype)
        kept = GATES[kind][1] * keeps
        gates = np.empty((*shape[:2], kept * shape[2]), x.dtype) if kept else None
        packed = packed_weights.find(weight, (kind, blocks.wide))
        if packed is None:
            packed = blocks.packed(weight.reshape((shape[2], -1, shape[2])))
            if packed_weights.keeps(weight, (kind, blocks.wide)):
                packed_weights.add(weight, (kind, blocks.wide), packed)
        arrays = (x, hidden, cell, packed, bias, states, cells, gates)
        first, direction = (shape[1] - 1, -1) if reverse else (0, 1)
        _run(kernel, kind, blocks, shape, arrays, lengths, (first, direction))
        return states, cells, gates

    return compute


def backward(kind: str, given: tuple[Any, ...], lengths: Any, reverse: bool) -> Callable[[], Any] | None:
    """Return a function that computes the gradients of x, the products, hidden and cell; None if kernels are not used.

    Args:
        kind: the kind of steps.
        given: the gradients of states and cells; hidden, cell, weight, states, cells and gates.
        lengths: the lengths, or None.
        reverse: whether the last element was read first.
    """
    grad, grad_cells, hidden, cell, weight, states, cells, gates = given
    shape, dtype = grad.shape, grad.dtype
    blocks = _blocks(shape[0], shape[2], dtype.itemsize, kind, True)
    sizes = (blocks.width, blocks.rows, blocks.vectors)
    kernel = template_kernel(recurrence_backward, kind, dtype, *sizes, lengths is not None)
    if kernel is None:
        return None

    def compute() -> tuple[Any, Any, Any, Any]:
        by_x = np.empty((*shape[:2], weight.shape[1]), dtype)
        by_products = np.empty_like(by_x) if kind == "gru" else by_x
        packed = blocks.packed(weight.T[:, None]) if shape[1] > 1 else None  # the first element read has no product
        carried, rounds = (lengths is not None or kind == "gru", kind == "lstm"), (2, len(blocks.sequences), shape[2])
        past, past_cell = [np.zeros(rounds, dtype) if each else None for each in carried]
        arrays = (grad, grad_cells, packed, hidden, cell, states, cells, gates)
        results = (by_x, by_products, past, past_cell)
        first, direction = (0, 1) if reverse else (shape[1] - 1, -1)
        _run(kernel, kind, blocks, shape, (*arrays, *results), lengths, (first, direction, rounds[1] * rounds[2]))
        by_hidden = product(by_products[:, shape[1] - 1 if reverse else 0], weight.T)
        if past is not None:
            by_hidden += blocks.by_sequence(past[shape[1] % 2])
        by_cell = None if past_cell is None else blocks.by_sequence(past_cell[shape[1] % 2])
        return by_x, by_products, by_hidden, by_cell

    return compute


def _run(
    kernel: TemplateKernel,
    kind: str,
    blocks: SequenceBlocks,
    shape: Shape,
    arrays: tuple[Any, ...],
    lengths: Any,
    sizes: tuple[int, ...],
) -> None:
    """Run a kernel for all blocks. Threads that compute a sequence of two blocks write the same to the same places."""
    tables = (blocks.columns, blocks.firsts, None if lengths is None else lengths.astype(np.int64, copy=False))
    used = [0 if a is None else np.ascontiguousarray(a) for a in (*arrays, *tables)]
    numbers = (shape[1], shape[2], len(blocks.columns), *sizes)
    each = shape[1] * shape[2] * shape[2] * GATES[kind][0] * blocks.rows / _PRODUCTS
    kernel.run(used, numbers, len(blocks.firsts), each)


_STEPS: dict[str, tuple[int, Any, int, Any, tuple[bool, ...]]] = {
    "lstm": (5, steps.lstm_step, 8, steps.lstm_step_backward, ()),
    "gru": (7, steps.gru_step, 6, steps.gru_step_backward, ()),
    "tanh": (1, steps.rnn_step, 2, steps.rnn_step_backward, (False,)),
    "relu": (1, steps.rnn_step, 2, steps.rnn_step_backward, (True,)),
}
"""The functions of one step forward and backward, with the numbers of their primitives, and their other arguments."""


@cache
def step_program(kind: str, dtype: str, backward: bool) -> Program:
    """Return the program of one step without its matrix product."""
    inputs, step, inputs_backward, step_backward, rest = _STEPS[kind]
    count, function = (inputs_backward, step_backward) if backward else (inputs, step)
    return trace(function, (Input(Extent.FULL, dtype),) * count, *rest)


def recurrence_forward(kind: str, dtype: str, width: int, rows: int, masked: bool, keeps: bool) -> str:
    """Return the text of the kernel of a forward pass.

    The table: x, hidden, cell, weight as (tiles, hidden size, gates, width), bias, states, cells, gates, and int64: the
    first column of each tile, the first sequence of each block, and the lengths. The sizes: the numbers of elements, of
    hidden values and of tiles; the element that is read first, and 1 or -1. ``begin`` and ``end`` are blocks.

    Args:
        kind: a key of `GATES`.
        dtype: float32 or float64.
        width: the number of elements of a vector.
        rows: the number of sequences of a block.
        masked: whether there are lengths.
        keeps: whether the gates are written.
    """
    w, gates, kept = Loops(width, 11, 5), GATES[kind][0], GATES[kind][1] * keeps
    x, hidden, cell, weight, bias, states, cells, every, columns, firsts, lengths = w.table
    length, size, tiles, first, direction = w.sizes
    program = step_program(kind, dtype, False)
    with w.loop("0", length) as s:
        t = w.plus(first, w.times(s, direction))
        before, begins = w.minus(t, direction), w.assign(f"icmp eq i64 {s}, 0")
        with w.loop("0", tiles) as c:
            column = w.number(columns, c)
            tile = w.element(weight, w.times(w.times(c, size), gates * width), dtype)
            with w.loop("%begin", "%end") as b:
                sequences = [w.plus(w.number(firsts, b), r) for r in range(rows)]
                now = [w.plus(w.times(n, length), t) for n in sequences]
                past = [w.plus(w.times(n, length), before) for n in sequences]

                def earlier(one: str, many: str, r: int, now: Any = (sequences, past)) -> str:
                    n, p = now
                    start = w.element(one, w.times(n[r], size), dtype)
                    return w.either(begins, start, w.element(many, w.times(p[r], size), dtype))

                known = [earlier(hidden, states, r) for r in range(rows)]
                for row in now:  # what a step reads and writes comes while the products are summed up
                    for array, count in ((x, gates), (every, kept), (states, 1), (cells, int(kind == "lstm"))):
                        for g in range(count):
                            place = w.plus(w.times(row, w.times(size, count)), w.plus(column, w.times(size, g)))
                            w.prefetch(w.element(array, place, dtype))
                sums = _products(w, dtype, known, tile, size, gates)
                for r in range(rows):
                    parts = [w.get(total, dtype) for total in sums[r]]
                    place = w.plus(w.times(now[r], w.times(size, gates)), column)
                    inputs = [
                        w.load(w.element(x, w.plus(place, w.times(size, g)), dtype), dtype, None) for g in range(gates)
                    ]
                    old = [w.load(w.element(known[r], column, dtype), dtype, None)]
                    if kind == "lstm":
                        old.append(w.load(w.element(earlier(cell, cells, r), column, dtype), dtype, None))
                        given = [*map(w.add, inputs, parts), old[1]]
                    elif kind == "gru":
                        added = [w.element(bias, w.plus(column, w.times(size, g)), dtype) for g in range(gates)]
                        parts = [w.add(part, w.load(at, dtype, None)) for part, at in zip(parts, added, strict=True)]
                        given = [*inputs, *parts, old[0]]
                    else:
                        given = [w.add(inputs[0], parts[0])]
                    new = w.program(program, given)
                    if masked:
                        counts = _counts(w, lengths, sequences[r], t)
                        new[: len(old)] = [w.select(counts, a, b) for a, b in zip(new, old, strict=False)]
                    target = w.plus(w.times(now[r], size), column)
                    for value, out in zip(new, (states, cells)[: len(old)], strict=False):
                        w.store(value, w.element(out, target, dtype), None)
                    place = w.plus(w.times(now[r], w.times(size, kept)), column)
                    for g in range(kept):
                        at = w.element(every, w.plus(place, w.times(size, g)), dtype)
                        w.store(new[len(old) + g], at, None)
    return w.function()


def recurrence_backward(kind: str, dtype: str, width: int, rows: int, vectors: int, masked: bool) -> str:
    """Return the text of the kernel of a backward pass: the gradients of the sums of the gates at each element.

    The table: the gradients of the states and the cell states, weight as (tiles, gates · hidden size, vectors · width),
    hidden, cell, states, cells, gates, the gradients of x and of the products, which are the same but for "gru", two
    rounds of the gradients of the states and the cell states before an element that go past the product, for each
    sequence of each block, and int64: the first column of each tile, the first sequence of each block, and the lengths.
    The sizes: the numbers of elements, of hidden values and of tiles; the element that is read first, and 1 or -1; and
    of the values in a round. ``begin`` and ``end`` are blocks.

    Args:
        kind: a key of `GATES`.
        dtype: float32 or float64.
        width: the number of elements of a vector.
        rows: the number of sequences of a block.
        vectors: the number of vectors of a tile.
        masked: whether there are lengths.
    """
    w, (gates, kept) = Loops(width, 15, 6), GATES[kind]
    grad, grad_cells, weight, hidden, cell, states, cells, every, by_x, by_products = w.table[:10]
    past_product, past_cell, columns, firsts, lengths = w.table[10:]
    length, size, tiles, first, direction, round_size = w.sizes
    program = step_program(kind, dtype, True)
    wide, carries = w.times(size, gates), masked or kind == "gru"
    with w.loop("0", length) as s:
        t = w.plus(first, w.times(s, direction))
        after, before = w.minus(t, direction), w.plus(t, direction)
        depth = w.either(w.assign(f"icmp eq i64 {s}, 0"), "0", wide, "i64")
        ends = w.assign(f"icmp eq i64 {w.plus(s, 1)}, {length}")
        odd = w.assign(f"and i64 {s}, 1")
        read, written = w.times(odd, round_size), w.times(w.minus("1", odd), round_size)
        with w.loop("0", tiles) as c:
            tile = w.element(weight, w.times(w.times(c, wide), vectors * width), dtype)
            start = w.number(columns, c)
            with w.loop("%begin", "%end") as b:
                sequences = [w.plus(w.number(firsts, b), r) for r in range(rows)]
                bases = [w.times(n, length) for n in sequences]
                known = [w.element(by_products, w.times(w.plus(base, after), wide), dtype) for base in bases]
                sums = _products(w, dtype, known, tile, depth, vectors)
                for r, v in [(r, v) for r in range(rows) for v in range(vectors)]:
                    column = w.plus(start, v * width)
                    row = w.plus(bases[r], t)
                    at = w.plus(w.times(row, size), column)
                    carry = w.plus(w.times(w.plus(w.times(b, rows), r), size), column)

                    def load(pointer: str, place: str) -> Vector:
                        return w.load(w.element(pointer, place, dtype), dtype, None)

                    def earlier(one: str, many: str, place: Any = (sequences[r], bases[r], column)) -> Vector:
                        n, base, column = place
                        begin = w.element(one, w.times(n, size), dtype)
                        row = w.element(many, w.times(w.plus(base, before), size), dtype)
                        return load(w.either(ends, begin, row), column)

                    totals = [w.add(w.get(sums[r][v], dtype), load(grad, at))]
                    if carries:
                        totals[0] = w.add(totals[0], load(past_product, w.plus(read, carry)))
                    if kind == "lstm":
                        totals.append(w.add(load(grad_cells, at), load(past_cell, w.plus(read, carry))))
                    counts = _counts(w, lengths, sequences[r], t) if masked else None
                    zero = w.constant(0.0, dtype)
                    used = totals if counts is None else [w.select(counts, total, zero) for total in totals]
                    place = w.plus(w.times(row, w.times(size, kept)), column)
                    given = [load(every, w.plus(place, w.times(size, g))) for g in range(kept)]
                    if kind == "lstm":
                        given += [earlier(cell, cells), load(cells, at)]
                    else:
                        given.append(earlier(hidden, states) if kind == "gru" else load(states, at))
                    new = w.program(program, [*used, *given])
                    place = w.plus(w.times(row, wide), column)
                    for g in range(gates):
                        target = w.plus(place, w.times(size, g))
                        w.store(new[g], w.element(by_x, target, dtype), None)
                        if kind == "gru":
                            w.store(new[3 if g == 2 else g], w.element(by_products, target, dtype), None)
                    target = w.plus(written, carry)
                    if carries:
                        stays = new[4] if kind == "gru" else zero
                        stays = stays if counts is None else w.select(counts, stays, totals[0])
                        w.store(stays, w.element(past_product, target, dtype), None)
                    if kind == "lstm":
                        stays = new[4] if counts is None else w.select(counts, new[4], totals[1])
                        w.store(stays, w.element(past_cell, target, dtype), None)
    return w.function()


def _products(w: Loops, dtype: str, rows: list[str], tile: str, depth: str, vectors: int) -> list[list[str]]:
    """Write the products of rows and a tile (depth, vectors · width); return variables by row and vector."""
    totals = [[w.variable(w.constant(0.0, dtype)) for _ in range(vectors)] for _ in rows]
    with w.loop("0", depth) as k:
        at = w.times(k, vectors * w.width)
        right = [w.load(w.element(tile, w.plus(at, v * w.width), dtype), dtype, None) for v in range(vectors)]
        for row, sums in zip(rows, totals, strict=True):
            factor = w.load_one(w.element(row, k, dtype), dtype)
            for total, y in zip(sums, right, strict=True):
                w.set(total, w.fma(factor, y, w.get(total, dtype)))
    return totals


def _counts(w: Loops, lengths: str, sequence: str, t: str) -> Vector:
    """Write whether an element of a sequence is within its length, as a mask."""
    return w.splat(w.assign(f"icmp slt i64 {t}, {w.number(lengths, sequence)}"), "bool")
