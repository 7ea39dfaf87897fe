"""Kernels that select by index and add at an index, for arrays with any strides.

A thread writes one element of the result, but for ``burnpy_scatter_add``, where several may add to one place: they do
so by atomic additions, in any order.
"""

from __future__ import annotations

from burnpy_cupy.definitions import Elementwise

_PLACE = """
ptrdiff_t at[_ind.ndim];
for (int d = 0; d < _ind.ndim; d++) at[d] = _ind.get()[d];
"""
"""The indices of the element; the index along ``dim`` is then replaced."""

_RUNS = """
const long long chunk = i / width, column = i % width, start = chunk * length, count = sorted.size();
const long long stop = min(start + length, count);
"""
"""A thread has one column of a chunk of the sorted indices, in which equal ones follow each other as runs."""

_RUN_SUMS = f"""{_RUNS}
F total = F(0);
bool begins = chunk == 0 || sorted[start - 1] != sorted[start];  // whether the run began in this chunk
for (long long p = start; p < stop; p++) {{
  const long long index = sorted[p];
  total += static_cast<F>(rows[order[p] * width + column]);
  const bool ends = p + 1 == count || sorted[p + 1] != index;
  if (!ends && p + 1 < stop) continue;
  if (begins && ends) {{
    if (index != padding) out[index * width + column] = static_cast<T>(total);
  }} else parts[(chunk * 2 + (begins ? 1 : 0)) * width + column] = total;
  total = F(0);
  begins = true;
}}
"""
"""A run within the chunk is added up and written; of one that reaches beyond it, the sum of its part is kept: in the
first place if it began before, or in the second. So a row of the result is written by one thread for each column."""

_JOINED_RUNS = f"""{_RUNS}
const long long index = sorted[stop - 1];
const bool goes_on = stop < count && sorted[stop] == index;
const bool began_before = chunk > 0 && sorted[start] == index && sorted[start - 1] == index;
if (goes_on && !began_before && index != padding) {{
  F total = parts[(chunk * 2 + 1) * width + column];
  for (long long c = chunk + 1; c * length < count && sorted[c * length] == index; c++)
    total += parts[c * 2 * width + column];
  out[index * width + column] = static_cast<T>(total);
}}
"""
"""The chunk in which a run began adds up its parts, from left to right."""

INDEXING = {
    "burnpy_run_sums": Elementwise(
        "raw int64 sorted, raw int64 order, raw T rows, int64 width, int64 length, int64 padding",
        "raw T out, raw F parts",
        _RUN_SUMS,
    ),
    "burnpy_joined_runs": Elementwise(
        "raw int64 sorted, raw F parts, int64 width, int64 length, int64 padding", "raw T out", _JOINED_RUNS
    ),
    "burnpy_gather": Elementwise(
        "raw T x, int64 index, int32 dim", "T out", f"{_PLACE}at[dim] = index; out = x[at];", reduce_dims=False
    ),
    "burnpy_scatter_add": Elementwise(
        "T src, int64 index, int32 dim",
        "raw T out",
        f"{_PLACE}at[dim] = index; atomicAdd(&out[at], src);",
        reduce_dims=False,
    ),
}
