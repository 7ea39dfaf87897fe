"""Products of vectors and matrices, diagonals, determinants, inverses, powers and exponentials."""

from __future__ import annotations

import math
from typing import Any, Generic, NamedTuple, Self

from burnpy.backend.errors import KindError, ShapeError
from burnpy.tensor.dims import WHOLE, addressable, dim_of, distinct, integer
from burnpy.tensor.matrix_arguments import matrices
from burnpy.tensor.operands import broadcast_shape, operands
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B, V

_FORMS = {"dot": "(n,) and (n,)", "mv": "(n, m) and (m,)", "mm": "(n, k) and (k, m)", "bmm": "(b, n, k) and (b, k, m)"}
"""The shapes that the products take."""


class Products(TensorBase[B]):
    """Products. Dtypes promote; each raises a `ShapeError` for other shapes, and a `KindError` for other kinds."""

    __slots__ = ()

    def dot(self, other: Self) -> Self:
        """Return the inner product of two vectors of one size, 0-d.

        >>> x = Tensor[NumPy].from_data([1.0, 2.0])
        >>> x.dot(x).item()
        5.0
        """
        return self._product("dot", other, 1, 1)

    def mv(self, vec: Self) -> Self:
        """Return the product of a matrix (n, m) and a vector (m,)."""
        return self._product("mv", vec, 2, 1)

    def mm(self, mat2: Self) -> Self:
        """Return the product of two matrices, (n, k) and (k, m)."""
        return self._product("mm", mat2, 2, 2)

    def bmm(self, mat2: Self) -> Self:
        """Return the products of two batches of matrices, (b, n, k) and (b, k, m).

        >>> Tensor[NumPy].ones((2, 1, 3)).bmm(Tensor[NumPy].ones((2, 3, 1))).tolist()
        [[[3.0]], [[3.0]]]
        """
        return self._product("bmm", mat2, 3, 3)

    def outer(self, vec2: Self) -> Self:
        """Return the products of each element of x and each of another vector, of shape (n, m).

        >>> Tensor[NumPy].from_data([1.0, 2.0]).outer(Tensor[NumPy].from_data([3.0, 4.0])).tolist()
        [[3.0, 4.0], [6.0, 8.0]]
        """
        left, right = self._both("outer", vec2)
        if len(left.shape) != 1 or len(right.shape) != 1:
            raise ShapeError(f"outer() takes two vectors, got shapes {left.shape} and {right.shape}")
        return left.reshape(left.shape[0], 1) * right  # type: ignore[no-any-return]  # of x's class

    def kron(self, other: Self) -> Self:
        """Return the Kronecker product: blocks of ``other``, each times an element of x.

        Sizes are multiplied; missing dimensions are added in front.

        >>> x = Tensor[NumPy].from_data([[1.0, 2.0]])
        >>> x.kron(Tensor[NumPy].from_data([[1.0], [10.0]])).tolist()
        [[1.0, 2.0], [10.0, 20.0]]
        """
        left, right = self._both("kron", other)
        ndim = max(left.ndim, right.ndim)
        ours, theirs = ((1,) * (ndim - x.ndim) + x.shape for x in (left, right))
        pairs = [*zip(ours, theirs, strict=True)]  # a size of 1 leaves the other as it is
        spread = [size for n, m in pairs for size in ((n,) if 1 in (n, m) else (n, 1))]
        across = [size for n, m in pairs for size in ((m,) if 1 in (n, m) else (1, m))]
        product = left.reshape(*spread) * right.reshape(*across) if ndim else left * right
        return product.reshape(*[n * m for n, m in pairs]) if ndim else product  # type: ignore[no-any-return]  # of x's class

    def cross(self, other: Self, dim: int | None = None) -> Self:
        """Return the cross product of vectors of three elements along ``dim``; other dimensions broadcast.

        Args:
            other: the second factor, with as many dimensions.
            dim: None is the first dimension of size 3.

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


class Diagonals(TensorBase[B]):
    """Diagonals. Offset 0 is the main one, 1 the one above it, -1 the one below."""

    __slots__ = ()

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        """Return a diagonal of the matrices in dims ``dim1`` (rows) and ``dim2`` (columns), as the last dimension.

        Raises:
            ArgumentError: the dims are one.

        >>> x = IntTensor[NumPy].from_data([[1, 2, 3], [4, 5, 6]])
        >>> x.diagonal().tolist(), x.diagonal(1).tolist(), x.diagonal(-5).tolist()
        ([1, 5], [2, 6], [])
        """
        b, shape = self._backend, self.shape
        first, second = distinct((dim1, dim2), len(shape), "diagonal")
        above = integer(offset, "offset", "diagonal")
        others = [dim for dim in range(len(shape)) if dim not in (first, second)]
        rows, columns = shape[first], shape[second]
        lead = tuple([shape[dim] for dim in others])
        flat = b.reshape(b.permute(self._primitive, (*others, first, second)), (*lead, rows * columns))
        return self._like(b.slice(flat, (*(WHOLE,) * len(lead), diagonal_places(above, rows, columns))))

    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Self:
        """Square matrices whose diagonal is the last dimension of x, zeros (or False) elsewhere.

        The rows are dimension ``dim1`` of the result, and the columns ``dim2``.

        Raises:
            ShapeError: x is 0-d.
            ArgumentError: the dims are one.

        >>> IntTensor[NumPy].from_data([1, 2]).diag_embed(1).tolist()
        [[0, 1, 0], [0, 0, 2], [0, 0, 0]]
        """
        b, shape = self._backend, self.shape
        if not shape:
            raise ShapeError("diag_embed() got a 0-d tensor; expected one dimension or more: x.reshape(1)")
        first, second = distinct((dim1, dim2), len(shape) + 1, "diag_embed")
        above = integer(offset, "offset", "diag_embed")
        lead, count = shape[:-1], shape[-1]
        side = count + abs(above)
        addressable((*lead, side, side), "diag_embed")
        zeros = b.full((*lead, side * side), False if self.kind == "bool" else 0, self.dtype)
        key = (*(WHOLE,) * len(lead), diagonal_places(above, side, side))
        square = b.reshape(b.slice_scatter(zeros, key, self._primitive), (*lead, side, side))
        place = iter(range(len(lead)))
        matrix = {first: len(lead), second: len(lead) + 1}
        return self._like(
            b.permute(square, tuple([matrix[dim] if dim in matrix else next(place) for dim in range(len(shape) + 1)]))
        )

    def diag(self, diagonal: int = 0) -> Self:
        """Return the matrix with a vector on a diagonal, as `diag_embed`, or the diagonal of a matrix, as `diagonal`.

        Raises:
            ShapeError: x is neither.

        >>> x = IntTensor[NumPy].from_data([1, 2]).diag()
        >>> x.tolist(), x.diag().tolist()
        ([[1, 0], [0, 2]], [1, 2])
        """
        if self.ndim == 1:
            return self.diag_embed(diagonal)
        if self.ndim == 2:
            return self.diagonal(diagonal)
        raise ShapeError(
            f"diag() got shape {self.shape}; expected a vector or a matrix: of more dimensions there are "
            "diagonal() and diag_embed()"
        )

    def diagflat(self, offset: int = 0) -> Self:
        """Return the square matrix with the elements of x, in row-major order, on a diagonal; see `diag_embed`.

        >>> IntTensor[NumPy].from_data([[1], [2]]).diagflat().tolist()
        [[1, 0], [0, 2]]
        """
        vector = self._like(self._backend.reshape(self._primitive, (math.prod(self.shape),)))
        return vector.diag_embed(integer(offset, "offset", "diagflat"))

    def trace(self) -> Self:
        """Return the sum of the main diagonal of a matrix; of ints in int64.

        Raises:
            ShapeError: x is not a matrix.
            KindError: x is a `BoolTensor`.

        >>> Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]]).trace().item()
        5.0
        """
        if self.kind == "bool":
            raise KindError("trace() got a BoolTensor; count with x.diagonal().sum()")
        if self.ndim != 2:
            raise ShapeError(
                f"trace() got shape {self.shape}; expected a matrix: of a batch x.diagonal(0, -2, -1).sum(-1)"
            )
        diagonal: Any = self.diagonal()
        return diagonal.sum()  # type: ignore[no-any-return]  # of x's class


def diagonal_places(above: int, rows: int, columns: int) -> slice:
    """Return the places of the elements of a diagonal in a flattened matrix."""
    count = max(min(rows + min(above, 0), columns - max(above, 0)), 0)
    if not count:
        return slice(0, 0, 1)
    start = above if above >= 0 else -above * columns
    return slice(start, start + (count - 1) * (columns + 1) + 1, columns + 1)


class SlogDet(NamedTuple, Generic[V]):
    """The result of ``x.slogdet()``: the determinant is sign · exp(logabsdet)."""

    sign: V
    """-1, 0 or 1."""
    logabsdet: V
    """The logarithm of the determinant's magnitude; -inf where it is 0."""


