"""Determinants, inverses, powers, exponentials, products and ranks of matrices; norms and condition numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, overload

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.linalg.decompositions import I, first_zero, lu_factor, svdvals, where_regular
from burnpy.linalg.equations import mirrored, tolerances
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import DimsLike, dims_of, distinct, integers
from burnpy.tensor.einsum import product_of
from burnpy.tensor.grids import ascending_powers
from burnpy.tensor.joining import where
from burnpy.tensor.linalg import SlogDet, inexact, matrices
from burnpy.tensor.operand_checks import broadcast_shape, number
from burnpy.tensor.tensor import ComplexTensor, IntTensor, Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B, V, X


@explained
def det(x: X) -> X:
    """Compute the determinants, ``x.det()``; differentiable at singular matrices too.

    >>> det(Tensor[NumPy].eye(3)).item()
    1.0
    """
    return matrices("det", x, square=True).det()  # type: ignore[no-any-return]  # of a Tensor


@overload
def slogdet(x: Tensor[B]) -> SlogDet[Tensor[B], Tensor[B]]: ...
@overload
def slogdet(x: ComplexTensor[B]) -> SlogDet[ComplexTensor[B], Tensor[B]]: ...
@explained
def slogdet(x: Any) -> SlogDet[Any, Any]:
    """Compute the signs of the determinants and the logarithms of their magnitudes, ``x.slogdet()``.

    >>> slogdet(-Tensor[NumPy].eye(3)).sign.item()
    -1.0
    """
    return matrices("slogdet", x, square=True).slogdet()  # type: ignore[no-any-return]  # of a Tensor


@explained
def inv(x: X) -> X:
    """Compute the inverses, ``x.inverse()``.

    Raises:
        LinAlgError: a matrix is singular; the message names which of the batch.
        ShapeError: the matrices are not square.

    >>> inv(Tensor[NumPy].from_data([[0.0, 2.0], [1.0, 0.0]])).tolist()
    [[0.0, 1.0], [0.5, 0.0]]
    """
    x = matrices("inv", x, square=True)
    return x._like(x._backend.inv(x._primitive))  # type: ignore[return-value]  # of x's class


@explained
def matrix_exp(x: X) -> X:
    """Compute the matrix exponentials, ``x.matrix_exp()``.

    >>> matrix_exp(Tensor[NumPy].zeros((2, 2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return matrices("matrix_exp", x, square=True).matrix_exp()  # type: ignore[no-any-return]  # of a Tensor


@explained
def matrix_power(x: X, n: int) -> X:
    """Compute the n-th powers, ``x.matrix_power(n)``; for negative n, the powers of the inverse.

    >>> matrix_power(Tensor[NumPy].from_data([[2.0]]), -2).tolist()
    [[0.25]]
    """
    return matrices("matrix_power", x, square=True).matrix_power(n)  # type: ignore[no-any-return]  # of a Tensor


@explained
def matrix_rank(
    x: Tensor[B] | ComplexTensor[B],
    *,
    atol: float | Tensor[B] | None = None,
    rtol: float | Tensor[B] | None = None,
    hermitian: bool = False,
) -> IntTensor[B]:
    """Count the singular values that are not 0, for each matrix of the batch.

    Args:
        x: shape (…, m, n).
        atol: as for `pinv`, or a tensor whose shape broadcasts with the shape of the batch.
        rtol: likewise.
        hermitian: whether to take x as symmetric, and read its lower triangle only.

    Raises:
        ShapeError: the shapes do not broadcast.

    >>> matrix_rank(Tensor[NumPy].ones((3, 2))).item()
    1
    """
    x = mirrored("matrix_rank", x) if hermitian else matrices("matrix_rank", x)
    given = [each for each in (atol, rtol) if isinstance(each, Tensor)]
    if broadcast_shape(x.shape[:-2], *[each.shape for each in given]) is None:
        shapes = " and ".join([str(each.shape) for each in given])
        raise ShapeError(
            f"matrix_rank(): tolerances of shape {shapes} do not broadcast with matrices of shape {x.shape}, whose "
            f"batch is {x.shape[:-2]}"
        )
    numbers = tolerances("matrix_rank", x, *[None if isinstance(each, Tensor) else each for each in (atol, rtol)])
    least, relative = (
        each.detach().unsqueeze(-1) if isinstance(each, Tensor) else number
        for each, number in zip((atol, rtol), numbers, strict=True)
    )
    if isinstance(least, Tensor) and rtol is None:
        relative = least.zeros_like().where(least > 0.0, numbers[1])
    values = svdvals(x).detach()
    return (values > (values[..., :1] * relative).maximum(least)).sum(-1)


@explained
def multi_dot(tensors: Sequence[X]) -> X:
    """Multiply matrices in the order of the fewest multiplications; the first and the last may be vectors.

    Raises:
        ArgumentError: there are fewer than two.
        ShapeError: the shapes do not match.

    Source: Cormen et al., Introduction to Algorithms, section 15.2.

    >>> x = Tensor[NumPy].ones((2, 3))
    >>> multi_dot([x, x.T, x, Tensor[NumPy].ones((3,))]).tolist()
    [18.0, 18.0]
    """
    if not isinstance(tensors, (list, tuple)) or len(tensors) < 2:
        raise ArgumentError(f"multi_dot() takes two tensors or more in a list, got {describe(tensors)}")
    return product_of("multi_dot", tensors, vectors=True)  # type: ignore[no-any-return]  # a Tensor


@explained
def vecdot(x: X, y: X, *, dim: int = -1) -> X:
    """Compute the inner products of vectors along a dimension; shapes broadcast, and dtypes promote.

    Of complex vectors the first is conjugated.

    Raises:
        ShapeError: the shapes do not broadcast.

    >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
    >>> vecdot(x, x).tolist(), vecdot(x, x[0], dim=0).tolist()
    ([5.0, 25.0], [4.0, 12.0])
    """
    first, second = inexact("vecdot", x, "vectors"), inexact("vecdot", y, "vectors")
    product = (first.conj() if first.kind == "complex" else first) * second
    return product.sum(dim)  # type: ignore[no-any-return]  # a Tensor


@explained
def vander(x: X, *, N: int | None = None) -> X:  # noqa: N803  # PyTorch's name
    """Compute the Vandermonde matrices of vectors, whose columns are powers with exponents from 0 to N - 1.

    Args:
        x: shape (…, n); a 0-d one is a vector of one element.
        N: the number of columns; None for n.

    Raises:
        ArgumentError: N is negative.

    >>> vander(Tensor[NumPy].from_data([2.0, 3.0])).tolist()
    [[1.0, 2.0], [1.0, 3.0]]
    """
    x = inexact("vander", x, "vectors")
    return ascending_powers(x if x.ndim else x.reshape(1), N)  # type: ignore[no-any-return]  # a Tensor


Order: TypeAlias = float | Literal["fro", "nuc"]


@explained
def vector_norm(
    x: Tensor[B] | ComplexTensor[B], ord: float = 2.0, dim: DimsLike = None, keepdim: bool = False
) -> Tensor[B]:
    """Compute the norm (Σ |x|ᵖ)^(1/p) over some dimensions or all. Its gradient at 0 is 0, at every order.

    Args:
        x: any shape; ``dim`` of a 0-d tensor is None, 0 or -1.
        ord: p, a number; inf is the largest magnitude, -inf the smallest, 0 the number of elements that are not 0.
        dim: one dimension, several, or None for all.
        keepdim: whether these dimensions stay, with size 1.

    Raises:
        ShapeError: x has no elements, and ``ord`` selects the smallest.

    >>> vector_norm(Tensor[NumPy].from_data([3.0, -4.0])).item()
    5.0
    """
    x = inexact("vector_norm", x, "vectors")
    is_complex = x.kind == "complex"
    size: Any = x.abs() if is_complex else x
    p, dims = _number("vector_norm", size, ord), dims_of(dim, x.ndim, "vector_norm")
    if (p < 0 or p == math.inf) and any(x.shape[d] == 0 for d in dims):
        raise ShapeError(f"vector_norm() got shape {x.shape}; the norm of no elements is undefined for ord={ord!r:.80}")
    if is_complex and p == 2.0:
        return x.norm(2.0, dims, keepdim)
    return size._like(size._backend.vector_norm(size._primitive, p, dims, keepdim))  # type: ignore[no-any-return]  # a Tensor


@explained
def matrix_norm(
    x: Tensor[B] | ComplexTensor[B], ord: Order = "fro", dim: tuple[int, int] = (-2, -1), keepdim: bool = False
) -> Tensor[B]:
    """Compute the norms of matrices.

    Args:
        x: shape (…, n, m), or with rows and columns in other places.
        ord: "fro", the root of the sum of squares; "nuc", the sum of the singular values; 2 and -2, the largest and the
            smallest of them; 1 and -1, the largest and the smallest sum of magnitudes of a column; inf and -inf, of a
            row.
        dim: the dimensions of the rows and the columns.
        keepdim: whether these dimensions stay, with size 1.

    Raises:
        ArgumentError: there is no such norm.
        ShapeError: x has fewer than two dimensions, or ``ord`` selects the smallest of no numbers.

    >>> x = Tensor[NumPy].from_data([[3.0, 0.0], [0.0, -4.0]])
    >>> [matrix_norm(x, ord=p).item() for p in ("fro", "nuc", 2, -1)]
    [5.0, 7.0, 4.0, 3.0]
    """
    x = matrices("matrix_norm", x)
    given: Any = dim
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise ArgumentError(f"matrix_norm() got dim={describe(dim)}; expected a pair, of rows and columns")
    rows, columns = distinct(dim, x.ndim, "matrix_norm")
    if ord not in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        raise ArgumentError(f'matrix_norm() got ord={describe(ord)}; expected "fro", "nuc", 1, -1, 2, -2, inf or -inf')
    if ord == "fro":
        return vector_norm(x, 2.0, (rows, columns), keepdim)
    if ord in (1, -1, math.inf, -math.inf):
        inner, outer = (rows, columns) if ord in (1, -1) else (columns, rows)
        out = _extreme(x, x.abs().sum(inner, keepdim=True), ord, outer)
        return out if keepdim else out.squeeze((rows, columns))
    others = [d for d in range(x.ndim) if d not in (rows, columns)]
    moved = x.permute(*others, rows, columns)
    values = svdvals(moved)
    out = values.sum(-1) if ord == "nuc" else _extreme(x, values, ord, -1).squeeze(-1)
    return out.reshape(*[1 if d in (rows, columns) else n for d, n in enumerate(x.shape)]) if keepdim else out


@explained
def norm(
    x: Tensor[B] | ComplexTensor[B],
    ord: Order | None = None,
    dim: int | tuple[int, ...] | None = None,
    keepdim: bool = False,
) -> Tensor[B]:
    """Compute the norms of vectors or of matrices, by the number of dims.

    Without ``ord`` it is the 2-norm over ``dim``, or over all elements. With it, one dim is of vectors (`vector_norm`),
    a pair of matrices (`matrix_norm`), and without ``dim`` x is a vector or a matrix.

    Raises:
        ShapeError: x is neither, and ``dim`` is None.

    >>> x = Tensor[NumPy].from_data([[3.0, 0.0], [0.0, -4.0]])
    >>> norm(x).item(), norm(x, ord=1, dim=1).tolist(), norm(x, ord=2).item()
    (5.0, [3.0, 4.0], 4.0)
    """
    x = inexact("norm", x, "vectors or matrices")
    if ord is None:
        return vector_norm(x, 2.0, dim, keepdim)
    if dim is None:
        if x.ndim not in (1, 2):
            raise ShapeError(f"norm() got ord={describe(ord)} of shape {x.shape}; name the dims, dim=(-2, -1)")
        dims: Any = tuple(range(x.ndim))
    else:
        dims = integers((dim,), "dim", "norm")
    if len(dims) == 2:
        return matrix_norm(x, ord, dims, keepdim)
    return vector_norm(x, ord, dims, keepdim)  # type: ignore[arg-type]  # a name is refused there


@explained
def cond(x: Tensor[B] | ComplexTensor[B], p: Order | None = None) -> Tensor[B]:
    """Compute the condition number of matrices, ‖x‖ · ‖x⁻¹‖; inf for singular matrices.

    Args:
        x: shape (…, n, m), square unless p is None, 2 or -2.
        p: the norm, as in `matrix_norm`; None is 2, the largest singular value over the smallest.

    >>> cond(Tensor[NumPy].from_data([[4.0, 0.0], [0.0, 2.0]])).item()
    2.0
    """
    x = matrices("cond", x, square=p not in (None, 2, -2))
    b: Any = x._backend
    if p in (None, 2, -2):
        values = svdvals(x)
        if values.shape[-1] == 0:
            return values._like(b.full(x.shape[:-2], 0.0, values.dtype))
        largest, smallest = values[..., 0], values[..., -1]
        return smallest / largest if p == -2 else largest / smallest
    singular = (x.slogdet().sign == 0.0).detach()
    wide = singular.reshape(*singular.shape, 1, 1)
    regular: Any = where(wide, x._like(b.eye(x.shape[-1], x.shape[-1], x.dtype)), x)  # type: ignore[arg-type]  # both of x's class
    inverse = x._like(b.inv(regular._primitive))
    assert p is not None
    product = matrix_norm(x, p) * matrix_norm(inverse, p)
    return where(singular, math.inf, product)


def _extreme(x: Any, values: Tensor[B], ord: Any, dim: int) -> Tensor[B]:
    """Return the largest, or for a negative ``ord`` the smallest, of values along ``dim``, which stays with size 1."""
    if ord < 0 and values.shape[dim] == 0:
        raise ShapeError(f"matrix_norm() got ord={ord} for empty matrices, of shape {x.shape}, which have no such norm")
    if ord < 0:
        return values.amin(dim, keepdim=True)
    return values.amax(dim, keepdim=True) if values.shape[dim] else values.sum(dim, keepdim=True)


def _number(operation: str, x: Any, ord: Any) -> float:
    """Return the order of a norm of vectors as a float."""
    if isinstance(ord, bool) or not isinstance(ord, (int, float)):
        raise ArgumentError(f"{operation}() got ord={describe(ord)}; expected a number for vectors")
    return float(number(x, ord, operation))


class InvEx(NamedTuple, Generic[V, I]):
    """The result of `inv_ex`."""

    inverse: V
    """The inverses, NaN of singular matrices; of shape (…, n, n)."""
    info: I
    """For each matrix 0, or k if it is singular and the k-th pivot of its LU decomposition is 0; int32."""


@explained
def inv_ex(x: X, *, check_errors: bool = False) -> InvEx[X, IntTensor[Any]]:
    """Compute the inverses without an error for singular matrices; see `inv`.

    Args:
        x: shape (…, n, n).
        check_errors: whether to raise the error of `inv` after all.

    Raises:
        ShapeError: the matrices are not square.

    >>> inverse, info = inv_ex(Tensor[NumPy].from_data([[[2.0]], [[0.0]]]))
    >>> inverse.tolist(), info.tolist()
    ([[[0.5]], [[nan]]], [0, 1])
    """
    x = matrices("inv_ex", x, square=True)
    info = first_zero(lu_factor(x.detach()).LU)
    return InvEx(inv(x) if check_errors else where_regular(info, x, inv), info)
