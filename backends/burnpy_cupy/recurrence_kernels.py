"""Kernels of recurrent networks: one element of all sequences, after or before the product with the weight.

The formulas are those of ``lstm_step``, ``gru_step`` and ``rnn_step`` of `burnpy.backend.operations.recurrence` and of
their gradients. A thread computes one number of the state of one sequence; it writes that number, its gates and what is
carried to the next element alone, so no two threads write one place.
"""

from __future__ import annotations

from burnpy_cupy.definitions import Elementwise

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
