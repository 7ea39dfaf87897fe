"""Convolution as a product of matrices whose tiles are gathered from the image: no columns are ever in memory.

A block computes a tile of ``ROWS`` by ``COLUMNS`` results in steps of ``DEPTH`` products, which take 64 bytes. It reads
the next step's operands to registers while it multiplies those in shared memory, where there are two of each. Both
operands lie there by rows of their products, so that one function multiplies them for all three problems:

    problem                 rows                    columns             products
    convolution             outputs of a group      pixels              taps and channels of a group
    gradient by the image   channels of a group     pixels of a phase   taps of the phase and outputs of a group
    gradient by the weight  outputs of a group      channels and taps   pixels

A pixel is a position of the result's grid in one member of the batch, a tap an element of the window. The first two
problems are one kernel. It finds the place of a pixel once. A step has one tap, and so one test against the border, and
``DEPTH`` channels. With so few channels that most of a step would be empty, ``FLAT``, a step takes products of several
taps. Weights are packed in this order before: see `PACK`. With a stride, the pixels of an image whose gradient is
computed have other taps by the remainder of their position: a phase each.

``TENSOR_CORES`` is 16 for 16-bit operands, 8 for float32 rounded to TF32, and 0 for the fused multiply-adds of each
thread, which add float16 and bfloat16 in float32. An element is summed by one thread in one order.

Source: Chetlur et al., cuDNN: Efficient Primitives for Deep Learning, 2014.
"""

from __future__ import annotations

from burnpy_cupy.kernels.attention_tiles import INSTRUCTIONS
from burnpy_cupy.kernels.elementwise import INDEX, Elementwise
from burnpy_cupy.kernels.kernel import Raw

SIZES = (
    *("rows", "channels", "steps", "pixels", "height", "width", "high", "wide", "taps_y", "taps_x"),
    *("step_y", "step_x", "first_y", "first_x", "tap_y", "tap_x"),
    *("image_member", "image_channel", "image_row", "image_column"),
    *("out_first", "out_member", "out_channel", "out_row", "out_column"),
    *("grad_member", "grad_channel", "grad_row", "grad_column", "splits", "length"),
)
"""The members of the kernels' structure `Geometry`.

rows, channels: of a group, the rows of the tiles and the channels of the gathered array.
steps: of ``DEPTH`` products of an element.
pixels, high, wide: the number of pixels, and the pixels of a member along y and x.
height, width: of the gathered image.
step_y, first_y, tap_y: the pixel y has its tap t in row ``y · step_y + first_y + t · tap_y`` of the image.
image_*, out_*, grad_*: strides in elements.
splits, length: the parts of the pixels in the gradient by the weight, and the pixels of a part.
"""

