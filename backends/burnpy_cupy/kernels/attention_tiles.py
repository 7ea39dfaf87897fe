"""Tiles of attention in shared memory, and their products: in floats by each thread, or by tensor cores.

A block of four warps computes tiles of scores: ``TILE_ROWS`` rows by ``COLUMNS`` columns. A thread has ``ROWS`` of
the rows and ``EACH`` of the columns, and shares its rows with the ``LANES`` threads beside it. `row` and `column` give
their positions; for products by a tile, a thread has columns in runs of ``RUN``. The functions::

    multiply    scores = rows columnsᵀ, for two tiles whose rows have WIDTH numbers
    weigh       sums += weights columns, for weights that lie as the scores do

are all that differs between CUDA's ordinary cores, which multiply numbers of the type S, and tensor cores, which
multiply 16-bit floats (``mma.sync``, m16n8k16) or float32 rounded to TF32 (m16n8k8) and add in float32.

Source: NVIDIA, PTX ISA, Matrix multiply-accumulate operation using mma instruction; Asynchronous copy (``cp.async``).
"""

from __future__ import annotations

_LAYOUT = """
constexpr int WARPS = 4, THREADS = 32 * WARPS, LANES = TENSOR_CORES ? 4 : 8, TILE_ROWS = WARPS * 32 / LANES * ROWS;
constexpr int EACH = COLUMNS / LANES, PAIR = TENSOR_CORES ? 2 : 1;
template <bool B, typename X, typename Y> struct Either { typedef X type; };
template <typename X, typename Y> struct Either<false, X, Y> { typedef Y type; };
typedef Either<(TENSOR_CORES > 0), T, S>::type M;  // the numbers in shared memory
constexpr int VECTOR = 16 / sizeof(M), RUN = TENSOR_CORES ? 2 : VECTOR, WEIGHTS_PITCH = COLUMNS + 4;
struct __align__(16) Vector { M x[VECTOR]; };

// The distance of rows in shared memory: an odd number of 16 bytes, so that eight rows lie in different banks.
__device__ constexpr int pitch(int width) { return width + VECTOR; }
__device__ int row(int i) {
  return static_cast<int>(threadIdx.x) / 32 * (32 / LANES * ROWS) + 32 / LANES * i + threadIdx.x % 32 / LANES;
}
template <int RUN_> __device__ int column(int j) {
  return j / RUN_ * LANES * RUN_ + threadIdx.x % LANES * RUN_ + j % RUN_;
}

// Copies rows of `size` numbers to shared memory, and zeros beyond them. For tensor cores, 16-bit numbers arrive
// later: see `arrived`.
template <int COUNT, int WIDTH>
__device__ void load(M* tile, const T* from, long long step, long long rows, long long size) {
  constexpr int PART = 16 / sizeof(T), PARTS = WIDTH / PART;
  struct __align__(16) Part { T x[PART]; };
  const bool aligned = (reinterpret_cast<size_t>(from) | static_cast<size_t>(step * sizeof(T))) % 16 == 0;
  for (int n = threadIdx.x; n < COUNT * PARTS; n += THREADS) {
    const int line = n / PARTS, begin = n % PARTS * PART;
    const T* const source = from + line * step + begin;
    Part part;
    M* const into = tile + line * pitch(WIDTH) + begin;
    if (aligned && line < rows && begin + PART <= size) {
#if TENSOR_CORES == 16
      burnpy_copy_later(into, source);
      continue;
#else
      part = *reinterpret_cast<const Part*>(source);
#endif
    } else for (int e = 0; e < PART; e++) part.x[e] = line < rows && begin + e < size ? source[e] : T(0.0f);
#if TENSOR_CORES == 8
    for (int e = 0; e < PART; e++) part.x[e] = burnpy_rounded(part.x[e]);
#endif
    if (sizeof(M) == sizeof(T)) *reinterpret_cast<Part*>(into) = part;
    else for (int e = 0; e < PART; e++) into[e] = M(part.x[e]);
  }
}

// Ends a group of copies.
__device__ void end_group() {
#if TENSOR_CORES == 16
  burnpy_end_group();
#endif
}
// Waits until all copies of the block have arrived, except for the last LATER groups of each thread.
template <int LATER> __device__ void arrived() {
#if TENSOR_CORES == 16
  burnpy_wait_for_groups<LATER>();
#endif
  __syncthreads();
}

// Computes the tiles of columns from `begin` to `end` in which a thread of the block has a score. With two stages of
// shared memory, the next tile is copied while one is computed.
template <typename Scores, typename Copy, typename Compute>
__device__ void over_tiles(long long begin, long long end, Scores scores, Copy copy, Compute compute) {
#if STAGES == 1
  for (long long tile = begin; tile < end; tile += COLUMNS) {
    const unsigned bits = scores(tile);
    if (!__syncthreads_or(bits != 0)) continue;  // which also waits until the last tile is read
    copy(tile, 0);
    end_group();
    arrived<0>();
    compute(tile, bits, 0);
  }
#else
  unsigned bits = 0;
  const auto started = [&](long long tile, int stage) {  // waits until the tile before the last one is read
    while (tile < end && !__syncthreads_or((bits = scores(tile)) != 0)) tile += COLUMNS;
    if (tile < end) copy(tile, stage);
    end_group();
    return tile;
  };
  long long tile = started(begin, 0);
  #pragma unroll 1
  for (int stage = 0; tile < end; stage = 1 - stage) {
    const unsigned present = bits;
    const long long here = tile;
    tile = started(here + COLUMNS, 1 - stage);
    arrived<1>();
    compute(here, present, stage);
  }
#endif
  arrived<0>();
}
"""
"""The layout of tiles for operands of the type T and sums of the type S."""

