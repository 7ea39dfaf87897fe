// cuBLASLt's matrix products, as far as burnpy_cupy/epilogues.py calls them: with a bias, or with the sum of the columns
// of A, which must not be transposed. An algorithm remembers the alignment that it was made for, and refuses memory that
// is aligned less.
#include "product.h"

enum { BIAS = 4, BGRADA = 256 };                                             // cublasLtEpilogue_t
enum { TRANSA = 3, TRANSB = 4, EPILOGUE = 7, BIAS_POINTER = 8 };              // cublasLtMatmulDescAttributes_t
enum { MAX_WORKSPACE_BYTES = 1, REDUCTION_SCHEME_MASK = 3, ALIGNMENT = 5 };  // cublasLtMatmulPreferenceAttributes_t
static const int COMPUTE_TYPE = 2;                                           // cublasLtReductionScheme_t
static const size_t WORKSPACE = 1 << 16;                                     // which an algorithm asks for here

struct Operation {
  int compute, scale, transposed_a = 0, transposed_b = 0, epilogue = 1;
  void* bias = nullptr;
};
struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t line;
};
struct Preference {
  uint64_t workspace = 0;
  uint32_t reduction = 7, alignment[4] = {256, 256, 256, 256};
};
struct Algorithm {
  uint64_t alignment[4], bias_alignment, rest[3];
};
struct Found {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

static bool aligned(const void* p, uint64_t alignment) { return (uintptr_t)p % alignment == 0; }
static int set(void* place, size_t size, const void* value, size_t given) {
  return size == given ? (memcpy(place, value, size), SUCCESS) : INVALID_VALUE;
}

extern "C" {
int cublasLtMatmulDescCreate(Operation** out, int compute, int scale) { return *out = new Operation{compute, scale}, SUCCESS; }
int cublasLtMatmulDescDestroy(Operation* operation) { return delete operation, SUCCESS; }
int cublasLtMatmulDescSetAttribute(Operation* operation, int attribute, const void* value, size_t size) {
  switch (attribute) {
    case TRANSA: return set(&operation->transposed_a, 4, value, size);
    case TRANSB: return set(&operation->transposed_b, 4, value, size);
    case EPILOGUE: return set(&operation->epilogue, 4, value, size);
    case BIAS_POINTER: return set(&operation->bias, 8, value, size);
  }
  return INVALID_VALUE;
}
int cublasLtMatrixLayoutCreate(Layout** out, int type, uint64_t rows, uint64_t columns, int64_t line) {
  return *out = new Layout{type, rows, columns, line}, SUCCESS;
}
int cublasLtMatrixLayoutDestroy(Layout* layout) { return delete layout, SUCCESS; }
int cublasLtMatmulPreferenceCreate(Preference** out) { return *out = new Preference, SUCCESS; }
int cublasLtMatmulPreferenceDestroy(Preference* preference) { return delete preference, SUCCESS; }
int cublasLtMatmulPreferenceSetAttribute(Preference* preference, int attribute, const void* value, size_t size) {
  if (attribute == MAX_WORKSPACE_BYTES) return set(&preference->workspace, 8, value, size);
  if (attribute == REDUCTION_SCHEME_MASK) return set(&preference->reduction, 4, value, size);
  if (attribute < ALIGNMENT || attribute >= ALIGNMENT + 4) return INVALID_VALUE;
  return set(&preference->alignment[attribute - ALIGNMENT], 4, value, size);
}
int cublasLtMatmulAlgoGetHeuristic(void*, Operation* operation, Layout*, Layout*, Layout*, Layout*, Preference* preference, int asked,
                                   Found* found, int* count) {
  if (asked < 1 || preference->reduction != COMPUTE_TYPE || preference->workspace < WORKSPACE) return INVALID_VALUE;
  if (operation->epilogue == BGRADA && operation->transposed_a) return NOT_SUPPORTED;
  *found = {};
  for (int k = 0; k < 4; k++) found->algorithm.alignment[k] = preference->alignment[k];
  uintptr_t bias = (uintptr_t)operation->bias;
  found->algorithm.bias_alignment = bias & -bias;
  found->workspace = WORKSPACE;
  return *count = 1, SUCCESS;
}
int cublasLtMatmul(void*, Operation* operation, const void*, const void* a, Layout* by_a, const void* b, Layout* by_b, const void*,
                   const void* c, Layout* by_c, void* d, Layout* by_d, const Algorithm* algorithm, void* workspace, size_t size,
                   void* stream) {
  const void* memory[4] = {a, b, c, d};
  for (int k = 0; k < 4; k++)
    if (!aligned(memory[k], algorithm->alignment[k])) return INVALID_VALUE;
  if (!aligned(operation->bias, algorithm->bias_alignment) || !workspace || size < WORKSPACE || c != d) return INVALID_VALUE;
  Product product{operation->transposed_a, operation->transposed_b, (int)by_d->rows, (int)by_d->columns,
                  (int)(operation->transposed_a ? by_a->rows : by_a->columns), by_a->type, (int)by_a->line, by_b->type,
                  (int)by_b->line, by_d->type, (int)by_d->line};
  bool sums = operation->epilogue == BGRADA && !operation->transposed_a;
  if (!product.valid() || !(sums || operation->epilogue == BIAS)) return INVALID_VALUE;
  void* bias = operation->bias;
  auto work = [=] {
    memset(workspace, 0xC7, size);
    bool wide = product.a_type == FLOAT64;
    if (!sums) {
      return product.compute(a, b, d, [&](double sum, int row, int) {
        double added = get(bias, product.c_type, row);
        return wide ? sum + added : (float)sum + (float)added;
      });
    }
    product.compute(a, b, d);
    for (int i = 0; i < product.m; i++) {
      double total = 0;
      for (int l = 0; l < product.k; l++) {
        total += get(a, product.a_type, (long)l * product.lda + i);
        if (!wide) total = (float)total;
      }
      put(bias, product.c_type, i, total);
    }
  };
  if (hostcuda_capturing(stream)) return hostcuda_capture(stream, work), SUCCESS;
  hostcuda_count(LAUNCHES, "launch cublasLtMatmul");
  if (hostcuda_execute) work();
  return SUCCESS;
}
}
