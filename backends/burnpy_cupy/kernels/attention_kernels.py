"""The kernels of attention: the result, the gradient by queries, and the gradients by keys and values.

For a query's scores s, with minus infinity for keys that it does not attend to::

    m = max s · scale,  z = Σ exp(s · scale - m)
    weight = exp(s · scale - m) / z,  logsumexp = m + log z                     (0 for a query without keys)
    by_score = weight · (by_weight - Σ weight · by_weight) · scale              (backward)
    Σ weight · by_weight = grad · out                                           (the products of two rows)

A block has the queries of a tile and goes over the keys in tiles. It keeps the largest score so far, and scales its
sums whenever that grows, so that no more than a tile of scores ever exists. Tiles that no query of the block attends to
are skipped. The kernel of the gradient by queries computes three products, with weights exp(s · scale - logsumexp).
They add up to 1 only as exactly as large scores are rounded, so it divides by their sum, which it leaves to the third
kernel. There a block has a tile of keys, goes over the queries, and computes four products; those of wide heads are
divided between two blocks, and both compute the weights. Each element is summed by one thread in one order, so
gradients are the same in every run.

Sources: Milakov and Gimelshein, Online Normalizer Calculation for Softmax, 2018; Dao, FlashAttention-2, 2023, whose
backward pass adds up the gradient by queries in any order, for five products instead of seven.
"""

from __future__ import annotations

from burnpy_cupy.kernels.attention_tiles import TILES
from burnpy_cupy.kernels.kernel import Raw

ARRAYS = ("q", "k", "v", "out", "grad", "by_q", "by_k", "by_v", "mask")
"""The arrays whose strides kernels get."""

SIZES = ("middle", "inner", "queries", "keys", "size", "values", "is_causal", "offset", "mask_key")
"""The further arguments of the kernels: the numbers of heads, sizes, and the settings of the mask."""

