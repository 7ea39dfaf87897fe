"""Convolution as a product of matrices whose tiles are gathered from the image: no columns are ever in memory.

A block computes a tile of ``ROWS`` by ``COLUMNS`` results in steps of ``DEPTH`` products, ``RUNS`` vectors of each row
and column. It copies the operands of the steps that follow to shared memory, asynchronously and 16 bytes at a time,
while it multiplies those of a step: there are ``STAGES`` of them. For that, channels lie side by side:

    problem                 rows                    columns             products
    convolution             outputs of a group      pixels              taps, and channels of a group
    gradient of the image   channels of a group     pixels of a phase   taps of the phase, and outputs of a group
    gradient of the weight  outputs of a group      taps and channels   pixels

A pixel is a position of the result's grid in one member of the batch, a tap an element of the window. The first two
problems are one kernel. In both, the products of a row and of a column lie side by side; those of the gradient of the
weight lie across the rows of the tiles. With a stride, the pixels of an image whose gradient is computed have other
taps by the remainder of their position: a phase each, which are further blocks. A vector is 16 bytes of the channels of
a tap; the last one of a tap may be filled with zeros. `convolution_launches` copies images and weights to this order,
and converts them.

``TENSOR_CORES`` is 16 for 16-bit operands, 8 for float32 rounded to TF32, and 0 for the fused multiply-adds of each
thread, which multiply float16 and bfloat16 as float32. An element is summed by one thread in one order.

Source: Chetlur et al., cuDNN: Efficient Primitives for Deep Learning, 2014; NVIDIA, CUTLASS, Implicit GEMM Convolution.
"""

from __future__ import annotations

from burnpy_cupy.kernels.attention_tiles import COPIES, INSTRUCTIONS
from burnpy_cupy.kernels.kernel import Raw

SIZES = (
    *("rows", "channels", "vectors", "length", "members", "height", "width", "high", "wide"),
    *("taps_y", "taps_x", "stride_y", "stride_x", "padding_y", "padding_x", "tap_y", "tap_x"),
    *("phases_y", "phases_x", "apart_y", "apart_x"),
    *("image_member", "image_group", "image_channel", "image_row", "image_column"),
    *("grad_member", "grad_group", "grad_channel", "grad_row", "grad_column"),
    *("out_member", "tiles", "part"),
)
"""The members of the kernels' structure `Geometry`.

rows, channels, vectors: of a group, the rows of the tiles, the channels of the gathered array, and their vectors.
length: the vectors of a row of packed weights in a phase.
members, high, wide: of the result's grid of pixels; in the gradient of the weight, of the output's gradient.
height, width: of the gathered image. tiles: of a group.
taps, stride, padding, tap: of the window, which has its tap t in row ``y · stride_y - padding_y + t · tap_y``.
phases, apart: the remainders of positions, and how far the taps of one remainder are apart.
image_*, grad_*, out_member: strides in elements.
part: the pixels that a block adds up in the gradient of the weight.
"""

PIXELS = f"""
struct Geometry {{ long long {", ".join(SIZES)}; }};
#if WIDE
typedef long long offset_t;
#else
typedef int offset_t;  // products take one instruction
#endif

// The pixels along a dimension, and their taps: pixel p has tap t at p * step + first + t * tap of the image.
struct Axis {{ int count, step, first, taps, tap; }};

// The place of a pixel, which moves by a number of pixels that is given by its digits.
struct Pixel {{
  int member, y, x;
  __device__ Pixel(unsigned at, unsigned high, unsigned wide) {{
    x = at % wide, y = at / wide % high, member = at / wide / high;
  }}
  __device__ void move(int high, int wide, int members, int rows, int columns) {{
    x += columns;
    if (x >= wide) x -= wide, y++;
    y += rows;
    if (y >= high) y -= high, member++;
    member += members;
  }}
}};

__device__ offset_t place(const Geometry& g, int member, int h, int w) {{
  return member * static_cast<offset_t>(g.image_member) + h * static_cast<offset_t>(g.image_row)
    + w * static_cast<offset_t>(g.image_column);
}}
__device__ bool inside(const Geometry& g, int h, int w) {{
  return static_cast<unsigned>(h) < static_cast<unsigned>(g.height)
    && static_cast<unsigned>(w) < static_cast<unsigned>(g.width);
}}
"""

