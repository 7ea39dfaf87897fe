"""Losses: cross entropy and means over masks as programs, and the mean cross entropy of rows: one launch each.

For the mean, a warp computes a row, or a block if a row is long. A thread reads a batch of logits before it uses them,
and reads each once: when a batch has a larger maximum, the sum so far is scaled to it. The gradient keeps a row in
registers or, if it is longer, reads it again from the last batch, which a cache still has. Each block adds its losses,
and the block that finds all others done adds the sums of all, in a fixed order.

Source: Milakov and Gimelshein, Online Normalizer Calculation for Softmax, 2018.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

from burnpy.backend.dtypes import int64, uint8
from burnpy.backend.primitives import DType
from burnpy_cupy.kernels.elementwise_kernel import contiguous
from burnpy_cupy.kernels.kernel import SUM, CuPyPrograms, Raw
from burnpy_cupy.kernels.launch import Launch, along, flat, launcher
from burnpy_cupy.runtime import empty

_FULL, _COLUMN = "full", "column"
_LONG_ROW, _LONGER_ROW, _LONGEST_ROW = 1024, 4096, 8192
"""The numbers of classes above which a block computes one row, even of `_MANY_ROWS` rows, and above which it has 1,024
threads for the gradient: the rows that a GPU reads at a time then fit in its caches."""
_MANY_ROWS = 8192
_BLOCKS = 1024
"""The most blocks of a launch; a block computes several rows."""
_COUNTED = 1 << 16
"""The most targets with a mask, as each block of the gradient's kernel counts those that are not ignored."""
_PART_BYTES = 16

_ROWS = f"""
{SUM}
typedef burnpy_sum<T>::type F;
struct Part {{ F sum; long long number; }};
__device__ inline F largest(F a, F b) {{ return a > b || a != a ? a : b; }}
__device__ inline F both(F a, F b) {{ return a + b; }}
__device__ inline F shift_of(F most) {{ return isfinite(most) ? most : F(0); }}
// Reads a batch, with minus infinity after the end.
__device__ inline void read(const T* logits, int k, int columns, F* batch) {{
  const T* const first = logits + k;
  const int rest = columns - k;
#pragma unroll
  for (int j = 0; j < ITEMS; j++) batch[j] = j * LANES < rest ? static_cast<F>(first[j * LANES]) : F(MINUS_INFINITY);
}}
template <F (*joined)(F, F)> __device__ inline F of_row(F x) {{
  for (int apart = 16; apart; apart /= 2) x = joined(x, __shfl_xor_sync(0xffffffff, x, apart));
#if LANES > 32
  __shared__ F parts[LANES / 32];
  __syncthreads();  // the parts of the last row have been read
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  x = parts[0];
  for (int k = 1; k < LANES / 32; k++) x = joined(x, parts[k]);
#endif
  return x;
}}
__device__ inline Part of_block(Part mine) {{
  __shared__ Part parts[THREADS];
  parts[threadIdx.x] = mine;
  for (int half = THREADS / 2; half; half /= 2) {{
    __syncthreads();
    if (threadIdx.x < half) {{
      parts[threadIdx.x].sum += parts[threadIdx.x + half].sum;
      parts[threadIdx.x].number += parts[threadIdx.x + half].number;
    }}
  }}
  __syncthreads();
  return parts[0];
}}
"""
"""Sums and maxima of the threads of a row, and sums of the threads of a block."""

_MEAN = f"""{_ROWS}
extern "C" __global__ __launch_bounds__(THREADS) void burnpy_mean_cross_entropy(
  const T* x, const long long* index, const bool* counted, T* mean, T* logsumexp, Part* parts, unsigned* finished,
  long long rows, long long columns_) {{
  __shared__ bool is_last;
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES, groups = THREADS / LANES, columns = columns_;
  Part mine = {{0, 0}};
  for (long long first = blockIdx.x * (long long)groups; first < rows; first += gridDim.x * (long long)groups) {{
    const long long row = first + group < rows ? first + group : rows - 1;
    const T* const logits = x + row * columns_;
    F most = MINUS_INFINITY, total = 0, batch[ITEMS];
    for (int k = lane; k < columns; k += ITEMS * LANES) {{
      read(logits, k, columns, batch);
      F larger = most;
      for (int j = 0; j < ITEMS; j++) larger = largest(larger, batch[j]);
      if (total != F(0)) total *= exp(shift_of(most) - shift_of(larger));
      most = larger;
      for (int j = 0; j < ITEMS; j++) total += exp(batch[j] - shift_of(most));
    }}
    const F own = shift_of(most), shift = shift_of(of_row<largest>(most));
    if (total != F(0)) total *= exp(own - shift);
    total = log(of_row<both>(total));
    if (lane || first + group >= rows) continue;
    logsumexp[row] = static_cast<T>(total + shift);
    if (counted && !counted[row]) continue;
    mine.sum += total - (static_cast<F>(logits[index[row]]) - shift);
    mine.number++;
  }}
  mine = of_block(mine);
  if (threadIdx.x == 0) {{
    parts[blockIdx.x] = mine;
    __threadfence();
    is_last = atomicAdd(finished, 1u) + 1 == gridDim.x;
  }}
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  mine = {{0, 0}};
  for (unsigned k = threadIdx.x; k < gridDim.x; k += THREADS) {{
    mine.sum += parts[k].sum;
    mine.number += parts[k].number;
  }}
  mine = of_block(mine);
  if (threadIdx.x) return;
  *finished = 0;
  *mean = static_cast<T>(mine.sum / static_cast<F>(mine.number));
}}
"""

