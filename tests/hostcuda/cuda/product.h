// A matrix product of cuBLAS and cuBLASLt: alpha is 1, beta 0. Sums of float32 and of 16-bit floats are accumulated in
// float32, of float64 in float64.
#pragma once
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include "host.h"

enum Type { FLOAT32 = 0, FLOAT64 = 1, FLOAT16 = 2, COMPLEX64 = 4, COMPLEX128 = 5, BFLOAT16 = 14 };  // cudaDataType_t
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

inline int bytes(int type) {
  return type == COMPLEX128 ? 16 : type == FLOAT64 || type == COMPLEX64 ? 8 : type == FLOAT32 ? 4 : 2;
}

typedef std::complex<double> Complex;
inline Complex get_complex(const void* p, int type, long i) {
  return type == COMPLEX64 ? Complex(((const std::complex<float>*)p)[i]) : ((const Complex*)p)[i];
}

struct Product {
  int transposed_a, transposed_b, m, n, k, a_type, lda, b_type, ldb, c_type, ldc;

  bool valid() const {
    return lda >= (transposed_a ? k : m) && ldb >= (transposed_b ? n : k) && ldc >= m && lda > 0 && ldb > 0 && ldc > 0;
  }
  // The operation 2 is the conjugate transpose.
  void multiply_complex(const void* a, const void* b, void* c) const {
    for (int j = 0; j < n; j++)
      for (int i = 0; i < m; i++) {
        Complex sum = 0;
        for (int l = 0; l < k; l++) {
          Complex x = get_complex(a, a_type, transposed_a ? (long)i * lda + l : (long)l * lda + i);
          Complex y = get_complex(b, b_type, transposed_b ? (long)l * ldb + j : (long)j * ldb + l);
          sum += (transposed_a == 2 ? std::conj(x) : x) * (transposed_b == 2 ? std::conj(y) : y);
        }
        if (c_type == COMPLEX64) ((std::complex<float>*)c)[(long)j * ldc + i] = std::complex<float>(sum);
        else ((Complex*)c)[(long)j * ldc + i] = sum;
      }
  }
  // c = finish(a b, row, column), columns one after another; for float64 in float64, else in float32
  template <class F> void compute(const void* a, const void* b, void* c, F finish) const {
    if (!hostcuda_execute) return;
    if (a_type == COMPLEX64 || a_type == COMPLEX128) return multiply_complex(a, b, c);
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