_TILES = f"""
#if TENSOR_CORES
{INSTRUCTIONS}
#endif
struct Geometry {{ long long {", ".join(SIZES)}; }};

constexpr int THREADS = 256;
template <bool B, typename X, typename Y> struct Either {{ typedef X type; }};
template <typename X, typename Y> struct Either<false, X, Y> {{ typedef Y type; }};
typedef Either<(TENSOR_CORES > 0), T, S>::type M;  // the numbers in shared memory
constexpr int VECTOR = 16 / sizeof(M), RUNS = 4, DEPTH = RUNS * VECTOR, PITCH = DEPTH + VECTOR;
constexpr int LINES = ROWS + COLUMNS;  // of both operands
struct __align__(16) Vector {{ M x[VECTOR]; }};
struct __align__(VECTOR * sizeof(T)) Run {{ T x[VECTOR]; }};

// Writes consecutive products of a line to shared memory.
__device__ void put(M* tile, int line, int run, const Run& given) {{
  Vector v;
  #pragma unroll
  for (int e = 0; e < VECTOR; e++) {{
#if TENSOR_CORES == 8
    v.x[e] = burnpy_rounded(given.x[e]);
#else
    v.x[e] = M(given.x[e]);
#endif
  }}
  *reinterpret_cast<Vector*>(tile + line * PITCH + run * VECTOR) = v;
}}

#if TENSOR_CORES
constexpr int MINE = ROWS / 16, EACH = COLUMNS / 16;  // of the results: two warps divide the rows, four the columns
__device__ int row(int i) {{
  return threadIdx.x / 128 * (ROWS / 2) + i / 2 * 16 + threadIdx.x % 32 / 4 + i % 2 * 8;
}}
__device__ int column(int j) {{
  return threadIdx.x / 32 % 4 * (COLUMNS / 4) + j / 2 * 8 + threadIdx.x % 4 * 2 + j % 2;
}}
__device__ void multiply(S (&sums)[MINE][EACH], const M* tile) {{
  const int lane = threadIdx.x % 32;
  const M* const rows = tile + (threadIdx.x / 128 * (ROWS / 2) + lane % 16) * PITCH + lane / 16 * VECTOR;
  const M* const columns = tile + (ROWS + threadIdx.x / 32 % 4 * (COLUMNS / 4) + lane / 16 * 8 + lane % 8) * PITCH
    + lane / 8 % 2 * VECTOR;
  #pragma unroll
  for (int d = 0; d < DEPTH; d += 2 * VECTOR) {{
    unsigned a[MINE / 2][4], b[4];
    #pragma unroll
    for (int i = 0; i < MINE / 2; i++) burnpy_load_matrices(a[i], rows + i * 16 * PITCH + d);
    #pragma unroll
    for (int j = 0; j < EACH; j += 4) {{  // 16 columns
      burnpy_load_matrices(b, columns + j * 4 * PITCH + d);
      #pragma unroll
      for (int i = 0; i < MINE; i += 2) {{
        burnpy_multiply_add(
          T(0.0f), sums[i][j], sums[i][j + 1], sums[i + 1][j], sums[i + 1][j + 1], a[i / 2], b[0], b[1]);
        burnpy_multiply_add(
          T(0.0f), sums[i][j + 2], sums[i][j + 3], sums[i + 1][j + 2], sums[i + 1][j + 3], a[i / 2], b[2], b[3]);
      }}
    }}
  }}
}}
#else
constexpr int MINE = ROWS / 16, EACH = COLUMNS / 16;
__device__ int row(int i) {{ return threadIdx.x / 16 + 16 * i; }}
__device__ int column(int j) {{ return threadIdx.x % 16 + 16 * j; }}
__device__ void multiply(S (&sums)[MINE][EACH], const M* tile) {{
  #pragma unroll
  for (int d = 0; d < DEPTH; d += VECTOR) {{
    Vector a[MINE];
    #pragma unroll
    for (int i = 0; i < MINE; i++) a[i] = *reinterpret_cast<const Vector*>(tile + row(i) * PITCH + d);
    #pragma unroll
    for (int j = 0; j < EACH; j++) {{
      const Vector b = *reinterpret_cast<const Vector*>(tile + (ROWS + column(j)) * PITCH + d);
      #pragma unroll
      for (int e = 0; e < VECTOR; e++)
        #pragma unroll
        for (int i = 0; i < MINE; i++) sums[i][j] = fma(a[i].x[e], b.x[e], sums[i][j]);
    }}
  }}
}}
#endif

// The place of a pixel, which moves by a number of pixels that is given by its digits.
struct Pixel {{
  int member, y, x;
  __device__ Pixel(const Geometry& g, unsigned at) {{
    const unsigned wide = g.wide, high = g.high;
    x = at % wide, y = at / wide % high, member = at / wide / high;
  }}
  __device__ void move(const Geometry& g, int members, int rows, int columns) {{
    x += columns;
    if (x >= g.wide) x -= g.wide, y++;
    y += rows;
    if (y >= g.high) y -= g.high, member++;
    member += members;
  }}
  __device__ int top(const Geometry& g) const {{
    return y * static_cast<int>(g.step_y) + static_cast<int>(g.first_y);
  }}
  __device__ int left(const Geometry& g) const {{
    return x * static_cast<int>(g.step_x) + static_cast<int>(g.first_x);
  }}
}};

// Where the element of a pixel and tap lies in channel 0 of an image.
__device__ long long place(const Geometry& g, int member, int h, int w) {{
  return member * g.image_member + h * g.image_row + w * g.image_column;
}}
__device__ bool inside(const Geometry& g, int h, int w) {{
  return static_cast<unsigned>(h) < static_cast<unsigned>(g.height)
    && static_cast<unsigned>(w) < static_cast<unsigned>(g.width);
}}
"""

