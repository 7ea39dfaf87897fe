"""Scaled dot product attention.

Source: Vaswani et al., Attention Is All You Need, 2017. Besides the arguments, the backward pass needs the result, and
one number per query, from which it recomputes the weights: Dao et al., FlashAttention, 2022.
"""

from __future__ import annotations

import math
from math import prod
from typing import Any

from burnpy.backend.dtypes import int64
from burnpy.backend.operations import OperationsBase
from burnpy.backend.operations.softmax import relative, relative_softmax
from burnpy.backend.primitives import Bool, Float, Int
from burnpy.backend.schema import GENERAL, derived


def attention_vjp(
    i: Any,
    grads: Any,
    needs: Any,
    q: Float,
    k: Float,
    v: Float,
    out: Float,
    out1: Float,
    mask: Bool | None,
    offset: int | None,
    scale: float,
) -> tuple[Float, ...]:
    """Return the gradients of q, k and v, through the result and through logsumexp."""
    grad_out, grad_sum = grads
    if grad_sum is None:
        grad_q, grad_k, grad_v = i.attention_backward(grad_out, q, k, v, out, out1, mask, offset, scale)
        return grad_q, grad_k, grad_v
    allowed = allowed_keys(i, q.shape[-2], k.shape[-2], mask, offset)
    weights, _ = attention_weights(i, attention_scores(i, q, k, scale), allowed)
    grad_score = i.mul(i.mul(weights, i.reshape(grad_sum, (*grad_sum.shape, 1))), scale)
    grad_q, grad_k = i.matmul(grad_score, k), i.matmul(i.mT(grad_score), q)
    if grad_out is None:
        return grad_q, grad_k, i.full(v.shape, 0.0, v.dtype)
    parts = i.attention_backward(grad_out, q, k, v, out, out1, mask, offset, scale)
    return i.add(grad_q, parts[0]), i.add(grad_k, parts[1]), parts[2]


def attention_batch(b: Any, q: Any, k: Any, v: Any, mask: Any, offset: int | None, scale: float) -> tuple[Any, Any]:
    """Attention of all examples, whose batch is one more leading dimension; a mask broadcasts."""
    mask = None if mask is None else b.aligned(mask, len(q.shape))
    out, total = b.inner.attention(*map(b.spread, (q, k, v)), mask, offset, scale)
    return b.batched(out), b.batched(total)


def attention_backward_batch(
    b: Any, grad: Any, q: Any, k: Any, v: Any, out: Any, logsumexp: Any, mask: Any, offset: int | None, scale: float
) -> tuple[Any, ...]:
    """Return the gradients of all examples."""
    mask = None if mask is None else b.aligned(mask, len(q.shape))
    spread = map(b.spread, (grad, q, k, v, out, logsumexp))
    return tuple([b.batched(part) for part in b.inner.attention_backward(*spread, mask, offset, scale)])


