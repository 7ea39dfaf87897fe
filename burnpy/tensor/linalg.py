"""Linear algebra: products of vectors and matrices, determinants, inverses, powers, and checks of matrices.

`burnpy.linalg` has decompositions and solvers, and `burnpy.tensor.arithmetic` the matrix product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self

from burnpy.backend.dtypes import float32, promote_types
from burnpy.backend.errors import KindError, ShapeError, a
from burnpy.backend.primitives import Shape
from burnpy.tensor.dim_checks import dim_of, integer
from burnpy.tensor.operand_checks import broadcast_shape, mixed_kinds, number, operands, to_float, together
from burnpy.tensor.template import S
from burnpy.tensor.tensor_base import TensorBase, describe, made_of
from burnpy.typevars import B, R, V

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor

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
        """Return the products of each element of x and each element of another vector, as a matrix (n, m).

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


class ProductSums(TensorBase[B], Generic[B, S]):
    """Sums of a tensor and a product of matrices or vectors."""

    __slots__ = ()

    def addmm(self, mat1: Self, mat2: Self, *, beta: S | int = 1, alpha: S | int = 1) -> Self:
        """Return the sum beta · x + alpha · (mat1 @ mat2) with a product of matrices, to whose shape x broadcasts.

        With ``beta`` 0, x is left out, so that its NaNs are.

        Raises:
            ShapeError: the factors are not matrices that fit, or x does not broadcast to the product.
        """
        return _added("addmm", self, mat1, mat2, beta, alpha)  # type: ignore[no-any-return]  # of this class

    def addmv(self, mat: Self, vec: Self, *, beta: S | int = 1, alpha: S | int = 1) -> Self:
        """Return the sum beta · x + alpha · (mat @ vec) with a product of a matrix and a vector; the rest is as for
        `addmm`.

        >>> x, mat = Tensor[NumPy].from_data([1.0, 2.0]), Tensor[NumPy].from_data([[1.0, 0.0], [1.0, 1.0]])
        >>> x.addmv(mat, x, alpha=10.0).tolist()
        [11.0, 32.0]
        """
        return _added("addmv", self, mat, vec, beta, alpha)  # type: ignore[no-any-return]  # of this class

    def addr(self, vec1: Self, vec2: Self, *, beta: S | int = 1, alpha: S | int = 1) -> Self:
        """Return the sum beta · x + alpha · vec1.outer(vec2) with the outer product of vectors; the rest is as for
        `addmm`.

        >>> v = Tensor[NumPy].from_data([1.0, 2.0])
        >>> Tensor[NumPy].ones((2, 2)).addr(v, v).tolist()
        [[2.0, 3.0], [3.0, 5.0]]
        """
        return _added("addr", self, vec1, vec2, beta, alpha)  # type: ignore[no-any-return]  # of this class

    def baddbmm(self, batch1: Self, batch2: Self, *, beta: S | int = 1, alpha: S | int = 1) -> Self:
        """Return the sum beta · x + alpha · (batch1 @ batch2) with products of batches, (b, n, k) and (b, k, m).

        With ``beta`` 0, x is left out, so that its NaNs are.

        Raises:
            ShapeError: the factors do not fit, or x does not broadcast to the product.
        """
        return _added("baddbmm", self, batch1, batch2, beta, alpha)  # type: ignore[no-any-return]  # of this class

    def addbmm(self, batch1: Self, batch2: Self, *, beta: S | int = 1, alpha: S | int = 1) -> Self:
        """Return the sum beta · x + alpha · Σ (batch1 @ batch2) with the sum over the batch of its products, of shape
        (n, m).

        The factors are as for `baddbmm`, and the rest as for `addmm`.

        >>> Tensor[NumPy].zeros((1, 1)).addbmm(Tensor[NumPy].ones((5, 1, 3)), Tensor[NumPy].ones((5, 3, 1))).tolist()
        [[15.0]]
        """
        return _added("addbmm", self, batch1, batch2, beta, alpha)  # type: ignore[no-any-return]  # of this class


_FACTORS = {
    "addmm": ("(n, k) and (k, m)", 2, 2),
    "addmv": ("(n, k) and (k,)", 2, 1),
    "addr": ("(n,) and (m,)", 1, 1),
    "baddbmm": ("(b, n, k) and (b, k, m)", 3, 3),
    "addbmm": ("(b, n, k) and (b, k, m)", 3, 3),
}
"""The shapes of the factors, and their numbers of dimensions, by the operation that adds a product."""


def _added(operation: str, x: Any, first: Any, second: Any, beta: Any, alpha: Any) -> Any:
    """Return beta · x + alpha · a product of two factors."""
    for factor in (first, second):
        if not isinstance(factor, TensorBase):
            raise KindError(f"{operation}() multiplies tensors, got {describe(factor)}")
        operands(x, factor, operation)  # raises an error if they cannot be combined
    sizes, others = first.shape, second.shape
    product = _product_shape(operation, sizes, others)
    if product is None or broadcast_shape(x.shape, product) != product:
        raise ShapeError(
            f"{operation}() cannot add the product of shapes {sizes} and {others} to shape {x.shape}; it "
            f"multiplies {_FACTORS[operation][0]}, to whose product x must broadcast"
        )
    weight, factor = number(x, beta, operation), number(x, alpha, operation)
    x, first, second = together(operation, x, first, second)
    out: Any
    if operation == "addr":
        out = first.reshape(sizes[0], 1) * second
    elif operation == "addbmm":  # a sum of products is the product of the factors side by side
        side = sizes[0] * sizes[2]
        out = first.permute(1, 0, 2).reshape(sizes[1], side) @ second.reshape(side, others[2])
    else:
        out = first @ second
    out = out if factor == 1 else out * factor
    if weight == 0:
        return out
    return (x if weight == 1 else x * weight) + out


