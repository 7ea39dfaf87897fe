"""Scans, which combine each element along a dimension with all before it, and stable sorts along a dimension.

A row is scanned tile by tile, from its beginning or its end. Each thread combines some neighbouring elements; shuffles
in a warp, and shared memory, combine the results of threads. So sums have the same bits in every run. Few long rows are
the work of CuPy.

A row is sorted by one block, or a part of one: each thread sorts some of its elements in registers, and pairs of sorted
runs are merged until one is left. A thread finds where its part of a merged run begins in both by a binary search. Both
steps are stable. Longer rows are the work of CuPy, too.

Source: Green, McColl and Bader, GPU Merge Path: A GPU Merging Algorithm, 2012.
"""

from __future__ import annotations

import math
import struct
from functools import cache, lru_cache
from typing import Any, NamedTuple

from burnpy.backend.dtypes import dtype_of, infinity_bits, int64, kind_of, uint8, uint16, uint32, uint64
from burnpy.backend.primitives import DType, Shape
from burnpy_array import ArrayBackend
from burnpy_cupy.kernels.elementwise_kernel import C_NAMES, REGISTER, contiguous, headers_of
from burnpy_cupy.kernels.emitter import FUNCTIONS
from burnpy_cupy.kernels.kernel import Kernels, Raw
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


_LONGEST_SORTED = {4: 4096, 8: 2048}
"""The most elements of a row that a block sorts, by the bytes of a key: the shared memory that every GPU has."""
_SORT = f"""
#if KEY_BITS == 64
typedef unsigned long long Key;
#else
typedef unsigned Key;
#endif
struct alignas(2 * sizeof(Key)) Item {{ Key key; unsigned place; }};
const int ITEMS = {_ITEMS}, RUN = LANES * ITEMS, BANKS = 128 / sizeof(Item);
const Key LAST = ~Key(0);

// An int that orders as the element that has these bits: NaNs are equal and the last ones, zeros are equal.
__device__ inline Key key_of(T bits, int descending) {{
  const T sign = T(T(1) << (8 * sizeof(T) - 1)), size = T(bits & T(~sign));
  T key = bits;
#if KIND == 2
  if (size > T(INFINITE)) key = T(~T(0));
  else key = size == 0 ? sign : T(bits & sign ? ~bits : bits | sign);
#elif KIND == 1
  key = T(bits ^ sign);
#endif
  return descending ? T(~key) : key;
}}
// The place of an item in shared memory, so that items that are ITEMS apart lie in different banks.
__device__ inline int at(int k) {{ return k + k / BANKS; }}

extern "C" __global__ __launch_bounds__(THREADS) void burnpy_sort(
  const T* x, long long* index, T* values, long long rows, long long columns, long long inner, long long descending) {{
  __shared__ Item items[THREADS * ITEMS / BANKS * (BANKS + 1)];
  const int lane = threadIdx.x % LANES, base = threadIdx.x / LANES * RUN, own = lane * ITEMS, count = columns;
  const long long wanted = blockIdx.x * static_cast<long long>(THREADS / LANES) + threadIdx.x / LANES;
  const long long row = wanted < rows ? wanted : rows - 1, first = row / inner * inner * columns + row % inner;
  Item mine[ITEMS];
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {{
    const int column = lane + k * LANES;
    const Key key = column < count ? key_of(x[first + column * inner], descending) : LAST;
    items[at(base + column)] = Item{{key, static_cast<unsigned>(column)}};
  }}
  __syncthreads();
#pragma unroll
  for (int k = 0; k < ITEMS; k++) mine[k] = items[at(base + own + k)];
#pragma unroll
  for (int round = 0; round < ITEMS; round++)
#pragma unroll
    for (int k = round % 2; k + 1 < ITEMS; k += 2) {{
      const bool swaps = mine[k + 1].key < mine[k].key;
      const Item low = swaps ? mine[k + 1] : mine[k], high = swaps ? mine[k] : mine[k + 1];
      mine[k] = low, mine[k + 1] = high;
    }}
  for (int length = ITEMS; length < RUN; length *= 2) {{
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; k++) items[at(base + own + k)] = mine[k];
    __syncthreads();
    const int left = base + own / (2 * length) * (2 * length), right = left + length, passed = base + own - left;
    int low = passed > length ? passed - length : 0, high = passed < length ? passed : length;
    while (low < high) {{  // how many of those that come before are of the left run
      const int middle = (low + high) / 2;
      if (items[at(left + middle)].key <= items[at(right + passed - 1 - middle)].key) low = middle + 1;
      else high = middle;
    }}
    int a = low, b = passed - low;
    Item of_left = items[at(left + min(a, length - 1))], of_right = items[at(right + min(b, length - 1))];
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {{
      const bool from_left = b >= length || (a < length && of_left.key <= of_right.key);
      mine[k] = from_left ? of_left : of_right;
      from_left ? a++ : b++;
      const Item next = items[at(from_left ? left + min(a, length - 1) : right + min(b, length - 1))];
      if (from_left) of_left = next;
      else of_right = next;
    }}
  }}
  __syncthreads();
#pragma unroll
  for (int k = 0; k < ITEMS; k++) items[at(base + own + k)] = mine[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < ITEMS; k++) {{
    const int column = lane + k * LANES;
    if (column >= count || wanted >= rows) continue;
    const long long place = items[at(base + column)].place;
    index[first + column * inner] = place;
    if (values) values[first + column * inner] = x[first + place * inner];
  }}
}}
"""
ORDERING = {"burnpy_sort": Raw(_SORT)}
_BITS = {1: uint8, 2: uint16, 4: uint32, 8: uint64}