_ORDINARY = """
__device__ S power(S x) { return exp(x); }

template <int WIDTH> __device__ void multiply(S (&scores)[ROWS][EACH], const M* rows, const M* columns) {
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < EACH; j++) scores[i][j] = 0;
  #pragma unroll 4
  for (int d = 0; d < WIDTH; d += VECTOR) {
    Vector a[ROWS], b[EACH];
    for (int i = 0; i < ROWS; i++) a[i] = *reinterpret_cast<const Vector*>(rows + row(i) * pitch(WIDTH) + d);
    for (int j = 0; j < EACH; j++) b[j] = *reinterpret_cast<const Vector*>(columns + column<1>(j) * pitch(WIDTH) + d);
    for (int e = 0; e < VECTOR; e++)
      for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < EACH; j++) scores[i][j] = fma(a[i].x[e], b[j].x[e], scores[i][j]);
  }
}

// The threads of a row give each other their weights through shared memory.
template <int WIDTH, int COUNT>
__device__ void weigh(S (&sums)[ROWS][COUNT], const S (&weights)[ROWS][EACH], const M* columns, S* shared) {
  __syncwarp();
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < EACH; j++) shared[row(i) * WEIGHTS_PITCH + column<1>(j)] = weights[i][j];
  __syncwarp();
  #pragma unroll 4
  for (int k = 0; k < COLUMNS; k++) {
    S a[ROWS];
    for (int i = 0; i < ROWS; i++) a[i] = shared[row(i) * WEIGHTS_PITCH + k];
    for (int n = 0; n < COUNT; n += VECTOR) {
      const Vector b = *reinterpret_cast<const Vector*>(columns + k * pitch(WIDTH) + column<RUN>(n));
      for (int e = 0; e < VECTOR; e++)
        for (int i = 0; i < ROWS; i++) sums[i][n + e] = fma(a[i], b.x[e], sums[i][n + e]);
    }
  }
}
"""

COPIES = """
#ifdef __CUDACC_RTC__
// Fills 16 bytes of shared memory: some bytes come from memory, zeros follow.
__device__ void burnpy_copy_part(void* into, const void* from, int bytes) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
    :: "r"(static_cast<unsigned>(__cvta_generic_to_shared(into))), "l"(__cvta_generic_to_global(from)), "r"(bytes)
    : "memory");
#else
  __align__(16) unsigned short part[8] = {};
  if (bytes == 16) *reinterpret_cast<uint4*>(part) = *reinterpret_cast<const uint4*>(from);
  else for (int e = 0; e < 8; e++) if (2 * e < bytes) part[e] = static_cast<const unsigned short*>(from)[e];
  *reinterpret_cast<uint4*>(into) = *reinterpret_cast<const uint4*>(part);
#endif
}
__device__ void burnpy_copy_later(void* into, const void* from) { burnpy_copy_part(into, from, 16); }
__device__ void burnpy_end_group() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int LATER> __device__ void burnpy_wait_for_groups() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" :: "n"(LATER) : "memory");
#endif
}
#endif
"""
"""Copies to shared memory, which arrive when a thread waits for their group; on GPUs without such copies, at once."""

INSTRUCTIONS = """
#ifdef __CUDACC_RTC__
__device__ void burnpy_load_matrices(unsigned (&parts)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
    : "=r"(parts[0]), "=r"(parts[1]), "=r"(parts[2]), "=r"(parts[3])
    : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row))) : "memory");
}
__device__ void burnpy_load_transposed(unsigned (&parts)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
    : "=r"(parts[0]), "=r"(parts[1]), "=r"(parts[2]), "=r"(parts[3])
    : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row))) : "memory");
}
__device__ float burnpy_rounded(float x) {  // to TF32; tensor cores would cut bits off
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
}
#define MULTIPLY_ADD(TYPE, SHAPE, NAME) \\
  __device__ void burnpy_multiply_add(TYPE, float& c0, float& c1, float& c2, float& c3, const unsigned (&a)[4], \\
                                      unsigned b0, unsigned b1) { \\
    asm volatile("mma.sync.aligned." SHAPE ".row.col.f32." NAME "." NAME ".f32 " \\
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \\
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1)); \\
  }
MULTIPLY_ADD(float16, "m16n8k16", "f16")
MULTIPLY_ADD(bfloat16, "m16n8k16", "bf16")
MULTIPLY_ADD(float, "m16n8k8", "tf32")
#undef MULTIPLY_ADD
#endif
"""
"""The instructions of a warp, which the tests on the CPU replace: see tests/hostcuda."""

