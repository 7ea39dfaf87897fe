"""Kernels of recurrent networks: one element of all sequences, or all elements.

The formulas are those of ``lstm_step``, ``gru_step`` and ``rnn_step`` of `burnpy.backend.operations.recurrent` and of
their gradients. A thread computes one number of the state of one sequence; it writes that number, its gates and what is
carried to the next element alone, so no two threads write one place.

The kernels of all elements are persistent: their blocks keep the weight in shared memory, each the columns of some
numbers of the state, and wait for each other after each element. They compute the formulas of one element, after or
before the product of the state, or of its gradient, by these columns. Each of a block's warps adds up a part of a
product; the parts are added in one order.

Source: Diamos et al., Persistent RNNs: Stashing Recurrent Weights On-Chip, 2016.
"""

from __future__ import annotations

from burnpy_cupy.kernels.elementwise_kernel import Elementwise
from burnpy_cupy.kernels.kernel import Raw

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
const F grad_state = static_cast<F>(grad[row * size + h]) + product[i] + rest[i];
F grad_cell = static_cast<F>(grad_cells[row * size + h]) + rest_cells[i];
rest[i] = counts ? F(0) : grad_state;
const F skipped = counts ? F(0) : grad_cell, grad_hidden = counts ? grad_state : F(0);
grad_cell = counts ? grad_cell : F(0);
const F in = gates[row * 4 * size + h], keep = gates[(row * 4 + 1) * size + h];
const F add = gates[(row * 4 + 2) * size + h], out = gates[(row * 4 + 3) * size + h];
const F old = before < 0 ? first_cell[i] : cells[(n * steps + before) * size + h];
const F bounded = tanh(static_cast<F>(cells[row * size + h]));
grad_cell += grad_hidden * out * (F(1) - bounded * bounded);
grad_x[row * 4 * size + h] = static_cast<T>(grad_cell * add * burnpy_gate_slope(in));
grad_x[(row * 4 + 1) * size + h] = static_cast<T>(grad_cell * old * burnpy_gate_slope(keep));
grad_x[(row * 4 + 2) * size + h] = static_cast<T>(grad_cell * in * (F(1) - add * add));
grad_x[(row * 4 + 3) * size + h] = static_cast<T>(grad_hidden * bounded * burnpy_gate_slope(out));
rest_cells[i] = grad_cell * keep + skipped;
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
const F grad_state = static_cast<F>(grad[row * size + h]) + product[i] + rest[i];
const F grad_hidden = counts ? grad_state : F(0);
const F reset = gates[row * 4 * size + h], keep = gates[(row * 4 + 1) * size + h];
const F fresh = gates[(row * 4 + 2) * size + h], part = gates[(row * 4 + 3) * size + h];
const F held = before < 0 ? first[i] : states[(n * steps + before) * size + h];
const F grad_fresh = grad_hidden * (F(1) - keep) * (F(1) - fresh * fresh);
const F grad_keep = grad_hidden * (held - fresh) * burnpy_gate_slope(keep);
const F grad_reset = grad_fresh * part * burnpy_gate_slope(reset);
grad_x[row * 3 * size + h] = grad_product[row * 3 * size + h] = static_cast<T>(grad_reset);
grad_x[(row * 3 + 1) * size + h] = grad_product[(row * 3 + 1) * size + h] = static_cast<T>(grad_keep);
grad_x[(row * 3 + 2) * size + h] = static_cast<T>(grad_fresh);
grad_product[(row * 3 + 2) * size + h] = static_cast<T>(grad_fresh * reset);
rest[i] = counts ? grad_hidden * keep : grad_state;
"""

_RNN = f"""{_PLACE}
const F sum = static_cast<F>(x[row * size + h]) + product[i];
const F held = before < 0 ? first[i] : states[(n * steps + before) * size + h];
const F after = relu ? (sum < F(0) ? F(0) : sum) : F(tanh(sum));
states[row * size + h] = static_cast<T>(counts ? after : held);
"""

_RNN_BACKWARD = f"""{_PLACE}
const F grad_state = static_cast<F>(grad[row * size + h]) + product[i] + rest[i];
const F after = states[row * size + h], grad_hidden = counts ? grad_state : F(0);
const F grad_sum = relu ? (after != F(0) ? grad_hidden : F(0)) : grad_hidden * (F(1) - after * after);
grad_x[row * size + h] = static_cast<T>(grad_sum);
rest[i] = counts ? F(0) : grad_state;
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
        "raw T grad_x, raw F rest, raw F rest_cells",
        _LSTM_BACKWARD,
        _FUNCTIONS,
    ),
    "burnpy_gru": Elementwise(
        f"raw T x, raw F product, raw T bias, raw T first, {_WHERE}", "raw T states, raw T gates", _GRU, _FUNCTIONS
    ),
    "burnpy_gru_backward": Elementwise(
        f"raw T grad, raw F product, raw T first, raw T states, raw T gates, {_WHERE}",
        "raw T grad_x, raw T grad_product, raw F rest",
        _GRU_BACKWARD,
        _FUNCTIONS,
    ),
    "burnpy_rnn": Elementwise(f"raw T x, raw F product, raw T first, {_WHERE}, bool relu", "raw T states", _RNN),
    "burnpy_rnn_backward": Elementwise(
        f"raw T grad, raw F product, raw T states, {_WHERE}, bool relu", "raw T grad_x, raw F rest", _RNN_BACKWARD
    ),
}
"""Kernels for elements of the type T and sums of the type F. Arrays are contiguous. ``product`` is the weight times the
state before the element, or times the gradient after it; ``rest`` is the remainder of the gradient of a state."""

