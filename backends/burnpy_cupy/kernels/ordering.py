"""Stable sorts along a dimension.

A row is sorted by one block, or a part of one: each thread sorts some of its elements in registers, and pairs of sorted
runs are merged until one is left. A thread finds where its part of a merged run begins in both by a binary search. Both
steps are stable. Longer rows are CuPy's.

Source: Green, McColl and Bader, GPU Merge Path: A GPU Merging Algorithm, 2012.
"""

from __future__ import annotations

import math
import struct
from functools import lru_cache
from typing import Any

from burnpy.backend.dtypes import infinity_bits, int64, kind_of, uint8, uint16, uint32, uint64
from burnpy.backend.primitives import DType, Shape
from burnpy_array import ArrayBackend
from burnpy_cupy.kernels.elementwise_kernel import contiguous
from burnpy_cupy.kernels.kernel import Kernels, Raw
from burnpy_cupy.kernels.launch import Launch, launcher
from burnpy_cupy.runtime import empty

_ITEMS = 8
_THREADS = 256
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
