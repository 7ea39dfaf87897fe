"""Products of vectors and matrices, of numbers of both kinds, that check their shapes more strictly than matmul."""

from __future__ import annotations

from typing import Any, Self

from burnpy.backend.errors import KindError, ShapeError
from burnpy.tensor.base import TensorBase, describe
from burnpy.tensor.dims import dim_of
from burnpy.tensor.operands import broadcast_shape, operands
from burnpy.typevars import B

_FORMS = {
    "dot": "(n,) and (n,)",
    "mv": "(n, m) and (m,)",
    "mm": "(n, k) and (k, m)",
    "bmm": "(b, n, k) and (b, k, m)",
}
"""The shapes that the products take."""


class Products(TensorBase[B]):
    """Products. Dtypes promote; each raises a `ShapeError` for other shapes, and a `KindError` for other kinds."""

    __slots__ = ()

    def dot(self, other: Self) -> Self:
        """The inner product of two vectors of one size, 0-d.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].from_data([1.0, 2.0])
        >>> x.dot(x).item()
        5.0
        """
        return self._product("dot", other, 1, 1)

    def mv(self, vec: Self) -> Self:
        """The product of a matrix (n, m) and a vector (m,)."""
        return self._product("mv", vec, 2, 1)

    def mm(self, mat2: Self) -> Self:
        """The product of two matrices, (n, k) and (k, m)."""
        return self._product("mm", mat2, 2, 2)

    def bmm(self, mat2: Self) -> Self:
        """The products of two batches of matrices, (b, n, k) and (b, k, m).

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].ones((2, 1, 3)).bmm(Tensor[NumPy].ones((2, 3, 1))).tolist()
        [[[3.0]], [[3.0]]]
        """
        return self._product("bmm", mat2, 3, 3)

    def outer(self, vec2: Self) -> Self:
        """The products of each element of x and each of another vector, of shape (n, m).

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([1.0, 2.0]).outer(Tensor[NumPy].from_data([3.0, 4.0])).tolist()
        [[3.0, 4.0], [6.0, 8.0]]
        """
        left, right = self._both("outer", vec2)
        if len(left.shape) != 1 or len(right.shape) != 1:
            raise ShapeError(f"outer() takes two vectors, got shapes {left.shape} and {right.shape}")
        return left.reshape(left.shape[0], 1) * right  # type: ignore[no-any-return]  # of x's class

    def kron(self, other: Self) -> Self:
        """The Kronecker product: blocks of ``other``, each times an element of x.

        Sizes are multiplied; missing dimensions are added in front.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].from_data([[1.0, 2.0]])
        >>> x.kron(Tensor[NumPy].from_data([[1.0], [10.0]])).tolist()
        [[1.0, 2.0], [10.0, 20.0]]
        """
        left, right = self._both("kron", other)
        ndim = max(left.ndim, right.ndim)
        ours, theirs = ((1,) * (ndim - x.ndim) + x.shape for x in (left, right))
        spread = [size for n in ours for size in (n, 1)], [size for n in theirs for size in (1, n)]
        product = left.reshape(*spread[0]) * right.reshape(*spread[1]) if ndim else left * right
        return product.reshape(*[n * m for n, m in zip(ours, theirs, strict=True)]) if ndim else product  # type: ignore[no-any-return]  # of x's class

    def cross(self, other: Self, dim: int | None = None) -> Self:
        """The cross product of vectors of three elements along ``dim``; other dimensions broadcast.

        Args:
            other: the second factor, with as many dimensions.
            dim: None is the first dimension of size 3.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> x, y = Tensor[NumPy].from_data([1.0, 0.0, 0.0]), Tensor[NumPy].from_data([0.0, 1.0, 0.0])
        >>> x.cross(y).tolist()
        [0.0, 0.0, 1.0]
        """
        left, right = self._both("cross", other)
        shape = broadcast_shape(left.shape, right.shape)
        if shape is None or left.ndim != right.ndim:
            raise ShapeError(
                f"cross() got shapes {left.shape} and {right.shape}, which need equal sizes, or 1, in as many "
                "dimensions"
            )
        if dim is None:
            place = shape.index(3) if 3 in shape else -1
        else:
            place = dim_of(dim, len(shape), "cross")
        if place < 0 or left.shape[place] != 3 or right.shape[place] != 3:
            raise ShapeError(
                f"cross() got shapes {left.shape} and {right.shape}, which need size 3 in one dimension, dim"
            )

        def part(x: Any, k: int) -> Any:
            key = [slice(0, size, 1) for size in x.shape]
            key[place] = slice(k, k + 1, 1)
            return x._like(x._backend.slice(x._primitive, tuple(key)))

        parts = [part(left, j) * part(right, k) - part(left, k) * part(right, j) for j, k in ((1, 2), (2, 0), (0, 1))]
        out: Self = left._like(left._backend.cat([x._primitive for x in parts], place))
        return out

    def _both(self, operation: str, other: Any) -> tuple[Any, Any]:
        """Return x and another tensor of its kind on one device."""
        if not isinstance(other, TensorBase):
            raise KindError(f"{operation}() takes another {type(self).__name__}, got {describe(other)}")
        left, right = operands(self, other, operation)
        return left, left._like(right)

    def _product(self, operation: str, other: Any, ndim: int, other_ndim: int) -> Self:
        """Return the matrix product, after checking the number of dimensions of both."""
        left, right = self._both(operation, other)
        shapes = left.shape, right.shape
        fits = left.ndim == ndim and right.ndim == other_ndim
        if not fits or shapes[0][-1] != shapes[1][-min(2, other_ndim)] or shapes[0][:-2] != shapes[1][:-2]:
            raise ShapeError(f"{operation}() takes shapes {_FORMS[operation]}, got {shapes[0]} and {shapes[1]}")
        return left.matmul(right)  # type: ignore[no-any-return]  # of x's class