_GEOMETRY = f"""
struct Strides {{ long long outer, middle, inner, row; }};  // of three dimensions of heads, and of queries or keys
struct Geometry {{
  Strides {", ".join(ARRAYS)};
  long long {", ".join(SIZES)};
}};

// Where a block computes: its head, and the first row of its tile. The last tiles come first: causal ones take longest.
struct Place {{
  long long head, first;
  __device__ Place(long long rows) {{
    const long long tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    head = blockIdx.x / tiles, first = (tiles - 1 - blockIdx.x % tiles) * TILE_ROWS;
  }}
  template <typename X> __device__ X* of(X* array, const Strides& steps, const Geometry& g) const {{
    const long long outer = head / (g.middle * g.inner), middle = head / g.inner % g.middle, inner = head % g.inner;
    return array + outer * steps.outer + middle * steps.middle + inner * steps.inner;
  }}
}};

constexpr int FAR = 4096;  // beyond every tile
__device__ int clipped(long long x) {{ return x > FAR ? FAR : x < -FAR ? -FAR : static_cast<int>(x); }}

// The bits of the scores of a tile, by ROWS and then EACH, whose query attends to their key: often to all of a tile.
__device__ unsigned attended(const Geometry& g, const bool* mask, long long first_query, long long first_key,
                             bool by_key) {{
  const int queries = clipped(g.queries - first_query), keys = clipped(g.keys - first_key);
  const int ahead = g.is_causal ? clipped(first_query + g.offset - first_key) : FAR;  // of a query, the keys' limit
  const int tile_queries = by_key ? COLUMNS : TILE_ROWS, tile_keys = by_key ? TILE_ROWS : COLUMNS;
  if (!mask && queries >= tile_queries && keys >= tile_keys && ahead >= tile_keys - 1) return ~0u >> (32 - ROWS * EACH);
  if (mask) mask += first_query * g.mask.row + first_key * g.mask_key;
  unsigned bits = 0;
  #pragma unroll
  for (int i = 0; i < ROWS; i++)
    #pragma unroll
    for (int j = 0; j < EACH; j++) {{
      const int query = by_key ? column<PAIR>(j) : row(i), key = by_key ? row(i) : column<PAIR>(j);
      const bool inside = query < queries && key < keys && key <= query + ahead;
      if (inside && (!mask || mask[query * g.mask.row + key * g.mask_key])) bits |= 1u << (i * EACH + j);
    }}
  return bits;
}}
__device__ bool has(unsigned bits, int i, int j) {{ return bits >> (i * EACH + j) & 1; }}

// The keys before the first one that no query of a tile attends to.
__device__ long long end_of_keys(const Geometry& g, long long first) {{
  const long long end = first + TILE_ROWS + g.offset;
  return g.is_causal && end < g.keys ? end : g.keys;
}}

// Over the threads of a row.
__device__ S total(S x) {{
  for (int apart = LANES / 2; apart > 0; apart /= 2) x += __shfl_xor_sync(0xffffffff, x, apart);
  return x;
}}
__device__ S maximum(S x) {{
  for (int apart = LANES / 2; apart > 0; apart /= 2) {{
    const S other = __shfl_xor_sync(0xffffffff, x, apart);
    x = other > x ? other : x;
  }}
  return x;
}}

// The running maximum of a row, and what is subtracted of its scores: the maximum, if that is finite.
struct Largest {{
  S value, shift;
  __device__ Largest() : value(MINUS_INFINITY), shift(0) {{}}
  // Raises the maximum to a new one, and returns the factor of the sums so far.
  __device__ S raise(S other) {{
    if (!(other > value)) return 1;
    const S before = value, old = shift;
    value = other, shift = other - other == S(0) ? other : S(0);
    return before == MINUS_INFINITY ? S(0) : power(old - shift);
  }}
  __device__ S logsumexp(S sum) const {{ return sum == S(0) ? S(0) : shift + log(sum); }}
}};

// Replaces scores by their exponentials, adds those to the sums, and returns the factors of earlier exponentials.
__device__ void exponentials(S (&scores)[ROWS][EACH], unsigned bits, S scale, Largest (&largest)[ROWS],
                             S (&sums)[ROWS], S (&again)[ROWS]) {{
  #pragma unroll
  for (int i = 0; i < ROWS; i++) {{
    S most = MINUS_INFINITY;
    #pragma unroll
    for (int j = 0; j < EACH; j++) {{
      scores[i][j] = has(bits, i, j) ? scores[i][j] * scale : MINUS_INFINITY;
      if (scores[i][j] > most) most = scores[i][j];
    }}
    sums[i] *= again[i] = largest[i].raise(maximum(most));
    #pragma unroll
    for (int j = 0; j < EACH; j++) sums[i] += scores[i][j] = power(scores[i][j] - largest[i].shift);
  }}
}}

template <int WIDTH, typename X>
__device__ void store(X* into, long long step, long long first, long long rows, long long size,
                      const S (&sums)[ROWS][WIDTH / LANES]) {{
  #pragma unroll
  for (int i = 0; i < ROWS; i++)
    #pragma unroll
    for (int n = 0; n < WIDTH / LANES; n++) {{
      const long long line = first + row(i);
      const int at = column<RUN>(n);
      if (line < rows && at < size) into[line * step + at] = X(sums[i][n]);
    }}
}}
"""

_BOUNDS = 'extern "C" __global__ __launch_bounds__(128) void'

