"""Recurrent networks, a product and one kernel for each element of the sequences, forward and backward.

Kernels of recurrent networks: one element of all sequences, after or before the product with the weight.

The formulas are those of ``lstm_step``, ``gru_step`` and ``rnn_step`` of `burnpy.backend.operations.recurrence` and of
their gradients. A thread computes one number of the state of one sequence; it writes that number, its gates and what is
carried to the next element alone, so no two threads write one place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from burnpy.backend.dtypes import float32, int64
from burnpy.backend.operations.recurrence import states_before, weight_gradient
from burnpy.backend.primitives import DType
from burnpy_cupy.gemm import multiply
from burnpy_cupy.kernels.elementwise import Elementwise
from burnpy_cupy.kernels.matmul import CuPyMatmul

_FUNCTIONS = """
template <typename F> __device__ F burnpy_gate(F x) { return F(1) / (F(1) + exp(-x)); }
template <typename F> __device__ F burnpy_gate_slope(F y) { return y * (F(1) - y); }
"""

_WHERE = "raw int64 lengths, int32 size, int32 steps, int32 t, int32 before"
"""The lengths of sequences, none if all elements count; the size of the state, the number of elements, the index of the
element, and of that before it, which is negative for the first one."""

_PLACE = """
const ptrdiff_t n = i / size, h = i % size, row = n * steps + t;
const bool counts = lengths.size() == 0 || lengths[n] > t;
"""

_LSTM = f"""{_PLACE}
F sums[4];
for (int k = 0; k < 4; k++)
  sums[k] = static_cast<F>(x[(row * 4 + k) * size + h]) + product[(n * 4 + k) * size + h];
