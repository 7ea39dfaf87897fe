"""The CUDA source of reductions: one kernel for each operation, dtype, division among threads and form of address.

A thread combines runs of `_RUN` elements, and then these, so that the rounding of a long row grows slowly. The threads
of a row combine their results in shared memory, as a tree. Where a row is divided among blocks (``gridDim.y`` of them),
the last of these combines what the others have stored; a counter, which is 0 again afterwards, says which that is.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from burnpy.backend.dtypes import dtype_of, kind_of
from burnpy_cupy.kernels.emitter import FUNCTIONS, HEADERS, REGISTER
from burnpy_cupy.kernels.emitter import MEMORY as FLOATS

MEMORY = FLOATS | {
    "int8": "signed char",
    "int16": "short",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned",
    "uint64": "unsigned long long",
}
"""The types of arrays by their dtype."""
_RUN = 32
_PLACES = {
    "warp": ("blockIdx.x * (index_t)blockDim.y + threadIdx.y", "threadIdx.x", "blockDim.x", "1"),
    "block": ("blockIdx.x", "threadIdx.x", "blockDim.x", "1"),
    "lanes": ("blockIdx.x * (index_t)blockDim.x + threadIdx.x", "threadIdx.y", "blockDim.y", "blockDim.x"),
}
"""By `Threads.kind`: a thread's row, its number among those of the row, how many they are, and how far apart."""
_POSITION = """struct A { V value; long long index; };
__device__ inline A joined(const A& a, const A& b) {
  if (a.index < 0) return b;
  if (b.index < 0) return a;
  const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
  if (a_is_nan != b_is_nan) return a_is_nan ? a : b;
  if (a_is_nan || a.value == b.value) return a.index < b.index ? a : b;
  return a.value COMPARED b.value ? a : b;
}"""
"""The position of the first extreme, or of the first NaN; -1 stands for none."""


class Combination(NamedTuple):
    """How elements of a type are combined: the definition of the type A of partial results, and expressions."""

    definition: str  #: with ``joined(a, b)``
    nothing: str  #: the partial result of no elements
    one: str  #: the partial result of the element ``x`` at ``column``
    result: str  #: the result of ``total``, over ``columns`` elements


@cache
def combination(op: str, dtype: str) -> Combination:
    """Return how an operation combines elements of a dtype."""
    kind = kind_of(dtype_of(dtype))
    value = REGISTER.get(dtype, MEMORY[dtype])
    if op in ("argmax", "argmin"):
        text = _POSITION.replace("COMPARED", ">" if op == "argmax" else "<")
        return Combination(f"typedef {value} V;\n{text}", "A{V(0), -1}", "A{V(x), column}", "total.index")
    if op in ("amax", "amin"):
        name, sign = ("maximum_of", "-") if op == "amax" else ("minimum_of", "")
        nothing = f"A({sign}BURNPY_INFINITY)" if kind == "float" else _extreme(dtype, least=op == "amax")
        return Combination(_joined(value, f"{name}(a, b)"), nothing, "A(x)", "total")
    if op in ("any", "all"):
        joined, nothing = ("a || b", "false") if op == "any" else ("a && b", "true")
        return Combination(_joined("bool", joined), nothing, "x != T(0)", "total")
    sums = value if kind == "float" else "unsigned long long"  # which wraps around
    joined, nothing = ("a * b", "A(1)") if op == "prod" else ("a + b", "A(0)")
    return Combination(_joined(sums, joined), nothing, "A(x)", "total / A(columns)" if op == "mean" else "total")


def _joined(kind: str, expression: str) -> str:
    return f"typedef {kind} A;\n__device__ inline A joined(A a, A b) {{ return {expression}; }}"


def _extreme(dtype: str, least: bool) -> str:
    """Return the least or the greatest int of a dtype, as a literal."""
    if dtype == "bool":
        return "false" if least else "true"
    info = np.iinfo(dtype)
    number = int(info.min if least else info.max)
    suffix = "ULL" if dtype == "uint64" else "LL"
    return f"A({number + 1}{suffix} - 1)" if number < 0 else f"A({number}{suffix})"


