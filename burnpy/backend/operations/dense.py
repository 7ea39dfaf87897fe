"""Fused operations of small layers and losses: linear, embedding, dropout and cross entropy."""

from __future__ import annotations

import math
from math import prod
from typing import TYPE_CHECKING, Any

from burnpy.backend.dtypes import float32, int64
from burnpy.backend.operations import OperationsBase
from burnpy.backend.operations.reduction import mean_vjp, relative_softmax
from burnpy.backend.primitives import Bool, Dim, Dims, DType, Float, Int, Shape
from burnpy.backend.rules import DRAWN, SHIFTED
from burnpy.backend.schema import GENERAL, LINEAR, NONDIFFERENTIABLE, derived

if TYPE_CHECKING:
    import numpy as np


def linear_x_vjp(i: Any, g: Float, weight: Float, x_shape: Shape) -> Float:
    """g weightᵀ."""
    if len(g.shape) == 1:  # a vector times a matrix
        return i.matmul(g, i.mT(weight))
    part = i.matmul_nt(g, weight)
    return part if len(x_shape) == len(g.shape) else i.reshape(part, x_shape)


def linear_weight_vjp(i: Any, g: Float, x: Float) -> Float:
    """xᵀ g, where all but the last dimension of x are rows."""
    return i.matmul_tn(rows(i, x), rows(i, g))


def linear_bias_vjp(i: Any, g: Float) -> Float:
    """Return the gradient by the bias: the sum of the rows of g."""
    return i.sum(g, tuple(range(len(g.shape) - 1)), False)


def rows(i: Any, x: Float) -> Float:
    """Reshape x to a matrix whose rows are all but the last dimension."""
    return x if len(x.shape) == 2 else i.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def embedding_jvp(i: Any, t: Float, index: Int, padding: int | None) -> Float:
    """Return the tangent of an embedding: rows of the weight's tangent, which is 0 at ``padding``."""
    out = i.embedding(t, index, None)
    if padding is None:
        return out
    return i.where(i.discrete.reshape(i.discrete.ne(index, padding), (*index.shape, 1)), out, 0.0)


def cross_entropy_vjp(i: Any, grads: Any, needs: Any, x: Float, out1: Float, index: Int, dim: int) -> tuple[Float]:
    """Return the gradient by the logits, through the losses and through logsumexp."""
    by_loss, by_sum = grads
    part = None if by_loss is None else i.cross_entropy_backward(by_loss, x, out1, index, dim)
    return (_with_logsumexp(i, part, by_sum, x, dim),)


def mean_cross_entropy_vjp(
    i: Any, grads: Any, needs: Any, x: Float, out1: Float, index: Int, counted: Bool | None, dim: int
) -> tuple[Float]:
    """Return the gradient by the logits, through the mean and through logsumexp."""
    by_mean, by_sum = grads
    part = None if by_mean is None else i.mean_cross_entropy_backward(by_mean, x, out1, index, counted, dim)
    return (_with_logsumexp(i, part, by_sum, x, dim),)


def _with_logsumexp(i: Any, part: Float | None, by_sum: Float | None, x: Float, dim: int) -> Float:
    """Add the gradient through logsumexp to one through losses; at least one of them is not None."""
    if by_sum is None:
        return part
    other = i.mul(i.softmax(x, dim), by_sum)
    return other if part is None else i.add(part, other)


def linear_batch(b: Any, x: Any, weight: Any, bias: Any) -> Any:
    """Rows of all examples, if these share the weights."""
    if weight.batched or bias.batched:
        return b.add(b.matmul(x, weight), bias)
    return b.batched(b.inner.linear(x.value, weight.value, bias.value))


def embedding_batch(b: Any, weight: Any, index: Any, padding: int | None) -> Any:
    """One look-up of all indices, if all examples share the weight."""
    if weight.batched:
        return Dense.embedding(b, weight, index, padding)
    return b.batched(b.inner.embedding(weight.value, index.value, padding))


def masked_mean_batch(b: Any, x: Any, mask: Any) -> Any:
    """One sum over the elements of all examples, and one count."""
    i, dims = b.inner, tuple(range(1, len(x.shape) + 1))
    values, chosen = b.ranked(x, len(x.shape)), b.ranked(mask, len(x.shape))
    return b.batched(i.div(i.sum(i.where(chosen, values, 0.0), dims, False), _numbers_of(i, chosen, dims, x.dtype)))


