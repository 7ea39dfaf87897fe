"""Recurrences over whole sequences, by kernels that compute all steps in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.primitives import Shape
from burnpy_array import ArrayBackend
from burnpy_numpy.kernels.kernel import family_kernels

_MIN_HIDDEN = 4
"""The hidden size from which kernels are used."""


class NumPyRecurrent(ArrayBackend):
    """Recurrences and their gradients."""

    def recurrent_states(self, name: str, *args: Any) -> tuple[Any, ...]:
        x, hidden, *rest, lengths, reverse = args
        given = (x, hidden, *rest, None) if name == "lstm" else (x, hidden, None, *rest)
        kernel = _forward_kernel(name, given, lengths, reverse, False)
        if kernel is None:
            return super().recurrent_states(name, *args)
        states, cells, _ = self._call(kernel)
        return (states,) if cells is None else (states, cells)

    def lstm(self, x: Any, hidden: Any, cell: Any, weight: Any, lengths: Any, reverse: bool) -> tuple[Any, Any, Any]:
        kernel = _forward_kernel("lstm", (x, hidden, cell, weight, None), lengths, reverse)
        if kernel is None:
            return super().lstm(x, hidden, cell, weight, lengths, reverse)
        states, cells, gates = self._call(kernel)
        return states, cells, gates

    def lstm_backward(
        self, grad: Any, grad_cells: Any, cell: Any, weight: Any, cells: Any, gates: Any, lengths: Any, reverse: bool
    ) -> tuple[Any, Any, Any]:
        given = (grad, grad_cells, None, cell, weight, None, cells, gates)
        kernel = _backward_kernel("lstm", given, lengths, reverse)
        if kernel is None:
            return super().lstm_backward(grad, grad_cells, cell, weight, cells, gates, lengths, reverse)
        grad_x, _, grad_hidden, grad_cell = self._call(kernel)
        return grad_x, grad_hidden, grad_cell

    def gru(self, x: Any, hidden: Any, weight: Any, bias: Any, lengths: Any, reverse: bool) -> tuple[Any, Any]:
        kernel = _forward_kernel("gru", (x, hidden, None, weight, bias), lengths, reverse)
        if kernel is None:
            return super().gru(x, hidden, weight, bias, lengths, reverse)
        states, _, gates = self._call(kernel)
        return states, gates

    def gru_backward(
        self, grad: Any, hidden: Any, weight: Any, states: Any, gates: Any, lengths: Any, reverse: bool
    ) -> tuple[Any, Any, Any]:
        kernel = _backward_kernel("gru", (grad, None, hidden, None, weight, states, None, gates), lengths, reverse)
        if kernel is None:
            return super().gru_backward(grad, hidden, weight, states, gates, lengths, reverse)
        grad_x, grad_products, grad_hidden, _ = self._call(kernel)
        return grad_x, grad_products, grad_hidden

    def rnn(self, x: Any, hidden: Any, weight: Any, lengths: Any, reverse: bool, relu: bool) -> Any:
        kernel = _forward_kernel("relu" if relu else "tanh", (x, hidden, None, weight, None), lengths, reverse)
        return super().rnn(x, hidden, weight, lengths, reverse, relu) if kernel is None else self._call(kernel)[0]

    def rnn_backward(
        self, grad: Any, weight: Any, states: Any, lengths: Any, reverse: bool, relu: bool
    ) -> tuple[Any, Any]:
        given = (grad, None, None, None, weight, states, None, None)
        kernel = _backward_kernel("relu" if relu else "tanh", given, lengths, reverse)
        if kernel is None:
            return super().rnn_backward(grad, weight, states, lengths, reverse, relu)
        grad_x, _, grad_hidden, _ = self._call(kernel)
        return grad_x, grad_hidden


def _forward_kernel(
    kind: str, given: tuple[Any, ...], lengths: Any, reverse: bool, keeps: bool = True
) -> Callable[[], Any] | None:
    """Return a function that computes the states, the cell states and, if it ``keeps`` them, the gates; None if kernels
    are not used. ``given`` are x, hidden, cell, weight and bias; None for those that the kind of recurrence does not
    have."""
    kernels = family_kernels("recurrent") if _suits((*given[0].shape[:2], given[1].shape[1]), given) else None
    return None if kernels is None else kernels.forward(kind, given, lengths, reverse, keeps)


def _backward_kernel(kind: str, given: tuple[Any, ...], lengths: Any, reverse: bool) -> Callable[[], Any] | None:
    """Return a function that computes the gradients of x, the products, hidden and cell; None without kernels.
    ``given`` are the gradients of states and cells; hidden, cell, weight, states, cells and gates."""
    kernels = family_kernels("recurrent") if _suits(given[0].shape, given) else None
    return None if kernels is None else kernels.backward(kind, given, lengths, reverse)


def _suits(shape: Shape, given: tuple[Any, ...]) -> bool:
    """Return whether kernels are used for arrays and hidden states of a shape. Some arrays may be None."""
    dtype = given[0].dtype
    if not (dtype is float32 or dtype is float64) or shape[2] < _MIN_HIDDEN or shape[0] == 0:
        return False
    return not [x for x in given if x is not None and x.dtype is not dtype]