PERSISTENT_THREADS = 256

_PERSISTENT = """
constexpr int ROWS = 32, COLUMNS = GATES * UNITS;
constexpr int ACROSS = COLUMNS <= 4 ? 1 : COLUMNS <= 8 ? 2 : 4, TILE = 4 * ACROSS;  // columns of a tile, four a thread
constexpr int PARTS = THREADS / 8 / ACROSS;                                         // of the products of a sum
constexpr int PITCH = (COLUMNS + TILE - 1) / TILE * TILE;
struct __align__(ALIGNMENT) Four { T x[4]; };
struct Lengths {
  const long long* data;  // null if all elements count
  __device__ int size() const { return data != nullptr; }
  __device__ long long operator[](ptrdiff_t n) const { return data[n]; }
};
struct Sizes { long long sequences, steps, size, depth, reverse, relu, depth_step, column_step; };

// Waits until all blocks have come here, and what they wrote is to be seen.
__device__ void wait_for_blocks(unsigned* arrived, unsigned goal) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(arrived, 1u);
    while (*static_cast<volatile unsigned*>(arrived) < goal) __nanosleep(32);
    __threadfence();
  }
  __syncthreads();
}

// Multiplies all rows of x, `step` apart, by the block's columns of the weight.
__device__ void multiply(const T* x, long long step, const T* weights, F* sums, F* product, const Sizes& sizes) {
  const int lane = threadIdx.x % 32, part = threadIdx.x / 32 * (4 / ACROSS) + lane % 4 / ACROSS;
  const int row = lane / 4 * 4, column = lane % ACROSS * 4, sequences = sizes.sequences, size = sizes.size;
  for (int first = 0; first < sequences; first += ROWS)
    for (int tile = 0; tile < PITCH; tile += TILE) {
      F sum[4][4] = {};
      for (int k = 4 * part; k < sizes.depth; k += 4 * PARTS) {
        Four left[4], right[4];
        #pragma unroll
        for (int j = 0; j < 4; j++) {
          const int n = first + row + j < sequences ? first + row + j : sequences - 1;
          left[j] = *reinterpret_cast<const Four*>(x + n * step + k);
          right[j] = *reinterpret_cast<const Four*>(weights + (k + j) * PITCH + tile + column);
        }
        #pragma unroll
        for (int j = 0; j < 4; j++)
          #pragma unroll
          for (int r = 0; r < 4; r++)
            #pragma unroll
            for (int c = 0; c < 4; c++)
              sum[r][c] = fma(static_cast<F>(left[r].x[j]), static_cast<F>(right[j].x[c]), sum[r][c]);
      }
      __syncthreads();  // until the sums of the tile before are read
      for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++) sums[(part * ROWS + row + r) * TILE + column + c] = sum[r][c];
      __syncthreads();
      for (int k = threadIdx.x; k < ROWS * TILE; k += THREADS) {
        F total = 0;
        for (int each = 0; each < PARTS; each++) total += sums[each * ROWS * TILE + k];
        const int n = first + k / TILE, c = tile + k % TILE, h = blockIdx.x * UNITS + c % UNITS;
        if (n < sequences && c < COLUMNS && h < size) product[(n * GATES + c / UNITS) * size + h] = total;
      }
    }
  __syncthreads();
}
"""
"""Products of a block, and the waiting for all blocks. The constants: see `burnpy_cupy.kernels.recurrent`."""


