"""The rule of attention."""

from __future__ import annotations

from typing import Any

from burnpy.autodiff.rules.algebra import joint
from burnpy.backend.backend import Backend
from burnpy.backend.primitives import Bool, Float


def attention_pull(
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
    """The gradients by q, k and v, through the result and through logsumexp, which only shifts the level."""
    by_out, by_sum = grads
    if by_out is None:
        by_out = i.full(out.shape, 0.0, out.dtype)
    level = i.sum(i.mul(by_out, out), (len(out.shape) - 1,), False)
    if by_sum is not None:
        level = i.sub(level, by_sum)
    by_q, by_k, by_v = i.attention_backward(by_out, q, k, v, out1, level, mask, offset, scale)
    return by_q, by_k, by_v


joint(Backend.attention, attention_pull)
