"""Attention for a few heads at a time, so that their scores stay in the cache and never all exist at once."""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.dtypes import float32
from burnpy.backend.operations.attention import allowed_keys
from burnpy.backend.primitives import Shape
from burnpy_array.array_base import ArrayBase, is_half


class ArrayAttention(ArrayBase):
    """Attention and its gradient; 16-bit floats are computed in float32."""

    _scores_bytes = 1 << 19
    """The maximum size of a block's scores in bytes."""

    def attention(self, q: Any, k: Any, v: Any, mask: Any, offset: int | None, scale: float) -> tuple[Any, Any]:
        if is_half(q.dtype):
            wide = [self.cast(x, float32) for x in (q, k, v)]
            out, total = self.attention(wide[0], wide[1], wide[2], mask, offset, scale)
            return self.cast(out, q.dtype), self.cast(total, q.dtype)
        out, total = self._call(_forward, self, q, k, v, mask, offset, scale)
        return out, total

    def attention_backward(
        self, grad: Any, q: Any, k: Any, v: Any, out: Any, logsumexp: Any, mask: Any, offset: int | None, scale: float
    ) -> tuple[Any, Any, Any]:
        if is_half(q.dtype):  # a logsumexp of 16 bits may be off by more than exp can take
            wide = (*[self.cast(x, float32) for x in (grad, q, k, v)], None)
            parts = [self.cast(part, q.dtype) for part in self._call(_backward, self, wide, mask, offset, scale)]
            return parts[0], parts[1], parts[2]
        grad_q, grad_k, grad_v = self._call(_backward, self, (grad, q, k, v, logsumexp), mask, offset, scale)
        return grad_q, grad_k, grad_v

    def _attention_weights(self, scores: Any) -> tuple[Any, Any, Any]:
        """Return the weights of limited scores before they are divided by their sums, the sums, and the logsumexps.
        ``scores``, (heads, queries, keys), may be overwritten."""
        xp = self.xp
        shift = scores.max(2, None, True)
        shift = xp.where(xp.isfinite(shift), shift, scores.dtype.type(0))
        xp.exp(xp.subtract(scores, shift, scores), scores)
        sums = _sums(self, scores)
        return scores, sums, xp.add(xp.log(sums), shift)

    def _attention_weights_again(self, scores: Any, logsumexp: Any) -> tuple[Any, Any]:
        """Return the weights and their sums, which are nearly 1, of limited scores with known logsumexps. ``scores``
        may be overwritten."""
        weights = self.xp.exp(self.xp.subtract(scores, logsumexp, scores), scores)
        return weights, _sums(self, weights)

    def _attention_scores_gradient(self, grad: Any, weights: Any, sums: Any) -> Any:
        """Return the gradient of the scores from the weights', divided by their sums; both may be overwritten."""
        xp = self.xp
        xp.multiply(grad, weights, grad)
        level = xp.divide(self._total(grad, (2,), True), sums)
        return xp.subtract(grad, xp.multiply(weights, level, weights), grad)


class Limits:
    """Upper limits of the scores: minus infinity for keys that a query does not attend to, NaN for others.

    `fmin` ignores NaN: masked scores become minus infinity, even those that are NaN, and others stay as they are.

    Args:
        b: the backend.
        lead: the leading dimensions of the queries, before their number and size.
        queries: the number of queries.
        keys: the number of keys.
        mask: a mask that broadcasts to the scores, or None.
        offset: the offset of a causal mask, or None.
        dtype: the dtype of the scores.
    """

    def __init__(
        self, b: ArrayAttention, lead: Shape, queries: int, keys: int, mask: Any, offset: int | None, dtype: Any
    ) -> None:
        xp, self.xp, self.dtype = b.xp, b.xp, dtype
        self.own: Any = None
        shared_mask = None
        if mask is not None and math.prod(mask.shape[:-2]) == 1:
            shared_mask = mask.reshape(mask.shape[-2:])
        elif mask is not None:
            self.own = mask.reshape((math.prod(mask.shape[:-2]), *mask.shape[-2:]))  # -1 is not for no keys
            positions = xp.arange(self.own.shape[0]).reshape(mask.shape[:-2])
            self.which = xp.broadcast_to(positions, lead).reshape(-1)  # the index of each flattened head's mask
        allowed = allowed_keys(b, queries, keys, shared_mask, offset)
        self.shared: Any = None if allowed is None else self._limits(allowed)

    def _limits(self, allowed: Any) -> Any:
        return self.xp.where(allowed, self.dtype.type(math.nan), self.dtype.type(-math.inf))

    def apply(self, scores: Any, start: int, stop: int) -> None:
        """Limit the scores of a block, in place."""
        if self.shared is not None:
            self.xp.fmin(scores, self.shared, out=scores)
        if self.own is not None:
            self.xp.fmin(scores, self._limits(self.own[self.which[start:stop]]), out=scores)


