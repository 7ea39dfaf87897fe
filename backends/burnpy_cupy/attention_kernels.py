"""Kernels of attention, between its products: the softmax of the scores, and its gradient.

For a row of scores s, with minus infinity for keys that the query does not attend to::

    m = max s · scale,  z = Σ exp(s · scale - m)
    weight = exp(s · scale - m) / z,  logsumexp = m + log z                     (0 for a query without keys)
    by_score = weight · (by_weight - Σ weight · by_weight) · scale              (backward)

One pass finds maximum and sums; it scales the sum whenever the maximum grows.

Source: Milakov and Gimelshein, Online Normalizer Calculation for Softmax, 2018.
"""

from __future__ import annotations

from burnpy_cupy.definitions import Raw

_ROW = """
// A warp computes a row: it reads and writes that row alone, a thread every 32nd element, and the partial sums of the
// threads are added in one order. So no two threads write one place, not even if the results replace the scores.
const long long row = blockIdx.x * static_cast<long long>(blockDim.x / 32) + threadIdx.x / 32;
if (row >= rows) return;
const int lane = threadIdx.x % 32;
const long long head = first_head + row / queries, query = first_query + row % queries;
const long long limit = is_causal && query + offset + 1 < keys ? query + offset + 1 : keys;
const bool* const allowed = mask ? mask + head / inner * stride_outer + head % inner * stride_inner
                                        + query * stride_query : mask;
scores += row * keys;
weights += row * keys;
"""
_ARGUMENTS = """
  const bool* mask, long long stride_outer, long long stride_inner, long long stride_query, long long stride_key,
  long long inner, long long rows, long long queries, long long keys, long long first_head, long long first_query,
  bool is_causal, long long offset, double factor"""

_FORWARD = f"""
extern "C" __global__ void burnpy_attention_weights(const S* scores, O* weights, L* logsumexps,{_ARGUMENTS}) {{
{_ROW}
const S scale = static_cast<S>(factor);
S largest = MINUS_INFINITY, sum = 0;
for (long long k = lane; k < limit; k += 32) {{
  const S score = scores[k] * scale;
  if (score == MINUS_INFINITY || (allowed && !allowed[k * stride_key])) continue;
  if (score > largest) sum = sum * exp(largest - score) + S(1), largest = score;
  else sum += exp(score - largest);
}}
for (int apart = 16; apart > 0; apart /= 2) {{
  const S other = __shfl_xor_sync(0xffffffff, largest, apart), their = __shfl_xor_sync(0xffffffff, sum, apart);
  const S most = other > largest ? other : largest;
  const S factor = most == largest ? S(1) : exp(largest - most);
  const S their_factor = most == other ? S(1) : exp(other - most);
  sum = sum * factor + their * their_factor, largest = most;
}}
const bool any = sum != S(0);
for (long long k = lane; k < keys; k += 32) {{
  const bool counts = any && k < limit && !(allowed && !allowed[k * stride_key]);
  weights[k] = O(static_cast<S>(counts ? exp(scores[k] * scale - largest) / sum : S(0)));
}}
if (lane == 0) logsumexps[row] = L(static_cast<S>(any ? largest + log(sum) : S(0)));
}}
"""

_BACKWARD = f"""
extern "C" __global__ void burnpy_attention_gradient(
  const S* scores, const S* by_weight, O* weights, O* by_score,{_ARGUMENTS}) {{
{_ROW}
const S scale = static_cast<S>(factor);
by_weight += row * keys;
by_score += row * keys;
S largest = MINUS_INFINITY, sum = 0, level = 0;
for (long long k = lane; k < limit; k += 32) {{
  const S score = scores[k] * scale;
  if (score == MINUS_INFINITY || (allowed && !allowed[k * stride_key])) continue;
  if (score > largest) {{
    const S factor = exp(largest - score);
    sum = sum * factor + S(1), level = level * factor + by_weight[k], largest = score;
  }} else {{
    const S part = exp(score - largest);
    sum += part, level += part * by_weight[k];
  }}
}}
for (int apart = 16; apart > 0; apart /= 2) {{
  const S other = __shfl_xor_sync(0xffffffff, largest, apart), their = __shfl_xor_sync(0xffffffff, sum, apart);
  const S their_level = __shfl_xor_sync(0xffffffff, level, apart);
  const S most = other > largest ? other : largest;
  const S factor = most == largest ? S(1) : exp(largest - most);
  const S their_factor = most == other ? S(1) : exp(other - most);
  sum = sum * factor + their * their_factor, level = level * factor + their_level * their_factor, largest = most;
}}
const bool any = sum != S(0);
level = any ? level / sum : S(0);
for (long long k = lane; k < keys; k += 32) {{
  const bool counts = any && k < limit && !(allowed && !allowed[k * stride_key]);
  const S weight = counts ? exp(scores[k] * scale - largest) / sum : S(0);
  const S difference = counts ? by_weight[k] - level : S(0);
  weights[k] = O(weight);
  by_score[k] = O(static_cast<S>(weight * difference * scale));
}}
}}
"""

ATTENTION = {
    "burnpy_attention_weights": Raw(_FORWARD),
    "burnpy_attention_gradient": Raw(_BACKWARD),
}
"""Kernels by name, for scores of the type S, results O, which may have 16 bits, and logsumexps L."""