_BOUNDS = 'extern "C" __global__ __launch_bounds__(256, 2) void'

_CONVOLVE = f"""
constexpr int A_SLOTS = ROWS * RUNS / THREADS, B_SLOTS = COLUMNS * RUNS / THREADS;

{_BOUNDS} burnpy_conv(const T* packed, const T* image, const O* bias, O* out, Geometry g) {{
  __shared__ __align__(16) M tiles[2][LINES * PITCH];
  __shared__ long long places[COLUMNS];
  const int thread = threadIdx.x, group = blockIdx.y;
  const int row_tiles = (static_cast<int>(g.rows) + ROWS - 1) / ROWS;
  const int first_row = blockIdx.x % row_tiles * ROWS;
  const unsigned first_pixel = blockIdx.x / row_tiles * COLUMNS;
  const int line = thread % COLUMNS, run = thread / COLUMNS;  // of the image, in its first slot
  const unsigned pixel = first_pixel + line;
  const bool exists = pixel < g.pixels;
  const Pixel at(g, exists ? pixel : 0);
  const int top = at.top(g), left = at.left(g);
  image += group * g.channels * g.image_channel + place(g, at.member, top, left);
  packed += (group * g.rows + first_row) * g.steps * DEPTH;
  if (thread < COLUMNS)
    places[thread] = exists ? at.member * g.out_member + at.y * g.out_row + at.x * g.out_column : -1;

  Run a[A_SLOTS], b[B_SLOTS];
  int channel = 0, tap_y = 0, tap_x = 0;  // of the step that is read next
  S sums[MINE][EACH] = {{}};
  for (int step = -1; step < g.steps; step++) {{
    const bool more = step + 1 < g.steps;
    if (more) {{
      #pragma unroll
      for (int n = 0; n < A_SLOTS; n++) {{
        const int slot = n * THREADS + thread, other = slot / RUNS;
        const bool counts = first_row + other < g.rows;
        const Run* const from = reinterpret_cast<const Run*>(packed + (other * g.steps + step + 1) * DEPTH);
        if (counts) a[n] = from[slot % RUNS];
        else for (int e = 0; e < VECTOR; e++) a[n].x[e] = T(0.0f);
      }}
#if FLAT
      #pragma unroll
      for (int n = 0; n < B_SLOTS; n++)
        #pragma unroll
        for (int e = 0; e < VECTOR; e++) {{
          const unsigned k = (step + 1) * DEPTH + (run + n * (THREADS / COLUMNS)) * VECTOR + e;
          const unsigned x = k % static_cast<unsigned>(g.taps_x), rest = k / static_cast<unsigned>(g.taps_x);
          const unsigned y = rest % static_cast<unsigned>(g.taps_y), c = rest / static_cast<unsigned>(g.taps_y);
          const int down = y * static_cast<int>(g.tap_y), right = x * static_cast<int>(g.tap_x);
          const bool counts = exists && c < g.channels && inside(g, top + down, left + right);
          b[n].x[e] = counts ? image[c * g.image_channel + place(g, 0, down, right)] : T(0.0f);
        }}
#else
      const int down = tap_y * static_cast<int>(g.tap_y), right = tap_x * static_cast<int>(g.tap_x);
      const bool counts = exists && inside(g, top + down, left + right);
      const T* const source = image + place(g, 0, down, right);
      #pragma unroll
      for (int n = 0; n < B_SLOTS; n++)
        #pragma unroll
        for (int e = 0; e < VECTOR; e++) {{
          const int c = channel + (run + n * (THREADS / COLUMNS)) * VECTOR + e;
          b[n].x[e] = counts && c < g.channels ? source[c * g.image_channel] : T(0.0f);
        }}
      if (++tap_x == g.taps_x) tap_x = 0, tap_y++;
      if (tap_y == g.taps_y) tap_y = 0, channel += DEPTH;
#endif
    }}
    if (step >= 0) multiply(sums, tiles[step % 2]);
    if (more) {{
      M* const tile = tiles[(step + 1) % 2];
      #pragma unroll
      for (int n = 0; n < A_SLOTS; n++) put(tile, (n * THREADS + thread) / RUNS, thread % RUNS, a[n]);
      #pragma unroll
      for (int n = 0; n < B_SLOTS; n++) put(tile, ROWS + line, run + n * (THREADS / COLUMNS), b[n]);
    }}
    __syncthreads();
  }}
  out += group * g.rows * g.out_channel + g.out_first;
  #pragma unroll
  for (int j = 0; j < EACH; j++) {{
    const long long where = places[column(j)];
    #pragma unroll
    for (int i = 0; i < MINE; i++) {{
      const int line = first_row + row(i);
      if (where < 0 || line >= g.rows) continue;
#if HAS_BIAS
      sums[i][j] += static_cast<S>(bias[group * g.rows + line]);
#endif
      out[where + line * g.out_channel] = O(sums[i][j]);
    }}
  }}
}}
"""

