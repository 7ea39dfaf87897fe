"""Fused operations of small layers and losses: linear, embedding, dropout and cross entropy."""

from __future__ import annotations

import math
from math import prod
from typing import TYPE_CHECKING

from burnpy.backend.dtypes import float32, int64
from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.operations.reduction import relative_softmax
from burnpy.backend.primitives import Bool, DType, Float, Int, Shape
from burnpy.backend.schema import Algebra, derived

if TYPE_CHECKING:
    import numpy as np

LINEAR, GENERAL, NONE = Algebra.LINEAR, Algebra.GENERAL, Algebra.NONDIFFERENTIABLE


class Dense(OperationsBase):
    """Linear layers, embeddings, dropout and cross entropy, one operation each."""

    @derived(GENERAL, elementwise=("bias",), product=("x", "weight"), flops=lambda x, out: prod(out) * (2 * x[-1] + 1))
    def linear(self, x: Float, weight: Float, bias: Float) -> Float:
        """Linear map x @ weight + bias: x (…, in), weight (in, out), bias (out,), all of the same dtype."""
        return self.add(self.matmul(x, weight), bias)

    @derived(GENERAL, indexed="weight", flops=0)
    def embedding(self, weight: Float, index: Int, padding: int | None) -> Float:
        """Look up rows of weight at an int64 ``index`` of any shape; the row ``padding`` has gradient 0."""
        if padding is not None:
            column = self.discrete.reshape(
                self.discrete.arange(0, weight.shape[0], 1, index.dtype), (weight.shape[0], 1)
            )
            weight = self.where(self.discrete.ne(column, padding), weight, self.detach(weight))
        rows = self.index_select(weight, 0, self.discrete.reshape(index, (math.prod(index.shape),)))
        return self.reshape(rows, (*index.shape, weight.shape[1]))

    @derived(LINEAR, flops=lambda grad: prod(grad))
    def embedding_backward(self, grad: Float, index: Int, shape: Shape, padding: int | None) -> Float:
        """Gradient of `embedding` with respect to the weight of the given shape: rows of grad summed by index."""
        flat = self.discrete.reshape(index, (math.prod(index.shape),))
        rows = self.reshape(grad, (flat.shape[0], shape[1]))
        if padding is not None:
            rows = self.where(self.discrete.reshape(self.discrete.ne(flat, padding), (flat.shape[0], 1)), rows, 0.0)
        return self.index_add(self.full(shape, 0.0, grad.dtype), 0, flat, rows)

    @derived(NONE)
    def random_mask(self, generator: np.random.Generator, shape: Shape, p: float) -> Bool:
        """Sample a mask whose elements are independently True with probability p."""
        return self.lt(self.random_uniform(generator, shape, float32), p)

    @derived(LINEAR, elementwise=True, flops=2)
    def masked_scale(self, x: Float, mask: Bool, scale: float) -> Float:
        """Apply a dropout mask of x's shape: x · scale where the mask is true, 0 elsewhere."""
        return self.where(mask, self.mul(x, scale), 0.0)

    @derived(LINEAR, flops=lambda x: 2 * prod(x))
    def masked_mean(self, x: Float, mask: Bool) -> Float:
        """0-d mean of the elements of x where the mask, of x's shape, is true; NaN if there are none."""
        dims = tuple(range(len(x.shape)))
        return self.div(self.sum(self.where(mask, x, 0.0), dims, False), _number_of(self, mask, x.dtype))

    @derived(LINEAR, flops=lambda mask: prod(mask))
    def masked_mean_backward(self, grad: Float, mask: Bool) -> Float:
        """Gradient of `masked_mean`: grad / n where the mask is true, n of its elements are, and 0 elsewhere."""
        each = self.div(grad, _number_of(self, mask, grad.dtype))
        return self.where(mask, self.expand(each, mask.shape), 0.0)

    @derived(GENERAL, flops=lambda x: 6 * prod(x))
    def cross_entropy(self, x: Float, index: Int, dim: int) -> tuple[Float, Float]:
        """Cross entropy per target, -log(softmax(x))[index], along ``dim``; and the logsumexp, with ``dim`` of size 1.

        ``index`` and the first result have x's shape without ``dim``.
        """
        largest = self.detach(self.amax(x, (dim,), True))
        shift = self.where(self.isfinite(largest), largest, 0.0)
        shifted = self.sub(x, shift)
        total = self.log(self.sum(self.exp(shifted), (dim,), True))
        picked = self.gather(shifted, dim, self.discrete.reshape(index, total.shape))
        return self.reshape(self.sub(total, picked), index.shape), self.add(total, shift)

    @derived(GENERAL, like="x", flops=lambda x: 6 * prod(x))
    def cross_entropy_backward(self, grad: Float, x: Float, logsumexp: Float, index: Int, dim: int) -> Float:
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


def _number_of(b: Dense, mask: Bool, dtype: DType) -> Float:
    """Return how many elements of a mask are true."""
    return b.to_float(b.discrete.sum(b.discrete.to_int(mask, int64), tuple(range(len(mask.shape))), False), dtype)
