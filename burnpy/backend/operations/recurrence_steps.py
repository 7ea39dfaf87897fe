"""One step of a recurrence and its gradient: of long short-term memory, gated recurrent units and plain networks."""

from __future__ import annotations

from typing import Any

from burnpy.backend.primitives import Float


def lstm_step(b: Any, i: Float, f: Float, g: Float, o: Float, cell: Float) -> tuple[Float, ...]:
    """Return the next hidden state and cell state, and the gates, from the sums before the functions of the gates."""
    i, f, g, o = b.sigmoid(i), b.sigmoid(f), b.tanh(g), b.sigmoid(o)
    cell = b.add(b.mul(f, cell), b.mul(i, g))
    return b.mul(o, b.tanh(cell)), cell, i, f, g, o


def lstm_step_backward(
    b: Any,
    by_hidden: Float,
    by_cell: Float,
    i: Float,
    f: Float,
    g: Float,
    o: Float,
    before: Float,
    after: Float,
    *by_gates: Float,
) -> tuple[Float, ...]:
    """Return the gradients by the sums of the gates and by the cell state ``before``; ``by_gates`` adds to those by
    gates.
    """
    bounded = b.tanh(after)
    by_cell = b.add(by_cell, b.mul(b.mul(by_hidden, o), _one_minus(b, b.mul(bounded, bounded))))
    parts = [b.mul(by_cell, g), b.mul(by_cell, before), b.mul(by_cell, i), b.mul(by_hidden, bounded)]
    if by_gates:
        parts = [b.add(x, y) for x, y in zip(parts, by_gates, strict=True)]
    by_i, by_f, by_g, by_o = parts
    return (
        b.mul(by_i, _sigmoid_slope(b, i)),
        b.mul(by_f, _sigmoid_slope(b, f)),
        b.mul(by_g, _one_minus(b, b.mul(g, g))),
        b.mul(by_o, _sigmoid_slope(b, o)),
        b.mul(by_cell, f),
    )


def gru_step(
    b: Any, xr: Float, xz: Float, xn: Float, hr: Float, hz: Float, hn: Float, hidden: Float
) -> tuple[Float, ...]:
    """Return the next hidden state, the gates r, z and n, and n's recurrent part, from the parts of x and of
    the state.
    """
    r, z = b.sigmoid(b.add(xr, hr)), b.sigmoid(b.add(xz, hz))
    n = b.tanh(b.add(xn, b.mul(r, hn)))
    return b.add(n, b.mul(z, b.sub(hidden, n))), r, z, n, hn


def gru_step_backward(
    b: Any, by_hidden: Float, r: Float, z: Float, n: Float, hn: Float, before: Float, *by_gates: Float
) -> tuple[Float, ...]:
    """Return the gradients by the sums of r, z and n, by n's recurrent part, and by the state ``before`` through z.

    ``by_gates`` are further gradients by the gates and n's recurrent part.
    """
    by_z, by_n = b.mul(by_hidden, b.sub(before, n)), b.mul(by_hidden, _one_minus(b, z))
    if by_gates:
        by_z, by_n = b.add(by_z, by_gates[1]), b.add(by_n, by_gates[2])
    by_n = b.mul(by_n, _one_minus(b, b.mul(n, n)))
    by_r, by_hn = b.mul(by_n, hn), b.mul(by_n, r)
    if by_gates:
        by_r, by_hn = b.add(by_r, by_gates[0]), b.add(by_hn, by_gates[3])
    by_r, by_z = b.mul(by_r, _sigmoid_slope(b, r)), b.mul(by_z, _sigmoid_slope(b, z))
    return by_r, by_z, by_n, by_hn, b.mul(by_hidden, z)


def rnn_step(b: Any, x: Float, relu: bool) -> Float:
    """Return the next hidden state."""
    return b.relu(x) if relu else b.tanh(x)


def rnn_step_backward(b: Any, by_hidden: Float, hidden: Float, relu: bool) -> Float:
    """Compute the gradient of the sum that the activation takes, from the gradient of its result ``hidden``."""
    if relu:
        return b.relu_backward(by_hidden, hidden)
    return b.mul(by_hidden, _one_minus(b, b.mul(hidden, hidden)))


def _one_minus(b: Any, x: Float) -> Float:
    return b.add(b.neg(x), 1.0)


def _sigmoid_slope(b: Any, y: Float) -> Float:
    """Return the derivative of the sigmoid by its result."""
    return b.mul(y, _one_minus(b, y))
