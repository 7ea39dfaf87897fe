"""Rules of recurrent networks."""

from __future__ import annotations

from typing import Any

from burnpy.interop.onnx.rules.rule import GraphWriter, Operand, only


@only(when=lambda *args: args[4] is None)
def lstm(g: GraphWriter, x: Operand, hidden: Operand, cell: Operand, weight: Operand, _: Any, reverse: bool) -> Any:
    """Write an LSTM, which gives neither all cell states nor the gates."""
    states = [g.node("Unsqueeze", state, g.sizes((0,))) for state in (hidden, cell)]
    return _recurrent(g, "LSTM", x, weight, (0, 3, 1, 2), reverse, None, *states), None, None


@only(when=lambda *args: args[4] is None)
def gru(g: GraphWriter, x: Operand, hidden: Operand, weight: Operand, bias: Operand, _: Any, reverse: bool) -> Any:
    """Write a GRU, which does not give the gates."""
    size = weight.shape[0]
    ordered = g.node("Gather", bias, g.sizes(_order((1, 0, 2), size)))
    zeros = g.node("Expand", g.constant(0.0, x.dtype), g.sizes((3 * size,)))
    biases = g.node("Unsqueeze", g.node("Concat", zeros, ordered, axis=0), g.sizes((0,)))
    first = g.node("Unsqueeze", hidden, g.sizes((0,)))
    return _recurrent(g, "GRU", x, weight, (1, 0, 2), reverse, biases, first, linear_before_reset=1), None


@only(when=lambda *args: args[3] is None)
def rnn(g: GraphWriter, x: Operand, hidden: Operand, weight: Operand, _: Any, reverse: bool, relu: bool) -> Any:
    """Write an RNN."""
    first = g.node("Unsqueeze", hidden, g.sizes((0,)))
    return _recurrent(g, "RNN", x, weight, (0,), reverse, None, first, activations=["Relu" if relu else "Tanh"])


def _recurrent(
    g: GraphWriter,
    kind: str,
    x: Operand,
    weight: Operand,
    gates: tuple[int, ...],
    reverse: bool,
    bias: str | None,
    *states: str,
    **settings: Any,
) -> Any:
    """Write a recurrence on sums of the input, which the operator multiplies by the identity.

    ``gates`` has the place among burnpy's gates of each of ONNX's.
    """
    size, count = weight.shape[0], len(gates) * weight.shape[0]
    order = g.sizes(_order(gates, size))
    identity = g.node("EyeLike", g.node("Expand", g.constant(0.0, x.dtype), g.sizes((count, count))))
    matrices = [g.node("Gather", part, order, axis=0) for part in (identity, g.node("Transpose", weight, perm=[1, 0]))]
    by_input, by_state = [g.node("Unsqueeze", part, g.sizes((0,))) for part in matrices]
    steps = g.node("Transpose", x, perm=[1, 0, 2])
    direction = "reverse" if reverse else "forward"
    out = g.node(
        kind, steps, by_input, by_state, bias, None, *states, hidden_size=size, direction=direction, **settings
    )
    return g.node("Transpose", g.node("Squeeze", out, g.sizes((1,))), perm=[1, 0, 2])


def _order(gates: tuple[int, ...], size: int) -> list[int]:
    return [gate * size + k for gate in gates for k in range(size)]
