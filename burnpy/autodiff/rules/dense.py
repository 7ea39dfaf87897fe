"""Rules of linear layers, embeddings and losses."""

from __future__ import annotations

import math
from typing import Any

from burnpy.autodiff.rules.algebra import general, joint, linear
from burnpy.backend.backend import Backend
from burnpy.backend.primitives import Float, Int, Shape


def linear_by_x(i: Any, g: Float, weight: Float, x_shape: Shape) -> Float:
    """g weightᵀ."""
    if len(g.shape) == 1:  # a vector times a matrix
        return i.matmul(g, i.mT(weight))
    part = i.matmul_nt(g, weight)
    return part if len(x_shape) == len(g.shape) else i.reshape(part, x_shape)


def linear_by_weight(i: Any, g: Float, x: Float) -> Float:
    """xᵀ g, where all but the last dimension of x are rows."""
    return i.matmul_tn(rows(i, x), rows(i, g))


def linear_by_bias(i: Any, g: Float) -> Float:
    """The gradient by the bias: the sum of the rows of g."""
    return i.sum(g, tuple(range(len(g.shape) - 1)), False)


def rows(i: Any, x: Float) -> Float:
    """Reshape x to a matrix whose rows are all but the last dimension."""
    return x if len(x.shape) == 2 else i.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def without_padding(i: Any, t: Float, index: Int, padding: int | None) -> Float:
    """The tangent of an embedding: rows of the weight's tangent, which is 0 at ``padding``."""
    out = i.embedding(t, index, None)
    if padding is None:
        return out
    return i.where(i.discrete.reshape(i.discrete.ne(index, padding), (*index.shape, 1)), out, 0.0)


def cross_entropy_vjp(i: Any, grads: Any, needs: Any, x: Float, out1: Float, index: Int, dim: int) -> tuple[Float]:
    """The gradient by the logits, through the losses and through logsumexp."""
    by_loss, by_sum = grads
    part = None if by_loss is None else i.cross_entropy_backward(by_loss, x, out1, index, dim)
    if by_sum is None:
        return (part,)
    other = i.mul(i.softmax(x, dim), by_sum)
    return (other if part is None else i.add(part, other),)


general(
    Backend.linear,
    vjps=(linear_by_x, linear_by_weight, linear_by_bias),
    jvps=(
        lambda i, t, weight: i.matmul(t, weight),
        lambda i, t, x: i.matmul(x, t),
        lambda i, t, out: i.expand(t, out.shape),
    ),
)
general(
    Backend.embedding,
    vjps=(lambda i, g, weight_shape, index, padding: i.embedding_backward(g, index, weight_shape, padding),),
    jvps=(without_padding,),
)
linear(Backend.embedding_backward, without_padding)
linear(Backend.masked_scale, lambda i, g, mask, scale: i.masked_scale(g, mask, scale))
linear(Backend.masked_mean, lambda i, g, mask: i.masked_mean_backward(g, mask))
linear(Backend.masked_mean_backward, lambda i, t, mask: i.masked_mean(t, mask))
joint(Backend.cross_entropy, cross_entropy_vjp)
