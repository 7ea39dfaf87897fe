"""Examples of recurrences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from burnpy.testing.cases.samples import Index, Large, x
from burnpy.testing.cases.table import row


def _steps(sequence: Any, lengths: Any, reverse: bool) -> Iterator[tuple[int, Any]]:
    """Yield the elements in the order of reading, and which of the sequences still count there."""
    n, t = sequence.shape[:2]
    counts = np.full(n, t) if lengths is None else np.asarray(lengths)
    for k in range(t)[::-1] if reverse else range(t):
        yield k, (counts > k)[:, None]


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _lstm(x: Any, hidden: Any, cell: Any, weight: Any, lengths: Any, reverse: bool) -> Any:
    states, cells, gates = np.zeros((*x.shape[:2], hidden.shape[1])), np.zeros((*x.shape[:2], hidden.shape[1])), 0 * x
    for t, counts in _steps(x, lengths, reverse):
        i, f, g, o = np.split(x[:, t] + hidden @ weight, 4, -1)
        i, f, g, o = _sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o)
        cell = np.where(counts, f * cell + i * g, cell)
        hidden = np.where(counts, o * np.tanh(cell), hidden)
        states[:, t], cells[:, t], gates[:, t] = hidden, cell, np.concatenate([i, f, g, o], -1)
    return states, cells, gates


def _gru(x: Any, hidden: Any, weight: Any, bias: Any, lengths: Any, reverse: bool) -> Any:
    h = hidden.shape[1]
    states, gates = np.zeros((*x.shape[:2], h)), np.zeros((*x.shape[:2], 4 * h))
    for t, counts in _steps(x, lengths, reverse):
        (xr, xz, xn), (hr, hz, hn) = np.split(x[:, t], 3, -1), np.split(hidden @ weight + bias, 3, -1)
        r, z = _sigmoid(xr + hr), _sigmoid(xz + hz)
        n = np.tanh(xn + r * hn)
        hidden = np.where(counts, (1 - z) * n + z * hidden, hidden)
        states[:, t], gates[:, t] = hidden, np.concatenate([r, z, n, hn], -1)
    return states, gates


def _rnn(x: Any, hidden: Any, weight: Any, lengths: Any, reverse: bool, relu: bool) -> Any:
    states = 0 * x
    for t, counts in _steps(x, lengths, reverse):
        total = x[:, t] + hidden @ weight
        hidden = np.where(counts, np.maximum(total, 0) if relu else np.tanh(total), hidden)
        states[:, t] = hidden
    return states


def _before(first: Any, states: Any, reverse: bool) -> Any:
    """Return the states before each element."""
    parts = [states[:, 1:], first[:, None]] if reverse else [first[:, None], states[:, :-1]]
    return np.concatenate(parts, 1)


def _lstm_backward(
    grad: Any,
    grad_cells: Any,
    cell: Any,
    weight: Any,
    cells: Any,
    gates: Any,
    lengths: Any,
    reverse: bool,
) -> Any:
    i, f, g, o = np.split(gates, 4, -1)
    c = _before(cell, cells, reverse)
    grad_x, grad_h, grad_c = 0 * gates, 0 * cell, 0 * cell
    for t, counts in _steps(grad, lengths, not reverse):
        grad_h, grad_c = grad_h + grad[:, t], grad_c + grad_cells[:, t]
        skipped, skipped_cell = np.where(counts, 0, grad_h), np.where(counts, 0, grad_c)
        grad_h, grad_c = np.where(counts, grad_h, 0), np.where(counts, grad_c, 0)
        bounded = np.tanh(cells[:, t])
        grad_c = grad_c + grad_h * o[:, t] * (1 - bounded**2)
        parts = (
            grad_c * g[:, t] * i[:, t] * (1 - i[:, t]),
            grad_c * c[:, t] * f[:, t] * (1 - f[:, t]),
            grad_c * i[:, t] * (1 - g[:, t] ** 2),
            grad_h * bounded * o[:, t] * (1 - o[:, t]),
        )
        grad_x[:, t] = np.concatenate(parts, -1)
        grad_h, grad_c = grad_x[:, t] @ weight.T + skipped, grad_c * f[:, t] + skipped_cell
    return grad_x, grad_h, grad_c


def _gru_backward(grad: Any, hidden: Any, weight: Any, states: Any, gates: Any, lengths: Any, reverse: bool) -> Any:
    before, (r, z, n, hn) = _before(hidden, states, reverse), np.split(gates, 4, -1)
    grad_x, grad_product = np.zeros((*grad.shape[:2], weight.shape[1])), np.zeros((*grad.shape[:2], weight.shape[1]))
    grad_h = 0 * hidden
    for t, counts in _steps(grad, lengths, not reverse):
        grad_h = grad_h + grad[:, t]
        skipped, grad_h = np.where(counts, 0, grad_h), np.where(counts, grad_h, 0)
        grad_n = grad_h * (1 - z[:, t]) * (1 - n[:, t] ** 2)
        grad_z = grad_h * (before[:, t] - n[:, t]) * z[:, t] * (1 - z[:, t])
        grad_r = grad_n * hn[:, t] * r[:, t] * (1 - r[:, t])
        grad_x[:, t] = np.concatenate([grad_r, grad_z, grad_n], -1)
        grad_product[:, t] = np.concatenate([grad_r, grad_z, grad_n * r[:, t]], -1)
        grad_h = grad_product[:, t] @ weight.T + grad_h * z[:, t] + skipped
    return grad_x, grad_product, grad_h


def _rnn_backward(grad: Any, weight: Any, states: Any, lengths: Any, reverse: bool, relu: bool) -> Any:
    grad_x, grad_h = 0 * grad, np.zeros((grad.shape[0], grad.shape[2]))
    for t, counts in _steps(grad, lengths, not reverse):
        grad_h = grad_h + grad[:, t]
        slope = (states[:, t] != 0) if relu else 1 - states[:, t] ** 2
        grad_x[:, t] = np.where(counts, grad_h, 0) * slope
        grad_h = grad_x[:, t] @ weight.T + np.where(counts, 0, grad_h)
    return grad_x, grad_h


_SIZES: list[tuple[Any, ...]] = [  # sequences, elements, hidden size; lengths, reverse
    (1, 2, 1, Index((1,)), True),
    (1, 1, 2, None, False),
    (0, 2, 1, None, False),
]
_LARGE: list[tuple[Any, ...]] = [
    (2, 2, 2, Index((1, 2)), True),
    (7, 4, 21, None, False),
    (5, 3, 16, Index((3, 0, 2, 1, 3)), True),
]


def _made(shapes: Any) -> list[tuple[Any, ...]]:
    """Return examples of all sizes, which a function makes of those."""
    examples: list[tuple[Any, ...]] = []
    for sizes, large in ((_SIZES, False), (_LARGE, True)):
        for n, t, h, lengths, reverse in sizes:

            def make(*shape: int, low: float = -1.0, high: float = 1.0, large: bool = large) -> Any:
                return Large(shape, low, high) if large else x(*shape, low=low, high=high)

            examples.append(shapes(make, n, t, h, (lengths, reverse)))
    return examples


def _lstm_example(make: Any, n: int, t: int, h: int, how: Any) -> tuple[Any, ...]:
    return make(n, t, 4 * h), make(n, h), make(n, h, low=-1.5), make(h, 4 * h, low=-0.9), *how


def _lstm_backward_example(make: Any, n: int, t: int, h: int, how: Any) -> tuple[Any, ...]:
    given = make(n, h, low=-1.5), make(h, 4 * h, low=-0.9), make(n, t, h, low=-1.5), make(n, t, 4 * h, low=0.1)
    return make(n, t, h, low=-0.9), make(n, t, h, low=-0.8), *given, *how


def _gru_example(make: Any, n: int, t: int, h: int, how: Any) -> tuple[Any, ...]:
    return make(n, t, 3 * h), make(n, h), make(h, 3 * h, low=-0.9), make(3 * h), *how


def _gru_backward_example(make: Any, n: int, t: int, h: int, how: Any) -> tuple[Any, ...]:
    return make(n, t, h, low=-0.9), make(n, h), make(h, 3 * h), make(n, t, h), make(n, t, 4 * h, low=0.1), *how


def _rnn_example(make: Any, n: int, t: int, h: int, how: Any) -> tuple[Any, ...]:
    return make(n, t, h), make(n, h), make(h, h, low=-0.9), *how, how[1]


def _rnn_backward_example(make: Any, n: int, t: int, h: int, how: Any) -> tuple[Any, ...]:
    return make(n, t, h, low=-0.9), make(h, h), make(n, t, h, low=0.1), *how, how[1]


row("lstm", _lstm, _made(_lstm_example), loose=16)
row("lstm_backward", _lstm_backward, _made(_lstm_backward_example), loose=64)
row("gru", _gru, _made(_gru_example), loose=16)
row("gru_backward", _gru_backward, _made(_gru_backward_example), loose=64)
row("rnn", _rnn, _made(_rnn_example), loose=16)
row("rnn_backward", _rnn_backward, _made(_rnn_backward_example), loose=64)
