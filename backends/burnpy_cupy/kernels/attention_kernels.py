"""The kernels of attention: the result, the gradient of queries, and the gradients of keys and values.

For a query's scores s, with minus infinity for keys that it does not attend to::

    m = max s · scale,  z = Σ exp(s · scale - m)
    weight = exp(s · scale - m) / z,  logsumexp = m + log z                     (0 for a query without keys)
    grad_score = weight · (grad_weight - Σ weight · grad_weight) · scale              (backward)
    Σ weight · grad_weight = grad · out                                           (the products of two rows)

A block has the queries of a tile and goes over the keys in tiles. It keeps the largest score so far, and scales its
sums whenever that grows, so that no more than a tile of scores ever exists. Tiles that no query of the block attends to
are skipped. The kernel of the gradient of queries does the same with three products, for sums whose weights are not
divided by z before the end. It leaves the m, 1 / z and grad · out of each query to the third kernel: logsumexps are
rounded too much to get the weights of large scores, or of 16-bit ones, from them. In the third kernel a block has a
tile of keys, goes over the queries, and computes four products; those of wide heads of 16 bits are divided between two
blocks, and both compute the weights. Each element is summed by one thread in one order, so gradients are the same in
every run. For tensor cores, scores are multiplied by 1 / log 2 along with their scale, as `exp2f` is one instruction.

Sources: Milakov and Gimelshein, Online Normalizer Calculation for Softmax, 2018; Dao, FlashAttention-2, 2023, whose
backward pass adds up the gradient of queries in any order, for five products instead of seven.
"""

from __future__ import annotations

from burnpy_cupy.kernels.attention_tiles import TILES
from burnpy_cupy.kernels.kernel import Raw

ARRAYS = ("q", "k", "v", "out", "grad", "grad_q", "grad_k", "grad_v", "mask")
"""The arrays whose strides kernels get."""

PADDED = 128
"""The statistics of a head's queries lie in this many numbers, or a multiple of it."""

SIZES = ("middle", "inner", "queries", "keys", "size", "values", "is_causal", "offset", "mask_key")
"""The further arguments of the kernels: the numbers of heads, sizes, and the settings of the mask."""