_GRADIENT = f"""{_ROWS}
extern "C" __global__ __launch_bounds__(THREADS) void burnpy_mean_cross_entropy_backward(
  const T* grad, const T* x, const T* logsumexp, const long long* index, const bool* counted, T* out, long long rows,
  long long columns_) {{
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES, groups = THREADS / LANES, columns = columns_;
  Part all = {{0, rows}};
  if (counted) {{
    all.number = 0;
    for (long long row = threadIdx.x; row < rows; row += THREADS) all.number += counted[row];
    all = of_block(all);
  }}
  const F share = static_cast<F>(*grad) / static_cast<F>(all.number);
  for (long long first = blockIdx.x * (long long)groups; first < rows; first += gridDim.x * (long long)groups) {{
    const long long row = first + group < rows ? first + group : rows - 1, target = index[row];
    const T* const logits = x + row * columns_;
    const F known = static_cast<F>(logsumexp[row]), each = counted && !counted[row] ? F(0) : share;
    F total = 0, batch[ITEMS];
    int k = lane;
    for (; k < columns; k += ITEMS * LANES) {{
      read(logits, k, columns, batch);
#pragma unroll
      for (int j = 0; j < ITEMS; j++) total += exp(batch[j] - known);
    }}
    const F scale = each / of_row<both>(total);  // which is not quite 1, as logsumexp is rounded
    if (first + group >= rows) continue;
    T* const results = out + row * columns_;
    while ((k -= ITEMS * LANES) >= 0) {{
      if (columns > ITEMS * LANES) read(logits, k, columns, batch);
#pragma unroll
      for (int j = 0; j < ITEMS; j++)
        if (j * LANES < columns - k) results[k + j * LANES] = static_cast<T>(exp(batch[j] - known) * scale);
    }}
    if (lane == target % LANES)  // the thread that wrote there
      results[target] = static_cast<T>(exp(static_cast<F>(logits[target]) - known) * scale - each);
  }}
}}
"""
CROSS_ENTROPY = {"burnpy_mean_cross_entropy": Raw(_MEAN), "burnpy_mean_cross_entropy_backward": Raw(_GRADIENT)}


def fits(x: Any, index: Any, counted: Any, dim: int) -> bool:
    """Return whether the kernels compute the mean cross entropy: along the last dimension, of some rows."""
    few = counted is None or index.size <= _COUNTED
    return bool(x.size) and few and dim == x.ndim - 1 and index.dtype is int64


def mean_of_rows(b: Any, x: Any, index: Any, counted: Any) -> tuple[Any, Any]:
    """Launch the kernel of the mean on a device, and return the mean and the logsumexps."""
    xp = b.xp
    launch, blocks = _launch(b, "burnpy_mean_cross_entropy", "7Q", x.dtype, x.size, x.shape[-1])
    mean, logsumexp = empty(xp, (), x.dtype), empty(xp, (*x.shape[:-1], 1), x.dtype)
    arrays = [_contiguous(xp, a) for a in (x, index, counted)]
    arrays += mean, logsumexp, empty(xp, (blocks, _PART_BYTES), uint8), b._counters()
    launch(*[0 if a is None else a.data.ptr for a in arrays])
    return mean, logsumexp


