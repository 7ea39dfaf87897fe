"""Recurrences, by kernels that compute all steps of a block of sequences in one call.

At each time step, the product of the state before and a tile of the weight is summed up in registers, for a few
sequences at once; the rest of the step follows, a program traced from `burnpy.backend.operations.recurrent`.
Sequences do not depend on each other, and so threads divide them.

A tile is some neighbouring columns of the hidden state. Blocks of sequences and tiles are all of one size, and so the
last ones may overlap those before them: what is computed twice is the same both times.

Source of the blocks in registers: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.operations import recurrent as steps
from burnpy.backend.primitives import Shape
from burnpy.backend.programs import Extent, Input, Program, trace
from burnpy_numpy.kernels.compiler.loops import Int, Loops
from burnpy_numpy.kernels.compiler.target import target
from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.kernel import contiguous, template_kernel
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
        return contiguous(tiles.transpose((2, 0, 1, 3)))


_blocks = lru_cache(maxsize=256)(SequenceBlocks)


def forward(kind: str, given: tuple[Any, ...], lengths: Any, reverse: bool, keeps: bool) -> Callable[[], Any] | None:
    """Return a function that computes the states, the cell states and the gates; None if kernels are not used.

    Args:
        kind: the kind of steps.
        given: x, hidden, cell, weight and bias; None for what the kind does not have.
        lengths: the lengths, or None.
        reverse: whether the last time step is read first.
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
        reverse: whether the last time step was read first.
    """
    grad, grad_cells, hidden, cell, weight, states, cells, gates = given
    shape, dtype = grad.shape, grad.dtype
    blocks = _blocks(shape[0], shape[2], dtype.itemsize, kind, True)
    sizes = (blocks.width, blocks.rows, blocks.vectors)
    kernel = template_kernel(recurrence_backward, kind, dtype, *sizes, lengths is not None)
    if kernel is None:
        return None

    def compute() -> tuple[Any, Any, Any, Any]:
        grad_x = np.empty((*shape[:2], weight.shape[1]), dtype)
        grad_products = np.empty_like(grad_x) if kind == "gru" else grad_x
        packed = blocks.packed(weight.T[:, None]) if shape[1] > 1 else None  # the first time step has no product
        passes, buffers = (lengths is not None or kind == "gru", kind == "lstm"), (2, len(blocks.sequences), shape[2])
        passed, passed_cell = [np.zeros(buffers, dtype) if each else None for each in passes]
        arrays = (grad, grad_cells, packed, hidden, cell, states, cells, gates)
        results = (grad_x, grad_products, passed, passed_cell)
        first, direction = (0, 1) if reverse else (shape[1] - 1, -1)
        _run(kernel, kind, blocks, shape, (*arrays, *results), lengths, (first, direction, buffers[1] * buffers[2]))
        grad_hidden = product(grad_products[:, shape[1] - 1 if reverse else 0], weight.T)
        if passed is not None:
            grad_hidden += blocks.by_sequence(passed[shape[1] % 2])
        grad_cell = None if passed_cell is None else blocks.by_sequence(passed_cell[shape[1] % 2])
        return grad_x, grad_products, grad_hidden, grad_cell

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


class StepWriter(Loops):
    """A kernel on blocks of sequences, with loops over time steps, tiles of the hidden state, and blocks.

    Its arrays are followed in the table by int64: the first column of each tile, the first sequence of each block, and
    the lengths. The sizes: the numbers of time steps, of hidden values and of tiles; the time step that is read first,
    and 1 or -1; and others. ``begin`` and ``end`` are blocks.

    Args:
        kind: a key of `GATES`.
        dtype: float32 or float64.
        width: the number of elements of a vector.
        rows: the number of sequences of a block.
        masked: whether there are lengths.
        arrays: the number of arrays.
        others: the number of other sizes.
    """

    def __init__(
        self, kind: str, dtype: str, width: int, rows: int, masked: bool, arrays: int, others: int = 0
    ) -> None:
        super().__init__(width, arrays + 3, 5 + others)
        self.kind, self.dtype, self.rows, self.masked = kind, dtype, rows, masked
        *self.arrays, self.columns, self.firsts, self.lengths = self.table
        self.length, self.size, self.tiles, self.first_step, self.direction = self.sizes[:5]

    def sequences(self, block: str) -> list[str]:
        """Return the sequences of a block."""
        return [self.number(self.firsts, block) + r for r in range(self.rows)]

    def gates_at(self, array: str, row: Int | int, count: int, column: Int) -> list[str]:
        """Return where the vectors of ``count`` gates of a row begin; a row is a time step of a sequence."""
        place = row * (self.size * count) + column
        return [self.element(array, place + self.size * g, self.dtype) for g in range(count)]

    def state_before(self, initial: str, states: str, sequence: str, row: str, starts: str) -> str:
        """Return where the state of a row begins; where the sequence's initial state does, if the bit is set."""
        start = self.element(initial, sequence * self.size, self.dtype)
        return self.either(starts, start, self.element(states, row * self.size, self.dtype))

    def within_length(self, sequence: str, t: str) -> Vector:
        """Return whether a time step is within the length of a sequence, as a mask."""
        return self.splat(self.icmp("slt", t, self.number(self.lengths, sequence)), "bool")

    def products(self, rows: list[str], tile: str, depth: str, vectors: int) -> list[list[Vector]]:
        """Return the products of rows and a tile (depth, vectors · width), by row and vector."""
        dtype = self.dtype
        totals = [[self.variable(self.constant(0.0, dtype)) for _ in range(vectors)] for _ in rows]
        with self.loop(0, depth) as k:
            at = k * (vectors * self.width)
            right = [self.load_at(tile, at + v * self.width, dtype) for v in range(vectors)]
            for row, sums in zip(rows, totals, strict=True):
                factor = self.load_one_at(row, k, dtype)
                for total, y in zip(sums, right, strict=True):
                    self.set(total, self.fma(factor, y, self.get(total, dtype)))
        return [[self.get(total, dtype) for total in sums] for sums in totals]


