"""Sums of rows that are selected by index, weighted, and added at an index: bags of embeddings."""

from __future__ import annotations

from burnpy.backend.operations import OperationsBase
from burnpy.backend.primitives import Float, Int
from burnpy.backend.schema import BILINEAR, derived


class Bags(OperationsBase):
    """Operations on rows of matrices, with an int64 index into the rows of each. Indices are in range."""

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
