"""Attention as products by cuBLAS and one kernel between them.

As many heads and queries are computed at once as a limit of memory allows, so that the scores of long sequences never
all exist at once.

16-bit operands are multiplied in 16 bits with scores of float32, and the weights are rounded to 16 bits for the second
product. Gradients are computed from scores that are computed again.

Source: Dao et al., FlashAttention, 2022, whose order this follows for rows of scores instead of tiles.

Kernels of attention, between its products: the softmax of the scores, and its gradient.

For a row of scores s, with minus infinity for keys that the query does not attend to::

    m = max s · scale,  z = Σ exp(s · scale - m)
    weight = exp(s · scale - m) / z,  logsumexp = m + log z                     (0 for a query without keys)
    by_score = weight · (by_weight - Σ weight · by_weight) · scale              (backward)

One pass finds maximum and sums; it scales the sum whenever the maximum grows.

Source: Milakov and Gimelshein, Online Normalizer Calculation for Softmax, 2018.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.primitives import DType, Shape
from burnpy_cupy.gemm import batch_stride, multiply
from burnpy_cupy.kernels.dense import CuPyDense
from burnpy_cupy.kernels.library import Raw

_WARPS = 4
"""The number of rows of scores that a block of threads computes, one in each warp."""

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
extern "C" __global__ __launch_bounds__({32 * _WARPS}) void burnpy_attention_weights(
  const S* scores, O* weights, L* logsumexps,{_ARGUMENTS}) {{
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
extern "C" __global__ __launch_bounds__({32 * _WARPS}) void burnpy_attention_gradient(
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


class CuPyAttention(CuPyDense):
    """Attention in three launches and its gradient in six, for each block, and one for each operand to be copied."""

    def attention(self, q: Any, k: Any, v: Any, mask: Any, offset: int | None, scale: float) -> tuple[Any, Any]:
        return self._attention_as(q, k, v, mask, offset, scale, q.dtype)

    def _attention_as(
        self, q: Any, k: Any, v: Any, mask: Any, offset: int | None, scale: float, dtype: DType
    ) -> tuple[Any, Any]:
        out, total = self._call(_forward, self, q, k, v, mask, offset, scale, dtype)
        return out, total

    def attention_backward(
        self,
        grad: Any,
        q: Any,
        k: Any,
        v: Any,
        logsumexp: Any,
        mask: Any,
        offset: int | None,
        scale: float,
    ) -> tuple[Any, Any, Any]:
        return self._attention_backward_as(grad, q, k, v, logsumexp, mask, offset, scale, q.dtype)

    def _attention_backward_as(
        self,
        grad: Any,
        q: Any,
        k: Any,
        v: Any,
        logsumexp: Any,
        mask: Any,
        offset: int | None,
        scale: float,
        dtype: DType,
    ) -> tuple[Any, Any, Any]:
        by_q, by_k, by_v = self._call(_backward, self, grad, q, k, v, mask, offset, scale, dtype)
        return by_q, by_k, by_v


class _Block(NamedTuple):
    """Some heads, and some queries of each: all of them, if there are several heads."""

    heads: slice
    queries: slice

    @property
    def key(self) -> tuple[slice, slice]:
        """The key of the block in an array (heads, queries, …)."""
        return self.heads, self.queries


class _Scores:
    """The scores of all queries and keys, in blocks, and the kernels' arguments for each.

    Args:
        b: the backend.
        lead: the leading dimensions, whose product is the number of heads.
        queries: the number of queries.
        keys: the number of keys.
        mask: a mask that broadcasts to the scores, or None.
        offset: the offset of a causal mask, or None.
        scale: the factor of the scores.
        dtype: the dtype of the scores.
    """

    def __init__(
        self,
        b: CuPyAttention,
        lead: Shape,
        queries: int,
        keys: int,
        mask: Any,
        offset: int | None,
        scale: float,
        dtype: DType,
    ) -> None:
        self._b, self._queries, self._keys = b, queries, keys
        self._heads, self._dtype = math.prod(lead), dtype
        self._mask: Any = None
        strides: Shape = (0, 0, 0, 0)
        inner = 1
        if mask is not None:
            self._mask, strides, inner = _strided(b.xp, b.xp.broadcast_to(mask, (*lead, queries, keys)))
        self._strides = tuple(np.int64(n) for n in (*strides, inner))
        self._limits = np.bool_(offset is not None), np.int64(offset or 0), np.float64(scale)

    def blocks(self) -> Iterator[_Block]:
        """Yield blocks whose scores take no more memory than the backend's limit, if one query's do not."""
        fit = max(1, self._b._scores_bytes // (self._dtype.itemsize * self._keys))  # queries
        heads = max(1, fit // self._queries)
        queries = min(fit, self._queries)
        for head in range(0, self._heads, heads):
            for query in range(0, self._queries, queries):
                stops = min(head + heads, self._heads), min(query + queries, self._queries)
                yield _Block(slice(head, stops[0]), slice(query, stops[1]))

    def memory(self, block: _Block, dtype: DType | None = None) -> Any:
        """Allocate memory for the scores of a block, or for as many elements of another dtype."""
        heads, queries = (part.stop - part.start for part in block)
        return self._b.xp.empty((heads, queries, self._keys), dtype or self._dtype)

    def run(self, name: str, block: _Block, *arrays: Any, **types: DType) -> None:
        """Launch a kernel for the rows of a block."""
        heads, queries = (part.stop - part.start for part in block)
        sizes = (heads * queries, queries, self._keys, block.heads.start, block.queries.start)
        self._b._kernels.typed(name, S=self._dtype, **types)(
            (-(-heads * queries // _WARPS),),
            (32 * _WARPS,),
            (*arrays, self._mask, *self._strides, *[np.int64(size) for size in sizes], *self._limits),
        )


def _strided(xp: Any, mask: Any) -> tuple[Any, tuple[int, ...], int]:
    """Return a mask, or a copy, with the strides of its outer and inner heads, queries and keys, and the number of
    inner heads."""
    lead = list(mask.shape[:-2])
    for split in range(len(lead) + 1):
        outer = batch_stride(lead[:split], list(mask.strides[:split]))
        inner = batch_stride(lead[split:], list(mask.strides[split:-2]))
        if outer is not None and inner is not None:
            return mask, (outer, inner, *mask.strides[-2:]), math.prod(lead[split:])
    return _strided(xp, xp.array(mask, order="C"))


def _forward(
    b: CuPyAttention, q: Any, k: Any, v: Any, mask: Any, offset: int | None, scale: float, dtype: DType
) -> tuple[Any, Any]:
    xp, lead, (queries, keys) = b.xp, q.shape[:-2], (q.shape[-2], k.shape[-2])
    out_shape = (*q.shape[:-1], v.shape[-1])
    if not (keys and math.prod(q.shape[:-1])):
        return xp.zeros(out_shape, dtype), xp.zeros(q.shape[:-1], dtype)
    q, k, v = (_by_head(x) for x in (q, k, v))
    out, total = xp.empty((q.shape[0], queries, v.shape[-1]), dtype), xp.empty(q.shape[:2], dtype)
    scores = _Scores(b, lead, queries, keys, mask, offset, scale, _wide(q.dtype))
    for block in scores.blocks():
        wide = multiply(xp, q[block.key], k[block.heads].swapaxes(1, 2), scores.memory(block))
        weights = wide if wide.dtype is q.dtype else scores.memory(block, q.dtype)
        scores.run("burnpy_attention_weights", block, wide, weights, total[block.key], O=q.dtype, L=dtype)
        multiply(xp, weights, v[block.heads], out[block.key])
    return out.reshape(out_shape), total.reshape((*lead, queries))


def _backward(
    b: CuPyAttention,
    grad: Any,
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    offset: int | None,
    scale: float,
    dtype: DType,
) -> tuple[Any, Any, Any]:
    xp, lead, (queries, keys) = b.xp, q.shape[:-2], (q.shape[-2], k.shape[-2])
    shapes = (q.shape, k.shape, v.shape)
    if not (keys and math.prod(q.shape[:-1])):
        return tuple([xp.zeros(shape, dtype) for shape in shapes])
    grad, q, k, v = (_by_head(x) for x in (grad, q, k, v))
    scores = _Scores(b, lead, queries, keys, mask, offset, scale, _wide(q.dtype))
    by_q, by_k, by_v = (xp.empty(x.shape, dtype) for x in (q, k, v))
    for block in scores.blocks():
        part_q, part_grad = q[block.key], grad[block.key]
        wide = multiply(xp, part_q, k[block.heads].swapaxes(1, 2), scores.memory(block))
        by_weight = multiply(xp, part_grad, v[block.heads].swapaxes(1, 2), scores.memory(block))
        narrow = wide.dtype is not q.dtype
        weights, by_score = (scores.memory(block, q.dtype) if narrow else x for x in (wide, by_weight))
        scores.run("burnpy_attention_gradient", block, wide, by_weight, weights, by_score, O=q.dtype)
        multiply(xp, by_score, k[block.heads], by_q[block.key])
        for by_score_or_weight, right, total in ((by_score, part_q, by_k), (weights, part_grad, by_v)):
            into = total[block.heads] if block.queries.start == 0 else xp.empty(total[block.heads].shape, dtype)
            multiply(xp, by_score_or_weight.swapaxes(1, 2), right, into)
            if block.queries.start:
                xp.add(total[block.heads], into, total[block.heads])
    return tuple([x.reshape(shape) for x, shape in zip((by_q, by_k, by_v), shapes, strict=True)])


def _by_head(x: Any) -> Any:
    """Return x with one leading dimension."""
    return x.reshape((math.prod(x.shape[:-2]), *x.shape[-2:]))


def _wide(dtype: DType) -> DType:
    """Return the dtype of the scores of queries of a dtype."""
    return float64 if dtype is float64 else float32
