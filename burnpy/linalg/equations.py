"""Linear equations, least squares and the pseudoinverse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, overload

from burnpy.backend.dtypes import epsilon, float32
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.backend.operations.complex_numbers import imaginary_diagonal
from burnpy.linalg.decompositions import I, conjugate_transposed, first_zero, lu_factor, regularized
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import distinct, integer
from burnpy.tensor.joining import where
from burnpy.tensor.linalg import alike, expanded, inexact, matrices
from burnpy.tensor.operand_checks import number, refuse_unless, together
from burnpy.tensor.tensor import ComplexTensor, IntTensor, Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B, R, V, X

if TYPE_CHECKING:
    from burnpy.tensor.tensor_types import Ints


class LeastSquares(NamedTuple, Generic[V, R, I]):
    """The result of `lstsq`."""

    solution: V
    """The solution x, of shape (…, n, k), or (…, n) for vectors."""
    residuals: R
    """The sum of squared magnitudes of each column of a x - b, (…, k); empty unless m > n."""
    rank: I
    """The rank of each matrix."""
    singular_values: R
    """The singular values of a, descending."""


@explained
def solve(a: X, b: X, *, left: bool = True) -> X:
    """Solve a x = b, for invertible matrices.

    Args:
        a: shape (…, n, n).
        b: shape (…, n, k), or (n,) or a's shape without the last dimension for vectors. Other dimensions broadcast, and
            dtypes promote.
        left: if False, the solution of x a = b.

    Raises:
        LinAlgError: a matrix is singular; the message names which of the batch.
        ShapeError: the shapes do not match.

    >>> a = Tensor[NumPy].from_data([[2.0, 0.0], [0.0, 4.0]])
    >>> solve(a, Tensor[NumPy].from_data([1.0, 1.0])).tolist()
    [0.5, 0.25]
    """
    matrices("solve", a, square=True)
    a, b = alike("solve", a, b)
    vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    if vector and not left:
        raise ShapeError(f"solve() got left=False for vectors of shape {b.shape}; give matrices")
    _fitting("solve", a, b, left, vector)
    if vector:
        b = b.unsqueeze(-1)  # type: ignore[assignment]  # of x's class
    a, b = expanded("solve", a, b)
    if not left:
        a, b = a.mT, b.mT  # type: ignore[assignment]  # of x's class
    out = a._like(a._backend.solve(a._primitive, b._primitive))
    if vector:
        return out.squeeze(-1)  # type: ignore[return-value]  # of x's class
    return out if left else out.mT  # type: ignore[return-value]  # of x's class


@explained
def solve_triangular(a: X, b: X, *, upper: bool, left: bool = True, unitriangular: bool = False) -> X:
    """Solve a x = b for triangular matrices a. Where the diagonal is 0, the solution is inf or NaN.

    Args:
        a: shape (…, n, n). Only one triangle is read.
        b: shape (…, n, k); other dimensions broadcast, and dtypes promote.
        upper: whether the upper or the lower triangle is read.
        left: if False, solve x a = b, for b of shape (…, k, n).
        unitriangular: whether to take the diagonal as ones.

    Raises:
        ShapeError: the shapes do not match.

    >>> a, b = Tensor[NumPy].from_data([[1.0, 9.0], [3.0, 2.0]]), Tensor[NumPy].from_data([[1.0], [5.0]])
    >>> solve_triangular(a, b, upper=False).tolist()
    [[1.0], [1.0]]
    """
    matrices("solve_triangular", a, square=True)
    matrices("solve_triangular", b)
    a, b = alike("solve_triangular", a, b)
    _fitting("solve_triangular", a, b, left)
    a, b = expanded("solve_triangular", a, b)
    if not left:
        a, b, upper = a.mT, b.mT, not upper  # type: ignore[assignment]  # of x's class
    out = a._like(a._backend.solve_triangular(a._primitive, b._primitive, bool(upper), bool(unitriangular)))
    return out if left else out.mT  # type: ignore[return-value]  # of x's class


@explained
def cholesky_solve(b: X, l: X, *, upper: bool = False) -> X:  # noqa: E741  # the factor's name
    """Solve a x = b with the Cholesky factor of a.

    Args:
        b: shape (…, n, k).
        l: L with L Lᵀ = a, or L Lᴴ of complex matrices, of shape (…, n, n), from `cholesky`.
        upper: whether ``l`` is Lᵀ or Lᴴ.

    Raises:
        ShapeError: the shapes do not match.

    >>> b, l = Tensor[NumPy].from_data([[8.0]]), Tensor[NumPy].from_data([[2.0]])
    >>> cholesky_solve(b, l).tolist()
    [[2.0]]
    """
    matrices("cholesky_solve", b)
    matrices("cholesky_solve", l, square=True)
    l, b = alike("cholesky_solve", l, b)  # noqa: E741  # as above
    _fitting("cholesky_solve", l, b, True)
    l, b = expanded("cholesky_solve", l, b)  # noqa: E741  # as above
    device: Any = l._backend
    turned = conjugate_transposed(l)._primitive
    lower, higher = (turned, l._primitive) if upper else (l._primitive, turned)
    half = device.solve_triangular(lower, b._primitive, False, False)
    return l._like(device.solve_triangular(higher, half, True, False))  # type: ignore[return-value]  # of x's class


@explained
def cholesky_inverse(l: X, *, upper: bool = False) -> X:  # noqa: E741  # the factor's name
    """Compute the inverse of a = L Lᵀ from its Cholesky factor.

    Args:
        l: L, of shape (…, n, n), from `cholesky`.
        upper: whether ``l`` is Lᵀ or Lᴴ.

    >>> cholesky_inverse(Tensor[NumPy].from_data([[2.0]])).tolist()
    [[0.25]]
    """
    matrices("cholesky_inverse", l, square=True)
    device: Any = l._backend
    identity = device.expand(device.eye(l.shape[-1], l.shape[-1], l.dtype), l.shape)
    return cholesky_solve(l._like(identity), l, upper=upper)  # type: ignore[return-value]  # of x's class


@explained
def lu_solve(lu: X, pivots: Ints[Any], b: X, *, left: bool = True, adjoint: bool = False) -> X:
    """Solve a x = b with the LU decomposition of a.

    Args:
        lu: the factors, from `lu_factor`, of shape (…, n, n).
        pivots: likewise, of shape (…, n).
        b: shape (…, n, k).
        left: if False, the solution of x a = b.
        adjoint: whether to solve with aᵀ, or aᴴ of complex matrices.

    Raises:
        ShapeError: the shapes do not match.
        KindError: the pivots are not an `IntTensor`.
        ArgumentError: a pivot is not one of 1 to n.

    >>> from burnpy import linalg
    >>> a, b = Tensor[NumPy].from_data([[1.0, 2.0], [2.0, 8.0]]), Tensor[NumPy].from_data([[1.0], [6.0]])
    >>> lu_solve(*linalg.lu_factor(a), b).tolist()
    [[-1.0], [1.0]]
    """
    matrices("lu_solve", lu, square=True)
    matrices("lu_solve", b)
    if not isinstance(pivots, IntTensor):
        raise KindError(f"lu_solve() takes pivots as an IntTensor, got {describe(pivots)}")
    if pivots.shape != lu.shape[:-1]:
        raise ShapeError(f"lu_solve() got pivots of shape {pivots.shape} for factors of shape {lu.shape}")
    lu, b, rows = together("lu_solve", *alike("lu_solve", lu, b), pivots)
    _fitting("lu_solve", lu, b, left)
    if not left:  # xᴴ solves with aᴴ
        turned = lu_solve(lu, rows, conjugate_transposed(b), adjoint=not adjoint)
        return conjugate_transposed(turned)
    lu, b = expanded("lu_solve", lu, b)
    device: Any = lu._backend
    discrete = device.discrete
    valid = discrete.bitwise_and(discrete.ge(rows._primitive, 1), discrete.le(rows._primitive, lu.shape[-1]))
    refuse_unless(
        device, valid, ArgumentError(f"lu_solve() got pivots outside of 1 to {lu.shape[-1]}; see lu_factor()")
    )
    order = discrete.reshape(discrete.pivot_order(rows._primitive), (*rows.shape, 1))
    factors, places = lu._primitive, discrete.expand(order, b.shape)
    dim, transposed = b.ndim - 2, conjugate_transposed(lu)._primitive
    if adjoint:
        half = device.solve_triangular(transposed, b._primitive, False, False)
        half = device.solve_triangular(transposed, half, True, True)
        return b._like(device.scatter(device.full(half.shape, 0.0, half.dtype), dim, places, half))  # type: ignore[return-value]  # of x's class
    half = device.solve_triangular(factors, device.gather(b._primitive, dim, places), False, True)
    return b._like(device.solve_triangular(factors, half, True, False))  # type: ignore[return-value]  # of x's class


@explained
def tensorinv(x: X, ind: int = 2) -> X:
    """Compute the inverse of x as a linear map: the y with ``tensordot(y, x, ind)`` the identity.

    Args:
        x: the product of its first ``ind`` sizes is the product of the others.
        ind: the number of dimensions of the map's results. The inverse has them last.

    Raises:
        ShapeError: the products differ.
        ArgumentError: ``ind`` is below 1.
        LinAlgError: the map is not invertible.

    >>> tensorinv(Tensor[NumPy].eye(6).reshape(6, 2, 3), ind=1).shape
    (2, 3, 6)
    """
    x = inexact("tensorinv", x, "a tensor")
    count = integer(ind, "number of dimensions ind", "tensorinv")
    if count < 1:
        raise ArgumentError(f"tensorinv() got ind={count}; give 1 or more")
    lead, rest = x.shape[:count], x.shape[count:]
    size = math.prod(lead)
    if size != math.prod(rest):
        raise ShapeError(f"tensorinv() got ind={count} for shape {x.shape}: {lead} and {rest} have other products")
    inverse = x._backend.inv(x._backend.reshape(x._primitive, (size, size)))
    return x._like(x._backend.reshape(inverse, (*rest, *lead)))  # type: ignore[return-value]  # of x's class


@explained
def tensorsolve(a: X, b: X, dims: Sequence[int] | None = None) -> X:
    """Solve ``tensordot(a, x, x.ndim) = b``.

    Args:
        a: shape (*b.shape, *x.shape), after ``dims`` were moved to the end.
        b: the results.
        dims: dimensions of a that are moved to its end first; None for none.

    Raises:
        ShapeError: the products of the sizes of b and of x differ.
        LinAlgError: the map is not invertible.

    >>> tensorsolve(Tensor[NumPy].eye(6).reshape(6, 2, 3) * 2.0, Tensor[NumPy].ones((6,))).tolist()
    [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]
    """
    a, b = alike("tensorsolve", a, b)
    if dims is not None:
        moved = distinct(dims, a.ndim, "tensorsolve")
        a = a.permute(*[d for d in range(a.ndim) if d not in moved], *moved)  # type: ignore[assignment]  # of x's class
    unknowns = a.shape[b.ndim :]
    size = math.prod(b.shape)
    if size != math.prod(unknowns) or math.prod(a.shape) != size * size:
        raise ShapeError(
            f"tensorsolve() got shapes {a.shape} and {b.shape}; expected (*b.shape, *x.shape) as the first"
        )
    return solve(a.reshape(size, size), b.reshape(size)).reshape(unknowns)  # type: ignore[return-value]  # of x's class


@explained
def pinv(x: X, *, atol: float | None = None, rtol: float | None = None, hermitian: bool = False) -> X:
    """Compute the pseudoinverse of Moore and Penrose, of shape (…, n, m) for x of shape (…, m, n).

    Args:
        x: shape (…, m, n).
        atol: singular values up to max(atol, rtol · the largest) count as 0; 0 by default.
        rtol: by default max(m, n) times the rounding error of the dtype, or 0 if ``atol`` is given.
        hermitian: whether to take x as symmetric or Hermitian, and read its lower triangle only.

    Source of the derivative: Golub and Pereyra, The Differentiation of Pseudo-Inverses, 1973.

    >>> pinv(Tensor[NumPy].from_data([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    x = mirrored("pinv", x) if hermitian else matrices("pinv", x)
    return x._like(x._backend.pinv(x._primitive, *tolerances("pinv", x, atol, rtol)))  # type: ignore[return-value]  # of x's class


@overload
def lstsq(
    a: Tensor[B], b: Tensor[B], rcond: float | None = None, *, driver: str | None = None
) -> LeastSquares[Tensor[B], Tensor[B], IntTensor[B]]: ...
@overload
def lstsq(
    a: ComplexTensor[B], b: ComplexTensor[B], rcond: float | None = None, *, driver: str | None = None
) -> LeastSquares[ComplexTensor[B], Tensor[B], IntTensor[B]]: ...
@explained
def lstsq(a: Any, b: Any, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares[Any, Any, Any]:
    """Find the x of least norm that minimizes ‖a x - b‖, by singular values.

    Args:
        a: shape (…, m, n).
        b: shape (…, m, k), or a's shape without the last dimension for vectors.
        rcond: singular values up to rcond times the largest count as 0; by default max(m, n) times the rounding error.
        driver: one of LAPACK's, "gels", "gelsy", "gelsd" or "gelss"; all give the same computation.

    Raises:
        ShapeError: the shapes do not match.

    >>> a, b = Tensor[NumPy].from_data([[1.0], [1.0]]), Tensor[NumPy].from_data([[1.0], [3.0]])
    >>> fit = lstsq(a, b)
    >>> round(fit.solution.item(), 4), round(fit.residuals.item(), 4), fit.rank.item()
    (2.0, 2.0, 1)
    """
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        known = '"gels", "gelsy", "gelsd" or "gelss"'
        raise ArgumentError(f"lstsq() got driver={describe(driver)}; expected {known}")
    matrices("lstsq", a)
    a, b = alike("lstsq", a, b)
    vector = b.ndim == a.ndim - 1 and b.shape == a.shape[:-1]
    if vector:
        b = b.unsqueeze(-1)
    if b.ndim < 2 or b.shape[-2] != a.shape[-2]:
        raise ShapeError(f"lstsq() got a of shape {a.shape} and b of shape {b.shape}, which need equal rows")
    a, b = expanded("lstsq", a, b)
    atol, rtol = tolerances("lstsq", a, None, rcond)
    solution = a._like(a._backend.pinv(a._primitive, atol, rtol)) @ b
    values = a._float(a._backend.svdvals(a._primitive))
    rank = (values > (values[..., :1] * rtol)).sum(-1)
    rows, columns = a.shape[-2:]
    residuals = values._like(a._backend.full((0,), 0.0, values.dtype))
    if rows > columns:
        rest = a @ solution - b
        residuals = (rest * rest.conj()).real.sum(-2) if a.kind == "complex" else rest.square().sum(-2)
    if vector:
        solution = solution.squeeze(-1)
    return LeastSquares(solution, residuals, rank, values)


def tolerances(operation: str, x: Any, atol: float | None, rtol: float | None) -> tuple[float, float]:
    """Return ``atol`` and ``rtol``, or their defaults."""
    for name, value in (("atol", atol), ("rtol", rtol)):
        given: Any = value
        if value is not None and not (isinstance(given, (int, float)) and value >= 0):
            raise ArgumentError(f"{operation}() got {name}={describe(value)}; expected a number of at least 0")
    if rtol is None:
        dtype = float32 if x.dtype.itemsize == 2 else x.dtype
        rtol = 0.0 if atol else max(x.shape[-2:]) * epsilon(dtype)
    return float(number(x, atol or 0.0, operation)), float(number(x, rtol, operation))


def mirrored(operation: str, x: Any) -> Any:
    """Return the symmetric, or Hermitian, matrices with the lower triangle of x."""
    x = matrices(operation, x, square=True)
    turn = imaginary_diagonal(x._backend, x._primitive)
    lower: Any = x.tril() if turn is None else x.tril() - x._like(turn)
    return lower + conjugate_transposed(x.tril(-1))


def _fitting(operation: str, a: Any, b: Any, left: bool, vector: bool = False) -> None:
    """Check that b has as many rows, columns, or elements if it is a vector, as the square matrices a."""
    inexact(operation, b)
    if b.ndim < 2 - vector or b.shape[-2 if left and not vector else -1] != a.shape[-1]:
        what = "elements" if vector else "rows" if left else "columns"
        raise ShapeError(f"{operation}() got shapes {a.shape} and {b.shape}; the second must have {a.shape[-1]} {what}")


class SolveEx(NamedTuple, Generic[V, I]):
    """The result of `solve_ex`."""

    result: V
    """The solutions, NaN of singular matrices."""
    info: I
    """See `inv_ex`."""


@explained
def solve_ex(a: X, b: X, *, left: bool = True, check_errors: bool = False) -> SolveEx[X, IntTensor[Any]]:
    """Solve a x = b without an error for singular matrices; see `solve`, whose arguments it takes.

    Args:
        a: shape (…, n, n).
        b: shape (…, n, k), or vectors.
        left: if False, the solution of x a = b.
        check_errors: whether to raise the error of `solve` after all.

    Raises:
        ShapeError: the shapes do not match.

    >>> solution, info = solve_ex(Tensor[NumPy].zeros((1, 1)), Tensor[NumPy].ones((1,)))
    >>> solution.tolist(), info.item()
    ([nan], 1)
    """
    matrices("solve_ex", a, square=True)
    info = first_zero(lu_factor(a.detach()).LU)
    if check_errors:
        return SolveEx(solve(a, b, left=left), info)
    solution = solve(regularized(info, a), b, left=left)
    vector = solution.ndim < max(a.ndim, 2)
    bad = (info != 0).reshape(*info.shape, *(1,) * (1 if vector else 2))
    return SolveEx(where(bad, math.nan, solution), info)
