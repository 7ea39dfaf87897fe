// A matrix product of cuBLAS and cuBLASLt: alpha is 1, beta 0. Sums of float32 and of 16-bit floats are accumulated in
// float32, of float64 in float64.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include "host.h"

enum Type { FLOAT32 = 0, FLOAT64 = 1, FLOAT16 = 2, BFLOAT16 = 14 };  // cudaDataType_t
enum { SUCCESS = 0, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };  // cublasStatus_t

inline double get(const void* p, int type, long i) {
  uint16_t bits;
  switch (type) {
    case FLOAT32: return ((const float*)p)[i];
    case FLOAT64: return ((const double*)p)[i];
    case FLOAT16: return (float)((const _Float16*)p)[i];
    case BFLOAT16: {
      bits = ((const uint16_t*)p)[i];
      uint32_t wide = (uint32_t)bits << 16;
      float f;
      memcpy(&f, &wide, 4);
      return f;
    }
  }
  abort();
}

inline void put(void* p, int type, long i, double value) {
  switch (type) {
    case FLOAT32: ((float*)p)[i] = value; return;
    case FLOAT64: ((double*)p)[i] = value; return;
    case FLOAT16: ((_Float16*)p)[i] = (_Float16)(float)value; return;
    case BFLOAT16: {
      float f = value;
      uint32_t bits;
      memcpy(&bits, &f, 4);
      ((uint16_t*)p)[i] = f != f ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;  // to the nearest, ties to even
      return;
    }
  }
  abort();
}

inline int bytes(int type) { return type == FLOAT64 ? 8 : type == FLOAT32 ? 4 : 2; }

struct Product {
  int transposed_a, transposed_b, m, n, k, a_type, lda, b_type, ldb, c_type, ldc;

  bool valid() const {
    return lda >= (transposed_a ? k : m) && ldb >= (transposed_b ? n : k) && ldc >= m && lda > 0 && ldb > 0 && ldc > 0;
  }
  // c = finish(a b, row, column), columns one after another; for float64 in float64, else in float32
  template <class F> void compute(const void* a, const void* b, void* c, F finish) const {
    if (!hostcuda_execute) return;
    for (int j = 0; j < n; j++)
      for (int i = 0; i < m; i++) {
        double wide = 0;
        float single = 0;
        for (int l = 0; l < k; l++) {
          double x = get(a, a_type, transposed_a ? (long)i * lda + l : (long)l * lda + i);
          double y = get(b, b_type, transposed_b ? (long)l * ldb + j : (long)j * ldb + l);
          if (a_type == FLOAT64) wide += x * y;
          else single += (float)x * (float)y;
        }
        put(c, c_type, (long)j * ldc + i, finish(a_type == FLOAT64 ? wide : single, i, j));
      }
  }
  void compute(const void* a, const void* b, void* c) const {
    compute(a, b, c, [](double sum, int, int) { return sum; });
  }
};