_FORWARD = f"""
{_BOUNDS} burnpy_attention(const T* q, const T* k, const T* v, const bool* mask, O* out, L* logsumexps,
                           double factor, Geometry g) {{
  extern __shared__ __align__(16) unsigned char memory[];
  M* const queries = reinterpret_cast<M*>(memory);
  M* const keys = queries + TILE_ROWS * pitch(SIZE);
  M* const values = keys + STAGES * COLUMNS * pitch(SIZE);
  S* const shared = reinterpret_cast<S*>(values + STAGES * COLUMNS * pitch(VALUES));
  const Place place(g.queries);
  const S scale = static_cast<S>(factor);
  k = place.of(k, g.k, g), v = place.of(v, g.v, g), mask = mask ? place.of(mask, g.mask, g) : mask;
  load<TILE_ROWS, SIZE>(queries, place.of(q, g.q, g) + place.first * g.q.row, g.q.row, g.queries - place.first, g.size);
  Largest largest[ROWS];
  S sums[ROWS] = {{}}, products[ROWS][VALUES / LANES] = {{}};
  const auto counted = [&](long long key) {{ return attended(g, mask, place.first, key, false); }};
  const auto copy = [&](long long key, int stage) {{
    load<COLUMNS, SIZE>(keys + stage * COLUMNS * pitch(SIZE), k + key * g.k.row, g.k.row, g.keys - key, g.size);
    load<COLUMNS, VALUES>(values + stage * COLUMNS * pitch(VALUES), v + key * g.v.row, g.v.row, g.keys - key, g.values);
  }};
  over_tiles(0, end_of_keys(g, place.first), counted, copy, [&](long long, unsigned bits, int stage) {{
    S scores[ROWS][EACH], again[ROWS];
    multiply<SIZE>(scores, queries, keys + stage * COLUMNS * pitch(SIZE));
    exponentials(scores, bits, scale, largest, sums, again);
    #pragma unroll
    for (int i = 0; i < ROWS; i++)
      #pragma unroll
      for (int n = 0; n < VALUES / LANES; n++) products[i][n] *= again[i];
    weigh<VALUES>(products, scores, values + stage * COLUMNS * pitch(VALUES), shared);
  }});
  #pragma unroll
  for (int i = 0; i < ROWS; i++) {{
    const S sum = total(sums[i]), divisor = sum == S(0) ? S(1) : sum;
    #pragma unroll
    for (int n = 0; n < VALUES / LANES; n++) products[i][n] /= divisor;
    const long long query = place.first + row(i);
    if (threadIdx.x % LANES == 0 && query < g.queries)
      logsumexps[place.head * g.queries + query] = L(largest[i].logsumexp(sum));
  }}
  store<VALUES>(place.of(out, g.out, g), g.out.row, place.first, g.queries, g.values, products);
}}
"""

_TILES_OF_BOTH = """
  extern __shared__ __align__(16) unsigned char memory[];
  M* const rows = reinterpret_cast<M*>(memory);  // of the two operands of scores, and those of their gradients
  M* const value_rows = rows + TILE_ROWS * pitch(SIZE);
  M* const columns = value_rows + TILE_ROWS * pitch(VALUES);
  M* const value_columns = columns + STAGES * COLUMNS * pitch(SIZE);
  S* const shared = reinterpret_cast<S*>(value_columns + STAGES * COLUMNS * pitch(VALUES));
  const S scale = static_cast<S>(factor);
"""

