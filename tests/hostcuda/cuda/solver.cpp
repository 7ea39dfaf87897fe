// cuSOLVER's decompositions, as far as cupy.linalg calls them for real matrices.
#include "lapack.h"

enum { SUCCESS = 0, INVALID_VALUE = 3, FLOAT32 = 0 };

// All singular vectors, of which cuSOLVER returns the right ones as columns.
template <class T>
static void jacobi(bool vectors, Int m, Int n, T* a, Int lda, T* s, T* u, Int ldu, T* v, Int ldv, int* status) {
  std::vector<T> vt(n * n);
  const char* job = vectors ? "A" : "N";
  values(job, job, m, n, a, lda, s, u, ldu, vt.data(), n, status);
  for (Int i = 0; vectors && i < n; i++)
    for (Int j = 0; j < n; j++) v[j + i * ldv] = vt[i + j * n];
}

extern "C" {
int cusolverDnCreate(void** handle) { return *handle = malloc(1), SUCCESS; }
int cusolverDnDestroy(void* handle) { return free(handle), SUCCESS; }
int cusolverDnSetStream(void*, void*) { return SUCCESS; }
int cusolverDnGetStream(void*, void** stream) { return *stream = nullptr, SUCCESS; }
int cusolverGetProperty(int type, int* value) { return *value = type ? 0 : 12, SUCCESS; }
int cusolverDnCreateParams(void** made) { return *made = malloc(1), SUCCESS; }
int cusolverDnDestroyParams(void* made) { return free(made), SUCCESS; }
int cusolverDnCreateGesvdjInfo(void** made) { return *made = malloc(1), SUCCESS; }
int cusolverDnDestroyGesvdjInfo(void* made) { return free(made), SUCCESS; }
int cusolverDnCreateSyevjInfo(void** made) { return *made = malloc(1), SUCCESS; }
int cusolverDnDestroySyevjInfo(void* made) { return free(made), SUCCESS; }

int cusolverDnXsyevd_bufferSize(void*, void*, int, int, int64_t, int, const void*, int64_t, int, const void*, int, size_t* device, size_t* host) {
  return *device = *host = 8, SUCCESS;
}
int cusolverDnXsyevd(void*, void*, int job, int uplo, int64_t n, int type, void* a, int64_t lda, int, void* w, int, void*, size_t, void*,
                     size_t, int* info) {
  if (!begins("launch cusolverDnXsyevd")) return SUCCESS;
  if (type == FLOAT32) symmetric(job, uplo, n, (float*)a, lda, (float*)w, info);
  else symmetric(job, uplo, n, (double*)a, lda, (double*)w, info);
  return SUCCESS;
}

#define BOTH(P, T)                                                                                                                    \
  int cusolverDn##P##getrf_bufferSize(void*, int, int, T*, int, int* size) { return *size = 1, SUCCESS; }                               \
  int cusolverDn##P##getrf(void*, int m, int n, T* a, int lda, T*, int* pivots, int* info) {                                            \
    if (begins("launch cusolverDn" #P "getrf")) factor(m, n, a, lda, pivots, info);                                                     \
    return SUCCESS;                                                                                                                     \
  }                                                                                                                                     \
  int cusolverDn##P##getrs(void*, int transposed, int n, int k, const T* a, int lda, const int* pivots, T* b, int ldb, int* info) {     \
    if (begins("launch cusolverDn" #P "getrs")) substitute(transposed, n, k, a, lda, pivots, b, ldb), *info = 0;                        \
    return SUCCESS;                                                                                                                     \
  }                                                                                                                                     \
  int cusolverDn##P##potrf_bufferSize(void*, int, int, T*, int, int* size) { return *size = 1, SUCCESS; }                               \
  int cusolverDn##P##potrf(void*, int uplo, int n, T* a, int lda, T*, int, int* info) {                                                 \
    if (begins("launch cusolverDn" #P "potrf")) cholesky(uplo, n, a, lda, info);                                                        \
    return SUCCESS;                                                                                                                     \
  }                                                                                                                                     \
  int cusolverDn##P##potrfBatched(void*, int uplo, int n, T** a, int lda, int* info, int count) {                                       \
    if (begins("launch cusolverDn" #P "potrfBatched"))                                                                                  \
      for (int k = 0; k < count; k++) cholesky(uplo, n, a[k], lda, info + k);                                                           \
    return SUCCESS;                                                                                                                     \
  }                                                                                                                                     \
  int cusolverDn##P##geqrf_bufferSize(void*, int, int n, T*, int, int* size) { return *size = 64 * n, SUCCESS; }                        \
  int cusolverDn##P##geqrf(void*, int m, int n, T* a, int lda, T* tau, T* work, int size, int* info) {                                  \
    Int rows = m, columns = n, line = lda, given = size, status;                                                                        \
    if (begins("launch cusolverDn" #P "geqrf")) geqrf(&rows, &columns, a, &line, tau, work, &given, &status), *info = status;           \
    return SUCCESS;                                                                                                                     \
  }                                                                                                                                     \
  int cusolverDn##P##orgqr_bufferSize(void*, int, int n, int, const T*, int, const T*, int* size) { return *size = 64 * n, SUCCESS; }   \
  int cusolverDn##P##orgqr(void*, int m, int n, int k, T* a, int lda, const T* tau, T* work, int size, int* info) {                     \
    Int rows = m, columns = n, count = k, line = lda, given = size, status;                                                             \
    if (begins("launch cusolverDn" #P "orgqr")) orgqr(&rows, &columns, &count, a, &line, tau, work, &given, &status), *info = status;   \
    return SUCCESS;                                                                                                                     \
  }                                                                                                                                     \
  int cusolverDn##P##gesvd_bufferSize(void*, int, int, int* size) { return *size = 1, SUCCESS; }                                        \
  int cusolverDn##P##gesvd(void*, signed char ju, signed char jv, int m, int n, T* a, int lda, T* s, T* u, int ldu, T* vt, int ldvt,    \
                           T*, int, T*, int* info) {                                                                                    \
    if (m < n) return INVALID_VALUE;                                                                                                    \
    if (begins("launch cusolverDn" #P "gesvd"))                                                                                         \
      values((const char*)&ju, (const char*)&jv, m, n, a, lda, s, u, ldu, vt, ldvt, info);                                              \
    return SUCCESS;                                                                                                                     \
  }                                                                                                                                     \
  int cusolverDn##P##gesvdjBatched_bufferSize(void*, int, int, int, const T*, int, const T*, const T*, int, const T*, int, int* size,    \
                                              void*, int) {                                                                             \
    return *size = 1, SUCCESS;                                                                                                          \
  }                                                                                                                                     \
  int cusolverDn##P##gesvdjBatched(void*, int job, int m, int n, T* a, int lda, T* s, T* u, int ldu, T* v, int ldv, T*, int, int* info, \
                                   void*, int count) {                                                                                  \
    if (m > 32 || n > 32) return INVALID_VALUE;                                                                                         \
    if (begins("launch cusolverDn" #P "gesvdjBatched"))                                                                                 \
      for (Int k = 0; k < count; k++)                                                                                                   \
        jacobi(job, m, n, a + k * lda * n, lda, s + k * (m < n ? m : n), u + k * ldu * m, ldu, v + k * ldv * n, ldv, info + k);          \
    return SUCCESS;                                                                                                                     \
  }                                                                                                                                     \
  int cusolverDn##P##syevjBatched_bufferSize(void*, int, int, int, const T*, int, const T*, int* size, void*, int) {                    \
    return *size = 1, SUCCESS;                                                                                                          \
  }                                                                                                                                     \
  int cusolverDn##P##syevjBatched(void*, int job, int uplo, int n, T* a, int lda, T* w, T*, int, int* info, void*, int count) {         \
    if (begins("launch cusolverDn" #P "syevjBatched"))                                                                                  \
      for (Int k = 0; k < count; k++) symmetric(job, uplo, n, a + k * lda * n, lda, w + k * n, info + k);                               \
    return SUCCESS;                                                                                                                     \
  }
BOTH(S, float)
BOTH(D, double)
}