_GEOMETRY = f"""
constexpr int PADDED = {PADDED};
struct Strides {{ long long outer, middle, inner, row; }};  // of three dimensions of heads, and of queries or keys
struct Geometry {{
  Strides {", ".join(ARRAYS)};
  long long {", ".join(SIZES)};
}};

constexpr int WEIGHTS = TENSOR_CORES ? 0 : TILE_ROWS * WEIGHTS_PITCH;  // shared among the threads of a row
constexpr unsigned GROUP = 32;

// Where a block computes: its head, and the first row of its tile. The tiles that the causal limit makes longest come
// first: the last ones of queries, the first ones of keys. Heads go in groups whose keys and values the L2 cache keeps.
struct Place {{
  long long head;
  int first;
  __device__ Place(long long rows, bool last_first) {{
    const unsigned tiles = (rows + TILE_ROWS - 1) / TILE_ROWS, heads = gridDim.x / tiles;
    const unsigned group = blockIdx.x / (GROUP * tiles), at = blockIdx.x % (GROUP * tiles);
    const unsigned members = min(heads - group * GROUP, GROUP), tile = at / members;
    head = group * GROUP + at % members, first = (last_first ? tiles - 1 - tile : tile) * TILE_ROWS;
  }}
  template <typename X> __device__ X* of(X* array, const Strides& steps, const Geometry& g) const {{
    const long long outer = head / (g.middle * g.inner), middle = head / g.inner % g.middle, inner = head % g.inner;
    return array + outer * steps.outer + middle * steps.middle + inner * steps.inner;
  }}
}};

// A row or column, -1 for those before the first one.
__device__ int position(long long x) {{ return x < 0 ? -1 : x > 0x7fff0000 ? 0x7fff0000 : static_cast<int>(x); }}
constexpr int FAR = 4096;  // beyond every tile
__device__ int clipped(long long x) {{ return x > FAR ? FAR : x < -FAR ? -FAR : static_cast<int>(x); }}

// The scores whose query attends to their key, in tiles of the rows of a block: of queries, or of keys if BY_KEY.
template <bool BY_KEY> struct Attended {{
  const Geometry& g;
  const bool* const mask;
  const int first;  // row
  int begin, end;   // the columns between which all scores count

  __device__ Attended(const Geometry& geometry, const bool* allowed, int row)
    : g(geometry), mask(allowed), first(row), begin(0), end(position(BY_KEY ? g.queries : g.keys)) {{
    const long long last = first + TILE_ROWS;
    if (mask || last > (BY_KEY ? g.keys : g.queries)) end = -1;
    else if (g.is_causal && BY_KEY) begin = position(last - 1 - g.offset);
    else if (g.is_causal) end = min(end, position(first + g.offset + 1));
  }}
  // The bits of a thread's scores, by ROWS and then EACH, in the tile from a column on.
  __device__ Bits operator()(int column) const {{
    if (column >= begin && column + COLUMNS <= end) return ALL;
    return some(BY_KEY ? column : first, BY_KEY ? first : column);
  }}
  __device__ Bits some(int first_query, int first_key) const {{
    const int queries = clipped(g.queries - first_query), keys = clipped(g.keys - first_key);
    const int ahead = g.is_causal ? clipped(first_query + g.offset - first_key) : FAR;  // of a query, the keys' limit
    const bool* const from = mask + first_query * g.mask.row + first_key * g.mask_key;
    Bits bits = 0;
    #pragma unroll 1
    for (int i = 0; i < ROWS; i++)
      for (int j = 0; j < EACH; j++) {{
        const int query = BY_KEY ? column<PAIR>(j) : row(i), key = BY_KEY ? row(i) : column<PAIR>(j);
        const bool inside = query < queries && key < keys && key <= query + ahead;
        if (inside && (!mask || from[query * g.mask.row + key * g.mask_key])) bits |= Bits(1) << (i * EACH + j);
      }}
    return bits;
  }}
}};

// Replaces numbers of scores that do not count.
__device__ void exclude(S (&numbers)[ROWS][EACH], Bits bits, S by) {{
  if (bits == ALL) return;
  #pragma unroll
  for (int i = 0; i < ROWS; i++)
    #pragma unroll
    for (int j = 0; j < EACH; j++)
      if (!(bits >> (i * EACH + j) & 1)) numbers[i][j] = by;
}}

// The statistics of a head's queries, in copies of 16 bytes.
__device__ long long padded(long long queries) {{ return (queries + PADDED - 1) / PADDED * PADDED; }}

// The keys before the first one that no query of a tile attends to.
__device__ int end_of_keys(const Geometry& g, int first) {{
  const int end = position(g.keys);
  return g.is_causal ? min(end, position(first + TILE_ROWS + g.offset)) : end;
}}

// Over the threads of a row.
__device__ S total(S x) {{
  for (int apart = LANES / 2; apart > 0; apart /= 2) x += __shfl_xor_sync(0xffffffff, x, apart);
  return x;
}}
__device__ S maximum(S x) {{
  for (int apart = LANES / 2; apart > 0; apart /= 2) x = fmax(x, __shfl_xor_sync(0xffffffff, x, apart));
  return x;
}}

// The running maximum of a row, and what is subtracted of its scores: the maximum, if that is finite.
struct Largest {{
  S value, shift;
  __device__ Largest() : value(MINUS_INFINITY), shift(0) {{}}
  // Raises the maximum to a new one, and returns the factor of the sums so far.
  __device__ S raise(S other) {{
    const S before = value, old = shift;
    value = fmax(value, other), shift = value - value == S(0) ? value : S(0);
    return before == MINUS_INFINITY ? S(0) : power(old - shift);
  }}
  __device__ S logsumexp(S sum) const {{ return sum == S(0) ? S(0) : shift / UNIT + log(sum); }}
}};

// Replaces scores by their exponentials, adds those to the sums, and scales these and earlier products as the largest
// scores grow.
template <int COUNT>
__device__ void exponentials(S (&scores)[ROWS][EACH], Bits bits, S scale, Largest (&largest)[ROWS], S (&sums)[ROWS],
                             S (&products)[ROWS][COUNT]) {{
  #pragma unroll
  for (int i = 0; i < ROWS; i++)
    #pragma unroll
    for (int j = 0; j < EACH; j++) scores[i][j] *= scale;
  exclude(scores, bits, MINUS_INFINITY);
  #pragma unroll
  for (int i = 0; i < ROWS; i++) {{
    S most = scores[i][0];
    #pragma unroll
    for (int j = 1; j < EACH; j++) most = fmax(most, scores[i][j]);
    const S again = largest[i].raise(maximum(most));
    sums[i] *= again;
    #pragma unroll
    for (int n = 0; n < COUNT; n++) products[i][n] *= again;
    #pragma unroll
    for (int j = 0; j < EACH; j++) sums[i] += scores[i][j] = power(scores[i][j] - largest[i].shift);
  }}
}}

template <int WIDTH, typename X>
__device__ void store(X* into, long long step, long long first, long long rows, long long size,
                      const S (&sums)[ROWS][WIDTH / LANES], S factor = 1) {{
  struct __align__(RUN * sizeof(X)) Run {{ X x[RUN]; }};
  const size_t places = reinterpret_cast<size_t>(into) | static_cast<size_t>(step * sizeof(X));
  const bool whole = places % sizeof(Run) == 0 && size % RUN == 0;
  #pragma unroll
  for (int i = 0; i < ROWS; i++)
    #pragma unroll
    for (int n = 0; n < WIDTH / LANES; n += RUN) {{
      const long long line = first + row(i);
      const int at = column<RUN>(n);
      if (line >= rows || at >= size) continue;
      Run run;
      for (int e = 0; e < RUN; e++) run.x[e] = X(sums[i][n + e] * factor);
      if (whole) *reinterpret_cast<Run*>(into + line * step + at) = run;
      else for (int e = 0; e < RUN && at + e < size; e++) into[line * step + at + e] = run.x[e];
    }}
}}
"""

