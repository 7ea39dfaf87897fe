"""Recurrent networks, linear attention, and the order of sequences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

import numpy as np

from burnpy.interop.onnx.operators.attention import heads_first
from burnpy.interop.onnx.operators.elementwise import ACTIVATIONS, activation
from burnpy.interop.onnx.operators.quantization import integer_product
from burnpy.interop.onnx.operators.table import (
    HOST,
    MICROSOFT,
    GraphWriter,
    Kept,
    Maybe,
    Operand,
    Value,
    arange,
    cast,
    levels_of,
    like,
    operator,
    range_of,
    scanned,
)
from burnpy.tensor.joining import cat, stack, where

DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
"""The activations of one direction."""

GATES = {"RNN": (0,), "GRU": (1, 0, 2), "LSTM": (0, 2, 3, 1)}
"""The place among ONNX's gates of each of burnpy's."""


class RecurrentSettings(TypedDict, total=False):
    """The attributes of recurrent networks."""

    activation_alpha: tuple[float, ...]
    activation_beta: tuple[float, ...]
    activations: tuple[str, ...]
    clip: float
    direction: Literal["forward", "reverse", "bidirectional"]
    hidden_size: int
    input_forget: int
    layout: int
    linear_before_reset: int


class Rounded(NamedTuple):
    """A matrix of ints, by which rows are multiplied that are rounded to uint8 by their range."""

    ints: Value
    scale: Value
    zero: Value

    def times(self, x: Value) -> Value:
        """Return ``x @ matrix``, whose sums are computed from ints, and moved by the zero points as floats."""
        scale, zero = range_of(x if x.shape[:-1] == (1,) else x.reshape(1, -1))
        factor, ones = scale * self.scale, like(self.ints, (1, len(self.ints)), 1)
        columns = cast(integer_product(ones, None, self.ints, self.zero), x.dtype)  # computed once, if compiled
        sums = integer_product(levels_of(x, scale, zero), None, self.ints, self.zero)
        return (cast(sums, x.dtype) - columns * zero) * factor


class Direction:
    """One direction of a recurrent network: its weights, activations and settings."""

    def __init__(
        self, kind: str, weights: Sequence[Value], activations: Sequence[Any], settings: RecurrentSettings
    ) -> None:
        self.kind, self.settings, self.activations = kind, settings, activations
        w, r, b, self.peepholes = weights
        rounded = isinstance(r, Rounded)
        self.size, gates = r.ints.shape if rounded else r.shape[::-1]
        self.name = None if rounded else self._operation()
        biases: list[Value] = [0.0, 0.0] if b is None else [self._ordered(part) for part in (b[:gates], b[gates:])]
        self.input_bias, self.bias = biases
        matrices: list[Value] = [w, r] if rounded else [self._ordered(part.T) for part in (w, r)]
        self.input_weight, self.weight = matrices

    def _operation(self) -> str | None:
        """Return the operation that computes all steps; None for other activations and settings."""
        settings, names = self.settings, tuple([name for name, *_ in self.activations])
        if "clip" in settings or settings.get("input_forget") or self.peepholes is not None:
            return None
        if self.kind == "RNN":
            return "rnn" if names in (("Tanh",), ("Relu",)) else None
        usual = names == DEFAULTS[self.kind] and (self.kind == "LSTM" or settings.get("linear_before_reset"))
        return self.kind.lower() if usual else None

    def _ordered(self, x: Value) -> Value:
        """Return a weight or bias with its gates, along the last dimension, in the order of the operation."""
        if self.name is None:
            return x
        return cat([self.parts(x)[k] for k in GATES[self.kind]], dim=-1)

    def states(self, sums: Value, state: Value, cell: Value, lengths: Value, reverse: bool) -> tuple[Value, Value]:
        """Return the states and cells after each step, (steps, N, size), by the operation."""
        counts = None if lengths is None else cast(lengths, "int64")._primitive
        device, x, hidden, weight = sums.device, sums.transpose(0, 1), state._primitive, self.weight._primitive
        if self.name == "lstm":
            steps = (x + self.bias)._primitive, hidden, cell._primitive, weight, counts, reverse
            states, cells = device.recurrent_states("lstm", *steps)
            return sums._like(states).transpose(0, 1), sums._like(cells).transpose(0, 1)
        if self.name == "gru":
            bias = like(sums, (3 * self.size,), 0.0) if isinstance(self.bias, float) else self.bias
            given = x._primitive, hidden, weight, bias._primitive, counts, reverse
            states = device.recurrent_states("gru", *given)[0]
        else:
            relu = self.activations[0][0] == "Relu"
            states = device.rnn((x + self.bias)._primitive, hidden, weight, counts, reverse, relu)
        return sums._like(states).transpose(0, 1), cell

    def activated(self, k: int, x: Value) -> Value:
        """Return the k-th activation of x, after clipping."""
        clip = self.settings.get("clip")
        name, alpha, beta = self.activations[k]
        return activation(x if clip is None else x.clamp(-clip, clip), kind=name, alpha=alpha, beta=beta)

    def parts(self, x: Value) -> list[Value]:
        """Return the gates of a row of sums."""
        return list(x.split(self.size, dim=-1))

    def step(self, sums: Value, state: Value, cell: Value) -> tuple[Value, Value]:
        """Return the next state and cell, from the sums of the input."""
        if self.kind == "RNN":
            return self.activated(0, sums + state @ self.weight + self.bias), cell
        if self.kind == "GRU":
            return self._gru(sums, state), cell
        return self._lstm(self.parts(sums + _product(state, self.weight) + self.bias), cell)

    def _gru(self, sums: Value, state: Value) -> Value:
        by_state = self.parts(state @ self.weight + self.bias)
        z, r, n = self.parts(sums)
        update, reset = self.activated(0, z + by_state[0]), self.activated(0, r + by_state[1])
        if self.settings.get("linear_before_reset"):
            inner = n + reset * by_state[2]
        else:
            bias = 0.0 if isinstance(self.bias, float) else self.bias[2 * self.size :]
            inner = n + (reset * state) @ self.weight[:, 2 * self.size :] + bias
        new = self.activated(1, inner)
        return (1.0 - update) * new + update * state

    def _lstm(self, gates: list[Value], cell: Value) -> tuple[Value, Value]:
        i, o, f, c = gates
        peep = None if self.peepholes is None else self.parts(self.peepholes)
        if peep is not None:
            i, f = i + peep[0] * cell, f + peep[2] * cell
        entered = self.activated(0, i)
        kept = 1.0 - entered if self.settings.get("input_forget") else self.activated(0, f)
        cell = kept * cell + entered * self.activated(1, c)
        if peep is not None:
            o = o + peep[1] * cell
        return self.activated(0, o) * self.activated(2, cell), cell


@operator("RNN", "GRU", "LSTM")
def recurrent(
    x: Value,
    w: Value,
    r: Value,
    b: Value = None,
    lengths: Value = None,
    initial_h: Value = None,
    initial_c: Value = None,
    peepholes: Value = None,
    *,
    kind: str,
    outputs: int = 1,
    **settings: Unpack[RecurrentSettings],
) -> Any:
    """Return the states at all steps, and the last states and cells."""
    layout = settings.get("layout")
    x = x.transpose(0, 1) if layout else x
    starts = [None if start is None else start.transpose(0, 1) if layout else start for start in (initial_h, initial_c)]
    count = len(DEFAULTS[kind])
    names = settings.get("activations") or DEFAULTS[kind] * len(w)
    triples = _with_numbers(names, settings.get("activation_alpha", ()), settings.get("activation_beta", ()))
    results = []
    for k in range(len(w)):
        weights = [None if part is None else part[k] for part in (w, r, b, peepholes)]
        way = Direction(kind, weights, triples[count * k : count * (k + 1)], settings)
        reverse = settings.get("direction") == "reverse" or k == 1
        begin = [None if start is None else start[k] for start in starts]
        results.append(_run(way, x, lengths, reverse, begin))
    states, last, cells = [
        _both(list(parts), dim) for parts, dim in zip(zip(*results, strict=True), (1, 0, 0), strict=True)
    ]
    if layout:
        states, last, cells = states.permute(2, 0, 1, 3), last.transpose(0, 1), cells.transpose(0, 1)
    return (states, last, cells)[:outputs] if outputs > 1 else states


def _product(x: Value, weight: Value) -> Value:
    return weight.times(x) if isinstance(weight, Rounded) else x @ weight


def _both(parts: list[Value], dim: int) -> Value:
    """Return the results of each direction along a new dimension."""
    return parts[0].unsqueeze(dim) if len(parts) == 1 else stack(parts, dim=dim)


def _with_numbers(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]
) -> list[tuple[str, float | None, float | None]]:
    """Return activations with their alphas and betas, which the lists have only of those that take them."""
    found, remaining = [], (iter(alphas), iter(betas))
    for name in names:
        known = ACTIVATIONS.get(name.lower())
        takes = (False, False) if known is None else (known.alpha is not None, known.beta is not None)
        alpha, beta = (next(rest, None) if taken else None for taken, rest in zip(takes, remaining, strict=True))
        found.append((name, alpha, beta))
    return found


def _run(way: Direction, x: Value, lengths: Value, reverse: bool, begin: Sequence[Value]) -> tuple[Value, Value, Value]:
    """Return the states at all steps, the last one and the last cell of one direction."""
    steps, n, _ = x.shape
    zeros = like(x, (n, way.size), 0.0)
    state, cell = [zeros if start is None else start for start in begin]
    sums = _product(x, way.input_weight) + way.input_bias
    inside = None if lengths is None else arange(steps, x.device).unsqueeze(1) < cast(lengths, "int64").unsqueeze(0)
    if way.name is not None and steps and n:
        states, cells = way.states(sums, state, cell, lengths, reverse)
        end = 0 if reverse else steps - 1
        last_cell = cells[end] if way.kind == "LSTM" else cell
        return states if inside is None else where(inside.unsqueeze(2), states, 0.0), states[end], last_cell
    rows = [sums] if inside is None else [sums, inside.unsqueeze(2)]

    def step(values: list[Value], *row: Value) -> list[Value]:
        new = way.step(row[0], *values)
        if inside is None:
            return [*new, new[0]]
        here = row[1]
        return [*[where(here, *pair) for pair in zip(new, values, strict=True)], where(here, new[0], 0.0)]

    if steps and (found := scanned(step, [state, cell], rows, reverse)) is not None:
        return found[2], found[0], found[1]
    outs: list[Value] = [zeros] * steps
    for t in range(steps)[::-1] if reverse else range(steps):
        state, cell, outs[t] = step([state, cell], *[x[t] for x in rows])
    return stack(outs, dim=0), state, cell


@operator("LinearAttention")
def linear_attention(
    q: Value,
    k: Value,
    v: Value,
    past: Value = None,
    decay: Value = None,
    beta: Value = None,
    *,
    chunk_size: int = 64,
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> Any:
    """Attend by a state that each token updates, and return the last state as well."""
    dtype, kept = q.dtype, q.dtype if past is None else past.dtype
    n, steps, _ = q.shape
    wide = [cast(heads_first(x, h), "float32") for x, h in ((q, q_num_heads), (k, kv_num_heads), (v, kv_num_heads))]
    queries, keys, values = wide
    size = queries.shape[-1]
    gates = None if decay is None else cast(decay, "float32").reshape(n, steps, kv_num_heads, -1).transpose(1, 2).exp()
    rates = None if beta is None else cast(beta, "float32").transpose(1, 2).unsqueeze(-1)
    state = like(keys, (n, kv_num_heads, size, values.shape[-1]), 0.0) if past is None else cast(past, "float32")
    factor = scale or 1.0 / math.sqrt(size)
    outs: list[Value] = []
    for t in range(steps):
        key, value = keys[:, :, t], values[:, :, t]
        if gates is not None:
            state = state * gates[:, :, t].unsqueeze(-1)
        if rates is not None:
            value = rates[:, :, t] * (value - (state * key.unsqueeze(-1)).sum(dim=2))
        state = state + key.unsqueeze(-1) * value.unsqueeze(2)
        read = state.repeat_interleave(q_num_heads // kv_num_heads, dim=1)
        outs.append((queries[:, :, t].unsqueeze(2) @ read).squeeze(2) * factor)
    return cast(stack(outs, dim=1).reshape(n, steps, -1), dtype), cast(state, kept)


@operator("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(
    x: Value,
    w: Kept,
    r: Kept,
    b: Maybe,
    lengths: Maybe,
    initial_h: Maybe,
    initial_c: Maybe,
    peepholes: Maybe,
    w_scale: Kept,
    w_zero: Kept,
    r_scale: Kept,
    r_zero: Kept,
    *,
    outputs: int = 1,
    **settings: Unpack[RecurrentSettings],
) -> Any:
    """Return an LSTM with matrices of ints (directions, inputs, gates), whose inputs and states are rounded."""

    def matrices(ints: Value, scale: Value, zero: Value) -> list[Rounded]:
        known = ints, scale, None if zero.device is HOST and not zero.to_numpy().any() else zero
        parts = [None if part is None else part.to_device(x.device) for part in known]
        return [Rounded(*[None if part is None else part[k] for part in parts]) for k in range(len(ints))]

    given = matrices(w, w_scale, w_zero), matrices(r, r_scale, r_zero)
    return recurrent(x, *given, b, lengths, initial_h, initial_c, peepholes, kind="LSTM", outputs=outputs, **settings)


@operator("ReverseSequence")
def reverse_sequence(x: Value, lengths: Value, *, batch_axis: int = 1, time_axis: int = 0) -> Value:
    """Reverse the first elements of each sequence."""
    moved = x if batch_axis == 0 else x.transpose(0, 1)
    order = arange(moved.shape[1], x.device).unsqueeze(0)
    ends = cast(lengths, "int64").unsqueeze(1)
    places = where(order < ends, ends - 1 - order, order)
    places = places.reshape(*places.shape, *(1,) * (x.ndim - 2)).expand(*moved.shape)
    out = moved.gather(1, places)
    return out if batch_axis == 0 else out.transpose(0, 1)


@operator("TensorScatter")
def tensor_scatter(
    cache: Value, update: Value, starts: Value = None, *, axis: int = -2, mode: Literal["linear", "circular"] = "linear"
) -> Value:
    """Write an update into a cache, at a start for each member of the batch."""
    dim = axis % cache.ndim
    moved, part = cache.movedim(dim, 1), update.movedim(dim, 1)
    steps = arange(part.shape[1], cache.device).unsqueeze(0)
    first = steps * 0 if starts is None else cast(starts, "int64").unsqueeze(1)
    places = (first + steps).remainder(moved.shape[1]) if mode == "circular" else first + steps
    places = places.reshape(*places.shape, *(1,) * (moved.ndim - 2)).expand(*part.shape)
    return moved.scatter(1, places, part).movedim(1, dim)


def write_lstm(
    g: GraphWriter, x: Operand, hidden: Operand, cell: Operand, weight: Operand, lengths: Any, reverse: bool
) -> Any:
    """Write an LSTM, which does not give the gates; all cell states, where they are read, follow from its states."""
    states = _recurrent(g, "LSTM", x, weight, lengths, reverse, None, (hidden, cell))
    return states, lambda: _cells(g, x, states, hidden, cell, weight, lengths, reverse), None


def _cells(
    g: GraphWriter,
    x: Operand,
    states: str,
    hidden: Operand,
    cell: Operand,
    weight: Operand,
    lengths: Operand | None,
    reverse: bool,
) -> str:
    """Write all cell states of an LSTM: the gates of all steps at once, and a Scan of f · c + i · g."""
    first, axis = g.node("Unsqueeze", hidden, g.sizes((1,))), g.sizes((1,))
    if reverse:
        parts = [g.node("Slice", states, g.sizes((1,)), g.sizes((2**31 - 1,)), axis), first]
    else:
        parts = [first, g.node("Slice", states, g.sizes((0,)), g.sizes((-1,)), axis)]
    sums = g.node("Add", x, g.node("MatMul", g.node("Concat", *parts, axis=1), weight))
    used = g.node("Slice", sums, g.sizes((0,)), g.sizes((3 * weight.shape[0],)), g.sizes((2,)))  # without those of o
    enters, keeps, new = g.node("Split", used, g.sizes((weight.shape[0],) * 3), axis=2, results=3)
    kept, added = g.node("Sigmoid", keeps), g.node("Mul", g.node("Sigmoid", enters), g.node("Tanh", new))
    if lengths is not None:
        inside = _inside(g, x, lengths)
        kept, added = [
            g.node("Where", inside, part, g.constant(after, x.dtype)) for part, after in ((kept, 1.0), (added, 0.0))
        ]
    shape = (x.shape[1], x.shape[0], weight.shape[0])
    steps = [Operand(g.node("Transpose", part, perm=[1, 0, 2]), shape, x.dtype) for part in (kept, added)]
    state, factor, plus = g.inside(cell), *[g.inside(part, sliced=True) for part in steps]

    def step() -> list[Operand]:
        return [Operand(g.node("Add", g.node("Mul", factor, state), plus), cell.shape, x.dtype)] * 2

    body = g.graph("step", [state, factor, plus], step)
    ways = {"scan_input_directions": [1, 1], "scan_output_directions": [1]} if reverse else {}
    _, cells = g.node("Scan", cell, *steps, results=2, body=body, num_scan_inputs=2, **ways)
    return str(g.node("Transpose", cells, perm=[1, 0, 2]))


def write_gru(
    g: GraphWriter, x: Operand, hidden: Operand, weight: Operand, bias: Operand, lengths: Any, reverse: bool
) -> Any:
    """Write a GRU, which does not give the gates."""
    size = weight.shape[0]
    ordered = g.node("Gather", bias, g.sizes(_order("GRU", size)))
    zeros = g.node("Expand", g.constant(0.0, x.dtype), g.sizes((3 * size,)))
    biases = g.node("Unsqueeze", g.node("Concat", zeros, ordered, axis=0), g.sizes((0,)))
    return _recurrent(g, "GRU", x, weight, lengths, reverse, biases, (hidden,), linear_before_reset=1), None


def write_rnn(
    g: GraphWriter, x: Operand, hidden: Operand, weight: Operand, lengths: Any, reverse: bool, relu: bool
) -> Any:
    """Write an RNN."""
    return _recurrent(g, "RNN", x, weight, lengths, reverse, None, (hidden,), activations=["Relu" if relu else "Tanh"])


def _recurrent(
    g: GraphWriter,
    kind: str,
    x: Operand,
    weight: Operand,
    lengths: Operand | None,
    reverse: bool,
    bias: str | None,
    states: Sequence[Operand],
    **settings: Any,
) -> Any:
    """Write a recurrence on sums of the input, which the operator multiplies by the identity.

    After the end of a sequence the state stays, where the operator gives zeros.
    """
    size, count = weight.shape[0], weight.shape[1]
    order = g.sizes(_order(kind, size))
    identity = g.node("EyeLike", g.node("Expand", g.constant(0.0, x.dtype), g.sizes((count, count))))
    matrices = [g.node("Gather", part, order, axis=0) for part in (identity, g.node("Transpose", weight, perm=[1, 0]))]
    by_input, by_state = [g.node("Unsqueeze", part, g.sizes((0,))) for part in matrices]
    begin = [g.node("Unsqueeze", state, g.sizes((0,))) for state in states]
    settings |= {"hidden_size": size, "direction": "reverse" if reverse else "forward"}
    steps, counts = g.node("Transpose", x, perm=[1, 0, 2]), lengths and g.cast(lengths, np.dtype(np.int32))
    out, last = g.node(kind, steps, by_input, by_state, bias, counts, *begin, results=2, **settings)
    found = g.node("Transpose", g.node("Squeeze", out, g.sizes((1,))), perm=[1, 0, 2])
    if lengths is None:
        return found
    after = begin[0]
    if not reverse:
        some = g.node("Greater", g.node("Unsqueeze", lengths, g.sizes((1,))), g.constant(0, lengths.dtype))
        after = g.node("Where", some, last, after)
    return g.node("Where", _inside(g, x, lengths), found, g.node("Transpose", after, perm=[1, 0, 2]))


def _inside(g: GraphWriter, x: Operand, lengths: Operand) -> str:
    """Write whether each step of sequences x, (N, T, …), is one of their lengths, (N, T, 1)."""
    zero, one, steps = [g.constant(size, lengths.dtype) for size in (0, 1, x.shape[1])]
    order = g.node("Unsqueeze", g.node("Range", zero, steps, one), g.sizes((1,)))
    return str(g.node("Less", order, g.node("Unsqueeze", lengths, g.sizes((1, 2)))))


def _order(kind: str, size: int) -> list[int]:
    """Return the places of a weight of burnpy's gates in the order of ONNX's."""
    gates = GATES[kind]
    return [gates.index(gate) * size + k for gate in range(len(gates)) for k in range(size)]
