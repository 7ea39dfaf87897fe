"""Rules of recurrences. They save the states and the gates, but not the contribution of the inputs."""

from __future__ import annotations

from typing import Any

from burnpy.autodiff.rules.algebra import joint
from burnpy.backend.backend import Backend
from burnpy.backend.operations.recurrence import gru_gradients, lstm_gradients
from burnpy.backend.primitives import Float, Int


def lstm_vjp(
    i: Any,
    grads: Any,
    needs: Any,
    hidden: Float,
    cell: Float,
    weight: Float,
    out: Float,
    out1: Float,
    out2: Float,
    lengths: Int | None,
    reverse: bool,
) -> tuple[Float, ...]:
    """The gradients by x, hidden, cell and weight, through the states, the cell states and the gates."""
    by_states, by_cells = (_or_zeros(i, grad, out) for grad in grads[:2])
    given = (hidden, cell, weight, out, out1, out2, lengths, reverse)
    if grads[2] is None:
        by_x, by_hidden, by_cell, by_weight = i.lstm_backward(by_states, by_cells, *given)
        return by_x, by_hidden, by_cell, by_weight
    return lstm_gradients(i, by_states, by_cells, grads[2], *given)


def gru_vjp(
    i: Any,
    grads: Any,
    needs: Any,
    hidden: Float,
    weight: Float,
    out: Float,
    out1: Float,
    lengths: Int | None,
    reverse: bool,
) -> tuple[Float, ...]:
    """The gradients by x, hidden, weight and bias, through the states and the gates."""
    by_states, given = _or_zeros(i, grads[0], out), (hidden, weight, out, out1, lengths, reverse)
    if grads[1] is None:
        by_x, by_hidden, by_weight, by_bias = i.gru_backward(by_states, *given)
        return by_x, by_hidden, by_weight, by_bias
    return gru_gradients(i, by_states, grads[1], *given)


def rnn_vjp(
    i: Any,
    grads: Any,
    needs: Any,
    hidden: Float,
    weight: Float,
    out: Float,
    lengths: Int | None,
    reverse: bool,
    relu: bool,
) -> tuple[Float, ...]:
    """The gradients by x, hidden and weight."""
    by_x, by_hidden, by_weight = i.rnn_backward(grads[0], hidden, weight, out, lengths, reverse, relu)
    return by_x, by_hidden, by_weight


def _or_zeros(i: Any, grad: Float | None, result: Float) -> Float:
    """The gradient by a result, zeros for one that is not used."""
    return i.full(result.shape, 0.0, result.dtype) if grad is None else grad


joint(Backend.lstm, lstm_vjp)
joint(Backend.gru, gru_vjp)
joint(Backend.rnn, rnn_vjp)