def arrays_of(name: str) -> list[tuple[str, str]]:
    """Return the types and names of a kernel's arrays."""
    declared = f"{RECURRENCE[name].inputs}, {RECURRENCE[name].outputs}"
    parameters = [parameter.split() for parameter in declared.split(", ")]
    return [(kind[1], kind[2]) for kind in parameters if kind[0] == "raw"]


def _persistent(name: str) -> Raw:
    """Return the kernel that computes all elements as the kernel of one element does."""
    parameters = ["Lengths lengths" if each == "lengths" else f"{t}* {each}" for t, each in arrays_of(name)]
    parameters += ["const T* weight", "unsigned* arrived", "Sizes sizes"]
    code, product, before, after = RECURRENCE[name].code, "multiply({}, weights, sums, product, sizes);", "", ""
    if name.endswith("backward"):
        grad_products = "grad_product" if "gru" in name else "grad_x"
        after = product.format(f"{grad_products} + t * depth, steps * depth")
    else:
        before = product.format("before < 0 ? first : states + before * size, before < 0 ? size : steps * size")
    return Raw(f"""
{_PERSISTENT}
{_FUNCTIONS}
extern "C" __global__ __launch_bounds__({PERSISTENT_THREADS}) void {name}_persistent({", ".join(parameters)}) {{
  extern __shared__ __align__(16) unsigned char memory[];
  T* weights = reinterpret_cast<T*>(memory);
  F* sums = reinterpret_cast<F*>(weights + sizes.depth * PITCH);
  const int size = sizes.size, steps = sizes.steps, depth = sizes.depth;
  const bool relu = sizes.relu;
  for (int k = threadIdx.x; k < depth * PITCH; k += THREADS) {{
    const int c = k % PITCH, h = blockIdx.x * UNITS + c % UNITS;
    const bool exists = c < COLUMNS && h < size;
    weights[k] = exists ? weight[k / PITCH * sizes.depth_step + (c / UNITS * size + h) * sizes.column_step] : T(0);
  }}
  __syncthreads();
  for (int step = 0; step < steps; step++) {{
    const int at = FORWARD ? step : steps - 1 - step, t = sizes.reverse ? steps - 1 - at : at;
    const int before = at == 0 ? -1 : sizes.reverse ? t + 1 : t - 1;
    {before}
    for (int k = threadIdx.x; k < sizes.sequences * UNITS; k += THREADS) {{
      const int unit = blockIdx.x * UNITS + k % UNITS;
      if (unit >= size) continue;
      const ptrdiff_t i = k / UNITS * size + unit;
      {code}
    }}
    if (!FORWARD || step + 1 < steps) wait_for_blocks(arrived, (step + 1) * gridDim.x);
    {after}
  }}
}}
""")


PERSISTENT = {f"{name}_persistent": _persistent(name) for name in RECURRENCE}
"""Kernels of all elements of all sequences, in one launch."""