_TILES = f"""
{COPIES}
#if TENSOR_CORES
{INSTRUCTIONS}
#endif
{PIXELS}
constexpr int THREADS = 32 * WARPS, VECTOR = 16 / sizeof(M), DEPTH = RUNS * VECTOR;
struct __align__(16) Vector {{ M x[VECTOR]; }};
__device__ int bytes_of(int channels) {{  // of a vector that begins with so many channels left
  return (channels < 0 ? 0 : channels < VECTOR ? channels : VECTOR) * static_cast<int>(sizeof(M));
}}
#if TENSOR_CORES
constexpr int DOWN = ROWS < 32 ? 1 : 2, ACROSS = WARPS / DOWN;  // warps divide the rows and the columns
constexpr int WARP_ROWS = ROWS / DOWN, WARP_COLUMNS = COLUMNS / ACROSS;
constexpr int MINE = WARP_ROWS / 8, EACH = WARP_COLUMNS / 4;  // of the results
__device__ int warp_row() {{ return threadIdx.x / 32 / ACROSS * WARP_ROWS; }}
__device__ int warp_column() {{ return threadIdx.x / 32 % ACROSS * WARP_COLUMNS; }}
__device__ int row(int i) {{ return warp_row() + i / 2 * 16 + threadIdx.x % 32 / 4 + i % 2 * 8; }}
__device__ int column(int j) {{ return warp_column() + j / 2 * 8 + threadIdx.x % 4 * 2 + j % 2; }}
__device__ void multiply_add(S (&sums)[MINE][EACH], int i, int j, const unsigned (&a)[4], unsigned b0, unsigned b1) {{
  burnpy_multiply_add(M(0.0f), sums[i][j], sums[i][j + 1], sums[i + 1][j], sums[i + 1][j + 1], a, b0, b1);
}}
#else
constexpr int SIDE = THREADS / 16, MINE = ROWS / SIDE, EACH = COLUMNS / 16;
#endif
"""

_ALONG = """
// Vectors of neighbouring rows lie in different banks: the order of a row's vectors changes with the row.
__device__ int swizzle(int line) { return (RUNS == 8 ? line : line / 2) % RUNS; }
__device__ int place_of(int line, int run) { return line * DEPTH + (run ^ swizzle(line)) * VECTOR; }
#if TENSOR_CORES
__device__ void multiply(S (&sums)[MINE][EACH], const M* tile) {
  const int lane = threadIdx.x % 32;  // a warp's first row and column are multiples of 8, which change no order
  const M* const rows = tile + (warp_row() + lane % 16) * DEPTH;
  const M* const columns = tile + (ROWS + warp_column() + lane / 16 * 8 + lane % 8) * DEPTH;
  const int row_run = lane / 16 ^ swizzle(lane), column_run = lane / 8 % 2 ^ swizzle(lane);
  #pragma unroll
  for (int run = 0; run < RUNS; run += 2) {
    unsigned a[MINE / 2][4], b[4];
    #pragma unroll
    for (int i = 0; i < MINE / 2; i++) burnpy_load_matrices(a[i], rows + i * 16 * DEPTH + (run ^ row_run) * VECTOR);
    #pragma unroll
    for (int j = 0; j < EACH; j += 4) {  // 16 columns
      burnpy_load_matrices(b, columns + j * 4 * DEPTH + (run ^ column_run) * VECTOR);
      #pragma unroll
      for (int i = 0; i < MINE; i += 2) {
        multiply_add(sums, i, j, a[i / 2], b[0], b[1]);
        multiply_add(sums, i, j + 2, a[i / 2], b[2], b[3]);
      }
    }
  }
}
#else
__device__ int row(int i) { return threadIdx.x / 16 + SIDE * i; }
__device__ int column(int j) { return threadIdx.x % 16 + 16 * j; }
__device__ void multiply(S (&sums)[MINE][EACH], const M* tile) {
  #pragma unroll 1
  for (int run = 0; run < RUNS; run++) {
    Vector a[MINE];
    #pragma unroll
    for (int i = 0; i < MINE; i++) a[i] = *reinterpret_cast<const Vector*>(tile + place_of(row(i), run));
    #pragma unroll
    for (int j = 0; j < EACH; j++) {
      const Vector b = *reinterpret_cast<const Vector*>(tile + place_of(ROWS + column(j), run));
      #pragma unroll
      for (int e = 0; e < VECTOR; e++)
        #pragma unroll
        for (int i = 0; i < MINE; i++) sums[i][j] = fma(a[i].x[e], b.x[e], sums[i][j]);
    }
  }
}
#endif
"""
"""The product of tiles whose rows have the products of a row, or of a column, of the results."""