class Matrices(TensorBase[B]):
    """Functions of matrices (…, n, n), in batches; `burnpy.linalg` has more.

    Each raises a `ShapeError` for matrices that are not square. float16 and bfloat16 are computed in float32.
    """

    __slots__ = ()

    def det(self) -> Self:
        """Return the determinant, of the shape of the batch; its gradient is the adjugate's transpose, at singular x
        too.

        >>> round(Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]]).det().item(), 4)
        -2.0
        """
        x = matrices("det", self, square=True)
        return self._like(x._backend.det(x._primitive))

    def slogdet(self) -> SlogDet[Self]:
        """Return the sign and the logarithm of the magnitude of the determinant, which itself may overflow.

        >>> sign, logabsdet = (Tensor[NumPy].eye(3) * 10.0).slogdet()
        >>> sign.item(), round(logabsdet.item(), 4)
        (1.0, 6.9078)
        """
        x = matrices("slogdet", self, square=True)
        sign, logabsdet = x._backend.slogdet(x._primitive)
        return SlogDet(self._like(sign), self._like(logabsdet))

    def logdet(self) -> Self:
        """Return the logarithm of the determinant: -inf where that is 0, and NaN where it is negative.

        Of positive definite matrices, ``2 * linalg.cholesky(x).diagonal(dim1=-2, dim2=-1).log().sum(-1)`` is faster.
        """
        x = matrices("logdet", self, square=True)
        b: Any = x._backend
        sign, logabsdet = b.slogdet(x._primitive)
        return self._like(b.where(b.ge(sign, 0.0), logabsdet, float("nan")))

    def inverse(self) -> Self:
        """Return the inverse, so that ``x @ x.inverse()`` is the identity; to solve equations, `linalg.solve` is more
        exact.

        Raises:
            LinAlgError: a matrix is singular; the message names which of the batch.

        >>> Tensor[NumPy].from_data([[2.0, 0.0], [0.0, 4.0]]).inverse().tolist()
        [[0.5, 0.0], [0.0, 0.25]]
        """
        x = matrices("inverse", self, square=True)
        return self._like(x._backend.inv(x._primitive))

    def matrix_exp(self) -> Self:
        """Return the matrix exponential, Σ xᵏ / k!.

        Source: N. J. Higham, The Scaling and Squaring Method for the Matrix Exponential Revisited, 2005.

        >>> Tensor[NumPy].from_data([[0.0, 1.0], [0.0, 0.0]]).matrix_exp().tolist()
        [[1.0, 1.0], [0.0, 1.0]]
        """
        x = matrices("matrix_exp", self, square=True)
        return self._like(x._backend.matrix_exp(x._primitive))

    def matrix_power(self, n: int) -> Self:
        """Compute the n-th power of the matrices by repeated squaring; a negative n gives powers of the inverse.

        Raises:
            LinAlgError: n is negative, and a matrix is singular.
            ArgumentError: n is not an int.

        >>> Tensor[NumPy].from_data([[1.0, 1.0], [0.0, 1.0]]).matrix_power(5).tolist()
        [[1.0, 5.0], [0.0, 1.0]]
        """
        x = matrices("matrix_power", self, square=True)
        count = integer(n, "power", "matrix_power")
        b: Any = x._backend
        square = x._primitive
        if count < 0:
            square, count = b.inv(square), -count
        out = None
        while count:
            if count % 2:
                out = square if out is None else b.matmul(out, square)
            count //= 2
            square = b.matmul(square, square) if count else square
        if out is None:
            out = b.expand(b.eye(x.shape[-1], x.shape[-1], x.dtype), x.shape)
        return self._like(out)