def recurrence_forward(kind: str, dtype: str, width: int, rows: int, masked: bool, keeps: bool) -> str:
    """Return the text of the kernel of a forward pass, for the arguments of `StepWriter`. The arrays: x, hidden, cell,
    weight as (tiles, hidden size, gates, width), bias, states, cells, and the gates, which are written if ``keeps``."""
    w = StepWriter(kind, dtype, width, rows, masked, 8)
    gates, kept = GATES[kind][0], GATES[kind][1] * keeps
    x, hidden, cell, weight, _, states, cells, saved = w.arrays
    with w.loop(0, w.length) as s:
        t = w.first_step + s * w.direction
        before, starts = t - w.direction, w.icmp("eq", s, 0)
        with w.loop(0, w.tiles) as c:
            column = w.number(w.columns, c)
            tile = w.element(weight, c * w.size * (gates * width), dtype)
            with w.loop(w.begin, w.end) as b:
                sequences = w.sequences(b)
                now = [n * w.length + t for n in sequences]
                past = [n * w.length + before for n in sequences]
                known = [w.state_before(hidden, states, n, p, starts) for n, p in zip(sequences, past, strict=True)]
                for row in now:  # what a step reads and writes comes while the products are summed up
                    for array, count in ((x, gates), (saved, kept), (states, 1), (cells, int(kind == "lstm"))):
                        begin = row * (w.size * count)
                        for g in range(count):  # not `gates_at`: shared addresses would take registers meanwhile
                            w.prefetch(w.element(array, begin + (column + w.size * g), dtype))
                products = w.products(known, tile, w.size, gates)
                for n, row, p, state, parts in zip(sequences, now, past, known, products, strict=True):
                    old = [w.load_at(state, column, dtype)]
                    if kind == "lstm":
                        old.append(w.load_at(w.state_before(cell, cells, n, p, starts), column, dtype))
                    inputs = [w.load(address, dtype) for address in w.gates_at(x, row, gates, column)]
                    new = _forward_step(w, inputs, parts, old, column)
                    if masked:
                        inside = w.within_length(n, t)
                        new[: len(old)] = [w.select(inside, a, b) for a, b in zip(new, old, strict=False)]
                    place = row * w.size + column
                    for value, array in zip(new, (states, cells)[: len(old)], strict=False):
                        w.store_at(value, array, place)
                    for value, address in zip(new[len(old) :], w.gates_at(saved, row, kept, column), strict=False):
                        w.store(value, address)
    return w.function()


def _forward_step(
    w: StepWriter, inputs: list[Vector], products: list[Vector], old: list[Vector], column: Int
) -> list[Vector]:
    """Return the state, the cell state for "lstm", and the gates of a step.

    Args:
        w: the kernel.
        inputs: what x has for each gate.
        products: the products of the state before and the weight, for each gate.
        old: the state before, and the cell state for "lstm".
        column: the first column of the vectors.
    """
    if w.kind == "lstm":
        given = [*map(w.add, inputs, products), old[1]]
    elif w.kind == "gru":
        bias = [w.load(address, w.dtype) for address in w.gates_at(w.arrays[4], 0, len(inputs), column)]
        given = [*inputs, *map(w.add, products, bias), old[0]]
    else:
        given = [w.add(inputs[0], products[0])]
    return w.program(step_program(w.kind, w.dtype, False), given)


