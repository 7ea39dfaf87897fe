// LAPACK of NumPy's wheel, as cuSOLVER and cuBLAS are to compute decompositions: matrices are columns, one after another.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <vector>
#include "host.h"

typedef long long Int;  // of this LAPACK
enum { LOWER = 0 };     // cublasFillMode_t

// A routine of LAPACK in both precisions, by one name. The last arguments of routines with characters are their lengths.
#define ROUTINE(NAME, PARAMETERS, ARGUMENTS)                          \
  extern "C" void scipy_s##NAME##_64_(PARAMETERS(float));             \
  extern "C" void scipy_d##NAME##_64_(PARAMETERS(double));            \
  static void NAME(PARAMETERS(float)) { scipy_s##NAME##_64_ ARGUMENTS; } \
  static void NAME(PARAMETERS(double)) { scipy_d##NAME##_64_ ARGUMENTS; }
#define GETRF(T) const Int *m, const Int *n, T *a, const Int *lda, Int *p, Int *info
ROUTINE(getrf, GETRF, (m, n, a, lda, p, info))
#define GETRS(T) const char *t, const Int *n, const Int *k, const T *a, const Int *lda, const Int *p, T *b, const Int *ldb, Int *info, size_t l
ROUTINE(getrs, GETRS, (t, n, k, a, lda, p, b, ldb, info, l))
#define POTRF(T) const char *uplo, const Int *n, T *a, const Int *lda, Int *info, size_t l
ROUTINE(potrf, POTRF, (uplo, n, a, lda, info, l))
#define GEQRF(T) const Int *m, const Int *n, T *a, const Int *lda, T *tau, T *work, const Int *size, Int *info
ROUTINE(geqrf, GEQRF, (m, n, a, lda, tau, work, size, info))
#define ORGQR(T) const Int *m, const Int *n, const Int *k, T *a, const Int *lda, const T *tau, T *work, const Int *size, Int *info
ROUTINE(orgqr, ORGQR, (m, n, k, a, lda, tau, work, size, info))
#define GESVD(T)                                                                                                     \
  const char *ju, const char *jv, const Int *m, const Int *n, T *a, const Int *lda, T *s, T *u, const Int *ldu, T *vt, \
      const Int *ldvt, T *work, const Int *size, Int *info, size_t l, size_t k
ROUTINE(gesvd, GESVD, (ju, jv, m, n, a, lda, s, u, ldu, vt, ldvt, work, size, info, l, k))
#define SYEVD(T)                                                                                                        \
  const char *job, const char *uplo, const Int *n, T *a, const Int *lda, T *w, T *work, const Int *size, Int *iwork,      \
      const Int *isize, Int *info, size_t l, size_t k
ROUTINE(syevd, SYEVD, (job, uplo, n, a, lda, w, work, size, iwork, isize, info, l, k))

static bool begins(const char* name) {  // false in a dry run
  hostcuda_count(LAUNCHES, name);
  return hostcuda_execute;
}
static const char* triangle(int uplo) { return uplo == LOWER ? "L" : "U"; }

template <class T>
static void factor(Int m, Int n, T* a, Int lda, int* pivots, int* status) {
  Int info;
  std::vector<Int> p(m < n ? m : n);
  getrf(&m, &n, a, &lda, p.data(), &info);
  for (size_t k = 0; k < p.size(); k++) pivots[k] = p[k];
  *status = info;
}
template <class T>
static void substitute(int transposed, Int n, Int k, const T* a, Int lda, const int* pivots, T* b, Int ldb) {
  Int info;
  std::vector<Int> p(pivots, pivots + n);
  getrs(transposed ? "T" : "N", &n, &k, a, &lda, p.data(), b, &ldb, &info, 1);
}
template <class T>
static void cholesky(int uplo, Int n, T* a, Int lda, int* status) {
  Int info;
  potrf(triangle(uplo), &n, a, &lda, &info, 1);
  *status = info;
}
template <class T>
static void values(const char* ju, const char* jv, Int m, Int n, T* a, Int lda, T* s, T* u, Int ldu, T* vt, Int ldvt, int* status) {
  Int info, size = 64 * (m + n) + 64;
  std::vector<T> work(size);
  gesvd(ju, jv, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, work.data(), &size, &info, 1, 1);
  *status = info;
}
template <class T>
static void symmetric(bool vectors, int uplo, Int n, T* a, Int lda, T* w, int* status) {
  Int info, size = 1 + 6 * n + 2 * n * n + 64 * n, isize = 3 + 5 * n;
  std::vector<T> work(size);
  std::vector<Int> iwork(isize);
  syevd(vectors ? "V" : "N", triangle(uplo), &n, a, &lda, w, work.data(), &size, iwork.data(), &isize, &info, 1, 1);
  *status = info;
}
