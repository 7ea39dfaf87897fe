"""Tiles of attention in shared memory, and their products: in floats by each thread, or by tensor cores.

A block of ``WARPS`` warps computes tiles of scores: ``TILE_ROWS`` rows by ``COLUMNS`` columns. A thread has ``ROWS`` of
the rows and ``EACH`` of the columns, and shares its rows with the ``LANES`` threads beside it. `row` and `column` give
their positions; for products by a tile, a thread has columns in runs of ``RUN``. The more rows a thread has, the more
products each number from shared memory takes part in. The functions::

    multiply    scores = rows columnsᵀ, for two tiles whose rows have WIDTH numbers
    weigh       sums += weights columns, for weights that lie as the scores do

are all that differs between CUDA's ordinary cores, which multiply numbers of the type S, and tensor cores, which
multiply 16-bit floats (``mma.sync``, m16n8k16) or float32 rounded to TF32 (m16n8k8) and add in float32.

Source: NVIDIA, PTX ISA, Matrix multiply-accumulate operation using mma instruction; Asynchronous copy (``cp.async``).
"""

from __future__ import annotations

_LAYOUT = """
constexpr int THREADS = 32 * WARPS, LANES = TENSOR_CORES ? 4 : 8, TILE_ROWS = WARPS * 32 / LANES * ROWS;
constexpr int EACH = COLUMNS / LANES, PAIR = TENSOR_CORES ? 2 : 1;
template <bool B, typename X, typename Y> struct Either { typedef X type; };
template <typename X, typename Y> struct Either<false, X, Y> { typedef Y type; };
typedef Either<(TENSOR_CORES > 0), T, S>::type M;  // the numbers in shared memory
constexpr int VECTOR = 16 / sizeof(M), RUN = TENSOR_CORES ? 2 : VECTOR, WEIGHTS_PITCH = COLUMNS + 4;
struct __align__(16) Vector { M x[VECTOR]; };
typedef Either<(ROWS * EACH > 32), unsigned long long, unsigned>::type Bits;  // one for each score of a thread
constexpr Bits ALL = ~Bits(0) >> (8 * sizeof(Bits) - ROWS * EACH);

// The distance of rows in shared memory: an odd number of 16 bytes, so that eight rows lie in different banks.
__device__ constexpr int pitch(int width) { return width + VECTOR; }
__device__ int row(int i) {
  return static_cast<int>(threadIdx.x) / 32 * (32 / LANES * ROWS) + 32 / LANES * i + threadIdx.x % 32 / LANES;
}
template <int RUN_> __device__ int column(int j) {
  return j / RUN_ * LANES * RUN_ + threadIdx.x % LANES * RUN_ + j % RUN_;
}

// Copies rows of `size` numbers to shared memory, and zeros beyond them. Numbers that are not converted arrive later,
// when their group has: see `over_tiles`.
template <int COUNT, int WIDTH>
__device__ void load(M* tile, const T* from, long long step, long long rows, long long size) {
  constexpr int PART = 16 / sizeof(T), PARTS = WIDTH / PART, LINES = THREADS / PARTS;
  const bool aligned = (reinterpret_cast<size_t>(from) | static_cast<size_t>(step * sizeof(T))) % 16 == 0;
  const bool copied = sizeof(M) == sizeof(T) && aligned;
  if (copied && THREADS % PARTS == 0 && COUNT % LINES == 0 && rows >= COUNT && size == WIDTH) {  // the usual tile
    tile += threadIdx.x / PARTS * pitch(WIDTH) + threadIdx.x % PARTS * PART;
    from += threadIdx.x / PARTS * step + threadIdx.x % PARTS * PART;
    #pragma unroll
    for (int line = 0; line < COUNT; line += LINES) burnpy_copy_later(tile + line * pitch(WIDTH), from + line * step);
    return;
  }
  #pragma unroll 1
  for (int n = threadIdx.x; n < COUNT * PARTS; n += THREADS) {
    const int line = n / PARTS, begin = n % PARTS * PART;
    const T* const source = from + line * step + begin;
    M* const into = tile + line * pitch(WIDTH) + begin;
    if (copied && line < rows && begin + PART <= size) burnpy_copy_later(into, source);
    else for (int e = 0; e < PART; e++) into[e] = line < rows && begin + e < size ? M(source[e]) : M(0.0f);
  }
}

// Rounds the numbers that this thread copied by `load`, for tensor cores that would cut bits off.
template <int COUNT, int WIDTH> __device__ void settle(M* tile) {
#if TENSOR_CORES == 8
  constexpr int PARTS = WIDTH / VECTOR, TURNS = (COUNT * PARTS + THREADS - 1) / THREADS;
  burnpy_wait_for_groups<0>();
  #pragma unroll 8
  for (int turn = 0; turn < TURNS; turn++) {
    const int n = turn * THREADS + threadIdx.x;
    if (COUNT * PARTS % THREADS != 0 && n >= COUNT * PARTS) break;
    Vector* const part = reinterpret_cast<Vector*>(tile + n / PARTS * pitch(WIDTH)) + n % PARTS;
    Vector rounded = *part;
    for (int e = 0; e < VECTOR; e++) rounded.x[e] = burnpy_rounded(rounded.x[e]);
    *part = rounded;
  }
#endif
}

// Waits until all copies of the block have arrived.
__device__ void arrived() {
  burnpy_wait_for_groups<0>();
  __syncthreads();
}

// Computes the tiles of columns from `begin` to `end` in which a thread of the block has a score; a warp leaves out
// those in which it has none. With two stages of shared memory, the next tile is copied while one is computed, and one
// barrier a tile suffices.
template <typename Scores, typename Copy, typename Settle, typename Compute>
__device__ void over_tiles(int begin, int end, Scores scores, Copy copy, Settle settle, Compute compute) {
  Bits bits = 0;
  const auto next = [&](int tile) {  // waits until all threads are here: they have read the tiles before
    while (!__syncthreads_or(tile >= end || (bits = scores(tile)) != 0)) tile += COLUMNS;
    return tile;
  };
  const auto start = [&](int tile, int stage) {
    if (tile < end) copy(tile, stage);
    burnpy_end_group();
  };
  int tile = next(begin);
#if STAGES == 1
  #pragma unroll 1
  for (; tile < end; tile = next(tile + COLUMNS)) {
    start(tile, 0);
    burnpy_wait_for_groups<0>();
    settle(0);
    __syncthreads();
    if (__any_sync(0xffffffff, bits != 0)) compute(bits, 0);
  }
#else
  start(tile, 0);
  #pragma unroll 1
  for (int stage = 0; tile < end; stage = 1 - stage) {
    const Bits present = bits;
    burnpy_wait_for_groups<0>();
    settle(stage);
    tile = next(tile + COLUMNS);
    start(tile, 1 - stage);
    if (__any_sync(0xffffffff, present != 0)) compute(present, stage);
  }
#endif
  arrived();
}
"""
"""The layout of tiles for operands of the type T and sums of the type S."""