_TENSOR = """
__device__ S power(S x) { return exp2f(x * 1.44269504f); }  // one instruction; exact enough for rounded weights

template <int WIDTH> __device__ void multiply(S (&scores)[ROWS][EACH], const M* rows, const M* columns) {
  const int lane = threadIdx.x % 32;
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < EACH; j++) scores[i][j] = 0;
  rows += (threadIdx.x / 32 * 16 + lane % 16) * pitch(WIDTH) + lane / 16 * VECTOR;
  columns += (lane / 16 * 8 + lane % 8) * pitch(WIDTH) + lane / 8 % 2 * VECTOR;
  #pragma unroll
  for (int d = 0; d < WIDTH; d += 2 * VECTOR) {
    unsigned a[4], b[4];
    burnpy_load_matrices(a, rows + d);
    #pragma unroll
    for (int j = 0; j < EACH; j += 4) {  // 16 columns
      burnpy_load_matrices(b, columns + j * 4 * pitch(WIDTH) + d);
      burnpy_multiply_add(T(0.0f), scores[0][j], scores[0][j + 1], scores[1][j], scores[1][j + 1], a, b[0], b[1]);
      burnpy_multiply_add(
        T(0.0f), scores[0][j + 2], scores[0][j + 3], scores[1][j + 2], scores[1][j + 3], a, b[2], b[3]);
    }
  }
}

#if TENSOR_CORES == 16
__device__ unsigned packed(S x, S y) {
  __align__(4) T pair[2] = {T(x), T(y)};
  return *reinterpret_cast<unsigned*>(pair);
}

// The weights of a thread are those that it gives to the tensor cores, too, rounded to 16 bits.
template <int WIDTH, int COUNT>
__device__ void weigh(S (&sums)[ROWS][COUNT], const S (&weights)[ROWS][EACH], const M* columns, S*) {
  const int lane = threadIdx.x % 32;
  columns += lane % 16 * pitch(WIDTH) + lane / 16 * 8;
  #pragma unroll
  for (int j = 0; j < EACH; j += 4) {
    const unsigned a[4] = {
      packed(weights[0][j], weights[0][j + 1]), packed(weights[1][j], weights[1][j + 1]),
      packed(weights[0][j + 2], weights[0][j + 3]), packed(weights[1][j + 2], weights[1][j + 3])};
    #pragma unroll
    for (int n = 0; n < COUNT; n += 4) {
      unsigned b[4];
      burnpy_load_transposed(b, columns + j * 4 * pitch(WIDTH) + n * 4);
      burnpy_multiply_add(T(0.0f), sums[0][n], sums[0][n + 1], sums[1][n], sums[1][n + 1], a, b[0], b[1]);
      burnpy_multiply_add(T(0.0f), sums[0][n + 2], sums[0][n + 3], sums[1][n + 2], sums[1][n + 3], a, b[2], b[3]);
    }
  }
}
#else
// A thread has the weights of columns 2t and 2t + 1, where tensor cores expect t and t + 4. The columns may come in any
// order, if the rows of the other operand come in the same one.
template <int WIDTH, int COUNT>
__device__ void weigh(S (&sums)[ROWS][COUNT], const S (&weights)[ROWS][EACH], const M* columns, S*) {
  const int lane = threadIdx.x % 32;
  columns += lane % 4 * 2 * pitch(WIDTH) + lane / 4;
  #pragma unroll
  for (int j = 0; j < EACH; j += 2) {
    unsigned a[4];
    for (int k = 0; k < 4; k++) a[k] = __float_as_uint(burnpy_rounded(weights[k % 2][j + k / 2]));
    #pragma unroll
    for (int n = 0; n < COUNT; n += 2) {
      const M* const pair = columns + j * 4 * pitch(WIDTH) + n * 4;
      burnpy_multiply_add(0.0f, sums[0][n], sums[0][n + 1], sums[1][n], sums[1][n + 1], a, __float_as_uint(pair[0]),
                          __float_as_uint(pair[pitch(WIDTH)]));
    }
  }
}
#endif
"""

TILES = f"""
#if TENSOR_CORES
{COPIES}
{INSTRUCTIONS}
#endif
{_LAYOUT}
#if TENSOR_CORES
{_TENSOR}
#else
{_ORDINARY}
#endif
"""
"""Tiles and their products, with the constants of `Tiling` as macros."""
