"""Random numbers on the GPU: the generator passed to an operation draws a seed, and one launch makes all numbers.

The numbers are a function of the seed and of their positions, by Philox 4×32-10, a generator that has no state. The
seed is an argument of the kernel or, in a CUDA graph, in the GPU's memory. Source: Salmon et al., Parallel random
numbers: as easy as 1, 2, 3, 2011; normal numbers by Box and Muller, A note on the generation of random normal deviates,
1958.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, int64
from burnpy.backend.primitives import DType, Shape
from burnpy_array import ArrayBackend
from burnpy_cupy.cuda_graphs import capture
from burnpy_cupy.kernels.kernel import Kernels, Raw
from burnpy_cupy.runtime import empty

_THREADS = 256
_UNIFORM, _NORMAL, _EXPONENTIAL, _INTEGERS = range(4)

_DRAWN = """
typedef unsigned long long Wide;
#if IS_HELD
typedef const long long* Seed;
__device__ Wide value_of(Seed seed) { return *seed; }
#else
typedef long long Seed;
__device__ Wide value_of(Seed seed) { return seed; }
#endif

__device__ void burnpy_philox(Wide seed, Wide position, unsigned* w) {
  unsigned low = seed, high = seed >> 32;
  w[0] = position, w[1] = position >> 32, w[2] = 0, w[3] = 0;
  for (int round = 0; round < 10; round++) {
    const Wide first = 0xD2511F53ull * w[0], second = 0xCD9E8D57ull * w[2];
    w[0] = unsigned(second >> 32) ^ w[1] ^ low, w[1] = second;
    w[2] = unsigned(first >> 32) ^ w[3] ^ high, w[3] = first;
    low += 0x9E3779B9u, high += 0xBB67AE85u;
  }
}

// From 0 to 1: without 1, and without 0 where a logarithm follows.
__device__ float burnpy_uniform(const unsigned* w, float) { return (w[0] >> 8) * 0x1p-24f; }
__device__ double burnpy_uniform(const unsigned* w, double) { return ((Wide(w[1]) << 32 | w[0]) >> 11) * 0x1p-53; }
__device__ float burnpy_positive(const unsigned* w, float) { return ((w[0] >> 8) + 0.5f) * 0x1p-24f; }
__device__ double burnpy_positive(const unsigned* w, double) {
  return (((Wide(w[1]) << 32 | w[0]) >> 11) + 0.5) * 0x1p-53;
}

extern "C" __global__ __launch_bounds__(256) void burnpy_drawn(
  T* out, long long count, Seed seed, long long low, Wide span) {
  const int words = sizeof(T) / 4, each = 4 / words;
  const long long position = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (position * each >= count) return;
  unsigned w[4];
  burnpy_philox(value_of(seed), position, w);
  for (int k = 0; k < each && position * each + k < count; k++) {
    const unsigned* const own = w + k * words;
#if METHOD == 0
    const T x = burnpy_uniform(own, T());
#elif METHOD == 1
    const unsigned* const pair = w + k / 2 * 2 * words;
    const T size = sqrt(T(-2) * log(burnpy_positive(pair, T()))), turn = T(2) * burnpy_uniform(pair + words, T());
    const T x = size * (k % 2 ? sinpi(turn) : cospi(turn));
#elif METHOD == 2
    const T x = T(0) - log(burnpy_positive(own, T()));
#else
    const T x = T(Wide(low) + __umul64hi(Wide(own[1]) << 32 | own[0], span));
#endif
    out[position * each + k] = x;
  }
}
"""
RANDOM = {"burnpy_drawn": Raw(_DRAWN)}


class CuPyRandom(ArrayBackend):
    """Random operations: the same seed gives the same numbers on every GPU, but not those of another backend."""

    _kernels: Kernels

    def random_uniform(self, generator: np.random.Generator, shape: Shape, dtype: DType) -> Any:
        drawn = self._draw(generator, _UNIFORM, shape, _drawable(dtype))
        if dtype.itemsize >= 4:
            return drawn
        below_one = np.nextafter(dtype.type(1), dtype.type(0))  # rounding to 16 bits must not reach 1
        return self.minimum(self.cast(drawn, dtype), float(below_one))

    def random_normal(self, generator: np.random.Generator, shape: Shape, dtype: DType) -> Any:
        return self.cast(self._draw(generator, _NORMAL, shape, _drawable(dtype)), dtype)

    def random_exponential(self, generator: np.random.Generator, shape: Shape, dtype: DType) -> Any:
        return self.cast(self._draw(generator, _EXPONENTIAL, shape, float64), dtype)

    def random_integers(self, generator: np.random.Generator, low: int, high: int, shape: Shape, dtype: DType) -> Any:
        return self.cast(self._draw(generator, _INTEGERS, shape, int64, low, high - low), dtype)

    def random_permutation(self, generator: np.random.Generator, n: int, dtype: DType) -> Any:
        return self.cast(self._call(self._draw(generator, _UNIFORM, (n,), float64).argsort), dtype)

    def _draw(
        self, generator: np.random.Generator, method: int, shape: Shape, dtype: DType, low: int = 0, span: int = 0
    ) -> Any:
        state = capture.get()
        seed = _seed(generator) if state is None else state.drawn(generator, _seed)
        return self._call(_drawn, self, seed, method, shape, dtype, low, span)


def _seed(generator: np.random.Generator) -> int:
    return int(generator.integers(0, 1 << 63))


def _drawn(b: CuPyRandom, seed: Any, method: int, shape: Shape, dtype: DType, low: int, span: int) -> Any:
    out, count = empty(b.xp, shape, dtype), math.prod(shape)
    if count:
        constants = {"METHOD": method, "IS_HELD": int(not isinstance(seed, int))}
        kernel = b._kernels.typed("burnpy_drawn", constants, T=dtype)
        threads = -(-count // (2 if dtype.itemsize == 8 else 4))
        kernel((-(-threads // _THREADS),), (_THREADS,), (out, count, seed, low, np.uint64(span)))
    return out


def _drawable(dtype: DType) -> DType:
    return float64 if dtype is float64 else float32
