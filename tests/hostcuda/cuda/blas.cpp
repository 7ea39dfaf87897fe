// cuBLAS's matrix products, as far as CuPy's dot and matmul call them, and its solutions of linear equations for batches.
#include <cstdio>
#include "lapack.h"
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

template <class T>
static void inverse(Int n, const T* a, Int lda, const int* pivots, T* c, Int ldc, int* info) {
  *info = 0;
  for (Int j = 0; j < n; j++) {
    if (a[j + j * lda] == 0 && !*info) *info = j + 1;  // a singular matrix
    for (Int i = 0; i < n; i++) c[i + j * ldc] = i == j;
  }
  substitute(0, n, n, a, lda, pivots, c, ldc);
}

extern "C" {
#define BOTH(P, T) \
  int cublas##P##getrfBatched(void*, int n, T* const* a, int lda, int* pivots, int* info, int count) {                                      \
    if (begins("launch cublas" #P "getrfBatched"))                                                                                      \
      for (Int k = 0; k < count; k++) factor(n, n, a[k], lda, pivots + k * n, info + k);                                                \
    return SUCCESS;                                                                                                                     \
  }                                                                                                                                     \
  int cublas##P##getriBatched(void*, int n, const T* const* a, int lda, const int* pivots, T* const* c, int ldc, int* info, int count) { \
    if (begins("launch cublas" #P "getriBatched"))                                                                                      \
      for (Int k = 0; k < count; k++) inverse(n, a[k], lda, pivots + k * n, c[k], ldc, info + k);                                       \
    return SUCCESS;                                                                                                                     \
  }                                                                                                                                     \
  int cublas##P##getrsBatched(void*, int transposed, int n, int right, const T* const* a, int lda, const int* pivots, T* const* b, int ldb, \
                                 int* info, int count) {                                                                                \
    *info = 0;                                                                                                                          \
    if (begins("launch cublas" #P "getrsBatched"))                                                                                      \
      for (Int k = 0; k < count; k++) substitute(transposed, n, right, a[k], lda, pivots + k * n, b[k], ldb);                           \
    return SUCCESS;                                                                                                                     \
  }
BOTH(S, float)
BOTH(D, double)
}