_BY_WEIGHT = f"""
constexpr int A_SLOTS = ROWS * RUNS / THREADS, B_SLOTS = COLUMNS * RUNS / THREADS;

{_BOUNDS} burnpy_conv_weight(const T* grad, const T* image, O* out, Geometry g) {{
  __shared__ __align__(16) M tiles[2][LINES * PITCH];
  const int thread = threadIdx.x, group = blockIdx.y / g.splits, split = blockIdx.y % g.splits;
  const int row_tiles = (static_cast<int>(g.rows) + ROWS - 1) / ROWS;
  const int first_row = blockIdx.x % row_tiles * ROWS, first_column = blockIdx.x / row_tiles * COLUMNS;
  const int taps = g.taps_y * g.taps_x, columns = g.channels * taps;
  const int line = thread / RUNS, run = thread % RUNS;  // in the first slot
  image += group * g.channels * g.image_channel;
  grad += group * g.rows * g.grad_channel;

  int down[B_SLOTS], right[B_SLOTS];
  const T* sources[B_SLOTS];
  #pragma unroll
  for (int n = 0; n < B_SLOTS; n++) {{
    const int column = first_column + line + n * (THREADS / RUNS), tap = column % taps;
    down[n] = tap / static_cast<int>(g.taps_x) * static_cast<int>(g.tap_y);
    right[n] = tap % static_cast<int>(g.taps_x) * static_cast<int>(g.tap_x);
    sources[n] = column < columns ? image + column / taps * g.image_channel + place(g, 0, down[n], right[n]) : nullptr;
  }}
  const unsigned begin = split * g.length, end = begin + g.length < g.pixels ? begin + g.length : g.pixels;
  const int steps = end > begin ? (end - begin + DEPTH - 1) / DEPTH : 0;
  const int wide = g.wide, high = g.high;
  const int by_x = DEPTH % wide, by_y = DEPTH / wide % high, by_member = DEPTH / wide / high;
  Pixel next(g, begin + run * VECTOR);
  unsigned pixel = begin + run * VECTOR;

  Run a[A_SLOTS], b[B_SLOTS];
  S sums[MINE][EACH] = {{}};
  for (int step = -1; step < steps; step++) {{
    const bool more = step + 1 < steps;
    if (more) {{
      Pixel at = next;
      #pragma unroll
      for (int e = 0; e < VECTOR; e++) {{
        const bool exists = pixel + e < end;
        const T* const from = grad + at.member * g.grad_member + at.y * g.grad_row + at.x * g.grad_column;
        #pragma unroll
        for (int n = 0; n < A_SLOTS; n++) {{
          const int other = first_row + line + n * (THREADS / RUNS);
          a[n].x[e] = exists && other < g.rows ? from[other * g.grad_channel] : T(0.0f);
        }}
        const int top = at.top(g), left = at.left(g);
        const long long where = place(g, at.member, top, left);
        #pragma unroll
        for (int n = 0; n < B_SLOTS; n++) {{
          const bool counts = exists && sources[n] && inside(g, top + down[n], left + right[n]);
          b[n].x[e] = counts ? sources[n][where] : T(0.0f);
        }}
        at.move(g, 0, 0, 1);
      }}
      next.move(g, by_member, by_y, by_x);
      pixel += DEPTH;
    }}
    if (step >= 0) multiply(sums, tiles[step % 2]);
    if (more) {{
      M* const tile = tiles[(step + 1) % 2];
      #pragma unroll
      for (int n = 0; n < A_SLOTS; n++) put(tile, line + n * (THREADS / RUNS), run, a[n]);
      #pragma unroll
      for (int n = 0; n < B_SLOTS; n++) put(tile, ROWS + line + n * (THREADS / RUNS), run, b[n]);
    }}
    __syncthreads();
  }}
  out += ((static_cast<long long>(split) * (gridDim.y / g.splits) + group) * g.rows) * columns;
  #pragma unroll
  for (int i = 0; i < MINE; i++)
    #pragma unroll
    for (int j = 0; j < EACH; j++) {{
      const int line = first_row + row(i), at = first_column + column(j);
      if (line < g.rows && at < columns) out[static_cast<long long>(line) * columns + at] = O(sums[i][j]);
    }}
}}
"""

