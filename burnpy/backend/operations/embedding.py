"""Rows of a weight that are looked up by index, and weighted sums of such rows, as bags of embeddings need."""

from __future__ import annotations

import math
from math import prod
from typing import Any

from burnpy.backend.operations import OperationsBase
from burnpy.backend.primitives import Float, Int, Shape
from burnpy.backend.schema import BILINEAR, GENERAL, LINEAR, derived


def embedding_jvp(i: Any, t: Float, index: Int, padding: int | None) -> Float:
    """Return the tangent of an embedding: rows of the weight's tangent, which is 0 at ``padding``."""
    out = i.embedding(t, index, None)
    if padding is None:
        return out
    return i.where(i.discrete.reshape(i.discrete.ne(index, padding), (*index.shape, 1)), out, 0.0)


def embedding_batch(b: Any, weight: Any, index: Any, padding: int | None) -> Any:
    """One look-up of all indices, if all examples share the weight."""
    if weight.batched:
        return Embedding.embedding(b, weight, index, padding)
    return b.batched(b.inner.embedding(weight.value, index.value, padding))


class Embedding(OperationsBase):
    """Operations on rows of matrices, with int64 indices, which are in range."""

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

    @derived(
        BILINEAR,
        flops=lambda x, source: 2 * source[0] * x[1],
        vjp=(
            lambda i, g, source, target, scale, x_shape: i.sum_rows(g, target, source, scale, x_shape[0]),
            lambda i, g, x, source, target: i.dot_rows(x, g, source, target),
        ),
    )
    def sum_rows(self, x: Float, source: Int, target: Int, scale: Float, count: int) -> Float:
        """Return sums of rows, (count, size): row target[j] is the sum of scale[j] · x[source[j]] over all such j."""
        rows = self.mul(self.index_select(x, 0, source), self.reshape(scale, (scale.shape[0], 1)))
        return self.index_add(self.full((count, x.shape[1]), 0.0, x.dtype), 0, target, rows)

    @derived(
        BILINEAR,
        flops=lambda x, source: 2 * source[0] * x[1],
        vjp=(
            lambda i, g, y, source, target, x_shape: i.sum_rows(y, target, source, g, x_shape[0]),
            lambda i, g, x, source, target, y_shape: i.sum_rows(x, source, target, g, y_shape[0]),
        ),
    )
    def dot_rows(self, x: Float, y: Float, source: Int, target: Int) -> Float:
        """Scalar products of rows, one for each index: x[source[j]] · y[target[j]]."""
        products = self.mul(self.index_select(x, 0, source), self.index_select(y, 0, target))
        return self.sum(products, (1,), False)