def mean_of_rows_backward(b: Any, grad: Any, x: Any, logsumexp: Any, index: Any, counted: Any) -> Any:
    """Launch the kernel of the gradient on a device, and return it."""
    xp, out = b.xp, empty(b.xp, x.shape, x.dtype)
    launch, _ = _launch(b, "burnpy_mean_cross_entropy_backward", "6Q", x.dtype, x.size, x.shape[-1])
    arrays = [*[_contiguous(xp, a) for a in (grad, x, logsumexp, index, counted)], out]
    launch(*[0 if a is None else a.data.ptr for a in arrays])
    return out


def _contiguous(xp: Any, x: Any) -> Any:
    return None if x is None else contiguous(xp, x)


@lru_cache(1024)
def _launch(b: Any, name: str, given: str, dtype: DType, size: int, columns: int) -> tuple[Launch, int]:
    """Return the launch of a kernel for rows of some length, given addresses, and the number of its blocks."""
    rows = size // columns
    threads = 1024 if columns > _LONGEST_ROW and name.endswith("backward") else 256
    lanes = 32 if columns <= _LONG_ROW or (columns <= _LONGER_ROW and rows >= _MANY_ROWS) else threads
    blocks = min(_BLOCKS, -(-rows // (threads // lanes)))
    items = 16 if threads > 256 and dtype.itemsize <= 4 else 8
    kernel = b._kernels.typed(name, {"LANES": lanes, "THREADS": threads, "ITEMS": items}, T=dtype)
    return launcher(b.xp, kernel, (blocks, 1), (threads, 1), given, struct.pack("=2q", rows, columns)), blocks


class CuPyLosses(CuPyPrograms):
    """Cross entropy, and means over masks, in one launch each."""

    def masked_mean(self, x: Any, mask: Any) -> Any:
        geometry, kernel = flat(x.size), None
        if x.size and geometry.occupies:
            kernel = self._operation_kernel("masked_mean_of_rows", (_FULL, "mask_full"), x.dtype)
        if kernel is None:
            return super().masked_mean(x, mask)
        return self._call(kernel, [x, mask], (), geometry, x.shape, ())[0]

    def masked_mean_backward(self, grad: Any, mask: Any) -> Any:
        geometry, kernel = flat(mask.size), None
        if mask.size and geometry.occupies:
            kernel = self._operation_kernel("masked_mean_of_rows_backward", (_COLUMN, "mask_full"), grad.dtype)
        if kernel is None:
            return super().masked_mean_backward(grad, mask)
        return self._call(kernel, [grad, mask], (), geometry, mask.shape, ())[0]

    def cross_entropy(self, x: Any, index: Any, dim: int) -> tuple[Any, Any]:
        geometry = along(x.shape, (dim,))
        kernel = None
        if geometry is not None and index.size == geometry.rows:
            kernel = self._operation_kernel("cross_entropy", (_FULL, "index"), x.dtype, (1,))
        if geometry is None or kernel is None:
            return super().cross_entropy(x, index, dim)
        losses, total = self._call(kernel, [x, index], (), geometry, x.shape, index.shape)
        return losses, total.reshape((*x.shape[:dim], 1, *x.shape[dim + 1 :]))

    def cross_entropy_backward(self, grad: Any, x: Any, logsumexp: Any, index: Any, dim: int) -> Any:
        geometry = along(x.shape, (dim,))
        kernel = None
        if geometry is not None and grad.size == logsumexp.size == index.size == geometry.rows:
            dtypes = (grad.dtype, x.dtype, logsumexp.dtype)
            kernel = self._operation_kernel("cross_entropy_gradient", (_COLUMN, _FULL, _COLUMN, "index"), *dtypes[:1])
            kernel = kernel if dtypes[0] is dtypes[1] is dtypes[2] else None
        if geometry is None or kernel is None:
            return super().cross_entropy_backward(grad, x, logsumexp, index, dim)
        return self._call(kernel, [grad, x, logsumexp, index], (), geometry, x.shape, ())[0]

    def mean_cross_entropy(self, x: Any, index: Any, counted: Any, dim: int) -> tuple[Any, Any]:
        if not fits(x, index, counted, dim):
            return super().mean_cross_entropy(x, index, counted, dim)
        mean, logsumexp = self._call(mean_of_rows, self, x, index, counted)
        return mean, logsumexp

    def mean_cross_entropy_backward(self, grad: Any, x: Any, logsumexp: Any, index: Any, counted: Any, dim: int) -> Any:
        if not (grad.dtype is x.dtype is logsumexp.dtype and fits(x, index, counted, dim)):
            return super().mean_cross_entropy_backward(grad, x, logsumexp, index, counted, dim)
        return self._call(mean_of_rows_backward, self, grad, x, logsumexp, index, counted)