class Attention(OperationsBase):
    """Attention of queries q (…, T, E) to keys k (…, S, E) and values v (…, S, F) with equal leading dimensions.

    ``mask`` broadcasts to (…, T, S) and is true where a query attends to a key. With an ``offset``, which may be
    negative, query t attends only to the keys up to and including offset + t.
    """

    @derived(
        GENERAL,
        product=("q", "k", "v", "out"),
        flops=lambda q, k, v: prod(q[:-1]) * k[-2] * (2 * k[-1] + 2 * v[-1] + 8),
        joint=attention_vjp,
        batch=attention_batch,
        onnx="attention.attention",
    )
    def attention(
        self, q: Float, k: Float, v: Float, mask: Bool | None, offset: int | None, scale: float
    ) -> tuple[Float, Float]:
        """Attention, softmax(q kᵀ · scale) v; and the logsumexp (…, T) of the scores; 0 for a fully masked query."""
        last = len(q.shape) - 1
        scores = attention_scores(self, q, k, scale)
        if not k.shape[-2]:
            zeros = self.full((*q.shape[:-1], v.shape[-1]), 0.0, q.dtype)
            return self.add(self.matmul(scores, v), zeros), self.sum(scores, (last,), False)
        allowed = allowed_keys(self, q.shape[-2], k.shape[-2], mask, offset)
        weights, _ = attention_weights(self, scores, allowed)
        if allowed is not None:
            scores = self.where(allowed, scores, -math.inf)
        total = self.logsumexp(scores, (last,), False)
        if allowed is not None:
            total = self.where(self.gt(self.detach(total), -math.inf), total, 0.0)
        return self.matmul(weights, v), total

    @derived(
        GENERAL,
        product=("grad", "q", "k", "v", "out"),
        flops=lambda q, k, v: prod(q[:-1]) * k[-2] * (6 * k[-1] + 4 * v[-1] + 13),
        batch=attention_backward_batch,
    )
    def attention_backward(
        self,
        grad: Float,
        q: Float,
        k: Float,
        v: Float,
        out: Float,
        logsumexp: Float,
        mask: Bool | None,
        offset: int | None,
        scale: float,
    ) -> tuple[Float, Float, Float]:
        """Gradients of the first result of `attention` with respect to q, k and v.

        ``out`` and ``logsumexp`` are the results of `attention` for the other arguments. They let a backend compute the
        weights as exp(scores - logsumexp), and Σ weight · grad_weight of a query as the product of its rows of ``grad``
        and ``out``. The default needs neither: it stays exact where a softmax gives one key nearly all the weight.
        """
        last = len(q.shape) - 1
        allowed = allowed_keys(self, q.shape[-2], k.shape[-2], mask, offset)
        weights, largest = attention_weights(self, attention_scores(self, q, k, scale), allowed)
        grad_weight = _of_allowed(self, self.matmul(grad, self.mT(v)), allowed)
        if largest is not None:
            grad_weight = relative(self, grad_weight, last, largest)
        grad_score = self.mul(self.softmax_backward(grad_weight, weights, last), scale)
        grad_score = _of_allowed(self, grad_score, allowed)  # its gradient, by large masked keys, may overflow
        return self.matmul(grad_score, k), self.matmul(self.mT(grad_score), q), self.matmul(self.mT(weights), grad)


def _of_allowed(b: Any, x: Float, allowed: Bool | None) -> Float:
    """Return x, 0 for masked keys, whose values may be of any size."""
    return x if allowed is None else b.where(allowed, x, 0.0)


def attention_scores(b: Any, q: Float, k: Float, scale: float) -> Float:
    """Compute the attention scores q kᵀ · scale."""
    return b.mul(b.matmul(q, b.mT(k)), scale)


def attention_weights(b: Any, scores: Float, allowed: Bool | None) -> tuple[Float, Int | None]:
    """Return the softmax of the scores of allowed keys, 0 for a query without any; and the index of the largest score.
    See `relative_softmax`; gradients with respect to the weights are taken relative to this key's gradient as well."""
    d, last = b.discrete, len(scores.shape) - 1
    if not scores.shape[-1]:
        return scores, None
    some = None
    if allowed is not None:
        some = d.any(allowed, (len(allowed.shape) - 1,), True)
        scores = b.where(d.bitwise_or(allowed, d.bitwise_not(some)), scores, -math.inf)
    weights, largest = relative_softmax(b, scores, last)
    return (weights if some is None else b.where(some, weights, 0.0)), largest


def allowed_keys(b: Attention, queries: int, keys: int, mask: Bool | None, offset: int | None) -> Bool | None:
    """Return the mask of the keys that each query attends to; None for all."""
    if offset is None or offset >= keys - 1:  # even the first query attends to the last key
        return mask
    d = b.discrete
    places = d.reshape(d.arange(offset, offset + queries, 1, int64), (queries, 1))
    before = d.le(d.arange(0, keys, 1, int64), places)
    return before if mask is None else d.bitwise_and(mask, before)