def masked_mean_backward_batch(b: Any, grad: Any, mask: Any) -> Any:
    """One count for all examples."""
    i, ndim = b.inner, len(mask.shape)
    chosen = b.ranked(mask, ndim)
    numbers = _numbers_of(i, chosen, tuple(range(1, ndim + 1)), grad.dtype)
    each = i.div(b.ranked(grad, 0), numbers)
    wide = i.expand(i.reshape(each, (*each.shape, *(1,) * ndim)), (b.size, *mask.shape))
    return b.batched(i.where(chosen, wide, 0.0))


class Dense(OperationsBase):
    """Linear layers, embeddings, dropout and cross entropy, one operation each."""

    @derived(
        GENERAL,
        elementwise=("bias",),
        product=("x", "weight"),
        flops=lambda x, out: prod(out) * (2 * x[-1] + 1),
        vjp=(linear_x_vjp, linear_weight_vjp, linear_bias_vjp),
        last_two=lambda i, g, x: i.linear_backward(g, x),
        jvp=(
            lambda i, t, weight: i.matmul(t, weight),
            lambda i, t, x: i.matmul(x, t),
            lambda i, t, out: i.expand(t, out.shape),
        ),
        batch=linear_batch,
    )
    def linear(self, x: Float, weight: Float, bias: Float) -> Float:
        """Linear map x @ weight + bias: x (…, in), weight (in, out), bias (out,), all of the same dtype."""
        return self.add(self.matmul(x, weight), bias)

    @derived(GENERAL, product=True, flops=lambda grad, x: prod(grad) * (2 * x[-1] + 1))
    def linear_backward(self, grad: Float, x: Float) -> tuple[Float, Float]:
        """Gradients of `linear` with respect to weight and bias: xᵀ grad and the sum of grad, over all rows."""
        return linear_weight_vjp(self, grad, x), linear_bias_vjp(self, grad)

    @derived(
        GENERAL,
        indexed="weight",
        flops=0,
        vjp=lambda i, g, weight_shape, index, padding: i.embedding_backward(g, index, weight_shape, padding),
        jvp=embedding_jvp,
        batch=embedding_batch,
        onnx="indexing.embedding",
    )
    def embedding(self, weight: Float, index: Int, padding: int | None) -> Float:
        """Look up rows of weight at an int64 ``index`` of any shape; the row ``padding`` has gradient 0."""
        if padding is not None:
            column = self.discrete.reshape(
                self.discrete.arange(0, weight.shape[0], 1, index.dtype), (weight.shape[0], 1)
            )
            weight = self.where(self.discrete.ne(column, padding), weight, self.detach(weight))
        rows = self.index_select(weight, 0, self.discrete.reshape(index, (math.prod(index.shape),)))
        return self.reshape(rows, (*index.shape, weight.shape[1]))

    @derived(LINEAR, flops=lambda grad: prod(grad), vjp=embedding_jvp)
    def embedding_backward(self, grad: Float, index: Int, shape: Shape, padding: int | None) -> Float:
        """Gradient of `embedding` with respect to the weight of the given shape: rows of grad summed by index."""
        flat = self.discrete.reshape(index, (math.prod(index.shape),))
        rows = self.reshape(grad, (flat.shape[0], shape[1]))
        if padding is not None:
            rows = self.where(self.discrete.reshape(self.discrete.ne(flat, padding), (flat.shape[0], 1)), rows, 0.0)
        return self.index_add(self.full(shape, 0.0, grad.dtype), 0, flat, rows)

    @derived(NONDIFFERENTIABLE, batch=DRAWN, onnx="refused")
    def random_mask(self, generator: np.random.Generator, shape: Shape, p: float) -> Bool:
        """Sample a mask whose elements are independently True with probability p."""
        return self.lt(self.random_uniform(generator, shape, float32), p)

    @derived(LINEAR, elementwise=True, flops=2, vjp=lambda i, g, mask, scale: i.masked_scale(g, mask, scale))
    def masked_scale(self, x: Float, mask: Bool, scale: float) -> Float:
        """Apply a dropout mask of x's shape: x · scale where the mask is true, 0 elsewhere."""
        return self.where(mask, self.mul(x, scale), 0.0)

    @derived(
        LINEAR,
        flops=lambda x: 2 * prod(x),
        vjp=lambda i, g, mask: i.masked_mean_backward(g, mask),
        batch=masked_mean_batch,
    )
    def masked_mean(self, x: Float, mask: Bool) -> Float:
        """0-d mean of the elements of x where the mask, of x's shape, is true; NaN if there are none."""
        dims = tuple(range(len(x.shape)))
        return self.div(self.sum(self.where(mask, x, 0.0), dims, False), _number_of(self, mask, x.dtype))

    @derived(
        LINEAR,
        flops=lambda mask: prod(mask),
        vjp=lambda i, t, mask: i.masked_mean(t, mask),
        batch=masked_mean_backward_batch,
    )
    def masked_mean_backward(self, grad: Float, mask: Bool) -> Float:
        """Gradient of `masked_mean`: grad / n where the mask is true, n of its elements are, and 0 elsewhere."""
        each = self.div(grad, _number_of(self, mask, grad.dtype))
        return self.where(mask, self.expand(each, mask.shape), 0.0)

    @derived(GENERAL, flops=lambda x: 6 * prod(x), joint=cross_entropy_vjp, batch=SHIFTED)
    def cross_entropy(self, x: Float, index: Int, dim: Dim) -> tuple[Float, Float]:
        """Cross entropy per target, -log(softmax(x))[index], along ``dim``; and the logsumexp, with ``dim`` of size 1.

        ``index`` and the first result have x's shape without ``dim``.
        """
        largest = self.detach(self.amax(x, (dim,), True))
        shift = self.where(self.isfinite(largest), largest, 0.0)
        shifted = self.sub(x, shift)
        total = self.log(self.sum(self.exp(shifted), (dim,), True))
        picked = self.gather(shifted, dim, self.discrete.reshape(index, total.shape))
        return self.reshape(self.sub(total, picked), index.shape), self.add(total, shift)

    @derived(GENERAL, like="x", flops=lambda x: 6 * prod(x), batch=SHIFTED)
    def cross_entropy_backward(self, grad: Float, x: Float, logsumexp: Float, index: Int, dim: Dim) -> Float:
        """Gradient of `cross_entropy`: grad · (softmax(x) - one_hot(index)).

        ``logsumexp``, its second result, lets a backend compute softmax(x) as exp(x - logsumexp); the default does not
        need it.
        """
        wide = self.reshape(grad, logsumexp.shape)
        if 0 in x.shape:
            return self.mul(x, wide)
        p, _ = relative_softmax(self, x, dim)
        at = self.scatter(self.full(x.shape, 0.0, x.dtype), dim, self.discrete.reshape(index, wide.shape), wide)
        return self.sub(self.mul(p, wide), at)

    @derived(GENERAL, flops=lambda x: 6 * prod(x), joint=mean_cross_entropy_vjp)
    def mean_cross_entropy(self, x: Float, index: Int, counted: Bool | None, dim: Dim) -> tuple[Float, Float]:
        """0-d mean of `cross_entropy` over the targets where ``counted`` is true, NaN if there are none; and logsumexp.

        ``counted`` has the shape of ``index``; with None, all targets count.
        """
        losses, logsumexp = self.cross_entropy(x, index, dim)
        if counted is None:
            return self.mean(losses, tuple(range(len(losses.shape))), False), logsumexp
        return self.masked_mean(losses, counted), logsumexp

    @derived(GENERAL, like="x", flops=lambda x: 6 * prod(x))
    def mean_cross_entropy_backward(
        self, grad: Float, x: Float, logsumexp: Float, index: Int, counted: Bool | None, dim: Dim
    ) -> Float:
        """Gradient of the mean of `mean_cross_entropy`, as of `cross_entropy`."""
        if counted is None:
            each = mean_vjp(self, grad, index.shape, tuple(range(len(index.shape))), False)
        else:
            each = self.masked_mean_backward(grad, counted)
        return self.cross_entropy_backward(each, x, logsumexp, index, dim)


def _number_of(b: Dense, mask: Bool, dtype: DType) -> Float:
    """Return how many elements of a mask are true."""
    return _numbers_of(b, mask, tuple(range(len(mask.shape))), dtype)


def _numbers_of(b: Any, mask: Bool, dims: Dims, dtype: DType) -> Float:
    """Return how many elements of a mask are true over some dimensions."""
    return b.to_float(b.discrete.sum(b.discrete.to_int(mask, int64), dims, False), dtype)
