"""Scans, which combine each element along a dimension with all before it.

A row is scanned tile by tile, from its beginning or its end. Each thread combines some neighbouring elements; shuffles
in a warp, and shared memory, combine the results of threads. So sums have the same bits in every run. Few long rows are
CuPy's.
"""

from __future__ import annotations

import math
import struct
from functools import cache, lru_cache
from typing import Any, NamedTuple

from burnpy.backend.dtypes import dtype_of, int64, kind_of
from burnpy.backend.primitives import DType, Shape
from burnpy_array import ArrayBackend
from burnpy_cupy.kernels.elementwise_kernel import C_NAMES, REGISTER, contiguous, headers_of
from burnpy_cupy.kernels.emitter import FUNCTIONS
from burnpy_cupy.kernels.launch import WARP, Launch, launcher, matrix
from burnpy_cupy.kernels.programs import OPTIONS
from burnpy_cupy.runtime import empty

_ITEMS = 8
_THREADS = 256


class Scan(NamedTuple):
    """How elements are combined: the type A of results so far, and expressions."""

    kind: str  #: the type A
    joined: str  #: the result for the elements of ``a`` and those of ``b``, which come after them
    one: str = "A(x)"  #: the result for the element ``x`` at ``column``
    result: str = "a"  #: what is stored of a result ``a``


_EXTREME = "b.value != b.value || (a.value == a.value && b.value {} a.value) ? b : a"
_LOG_OF_SUM = "log(exp(a - shift_of(a, b)) + exp(b - shift_of(a, b))) + shift_of(a, b)"


@cache
def scan_of(op: str, dtype: str) -> Scan:
    """Return how a scan combines elements of a dtype."""
    value = REGISTER[dtype]
    if op in ("cummax", "cummin"):  # of equal elements, and of NaNs, the last
        return Scan("Place", _EXTREME.format(">=" if op == "cummax" else "<="), "Place{V(x), int(column)}", "a.index")
    kind = value if kind_of(dtype_of(dtype)) == "float" else "unsigned long long"  # which wraps around
    return Scan(kind, {"cumsum": "a + b", "cumprod": "a * b", "logcumsumexp": _LOG_OF_SUM}[op])


def scan_source(
    name: str, op: str, dtype: str, result: str, lanes: int, threads: int, *, along: bool, wide: bool
) -> str:
    """Return the source of a scan.

    Args:
        name: the name of the kernel.
        op: "cumsum", "cumprod", "logcumsumexp", "cummax" or "cummin".
        dtype: the dtype of the array.
        result: the dtype of the results.
        lanes: the number of threads of a row.
        threads: the number of threads of a block.
        along: whether the elements of a row are neighbours in memory, rather than the rows.
        wide: whether positions are ints of 64 bits.
    """
    scan = scan_of(op, dtype)
    return f"""{headers_of((dtype, result))}{FUNCTIONS}
typedef {"long long" if wide else "int"} index_t;
typedef {C_NAMES[dtype]} T;
typedef {C_NAMES[result]} R;
typedef {REGISTER[dtype]} V;
struct Place {{ V value; int index; }};
typedef {scan.kind} A;
const int ITEMS = {_ITEMS}, THREADS = {threads}, LANES = {lanes}, ROWS = THREADS / LANES, TILE = LANES * ITEMS;
const int WARPED = {min(lanes, WARP) if along else 1}, PARTS = LANES / WARPED;  // the threads that shuffles combine
const int BANKS = 128 / sizeof(A);
__device__ inline int at(int k) {{ return k + k / BANKS; }}
template <class X> __device__ inline X earlier(X a, int apart) {{ return X(__shfl_up_sync(0xffffffffu, a, apart)); }}
__device__ inline Place earlier(const Place& a, int apart) {{
  return Place{{V(__shfl_up_sync(0xffffffffu, a.value, apart)), __shfl_up_sync(0xffffffffu, a.index, apart)}};
}}
template <class X> __device__ inline X shift_of(X a, X b) {{
  const X most = maximum_of(a, b);
  return most - most == X(0) ? most : X(0);
}}
__device__ inline A joined(const A& a, const A& b) {{ return {scan.joined}; }}
extern "C" __global__ __launch_bounds__({threads}) void {name}(
  const T* const __restrict__ in, R* const __restrict__ out, const long long rows_, const long long columns_,
  const long long inner_, const long long reverse) {{
  __shared__ A sums[PARTS * ROWS];
  const int lane = {"threadIdx.x % LANES" if along else "threadIdx.x / ROWS"};
  const int group = {"threadIdx.x / LANES" if along else "threadIdx.x % ROWS"}, part = lane / WARPED;
  const index_t rows = rows_, columns = columns_, inner = inner_, step = reverse ? -inner : inner;
  const index_t wanted = blockIdx.x * (index_t)ROWS + group, row = wanted < rows ? wanted : rows - 1;
  const index_t first = row / inner * inner * columns + row % inner + (reverse ? (columns - 1) * inner : 0);
  A carry;
  for (index_t tile = 0; tile < columns; tile += TILE) {{
    A mine[ITEMS];
{_ALONG_READ if along else _ACROSS_READ}
#pragma unroll
    for (int k = 1; k < ITEMS; k++) mine[k] = joined(mine[k - 1], mine[k]);
    A total = mine[ITEMS - 1];
    for (int apart = 1; apart < WARPED; apart *= 2) {{
      const A other = earlier(total, apart);
      if (lane % WARPED >= apart) total = joined(other, total);
    }}
    if (lane % WARPED == WARPED - 1) sums[part * ROWS + group] = total;
    A before = WARPED > 1 ? earlier(total, 1) : total;
    bool has = lane % WARPED > 0;
    __syncthreads();
    A all = sums[group];
    for (int k = 1; k <= PARTS; k++) {{
      if (k == part) before = has ? joined(all, before) : all, has = true;
      if (k < PARTS) all = joined(all, sums[k * ROWS + group]);
    }}
    if (tile > 0) before = has ? joined(carry, before) : carry, has = true;
    carry = tile > 0 ? joined(carry, all) : all;
    if (has)
#pragma unroll
      for (int k = 0; k < ITEMS; k++) mine[k] = joined(before, mine[k]);
{_ALONG_WRITE if along else _ACROSS_WRITE}
  }}
}}
""".replace("ONE", scan.one).replace("RESULT", scan.result)


