// cuBLAS's matrix products, as far as CuPy's dot and matmul call them.
#include <cstdio>
#include "product.h"

static const void* moved(const void* p, long elements, int type) { return (const char*)p + elements * bytes(type); }

struct Handle {
  void* stream;
  size_t workspace;
  bool is_destroyed;  // whose use ends the process, as it may with CUDA
};
static Handle& living(void* handle) {
  Handle& own = *(Handle*)handle;
  if (own.is_destroyed) fprintf(stderr, "a destroyed handle of cuBLAS is used\n"), abort();
  return own;
}
// Computes products now, or captures them: then the handle needs memory of its own.
static int launched(void* handle, const char* name, std::function<void()> work) {
  Handle& own = living(handle);
  if (!hostcuda_capturing(own.stream)) return hostcuda_count(LAUNCHES, name), work(), SUCCESS;
  if (!own.workspace) return NOT_SUPPORTED;
  return hostcuda_capture(own.stream, work), SUCCESS;
}

extern "C" {
int cublasCreate_v2(void** handle) { return hostcuda_enter(), *handle = new Handle{}, SUCCESS; }
int cublasDestroy_v2(void* handle) { return living(handle).is_destroyed = true, SUCCESS; }
int cublasSetStream_v2(void* handle, void* stream) { return living(handle) = {stream}, SUCCESS; }
int cublasGetStream_v2(void* handle, void** stream) { return *stream = living(handle).stream, SUCCESS; }
int cublasSetWorkspace_v2(void* handle, void*, size_t size) { return living(handle).workspace = size, SUCCESS; }
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
  int NAME(void* handle, int ta, int tb, int m, int n, int k, const T*, const T* const* a, int lda, const T* const* b, int ldb, const T*, \
           T* const* c, int ldc, int count) {                                                                                      \
    Product product{ta, tb, m, n, k, type, lda, type, ldb, type, ldc};                                                             \
    living(handle);                                                                                                                \
    if (!product.valid()) return INVALID_VALUE;                                                                                    \
    hostcuda_count(LAUNCHES, "launch " #NAME);                                                                                     \
    for (int i = 0; i < count; i++) product.compute(a[i], b[i], c[i]);                                                             \
    return SUCCESS;                                                                                                                \
  }
BATCHED(cublasSgemmBatched, float, FLOAT32)
BATCHED(cublasDgemmBatched, double, FLOAT64)
}