def _blocks(b: ArrayAttention, begin: int, end: int, each: int, dtype: Any) -> list[tuple[int, int]]:
    """Return the start and stop of each block of the heads ``begin`` to ``end``, which have ``each`` scores."""
    step = max(1, b._scores_bytes // max(1, each * dtype.itemsize))
    return [(start, min(start + step, end)) for start in range(begin, end, step)]


def _forward(b: ArrayAttention, q: Any, k: Any, v: Any, mask: Any, offset: int | None, scale: float) -> tuple[Any, Any]:
    xp, lead, (queries, keys) = b.xp, q.shape[:-2], (q.shape[-2], k.shape[-2])
    limits = Limits(b, lead, queries, keys, mask, offset, q.dtype)
    flat_q, flat_k, flat_v = (x.reshape((math.prod(lead), *x.shape[-2:])) for x in (q, k, v))
    out = xp.zeros((*flat_q.shape[:2], v.shape[-1]), q.dtype)
    total = xp.zeros(flat_q.shape[:2], q.dtype)

    def work(begin: int, end: int) -> None:
        for start, stop in _blocks(b, begin, end, queries * keys, q.dtype):
            scores = xp.matmul(xp.multiply(flat_q[start:stop], scale), flat_k[start:stop].swapaxes(1, 2))
            limits.apply(scores, start, stop)
            weights, sums, logs = b._attention_weights(scores)
            part = out[start:stop]
            xp.divide(xp.matmul(weights, flat_v[start:stop]), sums, part)
            total[start:stop] = logs[:, :, 0]

    if out.size and keys:
        b._share(work, flat_q.shape[0], queries * keys, products=True)
    return out.reshape((*q.shape[:-1], v.shape[-1])), total.reshape(q.shape[:-1])


def _sums(b: ArrayAttention, weights: Any) -> Any:
    """Return the sum of each query's weights, by which they are divided; 1 for a query that attends to nothing."""
    sums = b._total(weights, (2,), True)
    return b.xp.where(b.xp.equal(sums, 0), weights.dtype.type(1), sums)


def _backward(
    b: ArrayAttention, inputs: tuple[Any, ...], mask: Any, offset: int | None, scale: float
) -> tuple[Any, Any, Any]:
    grad, q, k, v, logsumexp = inputs
    xp, lead, (queries, keys) = b.xp, q.shape[:-2], (q.shape[-2], k.shape[-2])
    limits = Limits(b, lead, queries, keys, mask, offset, q.dtype)
    count = math.prod(lead)
    grads, flat_q, flat_k, flat_v = (x.reshape((count, *x.shape[-2:])) for x in (grad, q, k, v))
    totals = None if logsumexp is None else logsumexp.reshape((count, queries, 1))
    grad_q, grad_k, grad_v = (xp.zeros(x.shape, q.dtype) for x in (flat_q, flat_k, flat_v))

    def work(begin: int, end: int) -> None:
        for start, stop in _blocks(b, begin, end, queries * keys, q.dtype):
            scaled = xp.multiply(flat_q[start:stop], scale)
            weights = xp.matmul(scaled, flat_k[start:stop].swapaxes(1, 2))
            limits.apply(weights, start, stop)
            if totals is None:
                weights, sums, _ = b._attention_weights(weights)
            else:
                weights, sums = b._attention_weights_again(weights, totals[start:stop])
            g = xp.divide(grads[start:stop], sums)
            grad_v[start:stop] = xp.matmul(weights.swapaxes(1, 2), g)
            grad_scores = xp.matmul(g, flat_v[start:stop].swapaxes(1, 2))
            grad_scores = b._attention_scores_gradient(grad_scores, weights, sums)
            xp.multiply(xp.matmul(grad_scores, flat_k[start:stop]), scale, grad_q[start:stop])
            grad_k[start:stop] = xp.matmul(grad_scores.swapaxes(1, 2), scaled)

    if count and queries and keys:
        b._share(work, count, queries * keys, products=True)
    return grad_q.reshape(q.shape), grad_k.reshape(k.shape), grad_v.reshape(v.shape)