_BY_WEIGHT_OF_FEW = f"""
{_BOUNDS} burnpy_conv_direct_weight(const T* grad, const T* image, O* out, Geometry g) {{
  __shared__ S parts[THREADS];
  const int thread = threadIdx.x, taps = g.taps_y * g.taps_x, tap = blockIdx.x % taps;
  const int channel = blockIdx.x / taps % g.channels, output = blockIdx.x / taps / g.channels;
  const int down = tap / static_cast<int>(g.taps_x) * g.tap_y, right = tap % static_cast<int>(g.taps_x) * g.tap_x;
  image += (output / g.rows * g.channels + channel) * g.image_channel;
  grad += output * g.grad_channel;
  S sum = 0;
  for (unsigned pixel = thread; pixel < g.pixels; pixel += THREADS) {{
    const Pixel at(g, pixel);
    const int h = at.top(g) + down, w = at.left(g) + right;
    if (inside(g, h, w))
      sum = fma(static_cast<S>(grad[at.member * g.grad_member + at.y * g.grad_row + at.x * g.grad_column]),
                static_cast<S>(image[place(g, at.member, h, w)]), sum);
  }}
  parts[thread] = sum;
  for (int half = THREADS / 2; half > 0; half /= 2) {{
    __syncthreads();
    if (thread < half) parts[thread] += parts[thread + half];
  }}
  if (thread == 0) out[blockIdx.x] = O(parts[0]);
}}
"""

TILES = {
    "burnpy_conv": Raw(_TILES + _CONVOLVE),
    "burnpy_conv_weight": Raw(_TILES + _BY_WEIGHT),
    "burnpy_conv_direct_weight": Raw(_TILES + _BY_WEIGHT_OF_FEW),
}
"""Kernels by name, for operands of the type T, sums S and results O. In the last one a block has one element."""

PACK = Elementwise(
    "raw T weight, int32 rows, int32 channels, int32 length, int32 depth, int32 by_image, int32 taps_y, int32 taps_x, "
    "int32 first_y, int32 first_x, int32 step_y, int32 step_x",
    "T packed",
    """
index_t rest = static_cast<index_t>(i);
const index_t k = rest % length, taps = taps_y * taps_x; rest /= length;
const index_t row = rest % rows, group = rest / rows;
const index_t c = depth ? k / depth / taps * depth + k % depth : k / taps, tap = depth ? k / depth % taps : k % taps;
const ptrdiff_t at[] = {
  by_image ? group * channels + c : group * rows + row, by_image ? row : c,
  first_y + tap / taps_x * step_y, first_x + tap % taps_x * step_x};
packed = c < channels ? weight[at] : T(0)""",
    INDEX,
)
"""The weights of each row in the order of its products, by ``depth`` channels of a tap or, if it is 0, by taps; zeros
fill the last step. ``first`` and ``step`` choose the taps of a phase."""