def reduction_source(
    name: str, op: str, dtype: str, result: str, kind: str, block: int, *, planes: bool, wide: bool
) -> str:
    """Return the source of a kernel.

    Args:
        name: the name of the kernel.
        op: the operation.
        dtype: the dtype of the array.
        result: the dtype of the results.
        kind: see `Threads.kind`.
        block: the number of threads of a block.
        planes: whether the columns of a row are at two steps; at one, they are found without divisions.
        wide: whether positions are ints of 64 bits.
    """
    combined = combination(op, dtype)
    row, lane, lanes, apart = _PLACES[kind]
    column = "column / inner_column * step2 + column % inner_column * step3" if planes else "column * step3"
    headers = "".join(f"#include <{HEADERS[each]}>\n" for each in sorted({dtype, result} & HEADERS.keys()))
    narrow = f"{MEMORY[result]}({REGISTER[result]}({combined.result}))" if result in HEADERS else combined.result
    return f"""{headers}{FUNCTIONS}
typedef {"long long" if wide else "int"} index_t;
typedef {MEMORY[dtype]} T;
typedef {MEMORY[result]} R;
{combined.definition}
struct burnpy_sizes {{
  long long rows, columns, inner_row, inner_column, step0, step1, step2, step3, span;
}};
__device__ inline A all_of(A* const mine, const unsigned lane, const unsigned lanes, const unsigned apart, const A a) {{
  *mine = a;
  for (unsigned half = lanes / 2; half; half /= 2) {{
    __syncthreads();
    if (lane < half) *mine = joined(*mine, mine[half * apart]);
  }}
  return *mine;
}}
extern "C" __global__ __launch_bounds__({block}) void {name}(
  const T* const __restrict__ in, R* const out, A* const parts, unsigned* const finished, const burnpy_sizes sizes) {{
  __shared__ A memory[{block}];
  __shared__ bool is_last;
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x, lane = {lane}, lanes = {lanes};
  const index_t rows = sizes.rows, columns = sizes.columns, span = sizes.span, wanted = {row};
  const index_t row = wanted < rows ? wanted : rows - 1, inner_row = sizes.inner_row;
  const index_t inner_column = sizes.inner_column, step2 = sizes.step2, step3 = sizes.step3;
  const index_t begin = blockIdx.y * span, stop = begin + span, end = stop < columns ? stop : columns;
  const bool writes = wanted < rows && lane == 0;
  const T* const first_column = in + (row / inner_row * (index_t)sizes.step0 + row % inner_row * (index_t)sizes.step1);
  A total = {combined.nothing};
  for (index_t first = begin + lane; first < end; first += {_RUN} * lanes) {{
    A run = {combined.nothing};
    const index_t after = first + (index_t)({_RUN} * lanes), last = after < end ? after : end;
#pragma unroll 4
    for (index_t column = first; column < last; column += lanes) {{
      const T x = first_column[{column}];
      run = joined(run, {combined.one});
    }}
    total = joined(total, run);
  }}
  total = all_of(memory + thread, lane, lanes, {apart}, total);
  if (gridDim.y > 1) {{
    if (writes) parts[blockIdx.y * (long long)rows + row] = total;
    __threadfence();
    __syncthreads();
    if (thread == 0) is_last = atomicAdd(&finished[blockIdx.x], 1u) + 1 == gridDim.y;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    total = {combined.nothing};
    const long long apart = rows;
    for (unsigned part = lane; part < gridDim.y; part += lanes) total = joined(total, parts[part * apart + row]);
    total = all_of(memory + thread, lane, lanes, {apart}, total);
    if (thread == 0) finished[blockIdx.x] = 0;
  }}
  if (writes) out[row] = {narrow};
}}
"""