_ALONG_READ = """
    __shared__ A items[THREADS * ITEMS + THREADS * ITEMS / BANKS];
    const int base = group * TILE;
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
      const index_t wanted = tile + lane + k * LANES, place = wanted < columns ? wanted : columns - 1;
      const index_t column = reverse ? columns - 1 - place : place;
      const T x = in[first + place * step];
      items[at(base + lane + k * LANES)] = ONE;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; k++) mine[k] = items[at(base + lane * ITEMS + k)];"""
"""Neighbouring threads read neighbouring elements, and exchange them through shared memory."""
_ALONG_WRITE = """
#pragma unroll
    for (int k = 0; k < ITEMS; k++) items[at(base + lane * ITEMS + k)] = mine[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
      const index_t place = tile + lane + k * LANES;
      const A a = items[at(base + lane + k * LANES)];
      if (place < columns && wanted < rows) out[first + place * step] = R(RESULT);
    }"""
_ACROSS_READ = """
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
      const index_t wanted = tile + lane * ITEMS + k, place = wanted < columns ? wanted : columns - 1;
      const index_t column = reverse ? columns - 1 - place : place;
      const T x = in[first + place * step];
      mine[k] = ONE;
    }"""
_ACROSS_WRITE = """
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
      const index_t place = tile + lane * ITEMS + k;
      const A a = mine[k];
      if (place < columns && wanted < rows) out[first + place * step] = R(RESULT);
    }
    __syncthreads();  // until all have read the sums"""


class CuPyScans(ArrayBackend):
    """Scans of rows that keep a GPU busy."""

    def cumsum(self, x: Any, dim: int) -> Any:
        return self._call(_scanned, self, "cumsum", x, dim, False) if _scans(x, dim) else super().cumsum(x, dim)

    def reverse_cumsum(self, x: Any, dim: int) -> Any:
        return self._call(_scanned, self, "cumsum", x, dim, True) if _scans(x, dim) else super().reverse_cumsum(x, dim)

    def cumprod(self, x: Any, dim: int) -> Any:
        return self._call(_scanned, self, "cumprod", x, dim, False) if _scans(x, dim) else super().cumprod(x, dim)

    def logcumsumexp(self, x: Any, dim: int) -> Any:
        usual = _scans(x, dim) and kind_of(x.dtype) == "float"
        return self._call(_scanned, self, "logcumsumexp", x, dim, False) if usual else super().logcumsumexp(x, dim)

    def cummax_index(self, x: Any, dim: int) -> Any:
        return self._call(_scanned, self, "cummax", x, dim, False) if _scans(x, dim) else super().cummax_index(x, dim)

    def cummin_index(self, x: Any, dim: int) -> Any:
        return self._call(_scanned, self, "cummin", x, dim, False) if _scans(x, dim) else super().cummin_index(x, dim)


def _scans(x: Any, dim: int) -> bool:
    """Return whether blocks that each scan rows keep a GPU busy."""
    if not x.size or not x.ndim or x.dtype.kind == "c":
        return False
    return matrix(x.size // x.shape[dim], x.shape[dim]).occupies


def _scanned(b: CuPyScans, op: str, x: Any, dim: int, reverse: bool) -> Any:
    """Return the scan of a dimension, from its end if ``reverse``."""
    xp = b.xp
    ints = kind_of(x.dtype) != "float" or op in ("cummax", "cummin")
    x = contiguous(xp, x)
    out = empty(xp, x.shape, int64 if ints else x.dtype)
    _scan_launch(xp, b.index, op, x.dtype, out.dtype, x.shape, dim, reverse)(x.data.ptr, out.data.ptr)
    return out


_MIN_BESIDE = 8
"""The least number of neighbouring rows for which as many threads have one each; a warp: of `_MANY_SCANS`."""
_MANY_SCANS = 8192


@lru_cache(1024)
def _scan_launch(
    xp: Any, device: int, op: str, dtype: DType, result: DType, shape: Shape, dim: int, reverse: bool
) -> Launch:
    """Return the launch of a scan on a device, which is current."""
    rows, columns, inner = math.prod(shape) // shape[dim], shape[dim], math.prod(shape[dim + 1 :])
    most, along = 1 << (-(-columns // _ITEMS) - 1).bit_length(), inner < _MIN_BESIDE
    beside = _MIN_BESIDE if rows < _MANY_SCANS else WARP
    threads = _THREADS if along else min(1024, beside * most)
    lanes = min(threads, most) if along else threads // beside
    kernel = _scan_kernel(xp, op, dtype.name, result.name, lanes, threads, along, rows * columns >= 1 << 30)
    grid, sizes = (-(-rows // (threads // lanes)), 1), struct.pack("=4q", rows, columns, inner, reverse)
    return launcher(xp, kernel, grid, (threads, 1), "2Q", sizes)


@cache
def _scan_kernel(xp: Any, op: str, dtype: str, result: str, lanes: int, threads: int, along: bool, wide: bool) -> Any:
    name = f"burnpy_{op}"
    source = scan_source(name, op, dtype, result, lanes, threads, along=along, wide=wide)
    return xp.RawKernel(source, name, OPTIONS)
