"""Norms of arrays of lists, in a launch for each dtype and one more: sums of parts in float64, and their sums."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from burnpy.backend.dtypes import float64
from burnpy.backend.operations.foreach import widest
from burnpy.backend.primitives import DType
from burnpy_cupy.kernels.emitter import FUNCTIONS, HEADERS, MEMORY, REGISTER
from burnpy_cupy.kernels.foreach_tables import THREADS, contiguous, table_launches, table_source
from burnpy_cupy.kernels.launch import OPTIONS
from burnpy_cupy.kernels.launcher import Launch, launcher

_SMALL, _BIG = "1.4916681462400413e-154", "1.997919072202235e+146"
_UP, _DOWN = "4.4989137945431964e+161", "1.1113793747425387e-162"
_REDUCE = f"""
__device__ void burnpy_add(double* sums, double x) {{
  const double size = fabs(x);
  if (KIND != 2) sums[0] = KIND == 0 ? maximum_of(sums[0], size) : sums[0] + size;
  else if (size > {_BIG}) sums[1] += (x * {_DOWN}) * (x * {_DOWN});
  else if (size < {_SMALL}) sums[2] += (x * {_UP}) * (x * {_UP});
  else sums[0] += x * x;
}}
__device__ void burnpy_all(double* sums) {{
  __shared__ double parts[{THREADS}];
  for (int k = 0; k < 3; k++) {{
    parts[threadIdx.x] = sums[k];
    for (int half = {THREADS} / 2; half; half /= 2) {{
      __syncthreads();
      if (threadIdx.x < half) {{
        const double a = parts[threadIdx.x], b = parts[threadIdx.x + half];
        parts[threadIdx.x] = KIND == 0 ? maximum_of(a, b) : a + b;
      }}
    }}
    __syncthreads();
    sums[k] = parts[0];
    __syncthreads();
  }}
}}
"""
"""Sums of powers in float64; squares of large numbers and of small ones by themselves, multiplied by a power of 2.

Source: Blue, A Portable Fortran Program to Find the Euclidean Norm of a Vector, 1978; the bounds are those of Anderson,
Safe Scaling in the Level 1 BLAS, 2017. The kind is 2 for squares, 1 for magnitudes, 0 for the largest of them.
"""

_PARTS = f"""
extern "C" __global__ __launch_bounds__({THREADS}) void burnpy_norm_parts(
  double* const out, const burnpy_table table) {{
  BURNPY_FIND
  const T* const x = (const T*)arrays[0];
  double sums[3] = {{0, 0, 0}};
#pragma unroll 4
  for (long long at = start + threadIdx.x; at < end; at += blockDim.x) burnpy_add(sums, (double)(R)x[at]);
  burnpy_all(sums);
  if (threadIdx.x < 3) out[part * 3LL + threadIdx.x] = sums[threadIdx.x];
}}
"""
_ROOT = f"""
__device__ void burnpy_norm(const double* const parts, const long long begin, const long long end, R* const out) {{
  double sums[3] = {{0, 0, 0}};
  for (long long at = begin + threadIdx.x; at < end; at += blockDim.x)
    for (int k = 0; k < 3; k++)
      sums[k] = KIND == 0 ? maximum_of(sums[k], parts[at * 3 + k]) : sums[k] + parts[at * 3 + k];
  burnpy_all(sums);
  if (threadIdx.x) return;
  double norm = KIND == 2 ? sqrt(sums[0]) : sums[0];
  if (sums[1] > 0) norm = sqrt(sums[1] + (norm * {_DOWN}) * (norm * {_DOWN})) / {_DOWN};
  else if (sums[2] > 0 && !(norm > {_SMALL} * 1e8)) norm = sqrt(sums[2] + (norm * {_UP}) * (norm * {_UP})) / {_UP};
  *out = (R)norm;
}}
extern "C" __global__ __launch_bounds__({THREADS}) void burnpy_total_norm(
  const double* const parts, const long long count, R* const out) {{
  burnpy_norm(parts, 0, count, out);
}}
extern "C" __global__ __launch_bounds__({THREADS}) void burnpy_each_norm(
  const double* const parts, R* const out, const burnpy_table table) {{
  const int row = blockIdx.x;
  burnpy_norm(parts, table.firsts[row], table.firsts[row + 1], out + table.positions[row]);
}}
"""


class NormKernels(NamedTuple):
    """The kernels of norms: of parts of arrays, then of these norms for each array, or for all arrays."""

    parts: Any
    each: Any
    total: Any


@cache
def norm_kernels(xp: Any, p: float, dtype: DType, result: DType) -> NormKernels:
    """Return the kernels of the norms of arrays of a dtype, in another.

    Args:
        xp: the module cupy.
        p: 1, 2 or ∞.
        dtype: the dtype of the arrays.
        result: the dtype of the norms: float32 or float64.
    """
    kind = {1.0: 1, 2.0: 2}.get(p, 0)
    header = f"#include <{HEADERS[dtype.name]}>\n" if dtype.name in HEADERS else ""
    head = f"{header}{FUNCTIONS}{table_source(1)}"

    def kernel(body: str, name: str, of: DType) -> Any:
        types = f"typedef {MEMORY[of.name]} T;\ntypedef {REGISTER[of.name]} R;"
        text = f"{head}\n#define KIND {kind}\n{types}\n{_REDUCE}{body}"
        return xp.RawKernel(text, name, OPTIONS)

    each, total = kernel(_ROOT, "burnpy_each_norm", result), kernel(_ROOT, "burnpy_total_norm", result)
    return NormKernels(kernel(_PARTS, "burnpy_norm_parts", dtype), each, total)


def run_norms(xp: Any, xs: Sequence[Any], p: float, each: bool) -> Any:
    """Return the norm of each array, or the norm of all."""
    result = widest(xs)
    groups: dict[Any, list[int]] = {}
    for k, x in enumerate(xs):
        if x.size:
            groups.setdefault(x.dtype, []).append(k)
    if not groups:
        return xp.zeros((len(xs),) if each else (), result)
    arrays = contiguous(xp, xs)
    of_dtypes = [
        (norm_kernels(xp, p, dtype, result), [[arrays[k] for k in positions]], tuple(positions))
        for dtype, positions in groups.items()
    ]
    tables = [[*table_launches(xp, kernels.parts, "Q", lists, positions)] for kernels, lists, positions in of_dtypes]
    count = sum([layout.parts for launches in tables for layout, *_ in launches])
    parts = xp.ndarray((count, 3), float64)
    out = xp.zeros((len(xs),), result) if each else xp.ndarray((), result)
    start = parts.data.ptr
    for (kernels, lists, positions), launches in zip(of_dtypes, tables, strict=True):
        starts = []
        for layout, launch, addresses in launches:
            starts.append(start)
            launch(start, *addresses)
            start += layout.parts * 3 * float64.itemsize
        if each:
            by_row = table_launches(xp, kernels.each, "QQ", lists, positions, by_rows=True)
            for begin, (_, launch, addresses) in zip(starts, by_row, strict=True):
                launch(begin, out.data.ptr, *addresses)
    if not each:
        _total(xp, xp.cuda.runtime.getDevice(), of_dtypes[0][0].total)(parts.data.ptr, count, out.data.ptr)
    return out


@cache
def _total(xp: Any, device: int, kernel: Any) -> Launch:
    """Return the launch of the norm of all parts, given them, their number and the result."""
    return launcher(xp, kernel, (1, 1), (THREADS, 1), "QqQ")