def recurrence_backward(kind: str, dtype: str, width: int, rows: int, vectors: int, masked: bool) -> str:
    """Return the text of the kernel of a backward pass: the gradients of the sums of the gates at each time step.

    The arrays: the gradients of the states and the cell states; weight as (tiles, gates · hidden size, vectors ·
    width); hidden, cell, states, cells and gates; the gradients of x and of the products, which are the same but for
    "gru"; and two buffers of each of the gradients that pass to the state and to the cell state before a time step
    without the product, for each sequence of each block: one is read while the other is written. The other size is
    the number of values of a buffer. For the arguments, see `StepWriter`; a tile has ``vectors`` vectors.
    """
    w, gates = StepWriter(kind, dtype, width, rows, masked, 12, 1), GATES[kind][0]
    weight, grad_products, buffer_size = w.arrays[2], w.arrays[9], w.sizes[5]
    wide = w.size * gates
    with w.loop(0, w.length) as s:
        t = w.first_step + s * w.direction
        after, before = t - w.direction, t + w.direction
        depth = w.chosen(w.icmp("eq", s, 0), 0, wide)
        ends = w.icmp("eq", s + 1, w.length)
        odd = s & 1
        buffers = odd * buffer_size, (1 - odd) * buffer_size
        with w.loop(0, w.tiles) as c:
            tile = w.element(weight, c * wide * (vectors * width), dtype)
            start = w.number(w.columns, c)
            with w.loop(w.begin, w.end) as b:
                sequences = w.sequences(b)
                bases = [n * w.length for n in sequences]
                known = [w.element(grad_products, (base + after) * wide, dtype) for base in bases]
                products = w.products(known, tile, depth, vectors)
                for r, v in [(r, v) for r in range(rows) for v in range(vectors)]:
                    column = start + v * width
                    block_row = (b * rows + r) * w.size + column
                    read, written = (buffer + block_row for buffer in buffers)
                    place = _Place(sequences[r], t, bases[r] + t, bases[r] + before, column, ends)
                    _backward_step(w, products[r][v], place, read, written)
    return w.function()


class _Place(NamedTuple):
    """A vector of the hidden state of a sequence at a time step."""

    sequence: str
    t: Int  #: the time step
    row: Int  #: the time step among those of all sequences
    row_before: Int  #: the same for the time step before
    column: Int
    starts: str  #: a bit: whether the sequence starts here


def _backward_step(w: StepWriter, from_next: Vector, place: _Place, read: str, written: str) -> None:
    """Write the gradients of a step.

    Args:
        w: the kernel of `recurrence_backward`.
        from_next: the product of the gradient of the next time step's gates and the weight.
        place: where the step is.
        read: the place in the buffers of the gradient that passed to this state without the product.
        written: the place for the gradient that passes to the state before.
    """
    kind, dtype = w.kind, w.dtype
    grad, grad_cells, _, hidden, cell, states, cells, saved, grad_x, grad_products, passed, passed_cell = w.arrays
    (gates, kept), at = GATES[kind], place.row * w.size + place.column

    def before(initial: str, array: str) -> Vector:
        state = w.state_before(initial, array, place.sequence, place.row_before, place.starts)
        return w.load_at(state, place.column, dtype)

    passes = w.masked or kind == "gru"
    totals = [w.add(from_next, w.load_at(grad, at, dtype))]
    if passes:
        totals[0] = w.add(totals[0], w.load_at(passed, read, dtype))
    if kind == "lstm":
        totals.append(w.add(w.load_at(grad_cells, at, dtype), w.load_at(passed_cell, read, dtype)))
    inside, zero = w.within_length(place.sequence, place.t) if w.masked else None, w.constant(0.0, dtype)
    given = totals if inside is None else [w.select(inside, total, zero) for total in totals]
    given = given + [w.load(address, dtype) for address in w.gates_at(saved, place.row, kept, place.column)]
    if kind == "lstm":
        given += [before(cell, cells), w.load_at(cells, at, dtype)]
    else:
        given.append(before(hidden, states) if kind == "gru" else w.load_at(states, at, dtype))
    new = w.program(step_program(kind, dtype, True), given)
    for value, address in zip(new, w.gates_at(grad_x, place.row, gates, place.column), strict=False):
        w.store(value, address)
    if kind == "gru":
        of_products = [*new[:2], new[3]]
        for value, address in zip(of_products, w.gates_at(grad_products, place.row, 3, place.column), strict=True):
            w.store(value, address)
    if passes:
        passing = new[4] if kind == "gru" else zero
        w.store_at(passing if inside is None else w.select(inside, passing, totals[0]), passed, written)
    if kind == "lstm":
        w.store_at(new[4] if inside is None else w.select(inside, new[4], totals[1]), passed_cell, written)
