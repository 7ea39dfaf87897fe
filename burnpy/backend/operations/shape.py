"""Operations that move elements without computing on them, and matrix multiplication.

Backends may return views from these: nothing ever writes to a primitive, so a view and a copy cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from burnpy.backend.dtypes import int64
from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import Bool, Dims, Key, Number, Scalar, Shape, Value
from burnpy.backend.schema import Algebra, derived, required

STRUCTURAL, BILINEAR, LINEAR = Algebra.STRUCTURAL, Algebra.BILINEAR, Algebra.LINEAR


class Shaping(OperationsBase):
    """Reshaping, slicing, joining."""

    @required(STRUCTURAL)
    def reshape(self, x: Value, shape: Shape) -> Value:
        """The same elements, in row-major order, in another shape of the same size."""
        ...

    @required(STRUCTURAL)
    def permute(self, x: Value, dims: Shape) -> Value:
        """Dimension i of the result is dimension dims[i] of x."""
        ...

    @required(STRUCTURAL)
    def expand(self, x: Value, shape: Shape) -> Value:
        """x broadcast to ``shape``."""
        ...

    @required(STRUCTURAL)
    def slice(self, x: Value, key: Key) -> Value:
        """Basic indexing ``x[key]``."""
        ...

    @required(STRUCTURAL)
    def slice_scatter(self, x: Value, key: Key, src: Value | Scalar) -> Value:
        """A copy of x with ``x[key] = src``, which broadcasts."""
        ...

    @required(STRUCTURAL)
    def cat(self, xs: Sequence[Value], dim: int) -> Value:
        """The xs, at least one and all of one dtype, joined along an existing dimension."""
        ...

    @derived(STRUCTURAL)
    def flip(self, x: Value, dims: Dims) -> Value:
        """x with the order of the elements along ``dims`` reversed."""
        whole, reverse = slice(None, None, 1), slice(None, None, -1)
        return self.slice(x, tuple(reverse if d in dims else whole for d in range(len(x.shape))))

    @derived(STRUCTURAL)
    def mT(self, x: Value) -> Value:  # noqa: N802  # PyTorch's and NumPy's name
        """The last two dimensions exchanged."""
        n = len(x.shape)
        return self.permute(x, (*range(n - 2), n - 1, n - 2))

    @derived(LINEAR)
    def tril(self, x: Value, diagonal: int) -> Value:
        """The elements on and below the given diagonal of the last two dimensions, zeros elsewhere."""
        return self.where(_band(self, x, diagonal), x, 0)

    @derived(LINEAR)
    def triu(self, x: Value, diagonal: int) -> Value:
        """The elements on and above the given diagonal of the last two dimensions, zeros elsewhere."""
        discrete = self.discrete
        return self.where(discrete.bitwise_not(_band(self, x, diagonal - 1)), x, 0)

    @required(BILINEAR)
    def matmul(self, x: Number, y: Number) -> Number:
        """The matrix product, where dimensions before the last two broadcast; neither x nor y is 0-d.

        A vector is one row on the left, one column on the right, and that dimension is not in the result.
        """
        ...

    @derived(BILINEAR)
    def matmul_nt(self, x: Number, y: Number) -> Number:
        """x yᵀ: the matrix product with the last two dimensions of y exchanged; neither has less than two."""
        return self.matmul(x, self.mT(y))

    @derived(BILINEAR)
    def matmul_tn(self, x: Number, y: Number) -> Number:
        """xᵀ y: the matrix product with the last two dimensions of x exchanged; neither has less than two."""
        return self.matmul(self.mT(x), y)


def _band(b: Shaping, x: Value, diagonal: int) -> Bool:
    """Where column - row is at most ``diagonal``, for the last two dimensions of x."""
    d = b.discrete
    rows, columns = x.shape[-2:]
    row = d.reshape(d.arange(diagonal, diagonal + rows, 1, int64), (rows, 1))
    return d.le(d.arange(0, columns, 1, int64), row)
