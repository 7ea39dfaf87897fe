"""Recurrent networks, a product and one kernel for each element of the sequences, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from burnpy.backend.dtypes import float32, int64
from burnpy.backend.operations.recurrence import states_before, weight_gradient
from burnpy.backend.primitives import DType
from burnpy_cupy.gemm import multiply
from burnpy_cupy.products import Products


class Recurrence(Products):
    """Recurrences over sequences; gates of 16-bit floats are computed in float32, and rounded when they are kept."""

    def lstm(self, x: Any, hidden: Any, cell: Any, weight: Any, lengths: Any, reverse: bool) -> tuple[Any, Any, Any]:
        if not hidden.size:
            return super().lstm(x, hidden, cell, weight, lengths, reverse)
        states, cells, gates = self._call(_lstm, self, x, hidden, cell, weight, lengths, reverse)
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
        if not hidden.size:
            rest = (states, cells, gates, lengths, reverse)
            return super().lstm_backward(grad, grad_cells, hidden, cell, weight, *rest)
        given = (grad, grad_cells, cell, weight, cells, gates)
        by_x, by_hidden, by_cell = self._call(_lstm_backward, self, given, lengths, reverse)
        return by_x, by_hidden, by_cell, weight_gradient(self, states_before(self, hidden, states, reverse), by_x)

    def gru(self, x: Any, hidden: Any, weight: Any, bias: Any, lengths: Any, reverse: bool) -> tuple[Any, Any]:
        if not hidden.size:
            return super().gru(x, hidden, weight, bias, lengths, reverse)
        states, gates = self._call(_gru, self, x, hidden, weight, bias, lengths, reverse)
        return states, gates

    def gru_backward(
        self, grad: Any, hidden: Any, weight: Any, states: Any, gates: Any, lengths: Any, reverse: bool
    ) -> tuple[Any, Any, Any, Any]:
        if not hidden.size:
            return super().gru_backward(grad, hidden, weight, states, gates, lengths, reverse)
        given = (grad, hidden, weight, states, gates)
        by_x, by_products, by_hidden = self._call(_gru_backward, self, given, lengths, reverse)
        by_weight = weight_gradient(self, states_before(self, hidden, states, reverse), by_products)
        return by_x, by_hidden, by_weight, self.sum(by_products, (0, 1), False)

    def rnn(self, x: Any, hidden: Any, weight: Any, lengths: Any, reverse: bool, relu: bool) -> Any:
        if not hidden.size:
            return super().rnn(x, hidden, weight, lengths, reverse, relu)
        return self._call(_rnn, self, x, hidden, weight, lengths, reverse, relu)

    def rnn_backward(
        self, grad: Any, hidden: Any, weight: Any, states: Any, lengths: Any, reverse: bool, relu: bool
    ) -> tuple[Any, Any, Any]:
        if not hidden.size:
            return super().rnn_backward(grad, hidden, weight, states, lengths, reverse, relu)
        by_x, by_hidden = self._call(_rnn_backward, self, (grad, weight, states), lengths, reverse, relu)
        return by_x, by_hidden, weight_gradient(self, states_before(self, hidden, states, reverse), by_x)


class _Elements:
    """The elements of sequences in the order of reading, and the arguments that say where a kernel is.

    Args:
        b: the backend.
        states: an array (N, T, H). Only its shape matters.
        lengths: the numbers of elements that count, or None.
        reverse: whether sequences are read from their end.
    """

    def __init__(self, b: Recurrence, states: Any, lengths: Any, reverse: bool) -> None:
        self._sequences, self._steps, self._size = states.shape
        self._lengths = b.xp.empty((0,), int64) if lengths is None else b.xp.ascontiguousarray(lengths)
        self._reverse = reverse

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield each element and the one that is read before it, -1 if there is none."""
        for k in range(self._steps):
            if self._reverse:
                yield self._steps - 1 - k, self._steps - k if k else -1
            else:
                yield k, k - 1

    def run(self, kernel: Any, given: tuple[Any, ...], at: tuple[int, int], *rest: Any) -> None:
        """Launch a kernel for an element."""
        count = self._sequences * self._size
        kernel(*given, self._lengths, self._size, self._steps, *at, *rest, size=count)


def _wide(dtype: DType) -> DType:
    return float32 if dtype.itemsize == 2 else dtype


def _contiguous(b: Recurrence, *arrays: Any) -> list[Any]:
    return [b.xp.ascontiguousarray(x) for x in arrays]