_BOUNDS = 'extern "C" __global__ __launch_bounds__(32 * WARPS, BLOCKS) void'

_FORWARD = f"""
{_BOUNDS} burnpy_attention(const T* q, const T* k, const T* v, const bool* mask, O* out, O* logsumexps,
                           double factor, Geometry g) {{
  extern __shared__ __align__(16) unsigned char memory[];
  M* const queries = reinterpret_cast<M*>(memory);
  M* const keys = queries + TILE_ROWS * pitch(SIZE);
  M* const values = keys + STAGES * COLUMNS * pitch(SIZE);
  S* const shared = reinterpret_cast<S*>(values + STAGES * COLUMNS * pitch(VALUES));
  const Place place(g.queries, true);
  const S scale = static_cast<S>(factor) * UNIT;
  k = place.of(k, g.k, g), v = place.of(v, g.v, g), mask = mask ? place.of(mask, g.mask, g) : mask;
  load<TILE_ROWS, SIZE>(queries, place.of(q, g.q, g) + place.first * g.q.row, g.q.row, g.queries - place.first, g.size);
  burnpy_end_group();
  settle<TILE_ROWS, SIZE>(queries);
  Largest largest[ROWS];
  S sums[ROWS] = {{}}, products[ROWS][VALUES / LANES] = {{}};
  const Attended<false> counted(g, mask, place.first);
  const auto copy = [&](int key, int stage) {{
    load<COLUMNS, SIZE>(keys + stage * COLUMNS * pitch(SIZE), k + key * g.k.row, g.k.row, g.keys - key, g.size);
    load<COLUMNS, VALUES>(values + stage * COLUMNS * pitch(VALUES), v + key * g.v.row, g.v.row, g.keys - key, g.values);
  }};
  const auto rounded = [&](int stage) {{
    settle<COLUMNS, SIZE>(keys + stage * COLUMNS * pitch(SIZE));
    settle<COLUMNS, VALUES>(values + stage * COLUMNS * pitch(VALUES));
  }};
  over_tiles(0, end_of_keys(g, place.first), counted, copy, rounded, [&](Bits bits, int stage) {{
    S scores[ROWS][EACH];
    multiply<SIZE>(scores, queries, keys + stage * COLUMNS * pitch(SIZE));
    exponentials(scores, bits, scale, largest, sums, products);
    weigh<VALUES>(products, scores, values + stage * COLUMNS * pitch(VALUES), shared);
  }});
  #pragma unroll
  for (int i = 0; i < ROWS; i++) {{
    const S sum = total(sums[i]), inverse = sum == S(0) ? S(0) : S(1) / sum;
    #pragma unroll
    for (int n = 0; n < VALUES / LANES; n++) products[i][n] *= inverse;
    const long long query = place.first + row(i);
    if (threadIdx.x % LANES == 0 && query < g.queries)
      logsumexps[place.head * g.queries + query] = O(largest[i].logsumexp(sum));
  }}
  store<VALUES>(place.of(out, g.out, g), g.out.row, place.first, g.queries, g.values, products);
}}
"""