const F old = before < 0 ? first_cell[i] : cells[(n * steps + before) * size + h];
const F held = before < 0 ? first[i] : states[(n * steps + before) * size + h];
const F in = burnpy_gate(sums[0]), keep = burnpy_gate(sums[1]), add = tanh(sums[2]), out = burnpy_gate(sums[3]);
const F cell = keep * old + in * add;
gates[row * 4 * size + h] = static_cast<T>(in);
gates[(row * 4 + 1) * size + h] = static_cast<T>(keep);
gates[(row * 4 + 2) * size + h] = static_cast<T>(add);
gates[(row * 4 + 3) * size + h] = static_cast<T>(out);
cells[row * size + h] = static_cast<T>(counts ? cell : old);
states[row * size + h] = static_cast<T>(counts ? out * F(tanh(cell)) : held);
"""

_LSTM_BACKWARD = f"""{_PLACE}
const F by_state = static_cast<F>(grad[row * size + h]) + product[i] + rest[i];
F by_cell = static_cast<F>(grad_cells[row * size + h]) + by_cells[i];
rest[i] = counts ? F(0) : by_state;
const F skipped = counts ? F(0) : by_cell, by_hidden = counts ? by_state : F(0);
by_cell = counts ? by_cell : F(0);
const F in = gates[row * 4 * size + h], keep = gates[(row * 4 + 1) * size + h];
const F add = gates[(row * 4 + 2) * size + h], out = gates[(row * 4 + 3) * size + h];
const F old = before < 0 ? first_cell[i] : cells[(n * steps + before) * size + h];
const F bounded = tanh(static_cast<F>(cells[row * size + h]));
by_cell += by_hidden * out * (F(1) - bounded * bounded);
by_x[row * 4 * size + h] = static_cast<T>(by_cell * add * burnpy_gate_slope(in));
by_x[(row * 4 + 1) * size + h] = static_cast<T>(by_cell * old * burnpy_gate_slope(keep));
by_x[(row * 4 + 2) * size + h] = static_cast<T>(by_cell * in * (F(1) - add * add));
by_x[(row * 4 + 3) * size + h] = static_cast<T>(by_hidden * bounded * burnpy_gate_slope(out));
by_cells[i] = by_cell * keep + skipped;
"""

_GRU = f"""{_PLACE}
F inputs[3], parts[3];
for (int k = 0; k < 3; k++) {{
  inputs[k] = x[(row * 3 + k) * size + h];
  parts[k] = product[(n * 3 + k) * size + h] + static_cast<F>(bias[k * size + h]);
}}
const F held = before < 0 ? first[i] : states[(n * steps + before) * size + h];
const F reset = burnpy_gate(inputs[0] + parts[0]), keep = burnpy_gate(inputs[1] + parts[1]);
const F fresh = tanh(inputs[2] + reset * parts[2]);
gates[row * 4 * size + h] = static_cast<T>(reset);
gates[(row * 4 + 1) * size + h] = static_cast<T>(keep);
gates[(row * 4 + 2) * size + h] = static_cast<T>(fresh);
gates[(row * 4 + 3) * size + h] = static_cast<T>(parts[2]);
states[row * size + h] = static_cast<T>(counts ? fresh + keep * (held - fresh) : held);
"""

_GRU_BACKWARD = f"""{_PLACE}
const F by_state = static_cast<F>(grad[row * size + h]) + product[i] + rest[i];
const F by_hidden = counts ? by_state : F(0);
const F reset = gates[row * 4 * size + h], keep = gates[(row * 4 + 1) * size + h];
const F fresh = gates[(row * 4 + 2) * size + h], part = gates[(row * 4 + 3) * size + h];
const F held = before < 0 ? first[i] : states[(n * steps + before) * size + h];
const F by_fresh = by_hidden * (F(1) - keep) * (F(1) - fresh * fresh);
const F by_keep = by_hidden * (held - fresh) * burnpy_gate_slope(keep);
const F by_reset = by_fresh * part * burnpy_gate_slope(reset);
by_x[row * 3 * size + h] = by_product[row * 3 * size + h] = static_cast<T>(by_reset);
by_x[(row * 3 + 1) * size + h] = by_product[(row * 3 + 1) * size + h] = static_cast<T>(by_keep);
by_x[(row * 3 + 2) * size + h] = static_cast<T>(by_fresh);
by_product[(row * 3 + 2) * size + h] = static_cast<T>(by_fresh * reset);
rest[i] = counts ? by_hidden * keep : by_state;
"""

_RNN = f"""{_PLACE}
const F sum = static_cast<F>(x[row * size + h]) + product[i];
const F held = before < 0 ? first[i] : states[(n * steps + before) * size + h];
const F after = relu ? (sum < F(0) ? F(0) : sum) : F(tanh(sum));
states[row * size + h] = static_cast<T>(counts ? after : held);
"""

_RNN_BACKWARD = f"""{_PLACE}
const F by_state = static_cast<F>(grad[row * size + h]) + product[i] + rest[i];
const F after = states[row * size + h], by_hidden = counts ? by_state : F(0);
by_x[row * size + h] = static_cast<T>(relu ? (after != F(0) ? by_hidden : F(0)) : by_hidden * (F(1) - after * after));
rest[i] = counts ? F(0) : by_state;
"""

RECURRENCE = {
    "burnpy_lstm": Elementwise(
        f"raw T x, raw F product, raw T first, raw T first_cell, {_WHERE}",
        "raw T states, raw T cells, raw T gates",
        _LSTM,
        _FUNCTIONS,
    ),
    "burnpy_lstm_backward": Elementwise(
        f"raw T grad, raw T grad_cells, raw F product, raw T first_cell, raw T cells, raw T gates, {_WHERE}",
        "raw T by_x, raw F rest, raw F by_cells",
        _LSTM_BACKWARD,
        _FUNCTIONS,
    ),
    "burnpy_gru": Elementwise(
        f"raw T x, raw F product, raw T bias, raw T first, {_WHERE}", "raw T states, raw T gates", _GRU, _FUNCTIONS
    ),
    "burnpy_gru_backward": Elementwise(
        f"raw T grad, raw F product, raw T first, raw T states, raw T gates, {_WHERE}",
        "raw T by_x, raw T by_product, raw F rest",
        _GRU_BACKWARD,
        _FUNCTIONS,
    ),
    "burnpy_rnn": Elementwise(f"raw T x, raw F product, raw T first, {_WHERE}, bool relu", "raw T states", _RNN),
    "burnpy_rnn_backward": Elementwise(
        f"raw T grad, raw F product, raw T states, {_WHERE}, bool relu", "raw T by_x, raw F rest", _RNN_BACKWARD
    ),
}
"""Kernels for elements of the type T and sums of the type F. Arrays are contiguous. ``product`` is the weight times the
state before the element, or times the gradient after it; ``rest`` is the remainder of the gradient by a state."""


class CuPyRecurrence(CuPyMatmul):
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
    """The elements of sequences in the order of reading, and the arguments that say where a kernel is."""

    def __init__(self, b: CuPyRecurrence, states: Any, lengths: Any, reverse: bool) -> None:
        self._sequences, self._steps, self._size = states.shape
        self._lengths = b.xp.ndarray((0,), int64) if lengths is None else b.xp.ascontiguousarray(lengths)
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


def _contiguous(b: CuPyRecurrence, *arrays: Any) -> list[Any]:
    return [b.xp.ascontiguousarray(x) for x in arrays]


def _lstm(
    b: CuPyRecurrence, x: Any, hidden: Any, cell: Any, weight: Any, lengths: Any, reverse: bool
) -> tuple[Any, Any, Any]:
    x, hidden, cell = _contiguous(b, x, hidden, cell)
    states, cells = (b.xp.ndarray((*x.shape[:2], hidden.shape[1]), x.dtype) for _ in range(2))
    gates = b.xp.ndarray(x.shape, x.dtype)
    product = b.xp.ndarray((x.shape[0], x.shape[2]), _wide(x.dtype))
    elements, kernel = _Elements(b, states, lengths, reverse), b._kernels["burnpy_lstm"]
    for t, before in elements:
        multiply(b.xp, hidden if before < 0 else states[:, before], weight, product)
        elements.run(kernel, (x, product, hidden, cell), (t, before), states, cells, gates)
    return states, cells, gates


def _lstm_backward(b: CuPyRecurrence, given: tuple[Any, ...], lengths: Any, reverse: bool) -> tuple[Any, Any, Any]:
    grad, grad_cells, cell, weight, cells, gates = _contiguous(b, *given)
    by_x = b.xp.ndarray(gates.shape, gates.dtype)
    product, rest, by_cells = (b.xp.zeros(cell.shape, _wide(cell.dtype)) for _ in range(3))
    elements, kernel = _Elements(b, cells, lengths, reverse), b._kernels["burnpy_lstm_backward"]
    for t, before in reversed(list(elements)):
        arrays = (grad, grad_cells, product, cell, cells, gates)
        elements.run(kernel, arrays, (t, before), by_x, rest, by_cells)
        multiply(b.xp, by_x[:, t], weight.T, product)
    return by_x, _first(b, product, rest, cell.dtype), by_cells.astype(cell.dtype, copy=False)


def _gru(
    b: CuPyRecurrence, x: Any, hidden: Any, weight: Any, bias: Any, lengths: Any, reverse: bool
) -> tuple[Any, Any]:
    x, hidden, bias = _contiguous(b, x, hidden, bias)
    size = hidden.shape[1]
    states, gates = (b.xp.ndarray((*x.shape[:2], n), x.dtype) for n in (size, 4 * size))
    product = b.xp.ndarray((x.shape[0], x.shape[2]), _wide(x.dtype))
    elements, kernel = _Elements(b, states, lengths, reverse), b._kernels["burnpy_gru"]
    for t, before in elements:
        multiply(b.xp, hidden if before < 0 else states[:, before], weight, product)
        elements.run(kernel, (x, product, bias, hidden), (t, before), states, gates)
    return states, gates


def _gru_backward(b: CuPyRecurrence, given: tuple[Any, ...], lengths: Any, reverse: bool) -> tuple[Any, Any, Any]:
    grad, hidden, weight, states, gates = _contiguous(b, *given)
    by_x, by_products = (b.xp.ndarray((*states.shape[:2], weight.shape[1]), states.dtype) for _ in range(2))
    product, rest = (b.xp.zeros(hidden.shape, _wide(hidden.dtype)) for _ in range(2))
    elements, kernel = _Elements(b, states, lengths, reverse), b._kernels["burnpy_gru_backward"]
    for t, before in reversed(list(elements)):
        elements.run(kernel, (grad, product, hidden, states, gates), (t, before), by_x, by_products, rest)
        multiply(b.xp, by_products[:, t], weight.T, product)
    return by_x, by_products, _first(b, product, rest, hidden.dtype)


def _rnn(b: CuPyRecurrence, x: Any, hidden: Any, weight: Any, lengths: Any, reverse: bool, relu: bool) -> Any:
    x, hidden = _contiguous(b, x, hidden)
    states = b.xp.ndarray(x.shape, x.dtype)
    product = b.xp.ndarray(hidden.shape, _wide(x.dtype))
    elements, kernel = _Elements(b, states, lengths, reverse), b._kernels["burnpy_rnn"]
    for t, before in elements:
        multiply(b.xp, hidden if before < 0 else states[:, before], weight, product)
        elements.run(kernel, (x, product, hidden), (t, before), relu, states)
    return states


def _rnn_backward(
    b: CuPyRecurrence, given: tuple[Any, ...], lengths: Any, reverse: bool, relu: bool
) -> tuple[Any, Any]:
    grad, weight, states = _contiguous(b, *given)
    by_x = b.xp.ndarray(states.shape, states.dtype)
    product, rest = (b.xp.zeros((states.shape[0], states.shape[2]), _wide(states.dtype)) for _ in range(2))
    elements, kernel = _Elements(b, states, lengths, reverse), b._kernels["burnpy_rnn_backward"]
    for t, before in reversed(list(elements)):
        elements.run(kernel, (grad, product, states), (t, before), relu, by_x, rest)
        multiply(b.xp, by_x[:, t], weight.T, product)
    return by_x, _first(b, product, rest, states.dtype)


def _first(b: CuPyRecurrence, product: Any, rest: Any, dtype: DType) -> Any:
    """Return the gradient by the state before all elements: the last product and the part carried besides it."""
    return b.xp.add(product, rest, product).astype(dtype, copy=False)
