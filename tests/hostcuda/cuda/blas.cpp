// cuBLAS's matrix products, as far as CuPy's dot and matmul call them: alpha is 1, beta 0. Sums of float32 and of 16-bit
// floats are accumulated in float32, of float64 in float64.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "host.h"

enum Type { FLOAT32 = 0, FLOAT64 = 1, FLOAT16 = 2, BFLOAT16 = 14 };  // cudaDataType_t
enum { SUCCESS = 0, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };

static double get(const void* p, int type, long i) {
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

static void put(void* p, int type, long i, double value) {
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

static int bytes(int type) { return type == FLOAT64 ? 8 : type == FLOAT32 ? 4 : 2; }

struct Product {
  int transposed_a, transposed_b, m, n, k, a_type, lda, b_type, ldb, c_type, ldc;

  bool valid() const {
    return lda >= (transposed_a ? k : m) && ldb >= (transposed_b ? n : k) && ldc >= m && lda > 0 && ldb > 0 && ldc > 0;
  }
  void compute(const void* a, const void* b, void* c) const {  // columns one after another
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
        put(c, c_type, (long)j * ldc + i, a_type == FLOAT64 ? wide : single);
      }
  }
};

static const void* moved(const void* p, long elements, int type) { return (const char*)p + elements * bytes(type); }

struct Handle {
  void* stream;
  size_t workspace;
};
// Computes products now, or captures them: then the handle needs memory of its own.
static int launched(void* handle, const char* name, std::function<void()> work) {
  Handle* own = (Handle*)handle;
  if (!hostcuda_capturing(own->stream)) return hostcuda_count(LAUNCHES, name), work(), SUCCESS;
  if (!own->workspace) return NOT_SUPPORTED;
  return hostcuda_capture(own->stream, work), SUCCESS;
}

extern "C" {
int cublasCreate_v2(void** handle) { return *handle = new Handle{}, SUCCESS; }
int cublasDestroy_v2(void* handle) { return delete (Handle*)handle, SUCCESS; }
int cublasSetStream_v2(void* handle, void* stream) { return *(Handle*)handle = {stream}, SUCCESS; }
int cublasGetStream_v2(void* handle, void** stream) { return *stream = ((Handle*)handle)->stream, SUCCESS; }
int cublasSetWorkspace_v2(void* handle, void*, size_t size) { return ((Handle*)handle)->workspace = size, SUCCESS; }
int cublasSetPointerMode_v2(void*, int) { return SUCCESS; }
int cublasGetPointerMode_v2(void*, int* mode) { return *mode = 0, SUCCESS; }
int cublasSetMathMode(void*, int) { return SUCCESS; }
int cublasGetMathMode(void*, int* mode) { return *mode = 0, SUCCESS; }
int cublasGetVersion_v2(void*, int* version) { return *version = 130000, SUCCESS; }

int cublasGemmEx(void* handle, int ta, int tb, int m, int n, int k, const void*, const void* a, int a_type, int lda, const void* b, int b_type,
                 int ldb, const void*, void* c, int c_type, int ldc, int, int) {
  Product product{ta, tb, m, n, k, a_type, lda, b_type, ldb, c_type, ldc};
  if (!product.valid()) return INVALID_VALUE;
  return launched(handle, "launch cublasGemmEx", [=] { product.compute(a, b, c); });
}
int cublasGemmStridedBatchedEx(void* handle, int ta, int tb, int m, int n, int k, const void*, const void* a, int a_type, int lda, long long sa,
                               const void* b, int b_type, int ldb, long long sb, const void*, void* c, int c_type, int ldc,
                               long long sc, int count, int, int) {
  Product product{ta, tb, m, n, k, a_type, lda, b_type, ldb, c_type, ldc};
  if (!product.valid()) return INVALID_VALUE;
  return launched(handle, "launch cublasGemmStridedBatchedEx", [=] {
    for (int i = 0; i < count; i++)
      product.compute(moved(a, i * sa, a_type), moved(b, i * sb, b_type), (void*)moved(c, i * sc, c_type));
  });
}
#define BATCHED(NAME, T, type)                                                                                                       \
  int NAME(void*, int ta, int tb, int m, int n, int k, const T*, const T* const* a, int lda, const T* const* b, int ldb, const T*, \
           T* const* c, int ldc, int count) {                                                                                      \
    Product product{ta, tb, m, n, k, type, lda, type, ldb, type, ldc};                                                             \
    if (!product.valid()) return INVALID_VALUE;                                                                                    \
    hostcuda_count(LAUNCHES, "launch " #NAME);                                                                                     \
    for (int i = 0; i < count; i++) product.compute(a[i], b[i], c[i]);                                                             \
    return SUCCESS;                                                                                                                \
  }
BATCHED(cublasSgemmBatched, float, FLOAT32)
BATCHED(cublasDgemmBatched, double, FLOAT64)
}