_ORDINARY = """
constexpr S UNIT = 1;  // scores are multiplied by this before `power`
__device__ S power(S x) { return exp(x); }

template <int WIDTH> __device__ void multiply(S (&scores)[ROWS][EACH], const M* rows, const M* columns) {
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < EACH; j++) scores[i][j] = 0;
  #pragma unroll 2
  for (int d = 0; d < WIDTH; d += VECTOR) {
    Vector a[ROWS];
    for (int i = 0; i < ROWS; i++) a[i] = *reinterpret_cast<const Vector*>(rows + row(i) * pitch(WIDTH) + d);
    for (int j = 0; j < EACH; j++) {
      const Vector b = *reinterpret_cast<const Vector*>(columns + column<1>(j) * pitch(WIDTH) + d);
      for (int e = 0; e < VECTOR; e++)
        for (int i = 0; i < ROWS; i++) scores[i][j] = fma(a[i].x[e], b.x[e], scores[i][j]);
    }
  }
}

// The threads of a row give each other their weights through shared memory.
template <int WIDTH, int COUNT>
__device__ void weigh(S (&sums)[ROWS][COUNT], const S (&weights)[ROWS][EACH], const M* columns, S* shared) {
  __syncwarp();
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < EACH; j++) shared[row(i) * WEIGHTS_PITCH + column<1>(j)] = weights[i][j];
  __syncwarp();
  #pragma unroll 1
  for (int k = 0; k < COLUMNS; k += VECTOR) {
    Vector a[ROWS];
    for (int i = 0; i < ROWS; i++) a[i] = *reinterpret_cast<const Vector*>(shared + row(i) * WEIGHTS_PITCH + k);
    for (int e = 0; e < VECTOR; e++)
      for (int n = 0; n < COUNT; n += VECTOR) {
        const Vector b = *reinterpret_cast<const Vector*>(columns + (k + e) * pitch(WIDTH) + column<RUN>(n));
        for (int c = 0; c < VECTOR; c++)
          for (int i = 0; i < ROWS; i++) sums[i][n + c] = fma(a[i].x[e], b.x[c], sums[i][n + c]);
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
"""The instructions of a warp, which the tests on the CPU replace, as they do `COPIES`: see tests/hostcuda."""

_TENSOR = """
constexpr S UNIT = 1.44269504f;  // 1 / log 2
__device__ S power(S x) { return exp2f(x); }  // one instruction; exact enough for rounded weights

