// cuBLAS's solutions of linear equations for batches of matrices.
#include "lapack.h"

enum { SUCCESS = 0 };

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