_BY_QUERY = f"""
{_BOUNDS} burnpy_attention_by_query(const T* q, const T* k, const T* v, const T* out, const T* grad, const bool* mask,
                                    const L* logsumexps, O* by_q, S* statistics, long long count, double factor,
                                    Geometry g) {{
  {_TILES_OF_BOTH}
  const Place place(g.queries);
  k = place.of(k, g.k, g), v = place.of(v, g.v, g), mask = mask ? place.of(mask, g.mask, g) : mask;
  out = place.of(out, g.out, g);
  const long long left = g.queries - place.first, end = end_of_keys(g, place.first);
  load<TILE_ROWS, SIZE>(rows, place.of(q, g.q, g) + place.first * g.q.row, g.q.row, left, g.size);
  load<TILE_ROWS, VALUES>(value_rows, place.of(grad, g.grad, g) + place.first * g.grad.row, g.grad.row, left, g.values);
  end_group();
  S logs[ROWS], level[ROWS], weights[ROWS] = {{}}, sums[ROWS][SIZE / LANES] = {{}};
  const auto counted = [&](long long key) {{ return attended(g, mask, place.first, key, false); }};
  const auto copy_keys = [&](long long key, int stage) {{
    load<COLUMNS, SIZE>(columns + stage * COLUMNS * pitch(SIZE), k + key * g.k.row, g.k.row, g.keys - key, g.size);
  }};
  if (sizeof(L) < sizeof(S)) {{  // logsumexps of 16 bits are off by more than exp can take
    Largest largest[ROWS];
    over_tiles(0, end, counted, copy_keys, [&](long long, unsigned bits, int stage) {{
      S scores[ROWS][EACH], again[ROWS];
      multiply<SIZE>(scores, rows, columns + stage * COLUMNS * pitch(SIZE));
      exponentials(scores, bits, scale, largest, weights, again);
    }});
    #pragma unroll
    for (int i = 0; i < ROWS; i++) logs[i] = largest[i].logsumexp(total(weights[i])), weights[i] = 0;
  }}
  arrived<0>();
  #pragma unroll
  for (int i = 0; i < ROWS; i++) {{
    const long long query = place.first + row(i);
    const bool inside = query < g.queries;
    if (sizeof(L) >= sizeof(S)) logs[i] = inside ? S(logsumexps[place.head * g.queries + query]) : S(0);
    level[i] = 0;
    for (int n = threadIdx.x % LANES; n < g.values && inside; n += LANES)
      level[i] = fma(S(value_rows[row(i) * pitch(VALUES) + n]), S(out[query * g.out.row + n]), level[i]);
    level[i] = total(level[i]);
  }}
  const auto copy = [&](long long key, int stage) {{
    copy_keys(key, stage);
    load<COLUMNS, VALUES>(
      value_columns + stage * COLUMNS * pitch(VALUES), v + key * g.v.row, g.v.row, g.keys - key, g.values);
  }};
  over_tiles(0, end, counted, copy, [&](long long, unsigned bits, int stage) {{
    S by_score[ROWS][EACH], by_weight[ROWS][EACH];
    multiply<SIZE>(by_score, rows, columns + stage * COLUMNS * pitch(SIZE));
    multiply<VALUES>(by_weight, value_rows, value_columns + stage * COLUMNS * pitch(VALUES));
    #pragma unroll
    for (int i = 0; i < ROWS; i++)
      #pragma unroll
      for (int j = 0; j < EACH; j++) {{
        const bool counts = has(bits, i, j);
        const S weight = counts ? power(by_score[i][j] * scale - logs[i]) : S(0);
        weights[i] += weight;
        by_score[i][j] = counts ? weight * (by_weight[i][j] - level[i]) * scale : S(0);
      }}
    weigh<SIZE>(sums, by_score, columns + stage * COLUMNS * pitch(SIZE), shared);
  }});
  #pragma unroll
  for (int i = 0; i < ROWS; i++) {{
    const S sum = total(weights[i]), inverse = sum == S(0) ? S(0) : S(1) / sum;
    #pragma unroll
    for (int n = 0; n < SIZE / LANES; n++) sums[i][n] *= inverse;
    const long long query = place.first + row(i), at = place.head * g.queries + query;
    if (threadIdx.x % LANES == 0 && query < g.queries)
      statistics[at] = logs[i], statistics[count + at] = inverse, statistics[2 * count + at] = level[i];
  }}
  store<SIZE>(place.of(by_q, g.by_q, g), g.by_q.row, place.first, g.queries, g.size, sums);
}}
"""

