"""The rule of attention."""

from __future__ import annotations

from typing import Any

from burnpy.autodiff.rules.algebra import joint
from burnpy.backend.backend import Backend
from burnpy.backend.operations.attention import allowed_keys, attention_scores, attention_weights
from burnpy.backend.primitives import Bool, Float


def attention_vjp(
    i: Any,
    grads: Any,
    needs: Any,
    q: Float,
    k: Float,
    v: Float,
    out1: Float,
    mask: Bool | None,
    offset: int | None,
    scale: float,
) -> tuple[Float, ...]:
    """The gradients by q, k and v, through the result and through logsumexp."""
    by_out, by_sum = grads
    if by_sum is None:
        by_q, by_k, by_v = i.attention_backward(by_out, q, k, v, out1, mask, offset, scale)
        return by_q, by_k, by_v
    allowed = allowed_keys(i, q.shape[-2], k.shape[-2], mask, offset)
    weights, _ = attention_weights(i, attention_scores(i, q, k, scale), allowed)
    by_score = i.mul(i.mul(weights, i.reshape(by_sum, (*by_sum.shape, 1))), scale)
    by_q, by_k = i.matmul(by_score, k), i.matmul(i.mT(by_score), q)
    if by_out is None:
        return by_q, by_k, i.full(v.shape, 0.0, v.dtype)
    parts = i.attention_backward(by_out, q, k, v, out1, mask, offset, scale)
    return i.add(by_q, parts[0]), i.add(by_k, parts[1]), parts[2]


joint(Backend.attention, attention_vjp)
