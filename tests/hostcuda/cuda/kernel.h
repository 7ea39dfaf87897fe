// What a kernel's source needs so that g++ can compile it for the CPU: CUDA's words, built-in variables and functions.
#pragma once
#include <algorithm>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <math.h>
#include <tuple>
#include <type_traits>
#include <utility>
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __forceinline__ inline
#include <cuda_runtime_api.h>
#include <vector_functions.h>
#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __launch_bounds__
#undef __noinline__
#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __constant__ static
#define __launch_bounds__(...)
#define __noinline__ __attribute__((noinline))
#include "state.h"

static HostState* here;
#define threadIdx (here->thread)
#define blockIdx (here->block)
#define blockDim (here->block_size)
#define gridDim (here->grid_size)
#define warpSize 32

#define HOST_INLINE static inline __attribute__((always_inline))  // without optimization, too
HOST_INLINE void host_wait(HostBarrier kind) {
  HostState* mine = here;
  mine->wait(kind);
  here = mine;
}
HOST_INLINE void __syncthreads() { host_wait(BLOCK); }
HOST_INLINE void __syncwarp(unsigned = ~0u) { host_wait(WARP); }
HOST_INLINE void __nanosleep(unsigned) { host_wait(SLEEP); }
static inline void __threadfence() {}
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
template <class T>
static inline T __ldg(const T* p) {
  return *p;
}

template <class To, class From>
static inline To host_bits(From from) {
  To to;
  static_assert(sizeof to == sizeof from, "");
  memcpy(&to, &from, sizeof to);
  return to;
}
static inline int __float_as_int(float f) { return host_bits<int>(f); }
static inline float __int_as_float(int i) { return host_bits<float>(i); }
static inline unsigned __float_as_uint(float f) { return host_bits<unsigned>(f); }
static inline float __uint_as_float(unsigned i) { return host_bits<float>(i); }
static inline long long __double_as_longlong(double f) { return host_bits<long long>(f); }
static inline double __longlong_as_double(long long i) { return host_bits<double>(i); }
static inline int __double2hiint(double d) { return (int)(host_bits<unsigned long long>(d) >> 32); }
static inline int __double2loint(double d) { return (int)host_bits<unsigned long long>(d); }
static inline double __hiloint2double(int high, int low) {
  return host_bits<double>(((unsigned long long)(unsigned)high << 32) | (unsigned)low);
}
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline float rsqrt(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline double sinpi(double x) { return sin(M_PI * x); }
static inline float sinpi(float x) { return sinf((float)M_PI * x); }
static inline float cospi(float x) { return cosf((float)M_PI * x); }
static inline double cospi(double x) { return cos(M_PI * x); }
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return (unsigned long long)((unsigned __int128)x * y >> 64);
}

// The approximation of Giles, Approximating the erfinv function (2011), and Newton's method on erf or, where that is
// near 1, on erfc.
static inline double erfinv(double y) {
  if (!(y > -1.0 && y < 1.0)) return y == 1.0 ? INFINITY : y == -1.0 ? -INFINITY : NAN;
  if (y == 0.0) return y;
  static const double near[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                                -0.00125372503, -0.00417768164, 0.246640727, 1.50140941};
  static const double far[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                               -0.0076224613, 0.00943887047, 1.00167406, 2.83297682};
  double size = fabs(y), rest = 1.0 - size, w = -log(rest * (1.0 + size)), p = 0.0;
  const double* factors = w < 5.0 ? near : far;
  double at = w < 5.0 ? w - 2.5 : sqrt(w) - 3.0;
  for (int k = 0; k < 9; k++) p = p * at + factors[k];
  double x = p * size;
  for (int k = 0; k < 3; k++) {
    double slope = 1.1283791670955126 * exp(-x * x);
    x += size > 0.5 ? (erfc(x) - rest) / slope : (size - erf(x)) / slope;
  }
  return copysign(x, y);
}
static inline float erfinvf(float x) { return (float)erfinv((double)x); }
static inline float erfinv(float x) { return (float)erfinv((double)x); }

// Atomic functions: the threads run in turn.
template <class T>
static inline T host_replaced(T* p, T value) {
  T old = *p;
  *p = value;
  return old;
}
#define HOST_ATOMIC(T)                                                         \
  static inline T atomicAdd(T* p, T v) { return host_replaced(p, (T)(*p + v)); } \
  static inline T atomicExch(T* p, T v) { return host_replaced(p, v); }