_ACROSS = """
constexpr int MARGIN = sizeof(M) == 8 ? 2 : 8;  // so that rows that a warp reads lie in different banks
constexpr int A_PITCH = ROWS + MARGIN, B_PITCH = COLUMNS + MARGIN;
#if TENSOR_CORES == 16
__device__ void multiply(S (&sums)[MINE][EACH], const M* tile) {
  const int lane = threadIdx.x % 32;
  const M* const rows = tile + (lane % 8 + lane / 16 * 8) * A_PITCH + warp_row() + lane / 8 % 2 * 8;
  const M* const columns = tile + DEPTH * A_PITCH + lane % 16 * B_PITCH + warp_column() + lane / 16 * 8;
  #pragma unroll
  for (int d = 0; d < DEPTH; d += 16) {
    unsigned a[MINE / 2][4], b[4];
    #pragma unroll
    for (int i = 0; i < MINE / 2; i++) burnpy_load_transposed(a[i], rows + d * A_PITCH + i * 16);
    #pragma unroll
    for (int j = 0; j < EACH; j += 4) {
      burnpy_load_transposed(b, columns + d * B_PITCH + j * 4);
      #pragma unroll
      for (int i = 0; i < MINE; i += 2) {
        multiply_add(sums, i, j, a[i / 2], b[0], b[1]);
        multiply_add(sums, i, j + 2, a[i / 2], b[2], b[3]);
      }
    }
  }
}
#elif TENSOR_CORES == 8
__device__ void multiply(S (&sums)[MINE][EACH], const M* tile) {
  const int lane = threadIdx.x % 32;
  const M* const rows = tile + lane % 4 * A_PITCH + warp_row() + lane / 4;
  const M* const columns = tile + DEPTH * A_PITCH + lane % 4 * B_PITCH + warp_column() + lane / 4;
  #pragma unroll
  for (int d = 0; d < DEPTH; d += 8) {
    unsigned a[MINE / 2][4];
    #pragma unroll
    for (int i = 0; i < MINE / 2; i++)
      #pragma unroll
      for (int k = 0; k < 4; k++) a[i][k] = __float_as_uint(rows[(d + k / 2 * 4) * A_PITCH + i * 16 + k % 2 * 8]);
    #pragma unroll
    for (int j = 0; j < EACH; j += 2) {
      const unsigned b0 = __float_as_uint(columns[d * B_PITCH + j * 4]);
      const unsigned b1 = __float_as_uint(columns[(d + 4) * B_PITCH + j * 4]);
      #pragma unroll
      for (int i = 0; i < MINE; i += 2) multiply_add(sums, i, j, a[i / 2], b0, b1);
    }
  }
}
#else
__device__ int row(int i) { return (i / VECTOR * SIDE + threadIdx.x / 16) * VECTOR + i % VECTOR; }
__device__ int column(int j) { return (j / VECTOR * 16 + threadIdx.x % 16) * VECTOR + j % VECTOR; }
__device__ void multiply(S (&sums)[MINE][EACH], const M* tile) {
  #pragma unroll 4
  for (int d = 0; d < DEPTH; d++) {
    Vector a[MINE / VECTOR], b[EACH / VECTOR];
    #pragma unroll
    for (int i = 0; i < MINE; i += VECTOR)
      a[i / VECTOR] = *reinterpret_cast<const Vector*>(tile + d * A_PITCH + row(i));
    #pragma unroll
    for (int j = 0; j < EACH; j += VECTOR)
      b[j / VECTOR] = *reinterpret_cast<const Vector*>(tile + (DEPTH * A_PITCH + d * B_PITCH) + column(j));
    #pragma unroll
    for (int i = 0; i < MINE; i++)
      #pragma unroll
      for (int j = 0; j < EACH; j++)
        sums[i][j] = fma(a[i / VECTOR].x[i % VECTOR], b[j / VECTOR].x[j % VECTOR], sums[i][j]);
  }
}
#endif
"""
"""The product of tiles whose rows have one product of each row, or of each column, of the results."""