class CuPyOrdering(ArrayBackend):
    """Stable sorts, which put NaN last."""

    _kernels: Kernels

    def argsort(self, x: Any, dim: int, descending: bool) -> Any:
        if not _fits(x, dim):
            return super().argsort(x, dim, descending)
        return self._call(_sorted, self, x, dim, descending, False)[1]

    def sort(self, x: Any, dim: int, descending: bool) -> tuple[Any, Any]:
        if not _fits(x, dim):
            return super().sort(x, dim, descending)
        return self._call(_sorted, self, x, dim, descending, True)  # type: ignore[no-any-return]  # as it returns them


def _fits(x: Any, dim: int) -> bool:
    """Return whether a block sorts a row."""
    return bool(x.size) and x.ndim > 0 and x.shape[dim] <= _LONGEST_SORTED[8 if x.itemsize == 8 else 4]


def _sorted(b: CuPyOrdering, x: Any, dim: int, descending: bool, with_values: bool) -> tuple[Any, Any]:
    """Return the sorted elements, if they are wanted, and their indices."""
    xp = b.xp
    launch = _sort_launch(b, x.dtype, x.shape, dim, descending)
    x = contiguous(xp, x)
    index, values = empty(xp, x.shape, int64), empty(xp, x.shape, x.dtype) if with_values else None
    launch(x.data.ptr, index.data.ptr, 0 if values is None else values.data.ptr)
    return values, index


@lru_cache(1024)
def _sort_launch(b: CuPyOrdering, dtype: DType, shape: Shape, dim: int, descending: bool) -> Launch:
    rows, columns, inner = math.prod(shape) // shape[dim], shape[dim], math.prod(shape[dim + 1 :])
    lanes = 1 << (-(-columns // _ITEMS) - 1).bit_length()
    threads, kind = max(_THREADS, lanes), kind_of(dtype)
    constants = {
        "LANES": lanes,
        "THREADS": threads,
        "KEY_BITS": 64 if dtype.itemsize == 8 else 32,
        "KIND": 2 if kind == "float" else 1 if dtype.kind == "i" else 0,
        "INFINITE": infinity_bits(dtype) if kind == "float" else 0,
    }
    kernel = b._kernels.typed("burnpy_sort", constants, T=_BITS[dtype.itemsize])
    grid = (-(-rows // (threads // lanes)), 1)
    return launcher(b.xp, kernel, grid, (threads, 1), "3Q", struct.pack("=4q", rows, columns, inner, descending))