#define HOST_ATOMIC_EXTREMA(T)                                                        \
  static inline T atomicMax(T* p, T v) { return host_replaced(p, *p > v ? *p : v); } \
  static inline T atomicMin(T* p, T v) { return host_replaced(p, *p < v ? *p : v); }
#define HOST_ATOMIC_BITS(T)                                                                    \
  static inline T atomicCAS(T* p, T old, T v) { return host_replaced(p, *p == old ? v : *p); } \
  static inline T atomicAnd(T* p, T v) { return host_replaced(p, (T)(*p & v)); }               \
  static inline T atomicOr(T* p, T v) { return host_replaced(p, (T)(*p | v)); }                \
  static inline T atomicXor(T* p, T v) { return host_replaced(p, (T)(*p ^ v)); }
#define HOST_ATOMIC_INT(T) HOST_ATOMIC(T) HOST_ATOMIC_EXTREMA(T) HOST_ATOMIC_BITS(T)
HOST_ATOMIC_INT(int)
HOST_ATOMIC_INT(unsigned)
HOST_ATOMIC_INT(unsigned long long)
HOST_ATOMIC_EXTREMA(long long)
HOST_ATOMIC(float)
HOST_ATOMIC(double)

// min and max as CUDA's: ints of two types promote, floats ignore NaN.
#define HOST_EXTREMA(T)                                       \
  static inline T max(T a, T b) { return a > b ? a : b; } \
  static inline T min(T a, T b) { return a < b ? a : b; }
HOST_EXTREMA(int)
HOST_EXTREMA(unsigned)
HOST_EXTREMA(long)
HOST_EXTREMA(unsigned long)
HOST_EXTREMA(long long)
HOST_EXTREMA(unsigned long long)
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline float min(float a, float b) { return fminf(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }

// Shuffles: as bits, in threads.cpp, which is optimized.
static inline unsigned host_thread() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
template <class T>
__attribute__((optimize("O2"))) static inline T host_shuffled(T x, HostShuffle kind, int by, int width) {
  unsigned long long bits = 0;
  memcpy(&bits, &x, sizeof x);
  HostState* mine = here;
  bits = mine->shuffle(bits, kind, by, width);
  here = mine;
  memcpy(&x, &bits, sizeof x);
  return x;
}
#define HOST_SHUFFLE(name, kind, Operand)                                                               \
  template <class T>                                                                                    \
  __attribute__((optimize("O2"))) static inline T name(unsigned, T x, Operand by, int width = 32) { \
    return host_shuffled(x, kind, by, width);                                                           \
  }
HOST_SHUFFLE(__shfl_sync, FROM, int)
HOST_SHUFFLE(__shfl_xor_sync, XOR, int)
HOST_SHUFFLE(__shfl_up_sync, UP, unsigned)
HOST_SHUFFLE(__shfl_down_sync, DOWN, unsigned)

static inline int __any_sync(unsigned threads, int any) {
  for (int apart = 16; apart > 0; apart /= 2) any |= __shfl_xor_sync(threads, any, apart);
  return any;
}
static inline int __syncthreads_or(int any) {
  unsigned thread = host_thread(), threads = blockDim.x * blockDim.y * blockDim.z;
  static bool found[1024];
  found[thread] = any != 0;
  __syncthreads();
  bool out = false;
  for (unsigned t = 0; t < threads; t++) out |= found[t];
  __syncthreads();
  return out;
}
#include "tensor_cores.h"

// Stands for reinterpret_cast in a kernel: a GPU reads and writes a type at multiples of its alignment alone.
template <class T>
HOST_INLINE T* host_aligned(const volatile void* p) {
  assert((size_t)p % alignof(T) == 0);
  return (T*)p;
}

// Calls a kernel with the arguments of a launch, which are pointers to them; without a state, writes their sizes instead.
template <class... A, std::size_t... I>
HOST_INLINE void host_pass(void (*kernel)(A...), void** p, std::index_sequence<I...>) {
  if (!here) ((*p++ = (void*)sizeof(A)), ...);
  else kernel(*(typename std::remove_const<A>::type*)p[I]...);
}
template <class... A>
HOST_INLINE void host_call(void (*kernel)(A...), void** p) {
  host_pass(kernel, p, std::make_index_sequence<sizeof...(A)>());
}
