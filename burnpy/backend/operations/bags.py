"""Sums of rows that are selected by index, weighted, and added at an index: bags of embeddings."""

from __future__ import annotations

from typing import Any

from burnpy.backend.operations import OperationsBase
from burnpy.backend.primitives import Float, Int, Shape
from burnpy.backend.schema import BILINEAR, derived


def sum_rows_x_vjp(i: Any, g: Float, source: Int, target: Int, scale: Float, x_shape: Shape) -> Float:
    """Return the gradient of weighted sums of rows by x: the same with the indices exchanged."""
    return i.sum_rows(g, target, source, scale, x_shape[0])


def sum_rows_scale_vjp(i: Any, g: Float, x: Float, source: Int, target: Int) -> Float:
    """Return the gradient of weighted sums of rows by the factors."""
    return i.dot_rows(x, g, source, target)


def dot_rows_x_vjp(i: Any, g: Float, y: Float, source: Int, target: Int, x_shape: Shape) -> Float:
    """Return the gradient of products of rows by the first rows."""
    return i.sum_rows(y, target, source, g, x_shape[0])


def dot_rows_y_vjp(i: Any, g: Float, x: Float, source: Int, target: Int, y_shape: Shape) -> Float:
    """Return the gradient of products of rows by the second rows."""
    return i.sum_rows(x, source, target, g, y_shape[0])


class Bags(OperationsBase):
    """Operations on rows of matrices, with an int64 index into the rows of each. Indices are in range."""

    @derived(
        BILINEAR,
        flops=lambda x, source: 2 * source[0] * x[1],
        vjp=(sum_rows_x_vjp, sum_rows_scale_vjp),
    )
    def sum_rows(self, x: Float, source: Int, target: Int, scale: Float, count: int) -> Float:
        """Return sums of rows, (count, size): row target[j] is the sum of scale[j] · x[source[j]] over all such j."""
        rows = self.mul(self.index_select(x, 0, source), self.reshape(scale, (scale.shape[0], 1)))
        return self.index_add(self.full((count, x.shape[1]), 0.0, x.dtype), 0, target, rows)

    @derived(
        BILINEAR,
        flops=lambda x, source: 2 * source[0] * x[1],
        vjp=(dot_rows_x_vjp, dot_rows_y_vjp),
    )
    def dot_rows(self, x: Float, y: Float, source: Int, target: Int) -> Float:
        """Scalar products of rows, one for each index: x[source[j]] · y[target[j]]."""
        products = self.mul(self.index_select(x, 0, source), self.index_select(y, 0, target))
        return self.sum(products, (1,), False)
