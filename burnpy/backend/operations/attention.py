"""Scaled dot product attention.

Source: Vaswani et al., Attention Is All You Need, 2017. What the backward pass needs besides the arguments is one
number for each query, from which the weights are computed again: Dao et al., FlashAttention, 2022.
"""

from __future__ import annotations

import math

from burnpy.backend.dtypes import int64
from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import Bool, Float
from burnpy.backend.schema import Algebra, derived

GENERAL = Algebra.GENERAL


class Attention(OperationsBase):
    """Queries q (…, T, E), keys k (…, S, E) and values v (…, S, F), with the same dimensions before those.

    ``mask``, which broadcasts to (…, T, S), says which keys a query attends to; with an ``offset``, which may be
    negative, query t attends to none after key offset + t.
    """

    @derived(GENERAL)
    def attention(
        self, q: Float, k: Float, v: Float, mask: Bool | None, offset: int | None, scale: float
    ) -> tuple[Float, Float]:
        """softmax(q kᵀ · scale) v, and the logsumexp (…, T) of the scores; both 0 where a query attends to nothing."""
        scores, allowed = _scores(self, q, k, mask, offset, scale)
        if not k.shape[-2]:
            zeros = self.full((*q.shape[:-1], v.shape[-1]), 0.0, q.dtype)
            return self.add(self.matmul(scores, v), zeros), self.sum(scores, (len(q.shape) - 1,), False)
        last = len(q.shape) - 1
        total = self.logsumexp(scores, (last,), True)
        if allowed is not None:
            total = self.where(self.gt(self.detach(total), -math.inf), total, 0.0)
        weights = self.exp(self.sub(scores, total))
        return self.matmul(weights, v), self.reshape(total, q.shape[:-1])

    @derived(GENERAL)
    def attention_backward(
        self,
        grad: Float,
        q: Float,
        k: Float,
        v: Float,
        logsumexp: Float,
        level: Float,
        mask: Bool | None,
        offset: int | None,
        scale: float,
    ) -> tuple[Float, Float, Float]:
        """The gradients of the first result by q, k and v; ``level`` is the sum of grad · result for each query."""
        scores, _ = _scores(self, q, k, mask, offset, scale)
        wide = (*logsumexp.shape, 1)
        weights = self.exp(self.sub(scores, self.reshape(logsumexp, wide)))
        by_weight = self.sub(self.matmul(grad, self.mT(v)), self.reshape(level, wide))
        by_score = self.mul(self.mul(weights, by_weight), scale)
        return self.matmul(by_score, k), self.matmul(self.mT(by_score), q), self.matmul(self.mT(weights), grad)


def _scores(
    b: Attention, q: Float, k: Float, mask: Bool | None, offset: int | None, scale: float
) -> tuple[Float, Bool | None]:
    """q kᵀ · scale, minus infinity at keys that are not attended to; and which are, None for all."""
    scores = b.mul(b.matmul(q, b.mT(k)), scale)
    allowed = allowed_keys(b, q.shape[-2], k.shape[-2], mask, offset)
    return (scores if allowed is None else b.where(allowed, scores, -math.inf)), allowed


def allowed_keys(b: Attention, queries: int, keys: int, mask: Bool | None, offset: int | None) -> Bool | None:
    """Which keys each query attends to; None for all."""
    if offset is None or offset >= keys - 1:  # not even the first query stands before the last key
        return mask
    d = b.discrete
    places = d.reshape(d.arange(offset, offset + queries, 1, int64), (queries, 1))
    before = d.le(d.arange(0, keys, 1, int64), places)
    return before if mask is None else d.bitwise_and(mask, before)