def _lstm(
    b: Recurrence, x: Any, hidden: Any, cell: Any, weight: Any, lengths: Any, reverse: bool
) -> tuple[Any, Any, Any]:
    x, hidden, cell = _contiguous(b, x, hidden, cell)
    states, cells = (b.xp.empty((*x.shape[:2], hidden.shape[1]), x.dtype) for _ in range(2))
    gates = b.xp.empty(x.shape, x.dtype)
    product = b.xp.empty((x.shape[0], x.shape[2]), _wide(x.dtype))
    elements, kernel = _Elements(b, states, lengths, reverse), b._kernels["burnpy_lstm"]
    for t, before in elements:
        multiply(b.xp, hidden if before < 0 else states[:, before], weight, product)
        elements.run(kernel, (x, product, hidden, cell), (t, before), states, cells, gates)
    return states, cells, gates


def _lstm_backward(b: Recurrence, given: tuple[Any, ...], lengths: Any, reverse: bool) -> tuple[Any, Any, Any]:
    grad, grad_cells, cell, weight, cells, gates = _contiguous(b, *given)
    by_x = b.xp.empty(gates.shape, gates.dtype)
    product, rest, by_cells = (b.xp.zeros(cell.shape, _wide(cell.dtype)) for _ in range(3))
    elements, kernel = _Elements(b, cells, lengths, reverse), b._kernels["burnpy_lstm_backward"]
    for t, before in reversed(list(elements)):
        arrays = (grad, grad_cells, product, cell, cells, gates)
        elements.run(kernel, arrays, (t, before), by_x, rest, by_cells)
        multiply(b.xp, by_x[:, t], weight.T, product)
    return by_x, _first(b, product, rest, cell.dtype), by_cells.astype(cell.dtype, copy=False)


def _gru(b: Recurrence, x: Any, hidden: Any, weight: Any, bias: Any, lengths: Any, reverse: bool) -> tuple[Any, Any]:
    x, hidden, bias = _contiguous(b, x, hidden, bias)
    size = hidden.shape[1]
    states, gates = (b.xp.empty((*x.shape[:2], n), x.dtype) for n in (size, 4 * size))
    product = b.xp.empty((x.shape[0], x.shape[2]), _wide(x.dtype))
    elements, kernel = _Elements(b, states, lengths, reverse), b._kernels["burnpy_gru"]
    for t, before in elements:
        multiply(b.xp, hidden if before < 0 else states[:, before], weight, product)
        elements.run(kernel, (x, product, bias, hidden), (t, before), states, gates)
    return states, gates


def _gru_backward(b: Recurrence, given: tuple[Any, ...], lengths: Any, reverse: bool) -> tuple[Any, Any, Any]:
    grad, hidden, weight, states, gates = _contiguous(b, *given)
    by_x, by_products = (b.xp.empty((*states.shape[:2], weight.shape[1]), states.dtype) for _ in range(2))
    product, rest = (b.xp.zeros(hidden.shape, _wide(hidden.dtype)) for _ in range(2))
    elements, kernel = _Elements(b, states, lengths, reverse), b._kernels["burnpy_gru_backward"]
    for t, before in reversed(list(elements)):
        elements.run(kernel, (grad, product, hidden, states, gates), (t, before), by_x, by_products, rest)
        multiply(b.xp, by_products[:, t], weight.T, product)
    return by_x, by_products, _first(b, product, rest, hidden.dtype)


def _rnn(b: Recurrence, x: Any, hidden: Any, weight: Any, lengths: Any, reverse: bool, relu: bool) -> Any:
    x, hidden = _contiguous(b, x, hidden)
    states = b.xp.empty(x.shape, x.dtype)
    product = b.xp.empty(hidden.shape, _wide(x.dtype))
    elements, kernel = _Elements(b, states, lengths, reverse), b._kernels["burnpy_rnn"]
    for t, before in elements:
        multiply(b.xp, hidden if before < 0 else states[:, before], weight, product)
        elements.run(kernel, (x, product, hidden), (t, before), relu, states)
    return states


def _rnn_backward(b: Recurrence, given: tuple[Any, ...], lengths: Any, reverse: bool, relu: bool) -> tuple[Any, Any]:
    grad, weight, states = _contiguous(b, *given)
    by_x = b.xp.empty(states.shape, states.dtype)
    product, rest = (b.xp.zeros((states.shape[0], states.shape[2]), _wide(states.dtype)) for _ in range(2))
    elements, kernel = _Elements(b, states, lengths, reverse), b._kernels["burnpy_rnn_backward"]
    for t, before in reversed(list(elements)):
        elements.run(kernel, (grad, product, states), (t, before), relu, by_x, rest)
        multiply(b.xp, by_x[:, t], weight.T, product)
    return by_x, _first(b, product, rest, states.dtype)


def _first(b: Recurrence, product: Any, rest: Any, dtype: DType) -> Any:
    """The gradient by the state before all elements: the last product and what is carried besides it."""
    return b.xp.add(product, rest, product).astype(dtype, copy=False)
