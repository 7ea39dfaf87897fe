"""`CompiledRecurrence`: recurrences over whole sequences, by kernels that compute all steps in one call."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.recurrence import states_before, weight_gradient
from burnpy.backend.primitives import Shape
from burnpy_array import ArrayBackend
from burnpy_numpy.threads import shared

if TYPE_CHECKING:
    from burnpy_numpy.kernels.kernel import NamedKernel

_MIN_HIDDEN = 4
"""The hidden size from which kernels are used."""
_PRODUCTS = 8
"""The number of products that take as long as an operation of one element elsewhere."""
GATES = {"lstm": (4, 4), "gru": (3, 4), "tanh": (1, 0), "relu": (1, 0)}
"""The number of gates and of values kept for each hidden one, by kind of recurrence; "tanh" and "relu" are `rnn`."""
_ROWS = {"lstm": (3, 6), "gru": (4, 6), "tanh": (6, 6), "relu": (6, 6)}
"""The maximum number of sequences of a block of a forward pass, for 16 and for 32 registers."""
_ROWS_BACKWARD = 6
_VECTORS = (2, 4)
"""The number of vectors of a tile of a backward pass, for 16 and for 32 registers."""


class CompiledRecurrence(ArrayBackend):
    """Recurrences and their gradients."""

    def lstm(self, x: Any, hidden: Any, cell: Any, weight: Any, lengths: Any, reverse: bool) -> tuple[Any, Any, Any]:
        kernel = _forward("lstm", (x, hidden, cell, weight, None), lengths, reverse)
        if kernel is None:
            return super().lstm(x, hidden, cell, weight, lengths, reverse)
        states, cells, gates = self._call(kernel)
        return states, cells, gates

    def lstm_backward(
        self,
        grad: Any,
        grad_cells: Any,
        hidden: Any,
        cell: Any,
        weight: Any,
        states: Any,
        cells: Any,
        gates: Any,
        lengths: Any,
        reverse: bool,
    ) -> tuple[Any, Any, Any, Any]:
        kernel = _backward("lstm", (grad, grad_cells, hidden, cell, weight, states, cells, gates), lengths, reverse)
        if kernel is None:
            return super().lstm_backward(grad, grad_cells, hidden, cell, weight, states, cells, gates, lengths, reverse)
        by_x, _, by_hidden, by_cell = self._call(kernel)
        return by_x, by_hidden, by_cell, weight_gradient(self, states_before(self, hidden, states, reverse), by_x)

    def gru(self, x: Any, hidden: Any, weight: Any, bias: Any, lengths: Any, reverse: bool) -> tuple[Any, Any]:
        kernel = _forward("gru", (x, hidden, None, weight, bias), lengths, reverse)
        if kernel is None:
            return super().gru(x, hidden, weight, bias, lengths, reverse)
        states, _, gates = self._call(kernel)
        return states, gates

    def gru_backward(
        self, grad: Any, hidden: Any, weight: Any, states: Any, gates: Any, lengths: Any, reverse: bool
    ) -> tuple[Any, Any, Any, Any]:
        kernel = _backward("gru", (grad, None, hidden, None, weight, states, None, gates), lengths, reverse)
        if kernel is None:
            return super().gru_backward(grad, hidden, weight, states, gates, lengths, reverse)
        by_x, by_products, by_hidden, _ = self._call(kernel)
        by_weight = weight_gradient(self, states_before(self, hidden, states, reverse), by_products)
        return by_x, by_hidden, by_weight, self.sum(by_products, (0, 1), False)

    def rnn(self, x: Any, hidden: Any, weight: Any, lengths: Any, reverse: bool, relu: bool) -> Any:
        kernel = _forward("relu" if relu else "tanh", (x, hidden, None, weight, None), lengths, reverse)
        return super().rnn(x, hidden, weight, lengths, reverse, relu) if kernel is None else self._call(kernel)[0]

    def rnn_backward(
        self, grad: Any, hidden: Any, weight: Any, states: Any, lengths: Any, reverse: bool, relu: bool
    ) -> tuple[Any, Any, Any]:
        given = (grad, None, hidden, None, weight, states, None, None)
        kernel = _backward("relu" if relu else "tanh", given, lengths, reverse)
        if kernel is None:
            return super().rnn_backward(grad, hidden, weight, states, lengths, reverse, relu)
        by_x, _, by_hidden, _ = self._call(kernel)
        return by_x, by_hidden, weight_gradient(self, states_before(self, hidden, states, reverse), by_x)


class _Blocks:
    """The division of sequences of hidden states into blocks, and of the hidden state into tiles of columns.

    All blocks and all tiles are of one size: the last ones may overlap those before them.

    Args:
        count: the number of sequences.
        size: the hidden size.
        itemsize: the size of an element in bytes.
        kind: the kind of recurrence.
        backward: whether for a backward pass.
    """

    def __init__(self, count: int, size: int, itemsize: int, kind: str, backward: bool) -> None:
        from burnpy_numpy.kernels.target import target

        many = target().registers >= 32
        most = _ROWS_BACKWARD if backward else _ROWS[kind][many]
        self.rows = min(range(1, min(most, count) + 1), key=lambda k: -(-count // k) * k * (1 + 0.2 / k))
        self.width = min(target().vector // itemsize, 1 << (size.bit_length() - 1))
        self.vectors = min(_VECTORS[many], size // self.width) if backward else 1
        self.wide, self.size = self.width * self.vectors, size
        self.columns = np.minimum(np.arange(0, size, self.wide), size - self.wide)
        self.firsts = np.minimum(np.arange(0, count, self.rows), count - self.rows)

    @cached_property
    def sequences(self) -> Any:
        """The sequences of all blocks."""
        return (self.firsts[:, None] + np.arange(self.rows)).reshape(-1)

    def packed(self, matrices: Any) -> Any:
        """Return matrices (depth, count, hidden size) by tile, as (tiles, depth, count, columns of a tile)."""
        if self.size % self.wide:
            tiles = matrices[:, :, self.columns[:, None] + np.arange(self.wide)]
        else:
            tiles = matrices.reshape((*matrices.shape[:2], -1, self.wide))
        return np.ascontiguousarray(tiles.transpose((2, 0, 1, 3)))


_blocks = lru_cache(maxsize=256)(_Blocks)


def _forward(kind: str, given: tuple[Any, ...], lengths: Any, reverse: bool) -> Callable[[], Any] | None:
    """Return a function that computes the states, the cell states and the gates; None if kernels are not used.

    Args:
        kind: the kind of recurrence.
        given: x, hidden, cell, weight and bias; None for what the kind does not have.
        lengths: the lengths, or None.
        reverse: whether the last element is read first.
    """
    x, hidden, cell, weight, bias = given
    shape: Shape = (*x.shape[:2], hidden.shape[1])
    if not _suits(shape, given):
        return None
    blocks = _blocks(shape[0], shape[2], x.dtype.itemsize, kind, False)
    kernel = _kernel("recurrence_forward", kind, x.dtype, blocks.width, blocks.rows, lengths is not None)
    if kernel is None:
        return None

    def compute() -> tuple[Any, Any, Any]:
        states, cells = np.empty(shape, x.dtype), None if cell is None else np.empty(shape, x.dtype)
        kept = GATES[kind][1]
        gates = np.empty((*shape[:2], kept * shape[2]), x.dtype) if kept else None
        packed = blocks.packed(weight.reshape((shape[2], -1, shape[2])))
        arrays = (x, hidden, cell, packed, bias, states, cells, gates)
        first, direction = (shape[1] - 1, -1) if reverse else (0, 1)
        _run(kernel, kind, blocks, shape, arrays, lengths, (first, direction))
        return states, cells, gates

    return compute


def _backward(kind: str, given: tuple[Any, ...], lengths: Any, reverse: bool) -> Callable[[], Any] | None:
    """Return a function that computes the gradients by x, the products, hidden and cell; None if kernels are not used.

    Args:
        kind: the kind of recurrence.
        given: the gradients by states and cells; hidden, cell, weight, states, cells and gates.
        lengths: the lengths, or None.
        reverse: whether the last element was read first.
    """
    grad, grad_cells, hidden, cell, weight, states, cells, gates = given
    shape, dtype = grad.shape, grad.dtype
    if not _suits(shape, given):
        return None
    blocks = _blocks(shape[0], shape[2], dtype.itemsize, kind, True)
    sizes = (blocks.width, blocks.rows, blocks.vectors)
    kernel = _kernel("recurrence_backward", kind, dtype, *sizes, lengths is not None)
    if kernel is None:
        return None

    def compute() -> tuple[Any, Any, Any, Any]:
        by_x = np.empty((*shape[:2], weight.shape[1]), dtype)
        by_products = np.empty_like(by_x) if kind == "gru" else by_x
        past, past_cell = (np.zeros((2, len(blocks.sequences), shape[2]), dtype) for _ in range(2))
        arrays = (grad, grad_cells, blocks.packed(weight.T[:, None]), hidden, cell, states, cells, gates)
        results = (by_x, by_products, past, past_cell)
        first, direction = (0, 1) if reverse else (shape[1] - 1, -1)
        _run(kernel, kind, blocks, shape, (*arrays, *results), lengths, (first, direction, past[0].size))
        by_hidden, by_cell = np.empty(hidden.shape, dtype), np.empty(hidden.shape, dtype)
        by_hidden[blocks.sequences] = past[shape[1] % 2]
        by_cell[blocks.sequences] = past_cell[shape[1] % 2]
        by_hidden += by_products[:, shape[1] - 1 if reverse else 0].dot(weight.T)
        return by_x, by_products, by_hidden, by_cell

    return compute


def _suits(shape: Shape, given: tuple[Any, ...]) -> bool:
    """Return whether kernels are used for arrays and hidden states of a shape. Some arrays may be None."""
    dtype = given[0].dtype
    if not (dtype is float32 or dtype is float64) or shape[2] < _MIN_HIDDEN or shape[0] == 0:
        return False
    if any(x is not None and x.dtype is not dtype for x in given):
        return False
    from burnpy_numpy.kernels.kernel import enabled  # not imported before the first recurrence

    return enabled()


def _kernel(template: str, kind: str, dtype: Any, *parameters: int) -> NamedKernel | None:
    """Return the kernel of a template of `recurrence_kernels`; None if kernels are off."""
    from burnpy_numpy.kernels import recurrence_kernels
    from burnpy_numpy.kernels.kernel import named_kernel

    return named_kernel(getattr(recurrence_kernels, template), kind, dtype.name, *parameters)


def _run(
    kernel: NamedKernel,
    kind: str,
    blocks: _Blocks,
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
    shared(lambda begin, end: kernel(used, numbers, begin, end), len(blocks.firsts), each)
    kernel.note()