def _product_shape(operation: str, sizes: Shape, others: Shape) -> Shape | None:
    """Return the shape of the product that an operation adds; None if the factors do not fit."""
    if (len(sizes), len(others)) != _FACTORS[operation][1:]:
        return None
    if operation == "addr":
        return (*sizes, *others)
    if sizes[-1] != others[-min(len(others), 2)] or (len(sizes) == 3 and sizes[0] != others[0]):
        return None
    product = (*sizes[:-1], *others[len(sizes) - 1 :])
    return product[1:] if operation == "addbmm" else product


class SlogDet(NamedTuple, Generic[V, R]):
    """The result of ``x.slogdet()``: the determinant is sign · exp(logabsdet)."""

    sign: V
    """-1, 0 or 1; of complex matrices a number of magnitude 1, or 0."""
    logabsdet: R
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

    def slogdet(self) -> SlogDet[Self, Tensor[B]]:
        """Return the sign and the logarithm of the magnitude of the determinant, which itself may overflow.

        >>> sign, logabsdet = (Tensor[NumPy].eye(3) * 10.0).slogdet()
        >>> sign.item(), round(logabsdet.item(), 4)
        (1.0, 6.9078)
        """
        x = matrices("slogdet", self, square=True)
        sign, logabsdet = x._backend.slogdet(x._primitive)
        return SlogDet(self._like(sign), self._float(logabsdet))

    def logdet(self) -> Self:
        """Return the logarithm of the determinant: -inf where that is 0, and NaN where a real one is negative.

        Of positive definite matrices, ``2 * linalg.cholesky(x).diagonal(dim1=-2, dim2=-1).log().sum(-1)`` is faster.
        """
        x = matrices("logdet", self, square=True)
        b: Any = x._backend
        sign, logabsdet = b.slogdet(x._primitive)
        if x.kind == "complex":
            return self._like(b.complex(logabsdet, b.angle(sign)))
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


def floating(operation: str, x: Any, name: str = "matrices") -> Any:
    """Return a float tensor."""
    if isinstance(x, TensorBase) and x.kind == "float":
        return x
    hint = f"; {to_float(x)}" if isinstance(x, TensorBase) else made_of(x, "Tensor")
    described = a(type(x).__name__) if isinstance(x, TensorBase) else describe(x)
    raise KindError(f"{operation}() takes {name} as a float Tensor, got {described}{hint}")


def inexact(operation: str, x: Any, name: str = "matrices") -> Any:
    """Return a float or complex tensor."""
    return x if isinstance(x, TensorBase) and x.kind == "complex" else floating(operation, x, name)


def at_least_float32(x: Any) -> Any:
    """Return 16-bit floats as float32, which has room for squares, sums and small constants; others as they are."""
    return x if x.dtype.itemsize > 2 else x.to_dtype(float32)


def matrices(operation: str, x: Any, *, square: bool = False) -> Any:
    """Return a float or complex tensor of matrices (…, n, m), checked to be square if ``square`` is true."""
    x = inexact(operation, x)
    shape = x.shape
    if len(shape) < 2 or (square and shape[-1] != shape[-2]):
        form = "square matrices, of shape (…, n, n)" if square else "matrices, of shape (…, n, m)"
        raise ShapeError(f"{operation}() takes {form}, got shape {shape}")
    return x


def alike(operation: str, *tensors: Any, take: Callable[[str, Any], Any] = inexact) -> list[Any]:
    """Return float tensors, or complex ones, on one device and in the dtype to which theirs promote."""
    placed = together(operation, *[take(operation, x) for x in tensors])
    for x in placed[1:]:
        if x.kind != placed[0].kind:
            raise mixed_kinds(operation, placed[0], x)
    dtype = placed[0].dtype
    for x in placed[1:]:
        dtype = promote_types(dtype, x.dtype)
    return [x if x.dtype == dtype else x.to_dtype(dtype) for x in placed]


def expanded(operation: str, x: Any, y: Any) -> tuple[Any, Any]:
    """Return two tensors of matrices, whose dimensions before the last two are broadcast."""
    if x.shape[:-2] == y.shape[:-2]:
        return x, y
    batch = broadcast_shape(x.shape[:-2], y.shape[:-2])
    if batch is None:
        raise ShapeError(
            f"{operation}() got shapes {x.shape} and {y.shape}, whose dimensions before the last two do not broadcast"
        )
    return _expanded(x, batch), _expanded(y, batch)


def _expanded(x: Any, batch: Shape) -> Any:
    shape = (*batch, *x.shape[-2:])
    return x if x.shape == shape else x.expand(shape)
