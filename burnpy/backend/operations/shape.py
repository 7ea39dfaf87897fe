"""Operations that move elements without computing on them, and matrix multiplication.

Backends may return views: primitives are never written to, so that a view cannot be distinguished from a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from burnpy.backend.dtypes import int64
from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import Bool, Dims, Key, Number, Scalar, Shape, Value
from burnpy.backend.schema import Algebra, derived, required

STRUCTURAL, BILINEAR, LINEAR = Algebra.STRUCTURAL, Algebra.BILINEAR, Algebra.LINEAR


class Shaping(OperationsBase):
    """Operations that reshape, slice and join primitives."""

    @required(STRUCTURAL, view="x")
    def reshape(self, x: Value, shape: Shape) -> Value:
        """Give x another shape with the same number of elements, in row-major order."""
        ...

    @required(STRUCTURAL, view="x")
    def permute(self, x: Value, dims: Shape) -> Value:
        """Permute the dimensions: dimension i of the result is dimension dims[i] of x."""
        ...

    @required(STRUCTURAL, view="x")
    def expand(self, x: Value, shape: Shape) -> Value:
        """Broadcast x to ``shape``."""
        ...

    @required(STRUCTURAL, view="x")
    def slice(self, x: Value, key: Key) -> Value:
        """Index with ints, slices and None (basic indexing): ``x[key]``."""
        ...

    @required(STRUCTURAL, like="x")
    def slice_scatter(self, x: Value, key: Key, src: Value | Scalar) -> Value:
        """Return a copy of x with ``x[key] = src``; src broadcasts."""
        ...

    @required(STRUCTURAL)
    def cat(self, xs: Sequence[Value], dim: int) -> Value:
        """Concatenate primitives, at least one and all of the same dtype, along an existing dimension."""
        ...

    @derived(STRUCTURAL, view="x", like="x")
    def flip(self, x: Value, dims: Dims) -> Value:
        """Reverse the order of the elements along ``dims``."""
        whole, reverse = slice(None, None, 1), slice(None, None, -1)
        return self.slice(x, tuple(reverse if d in dims else whole for d in range(len(x.shape))))

    @derived(STRUCTURAL, view="x")
    def mT(self, x: Value) -> Value:  # noqa: N802  # PyTorch's and NumPy's name
        """Matrix transpose: swap the last two dimensions."""
        n = len(x.shape)
        return self.permute(x, (*range(n - 2), n - 1, n - 2))

    @derived(LINEAR, like="x", flops=0)
    def tril(self, x: Value, diagonal: int) -> Value:
        """Lower triangle of the last two dimensions: the elements on and below ``diagonal``, zeros elsewhere."""
        return self.where(_band(self, x, diagonal), x, 0)

    @derived(LINEAR, like="x", flops=0)
    def triu(self, x: Value, diagonal: int) -> Value:
        """Upper triangle of the last two dimensions: the elements on and above ``diagonal``, zeros elsewhere."""
        discrete = self.discrete
        return self.where(discrete.bitwise_not(_band(self, x, diagonal - 1)), x, 0)

    @required(BILINEAR, product=True, flops=lambda x, out: 2 * prod(out) * x[-1])
    def matmul(self, x: Number, y: Number) -> Number:
        """Matrix product x @ y; dimensions before the last two broadcast, and neither x nor y is 0-d.

        A 1-d x is treated as a row and a 1-d y as a column; the added dimension is removed from the result.
        """
        ...

    @derived(BILINEAR, product=True, flops=lambda x, out: 2 * prod(out) * x[-1])
    def matmul_nt(self, x: Number, y: Number) -> Number:
        """Matrix product x @ yᵀ, with the last two dimensions of y swapped; both have at least two dimensions."""
        return self.matmul(x, self.mT(y))

    @derived(BILINEAR, product=True, flops=lambda x, out: 2 * prod(out) * x[-2])
    def matmul_tn(self, x: Number, y: Number) -> Number:
        """Matrix product xᵀ @ y, with the last two dimensions of x swapped; both have at least two dimensions."""
        return self.matmul(self.mT(x), y)


def _band(b: Shaping, x: Value, diagonal: int) -> Bool:
    """Return the mask of the last two dimensions of x that is true where column - row <= diagonal."""
    d = b.discrete
    rows, columns = x.shape[-2:]
    row = d.reshape(d.arange(diagonal, diagonal + rows, 1, int64), (rows, 1))
    return d.le(d.arange(0, columns, 1, int64), row)