_TILES_OF_BOTH = """
  extern __shared__ __align__(16) unsigned char memory[];
  constexpr int WIDEST = SIZE > VALUES ? SIZE : VALUES;
  M* const rows = reinterpret_cast<M*>(memory);  // of the two operands of scores, and those of their gradients
  M* const value_rows = rows + TILE_ROWS * pitch(WIDEST);
  M* const columns = value_rows + TILE_ROWS * pitch(VALUES);
  M* const value_columns = columns + STAGES * COLUMNS * pitch(SIZE);
  S* const shared = reinterpret_cast<S*>(value_columns + STAGES * COLUMNS * pitch(VALUES));
  const S scale = static_cast<S>(factor) * UNIT;
  const auto settled = [&](int stage) {
    settle<COLUMNS, SIZE>(columns + stage * COLUMNS * pitch(SIZE));
    settle<COLUMNS, VALUES>(value_columns + stage * COLUMNS * pitch(VALUES));
  };
"""

_GRAD_QUERY = f"""
{_BOUNDS} burnpy_attention_grad_query(const T* q, const T* k, const T* v, const T* out, const T* grad, const bool* mask,
                                    O* grad_q, S* statistics, long long count, double factor, Geometry g) {{
  {_TILES_OF_BOTH}
  const Place place(g.queries, true);
  k = place.of(k, g.k, g), v = place.of(v, g.v, g), mask = mask ? place.of(mask, g.mask, g) : mask;
  const long long left = g.queries - place.first;
  load<TILE_ROWS, VALUES>(rows, place.of(out, g.out, g) + place.first * g.out.row, g.out.row, left, g.values);
  load<TILE_ROWS, VALUES>(value_rows, place.of(grad, g.grad, g) + place.first * g.grad.row, g.grad.row, left, g.values);
  burnpy_end_group();
  settle<TILE_ROWS, VALUES>(value_rows);
  arrived();
  Largest largest[ROWS];
  S level[ROWS] = {{}}, weights[ROWS] = {{}}, sums[ROWS][SIZE / LANES] = {{}};
  #pragma unroll
  for (int i = 0; i < ROWS; i++) {{
    for (int n = threadIdx.x % LANES; n < VALUES; n += LANES)
      level[i] = fma(S(value_rows[row(i) * pitch(VALUES) + n]), S(rows[row(i) * pitch(VALUES) + n]), level[i]);
    level[i] = total(level[i]);
  }}
  __syncthreads();
  load<TILE_ROWS, SIZE>(rows, place.of(q, g.q, g) + place.first * g.q.row, g.q.row, left, g.size);
  burnpy_end_group();
  settle<TILE_ROWS, SIZE>(rows);
  const Attended<false> counted(g, mask, place.first);
  const auto copy = [&](int key, int stage) {{
    load<COLUMNS, SIZE>(columns + stage * COLUMNS * pitch(SIZE), k + key * g.k.row, g.k.row, g.keys - key, g.size);
    load<COLUMNS, VALUES>(
      value_columns + stage * COLUMNS * pitch(VALUES), v + key * g.v.row, g.v.row, g.keys - key, g.values);
  }};
  over_tiles(0, end_of_keys(g, place.first), counted, copy, settled, [&](Bits bits, int stage) {{
    S grad_score[ROWS][EACH], grad_weight[ROWS][EACH];
    multiply<SIZE>(grad_score, rows, columns + stage * COLUMNS * pitch(SIZE));
    multiply<VALUES>(grad_weight, value_rows, value_columns + stage * COLUMNS * pitch(VALUES));
    exponentials(grad_score, bits, scale, largest, weights, sums);
    #pragma unroll
    for (int i = 0; i < ROWS; i++)
      #pragma unroll
      for (int j = 0; j < EACH; j++) grad_score[i][j] *= grad_weight[i][j] - level[i];
    exclude(grad_score, bits, 0);
    weigh<SIZE>(sums, grad_score, columns + stage * COLUMNS * pitch(SIZE), shared);
  }});
  #pragma unroll
  for (int i = 0; i < ROWS; i++) {{
    const S sum = total(weights[i]), inverse = sum == S(0) ? S(0) : S(1) / sum + (sum - sum);  // NaN of infinite ones
    #pragma unroll
    for (int n = 0; n < SIZE / LANES; n++) sums[i][n] *= inverse;
    const long long query = place.first + row(i), at = place.head * padded(g.queries) + query;
    if (threadIdx.x % LANES == 0 && query < g.queries)
      statistics[at] = largest[i].shift, statistics[count + at] = inverse, statistics[2 * count + at] = level[i];
  }}
  grad_q = place.of(grad_q, g.grad_q, g);
  store<SIZE>(grad_q, g.grad_q.row, place.first, g.queries, g.size, sums, static_cast<S>(factor));
}}
"""