_PIPELINE = """
template <typename Copy> __device__ void over_steps(int steps, S (&sums)[MINE][EACH], M* memory, Copy copy) {
  for (int step = 0; step < STAGES - 1; step++) {
    if (step < steps) copy(step, memory + step * STAGE);
    burnpy_end_group();
  }
  #pragma unroll 1
  for (int step = 0; step < steps; step++) {
    burnpy_wait_for_groups<STAGES - 2>();
    __syncthreads();  // all copies of the step have arrived, and the step before is read
    const int next = step + STAGES - 1;
    if (next < steps) copy(next, memory + next % STAGES * STAGE);
    burnpy_end_group();
    multiply(sums, memory + step % STAGES * STAGE);
  }
  burnpy_wait_for_groups<0>();
  __syncthreads();
}
"""

_BOUNDS = 'extern "C" __global__ __launch_bounds__(THREADS, BLOCKS) void'

_CONVOLVE = f"""
constexpr int STAGE = (ROWS + COLUMNS) * DEPTH;
{_PIPELINE}
#if BY_IMAGE
__device__ Axis axis(int count, int taps, int stride, int padding, int dilation, int apart, int phase) {{
  int first = 0;
  while (first < taps && (phase + padding - first * dilation) % stride) first++;
  const int of_phase = first < taps ? (taps - first + apart - 1) / apart : 0;
  return {{(count - phase + stride - 1) / stride, 1, (phase + padding - first * dilation) / stride, of_phase,
          -(apart * dilation / stride)}};
}}
#else
__device__ Axis axis(int count, int taps, int stride, int padding, int dilation, int, int) {{
  return {{count, stride, -padding, taps, dilation}};
}}
#endif

{_BOUNDS} burnpy_conv(const M* packed, const M* image, const O* bias, O* out, Geometry g) {{
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ long long places[COLUMNS];
  const unsigned tiles = g.tiles, tile = blockIdx.x % tiles;
  const int thread = threadIdx.x, group = blockIdx.x / tiles, rows = g.rows, channels = g.channels, vectors = g.vectors;
  const int row_tiles = (rows + ROWS - 1) / ROWS, first_row = tile % row_tiles * ROWS;
  const int phases = g.phases_y * g.phases_x, phase = tile / row_tiles % phases;
  const unsigned first_pixel = tile / row_tiles / phases * COLUMNS;
  const int phase_y = phase / static_cast<int>(g.phases_x), phase_x = phase % static_cast<int>(g.phases_x);
  const Axis down = axis(g.high, g.taps_y, g.stride_y, g.padding_y, g.tap_y, g.apart_y, phase_y);
  const Axis right = axis(g.wide, g.taps_x, g.stride_x, g.padding_x, g.tap_x, g.apart_x, phase_x);
  const unsigned pixels = static_cast<unsigned>(g.members) * down.count * right.count;
  if (first_pixel >= pixels) return;
  constexpr int LINES = THREADS / RUNS, A_SLOTS = (ROWS + LINES - 1) / LINES, B_SLOTS = COLUMNS / LINES;
  const int run = thread % RUNS, line = thread / RUNS;  // of the first slot
  int tops[B_SLOTS], lefts[B_SLOTS];
  const M* sources[B_SLOTS];
  #pragma unroll
  for (int n = 0; n < B_SLOTS; n++) {{
    const unsigned pixel = first_pixel + line + n * LINES;
    const Pixel at(pixel < pixels ? pixel : 0, down.count, right.count);
    tops[n] = at.y * down.step + down.first, lefts[n] = at.x * right.step + right.first;
    sources[n] = image + group * g.image_group + place(g, at.member, tops[n], lefts[n]);
    if (pixel >= pixels) tops[n] = -(1 << 30);
  }}
  for (int n = thread; n < COLUMNS; n += THREADS) {{
    const unsigned pixel = first_pixel + n;
    const Pixel at(pixel, down.count, right.count);
#if BY_IMAGE
    const long long y = phase_y + at.y * g.stride_y, x = phase_x + at.x * g.stride_x;
#else
    const long long y = at.y, x = at.x;
#endif
    places[n] = pixel < pixels ? at.member * g.out_member + y * g.wide + x : -1;
  }}
  const int total = down.taps * right.taps * vectors, steps = (total + RUNS - 1) / RUNS;
  const offset_t apart = LINES * static_cast<offset_t>(g.length) * VECTOR;
  packed += (((group * static_cast<long long>(phases) + phase) * rows + first_row + line) * g.length + run) * VECTOR;
  int tap_y = 0, tap_x = 0, vector = run;  // of the thread's next copy
  const auto carry = [&]() {{
    while (vector >= vectors) {{
      vector -= vectors;
      if (++tap_x == right.taps) tap_x = 0, tap_y++;
    }}
  }};
  carry();
  const auto copy = [&](int step, M* stage) {{
    const int at = step * RUNS + run, a_rows = at < total ? rows - first_row : 0;
    #pragma unroll
    for (int n = 0; n < A_SLOTS; n++) {{
      const int other = line + n * LINES;
      if (ROWS % LINES == 0 || other < ROWS)
        burnpy_copy_part(stage + place_of(other, run), packed + n * apart, other < a_rows ? 16 : 0);
    }}
    packed += RUNS * VECTOR;
    const int y = tap_y * down.tap, x = tap_x * right.tap;
    const int bytes = at < total ? bytes_of(channels - vector * VECTOR) : 0;
    const offset_t offset = place(g, 0, y, x) + vector * VECTOR;
    #pragma unroll
    for (int n = 0; n < B_SLOTS; n++)
      burnpy_copy_part(stage + place_of(ROWS + line + n * LINES, run), sources[n] + offset,
                       inside(g, tops[n] + y, lefts[n] + x) ? bytes : 0);
    vector += RUNS;
    carry();
  }};
  S sums[MINE][EACH] = {{}};
  over_steps(steps, sums, reinterpret_cast<M*>(memory), copy);

  const long long channel = g.high * g.wide;
  out += (group * g.rows + first_row) * channel;
  const auto write = [&](int line, int column, S sum) {{
    const long long where = places[column];
    if (where < 0 || first_row + line >= rows) return;
#if HAS_BIAS
    sum += static_cast<S>(bias[group * g.rows + first_row + line]);
#endif
    out[where + line * channel] = O(sum);
  }};
#if TENSOR_CORES
  // Through shared memory, so that the threads of a warp write neighbours: 16 rows of a warp at once.
  constexpr int WIDTH = WARP_COLUMNS + 8;
  S* const part = reinterpret_cast<S*>(memory) + thread / 32 * 16 * WIDTH;
  const int lane = thread % 32;
  #pragma unroll
  for (int i = 0; i < MINE; i += 2) {{
    #pragma unroll
    for (int n = 0; n < 2; n++)
      #pragma unroll
      for (int j = 0; j < EACH; j++)
        part[(row(i + n) - warp_row() - i * 8) * WIDTH + column(j) - warp_column()] = sums[i + n][j];
    __syncwarp();
    #pragma unroll
    for (int n = 0; n < 16 * WARP_COLUMNS; n += 32) {{
      const int line = (n + lane) / WARP_COLUMNS, column = (n + lane) % WARP_COLUMNS;
      write(warp_row() + i * 8 + line, warp_column() + column, part[line * WIDTH + column]);
    }}
    __syncwarp();
  }}
#else
  #pragma unroll
  for (int i = 0; i < MINE; i++)
    #pragma unroll
    for (int j = 0; j < EACH; j++) write(row(i), column(j), sums[i][j]);
#endif
}}
"""

