"""Between and after the layers: a matrix product with a bias, rows of an embedding, dropout, and the cross entropy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from burnpy.backend.dtypes import float32
from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.operations.reduction import relative_softmax
from burnpy.backend.primitives import Bool, Float, Int, Shape
from burnpy.backend.schema import Algebra, derived

if TYPE_CHECKING:
    import numpy as np

LINEAR, GENERAL, NONE = Algebra.LINEAR, Algebra.GENERAL, Algebra.NONDIFFERENTIABLE


class Dense(OperationsBase):
    """What small layers and losses are made of, in one operation each."""

    @derived(GENERAL)
    def linear(self, x: Float, weight: Float, bias: Float) -> Float:
        """x @ weight + bias: x (…, in), weight (in, out), bias (out,), all of one dtype."""
        return self.add(self.matmul(x, weight), bias)

    @derived(GENERAL)
    def embedding(self, weight: Float, index: Int, padding: int | None) -> Float:
        """The rows of a matrix at an int64 ``index`` of any shape; the row ``padding`` gets no gradient."""
        if padding is not None:
            column = self.discrete.reshape(
                self.discrete.arange(0, weight.shape[0], 1, index.dtype), (weight.shape[0], 1)
            )
            weight = self.where(self.discrete.ne(column, padding), weight, self.detach(weight))
        rows = self.index_select(weight, 0, self.discrete.reshape(index, (math.prod(index.shape),)))
        return self.reshape(rows, (*index.shape, weight.shape[1]))

    @derived(LINEAR)
    def embedding_backward(self, grad: Float, index: Int, shape: Shape, padding: int | None) -> Float:
        """The gradient of `embedding` by its weight of ``shape``: grad's rows added up where they were taken from."""
        flat = self.discrete.reshape(index, (math.prod(index.shape),))
        rows = self.reshape(grad, (flat.shape[0], shape[1]))
        if padding is not None:
            rows = self.where(self.discrete.reshape(self.discrete.ne(flat, padding), (flat.shape[0], 1)), rows, 0.0)
        return self.index_add(self.full(shape, 0.0, grad.dtype), 0, flat, rows)

    @derived(NONE)
    def random_mask(self, generator: np.random.Generator, shape: Shape, p: float) -> Bool:
        """True with probability p, each element by itself."""
        return self.lt(self.random_uniform(generator, shape, float32), p)

    @derived(LINEAR)
    def masked_scale(self, x: Float, mask: Bool, scale: float) -> Float:
        """x · scale where the mask, of x's shape, is true, 0 elsewhere: dropout, given what is kept."""
        return self.where(mask, self.mul(x, scale), 0.0)

    @derived(GENERAL)
    def cross_entropy(self, x: Float, index: Int, dim: int) -> tuple[Float, Float]:
        """-log(softmax(x)) at each ``index``, of x's shape without ``dim``; and logsumexp, ``dim`` kept as 1."""
        largest = self.detach(self.amax(x, (dim,), True))
        shift = self.where(self.isfinite(largest), largest, 0.0)
        shifted = self.sub(x, shift)
        total = self.log(self.sum(self.exp(shifted), (dim,), True))
        picked = self.gather(shifted, dim, self.discrete.reshape(index, total.shape))
        return self.reshape(self.sub(total, picked), index.shape), self.add(total, shift)

    @derived(GENERAL)
    def cross_entropy_backward(self, grad: Float, x: Float, logsumexp: Float, index: Int, dim: int) -> Float:
        """The gradient of the first result: grad · (softmax(x) - 1 at the index).

        ``logsumexp``, the second result, is there for those who keep exp in range by it; it cancels out.
        """
        wide = self.reshape(grad, logsumexp.shape)
        if 0 in x.shape:
            return self.mul(x, wide)
        p, _ = relative_softmax(self, x, dim)
        at = self.scatter(self.full(x.shape, 0.0, x.dtype), dim, self.discrete.reshape(index, wide.shape), wide)
        return self.sub(self.mul(p, wide), at)