_GRAD_KEY = f"""
template <bool BY_KEY, bool BY_VALUE>
__device__ void grad_key_or_value(const T* q, const T* k, const T* v, const T* grad, const bool* mask, O* grad_k,
                                  O* grad_v, const S* statistics, long long count, double factor, const Geometry& g) {{
  {_TILES_OF_BOTH}
  S* const columns_statistics = shared + WEIGHTS;
  const Place place(g.keys, false);
  q = place.of(q, g.q, g), grad = place.of(grad, g.grad, g), mask = mask ? place.of(mask, g.mask, g) : mask;
  const long long left = g.keys - place.first;
  statistics += place.head * padded(g.queries);
  load<TILE_ROWS, SIZE>(rows, place.of(k, g.k, g) + place.first * g.k.row, g.k.row, left, g.size);
  if (BY_KEY)
    load<TILE_ROWS, VALUES>(value_rows, place.of(v, g.v, g) + place.first * g.v.row, g.v.row, left, g.values);
  burnpy_end_group();
  settle<TILE_ROWS, SIZE>(rows);
  if (BY_KEY) settle<TILE_ROWS, VALUES>(value_rows);
  S key_sums[ROWS][BY_KEY ? SIZE / LANES : 1] = {{}}, value_sums[ROWS][BY_VALUE ? VALUES / LANES : 1] = {{}};
  const int begin = g.is_causal && place.first > g.offset ? position(place.first - g.offset) / COLUMNS * COLUMNS : 0;
  const Attended<true> counted(g, mask, place.first);
  const auto copy = [&](int query, int stage) {{
    const long long left = g.queries - query;
    load<COLUMNS, SIZE>(columns + stage * COLUMNS * pitch(SIZE), q + query * g.q.row, g.q.row, left, g.size);
    load<COLUMNS, VALUES>(
      value_columns + stage * COLUMNS * pitch(VALUES), grad + query * g.grad.row, g.grad.row, left, g.values);
    constexpr int PART = 16 / sizeof(S), PARTS = COLUMNS / PART;
    for (int n = threadIdx.x; n < 3 * PARTS; n += THREADS)
      burnpy_copy_later(columns_statistics + (stage * 3 * PARTS + n) * PART,
                        statistics + n / PARTS * count + query + n % PARTS * PART);
  }};
  over_tiles(begin, position(g.queries), counted, copy, settled, [&](Bits bits, int stage) {{
    const M* const tile = columns + stage * COLUMNS * pitch(SIZE);
    const M* const value_tile = value_columns + stage * COLUMNS * pitch(VALUES);
    const S* const shifts = columns_statistics + stage * 3 * COLUMNS;
    S weights[ROWS][EACH], grad_score[ROWS][EACH];
    multiply<SIZE>(weights, rows, tile);
    if (BY_KEY) multiply<VALUES>(grad_score, value_rows, value_tile);
    #pragma unroll
    for (int j = 0; j < EACH; j++) {{
      const int at = column<PAIR>(j);
      const S shift = shifts[at], inverse = shifts[COLUMNS + at], level = shifts[2 * COLUMNS + at];
      #pragma unroll
      for (int i = 0; i < ROWS; i++) {{
        weights[i][j] = power(weights[i][j] * scale - shift) * inverse;
        if (BY_KEY) grad_score[i][j] = weights[i][j] * (grad_score[i][j] - level);
      }}
    }}
    if constexpr (BY_VALUE) {{
      exclude(weights, bits, 0);
      weigh<VALUES>(value_sums, weights, value_tile, shared);
    }}
    if constexpr (BY_KEY) {{
      exclude(grad_score, bits, 0);
      weigh<SIZE>(key_sums, grad_score, tile, shared);
    }}
  }});
  grad_k = place.of(grad_k, g.grad_k, g), grad_v = place.of(grad_v, g.grad_v, g);
  if constexpr (BY_KEY)
    store<SIZE>(grad_k, g.grad_k.row, place.first, g.keys, g.size, key_sums, static_cast<S>(factor));
  if constexpr (BY_VALUE) store<VALUES>(grad_v, g.grad_v.row, place.first, g.keys, g.values, value_sums);
}}

{_BOUNDS} burnpy_attention_grad_key(const T* q, const T* k, const T* v, const T* grad, const bool* mask, O* grad_k,
                                    O* grad_v, const S* statistics, long long count, double factor, Geometry g) {{
#if SLICES == 1
  grad_key_or_value<true, true>(q, k, v, grad, mask, grad_k, grad_v, statistics, count, factor, g);
#else  // registers suffice for the sums of one gradient
  if (blockIdx.y) grad_key_or_value<false, true>(q, k, v, grad, mask, grad_k, grad_v, statistics, count, factor, g);
  else grad_key_or_value<true, false>(q, k, v, grad, mask, grad_k, grad_v, statistics, count, factor, g);
#endif
}}
"""


ATTENTION = {
    "burnpy_attention": Raw(TILES + _GEOMETRY + _FORWARD),
    "burnpy_attention_grad_query": Raw(TILES + _GEOMETRY + _GRAD_QUERY),
    "burnpy_attention_grad_key": Raw(TILES + _GEOMETRY + _GRAD_KEY),
}
"""Kernels by name, for operands of the type T, sums S and results O; see `tiling` for their constants."""