_BY_KEY = f"""
template <bool BY_KEY, bool BY_VALUE>
__device__ void by_key_or_value(const T* q, const T* k, const T* v, const T* grad, const bool* mask, O* by_k, O* by_v,
                                const S* statistics, long long count, double factor, const Geometry& g) {{
  {_TILES_OF_BOTH}
  const Place place(g.keys);
  q = place.of(q, g.q, g), grad = place.of(grad, g.grad, g), mask = mask ? place.of(mask, g.mask, g) : mask;
  const long long left = g.keys - place.first;
  statistics += place.head * g.queries;
  load<TILE_ROWS, SIZE>(rows, place.of(k, g.k, g) + place.first * g.k.row, g.k.row, left, g.size);
  if (BY_KEY)
    load<TILE_ROWS, VALUES>(value_rows, place.of(v, g.v, g) + place.first * g.v.row, g.v.row, left, g.values);
  S key_sums[ROWS][BY_KEY ? SIZE / LANES : 1] = {{}}, value_sums[ROWS][BY_VALUE ? VALUES / LANES : 1] = {{}};
  const long long begin = g.is_causal && place.first > g.offset ? (place.first - g.offset) / COLUMNS * COLUMNS : 0;
  const auto counted = [&](long long query) {{ return attended(g, mask, query, place.first, true); }};
  const auto copy = [&](long long query, int stage) {{
    const long long left = g.queries - query;
    load<COLUMNS, SIZE>(columns + stage * COLUMNS * pitch(SIZE), q + query * g.q.row, g.q.row, left, g.size);
    load<COLUMNS, VALUES>(
      value_columns + stage * COLUMNS * pitch(VALUES), grad + query * g.grad.row, g.grad.row, left, g.values);
  }};
  over_tiles(begin, g.queries, counted, copy, [&](long long query, unsigned bits, int stage) {{
    const M* const tile = columns + stage * COLUMNS * pitch(SIZE);
    const M* const value_tile = value_columns + stage * COLUMNS * pitch(VALUES);
    S weights[ROWS][EACH], by_score[ROWS][EACH];
    multiply<SIZE>(weights, rows, tile);
    if (BY_KEY) multiply<VALUES>(by_score, value_rows, value_tile);
    #pragma unroll
    for (int j = 0; j < EACH; j++) {{
      const long long other = query + column<PAIR>(j) < g.queries ? query + column<PAIR>(j) : 0;
      const S log = statistics[other], inverse = statistics[count + other], level = statistics[2 * count + other];
      #pragma unroll
      for (int i = 0; i < ROWS; i++) {{
        const bool counts = has(bits, i, j);
        weights[i][j] = counts ? power(weights[i][j] * scale - log) * inverse : S(0);
        if (BY_KEY) by_score[i][j] = counts ? weights[i][j] * (by_score[i][j] - level) * scale : S(0);
      }}
    }}
    if constexpr (BY_VALUE) weigh<VALUES>(value_sums, weights, value_tile, shared);
    if constexpr (BY_KEY) weigh<SIZE>(key_sums, by_score, tile, shared);
  }});
  by_k = place.of(by_k, g.by_k, g), by_v = place.of(by_v, g.by_v, g);
  if constexpr (BY_KEY) store<SIZE>(by_k, g.by_k.row, place.first, g.keys, g.size, key_sums);
  if constexpr (BY_VALUE) store<VALUES>(by_v, g.by_v.row, place.first, g.keys, g.values, value_sums);
}}

{_BOUNDS} burnpy_attention_by_key(const T* q, const T* k, const T* v, const T* grad, const bool* mask, O* by_k, O* by_v,
                                  const S* statistics, long long count, double factor, Geometry g) {{
#if SLICES == 1
  by_key_or_value<true, true>(q, k, v, grad, mask, by_k, by_v, statistics, count, factor, g);
#else  // registers suffice for the sums of one gradient
  if (blockIdx.y) by_key_or_value<false, true>(q, k, v, grad, mask, by_k, by_v, statistics, count, factor, g);
  else by_key_or_value<true, false>(q, k, v, grad, mask, by_k, by_v, statistics, count, factor, g);
#endif
}}
"""


ATTENTION = {
    "burnpy_attention": Raw(TILES + _GEOMETRY + _FORWARD),
    "burnpy_attention_by_query": Raw(TILES + _GEOMETRY + _BY_QUERY),
    "burnpy_attention_by_key": Raw(TILES + _GEOMETRY + _BY_KEY),
}
"""Kernels by name, for operands of the type T, sums S, results O and logsumexps L; see `tiling` for their constants."""