// Adds to two numbers of two rows.
template <int COUNT>
__device__ void multiply_add(S (&upper)[COUNT], S (&lower)[COUNT], int n, const unsigned (&a)[4], unsigned b0,
                             unsigned b1) {
  burnpy_multiply_add(T(0.0f), upper[n], upper[n + 1], lower[n], lower[n + 1], a, b0, b1);
}

template <int WIDTH> __device__ void multiply(S (&scores)[ROWS][EACH], const M* rows, const M* columns) {
  const int lane = threadIdx.x % 32;
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < EACH; j++) scores[i][j] = 0;
  rows += (threadIdx.x / 32 * 8 * ROWS + lane % 16) * pitch(WIDTH) + lane / 16 * VECTOR;
  columns += (lane / 16 * 8 + lane % 8) * pitch(WIDTH) + lane / 8 % 2 * VECTOR;
  #pragma unroll
  for (int d = 0; d < WIDTH; d += 2 * VECTOR) {
    unsigned a[ROWS / 2][4], b[4];
    for (int i = 0; i < ROWS; i += 2) burnpy_load_matrices(a[i / 2], rows + i * 8 * pitch(WIDTH) + d);
    #pragma unroll
    for (int j = 0; j < EACH; j += 4) {  // 16 columns
      burnpy_load_matrices(b, columns + j * 4 * pitch(WIDTH) + d);
      #pragma unroll
      for (int i = 0; i < ROWS; i += 2)
        for (int k = 0; k < 4; k += 2)
          multiply_add(scores[i], scores[i + 1], j + k, a[i / 2], b[k], b[k + 1]);
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
    unsigned a[ROWS / 2][4];
    for (int i = 0; i < ROWS; i++)
      for (int k = 0; k < 2; k++) a[i / 2][i % 2 + 2 * k] = packed(weights[i][j + 2 * k], weights[i][j + 2 * k + 1]);
    #pragma unroll
    for (int n = 0; n < COUNT; n += 4) {
      unsigned b[4];
      burnpy_load_transposed(b, columns + j * 4 * pitch(WIDTH) + n * 4);
      #pragma unroll
      for (int i = 0; i < ROWS; i += 2)
        for (int k = 0; k < 4; k += 2) multiply_add(sums[i], sums[i + 1], n + k, a[i / 2], b[k], b[k + 1]);
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
    unsigned a[ROWS / 2][4];
    for (int i = 0; i < ROWS; i++)
      for (int k = 0; k < 2; k++) a[i / 2][i % 2 + 2 * k] = __float_as_uint(burnpy_rounded(weights[i][j + k]));
    #pragma unroll
    for (int n = 0; n < COUNT; n += 2) {
      const M* const pair = columns + j * 4 * pitch(WIDTH) + n * 4;
      const unsigned b0 = __float_as_uint(pair[0]), b1 = __float_as_uint(pair[pitch(WIDTH)]);
      #pragma unroll
      for (int i = 0; i < ROWS; i += 2) multiply_add(sums[i], sums[i + 1], n, a[i / 2], b0, b1);
    }
  }
}
#endif
"""

TILES = f"""
{COPIES}
#if TENSOR_CORES
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