_BY_WEIGHT = f"""
constexpr int STAGE = DEPTH * (A_PITCH + B_PITCH);
{_PIPELINE}

{_BOUNDS} burnpy_conv_weight(const M* grad, const M* image, O* out, Geometry g) {{
  extern __shared__ __align__(16) unsigned char memory[];
  const unsigned tiles = g.tiles, tile = blockIdx.x % tiles;
  const int thread = threadIdx.x, group = blockIdx.x / tiles, split = blockIdx.y, rows = g.rows, channels = g.channels;
  const int taps = g.taps_y * g.taps_x, columns = taps * g.vectors * VECTOR, vectors = g.vectors;
  const int row_tiles = (rows + ROWS - 1) / ROWS;
  const int first_row = tile % row_tiles * ROWS, first_column = tile / row_tiles * COLUMNS;
  // A thread has one vector of the rows, and one of the columns, for each pixel that it copies.
  constexpr int A_VECTORS = ROWS / VECTOR, A_PIXELS = THREADS / A_VECTORS, A_SLOTS = DEPTH / A_PIXELS;
  constexpr int B_VECTORS = COLUMNS / VECTOR, B_PIXELS = THREADS / B_VECTORS, B_SLOTS = DEPTH / B_PIXELS;
  const int a_at = thread % A_VECTORS * VECTOR, a_pixel = thread / A_VECTORS;
  const int b_at = thread % B_VECTORS * VECTOR, b_pixel = thread / B_VECTORS;
  const int column_vector = (first_column + b_at) / VECTOR;
  const int tap = column_vector / vectors, first = column_vector % vectors * VECTOR;
  const int down = tap / static_cast<int>(g.taps_x) * static_cast<int>(g.tap_y) - static_cast<int>(g.padding_y);
  const int right = tap % static_cast<int>(g.taps_x) * static_cast<int>(g.tap_x) - static_cast<int>(g.padding_x);
  const int a_bytes = bytes_of(rows - first_row - a_at), b_bytes = tap < taps ? bytes_of(channels - first) : 0;
  const int stride_y = g.stride_y, stride_x = g.stride_x, wide = g.wide, high = g.high;
  const unsigned pixels = static_cast<unsigned>(g.members) * high * wide;
  const unsigned begin = split * g.part, end = begin + g.part < pixels ? begin + g.part : pixels;
  const int steps = end > begin ? (end - begin + DEPTH - 1) / DEPTH : 0;
  const int by_x = B_PIXELS % wide, by_y = B_PIXELS / wide % high, by_member = B_PIXELS / wide / high;
  Pixel at(begin + b_pixel, high, wide);  // of the next vector
  const long long a_apart = A_PIXELS * g.grad_column, b_apart = B_PIXELS * g.image_column;
  grad += group * g.grad_group + first_row + a_at + (begin + a_pixel) * g.grad_column;
  image += group * g.image_group + first + (IN_LINE ? (begin + b_pixel) * g.image_column : 0);
  const auto copy = [&](int step, M* stage) {{
    const int left = end - begin - step * DEPTH;
    #pragma unroll
    for (int n = 0; n < A_SLOTS; n++) {{
      const int k = a_pixel + n * A_PIXELS;
      burnpy_copy_part(stage + k * A_PITCH + a_at, grad, k < left ? a_bytes : 0);
      grad += a_apart;
    }}
    #pragma unroll
    for (int n = 0; n < B_SLOTS; n++) {{
      const int k = b_pixel + n * B_PIXELS;
      M* const into = stage + DEPTH * A_PITCH + k * B_PITCH + b_at;
#if IN_LINE  // windows of one element, whose pixels follow each other as those of the gradient
      burnpy_copy_part(into, image, k < left ? b_bytes : 0);
      image += b_apart;
#else
      const int h = at.y * stride_y + down, w = at.x * stride_x + right;
      burnpy_copy_part(into, image + place(g, at.member, h, w), k < left && inside(g, h, w) ? b_bytes : 0);
      at.move(high, wide, by_member, by_y, by_x);
#endif
    }}
  }};
  S sums[MINE][EACH] = {{}};
  over_steps(steps, sums, reinterpret_cast<M*>(memory), copy);

  out += (static_cast<long long>(split) * (gridDim.x / tiles) + group) * rows * channels * taps;
  #pragma unroll
  for (int j = 0; j < EACH; j++) {{
    const int at = first_column + column(j), tap = at / (vectors * VECTOR), c = at % (vectors * VECTOR);
    #pragma unroll
    for (int i = 0; i < MINE; i++) {{
      const int line = first_row + row(i);
      if (line < rows && c < channels && at < columns)
        out[(static_cast<long long>(line) * channels + c) * taps + tap] = O(sums[i][j]);
    }}
  }}
}}
"""

TILES = {"burnpy_conv": Raw(_TILES + _ALONG + _CONVOLVE), "burnpy_conv_weight": Raw(_TILES + _ACROSS + _BY_WEIGHT)}
"""Kernels by name, for operands of the type M, sums S and results O."""
