"""Decompositions of matrices: Cholesky, LU, QR, by eigenvalues and by singular values."""

from __future__ import annotations

import math
from typing import Any, Generic, Literal, NamedTuple, TypeVar, overload

from burnpy.backend.errors import ArgumentError, LinAlgError
from burnpy.backend.operations.complex_numbers import conjugated
from burnpy.tensor.call_errors import explained
from burnpy.tensor.joining import where
from burnpy.tensor.levels import has_values
from burnpy.tensor.linalg import matrices
from burnpy.tensor.tensor import ComplexTensor, IntTensor, Tensor
from burnpy.tensor.tensor_base import describe, new_tensor
from burnpy.typevars import B, R, V, X

I = TypeVar("I")  # noqa: E741  # the ints beside the floats V


class Eigh(NamedTuple, Generic[R, V]):
    """The result of `eigh`."""

    eigenvalues: R
    """Ascending, of shape (…, n)."""
    eigenvectors: V
    """The columns, orthonormal, of shape (…, n, n)."""


class Eig(NamedTuple, Generic[V]):
    """The result of `eig`."""

    eigenvalues: V
    """In no order, of shape (…, n)."""
    eigenvectors: V
    """The columns, of length 1, of shape (…, n, n)."""


class Svd(NamedTuple, Generic[V, R]):
    """The result of `svd`: x = U diag(S) Vh."""

    U: V
    """Orthonormal columns."""
    S: R
    """The singular values, descending."""
    Vh: V
    """Orthonormal rows."""


class Qr(NamedTuple, Generic[V]):
    """The result of `qr`: x = Q R."""

    Q: V
    """Orthonormal columns."""
    R: V
    """Upper triangular."""


class LU(NamedTuple, Generic[V]):
    """The result of `lu`: x = P L U."""

    P: V
    """A permutation, of shape (…, m, m)."""
    L: V
    """Lower triangular with a diagonal of ones, of shape (…, m, k)."""
    U: V
    """Upper triangular, of shape (…, k, n)."""


class LuFactor(NamedTuple, Generic[V, I]):
    """The result of `lu_factor`, for `lu_solve`."""

    LU: V
    """Both factors in one matrix, without the diagonal of L."""
    pivots: I
    """Row i was interchanged with row pivots[i] - 1, from the first to the last."""


@explained
def cholesky(x: X, *, upper: bool = False) -> X:
    """Compute the lower triangular L with L Lᵀ = x, for symmetric positive definite matrices; L Lᴴ, for Hermitian ones.

    Args:
        x: shape (…, n, n). Only the lower triangle is read; the gradient is symmetric.
        upper: return Lᵀ, or Lᴴ.

    Raises:
        LinAlgError: a matrix is not positive definite; the message names which of the batch.
        ShapeError: the matrices are not square.

    Source of the derivative: I. Murray, Differentiation of the Cholesky Decomposition, 2016.

    >>> cholesky(Tensor[NumPy].from_data([[9.0, 3.0], [3.0, 5.0]])).tolist()
    [[3.0, 0.0], [1.0, 2.0]]
    """
    x = matrices("cholesky", x, square=True)
    out = x._like(x._backend.cholesky(x._primitive))
    return conjugate_transposed(out) if upper else out  # type: ignore[return-value]  # of x's class


@overload
def eigh(x: Tensor[B], UPLO: Literal["L", "U"] = "L") -> Eigh[Tensor[B], Tensor[B]]: ...  # noqa: N803  # as below
@overload
def eigh(x: ComplexTensor[B], UPLO: Literal["L", "U"] = "L") -> Eigh[Tensor[B], ComplexTensor[B]]: ...  # noqa: N803  # as below
@explained
def eigh(x: Any, UPLO: Literal["L", "U"] = "L") -> Eigh[Any, Any]:  # noqa: N803  # NumPy's and PyTorch's name
    """Eigenvalues and eigenvectors of symmetric matrices, or of complex Hermitian ones, whose eigenvalues are real.

    The sign of an eigenvector, of a complex one its factor of magnitude 1, and the basis of the eigenvectors of a
    repeated eigenvalue, are LAPACK's choice. Within the space of a repeated eigenvalue vectors have derivative 0, by
    convention; symmetric functions of the eigenvalues, and projectors onto such a space, have their right gradient. A
    function of the matrix, as its square root by ``v @ (w.sqrt().unsqueeze(-1) * v.mT)``, has not: its derivative lacks
    the part that turns the vectors, and where eigenvalues are nearly equal this part is rounding errors over their gap.
    `matrix_exp`, `inv` and `matrix_power` are exact.

    Args:
        x: shape (…, n, n).
        UPLO: the triangle that is read.

    Raises:
        LinAlgError: a matrix contains NaN or infinity.
        ShapeError: the matrices are not square.

    >>> [round(v, 4) for v in eigh(Tensor[NumPy].from_data([[2.0, 1.0], [1.0, 2.0]])).eigenvalues.tolist()]
    [1.0, 3.0]
    """
    x = _lower("eigh", x, UPLO)
    values, vectors = x._backend.eigh(x._primitive)
    return Eigh(x._float(values), x._like(vectors))


@explained
def eigvalsh(x: Tensor[B] | ComplexTensor[B], UPLO: Literal["L", "U"] = "L") -> Tensor[B]:  # noqa: N803  # as in eigh
    """Eigenvalues of symmetric or Hermitian matrices, ascending, of shape (…, n); see `eigh`.

    >>> eigvalsh(Tensor[NumPy].from_data([[3.0, 0.0], [0.0, -1.0]])).tolist()
    [-1.0, 3.0]
    """
    x = _lower("eigvalsh", x, UPLO)
    return x._float(x._backend.eigvalsh(x._primitive))


@explained
def eig(x: Tensor[B] | ComplexTensor[B]) -> Eig[ComplexTensor[B]]:
    """Eigenvalues and eigenvectors of square matrices, which are complex, of real matrices too.

    The order of the eigenvalues, the factors of magnitude 1 of eigenvectors, and their basis for a repeated eigenvalue
    are LAPACK's choice; what depends on it has no derivative. For symmetric matrices `eigh` is faster and more exact.

    Args:
        x: shape (…, n, n).

    Raises:
        LinAlgError: a matrix contains NaN or infinity.
        ShapeError: the matrices are not square.

    >>> eig(Tensor[NumPy].from_data([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues.imag.abs().tolist()
    [1.0, 1.0]
    """
    z = _complex("eig", x)
    values, vectors = z._backend.eig(z._primitive)
    return Eig(z._like(values), z._like(vectors))


@explained
def eigvals(x: Tensor[B] | ComplexTensor[B]) -> ComplexTensor[B]:
    """Eigenvalues of square matrices, complex, of shape (…, n), in no order; see `eig`.

    >>> eigvals(Tensor[NumPy].from_data([[0.0, 4.0], [-1.0, 0.0]])).imag.abs().tolist()
    [2.0, 2.0]
    """
    z = _complex("eigvals", x)
    return z._like(z._backend.eigvals(z._primitive))  # type: ignore[no-any-return]  # a ComplexTensor


@overload
def svd(x: Tensor[B], full_matrices: bool = True) -> Svd[Tensor[B], Tensor[B]]: ...
@overload
def svd(x: ComplexTensor[B], full_matrices: bool = True) -> Svd[ComplexTensor[B], Tensor[B]]: ...
@explained
def svd(x: Any, full_matrices: bool = True) -> Svd[Any, Any]:
    """Compute the singular value decomposition x = U diag(S) Vh.

    The signs of singular vectors, and their basis for a repeated singular value, are LAPACK's choice; what depends on
    it has no derivative, and the gradient is 0. Vectors that complete a basis have none either, and raise an
    `ArgumentError` when they are differentiated.

    Args:
        x: shape (…, m, n).
        full_matrices: whether U and Vh are square; else their shapes are (…, m, k) and (…, k, n), with k = min(m, n).

    Raises:
        LinAlgError: a matrix contains NaN or infinity.

    >>> svd(Tensor[NumPy].from_data([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])).S.tolist()
    [4.0, 3.0]
    """
    x = matrices("svd", x)
    u, s, vh = x._backend.svd(x._primitive, bool(full_matrices))
    return Svd(x._like(u), x._float(s), x._like(vh))


@explained
def svdvals(x: Tensor[B] | ComplexTensor[B]) -> Tensor[B]:
    """Compute the singular values, descending, of shape (…, min(m, n)); see `svd`.

    >>> svdvals(Tensor[NumPy].from_data([[0.0, 2.0], [1.0, 0.0]])).tolist()
    [2.0, 1.0]
    """
    x = matrices("svdvals", x)
    return x._float(x._backend.svdvals(x._primitive))


@explained
def qr(x: X, mode: Literal["reduced", "complete", "r"] = "reduced") -> Qr[X]:
    """Compute the QR decomposition x = Q R, with orthonormal columns Q and upper triangular R.

    Args:
        x: shape (…, m, n). For derivatives, its first min(m, n) columns are independent.
        mode: with "reduced", Q is of shape (…, m, k) and R (…, k, n), with k = min(m, n); with "complete", (…, m, m)
            and (…, m, n); with "r", Q is empty and R reduced. The complete mode is not differentiable for m > n.

    >>> q, r = qr(Tensor[NumPy].from_data([[0.0, 1.0], [2.0, 3.0]]))
    >>> (q @ r).round(decimals=4).tolist()
    [[0.0, 1.0], [2.0, 3.0]]
    """
    x = matrices("qr", x)
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentError(f'qr() got mode={describe(mode)}; expected "reduced", "complete" or "r"')
    q, r = x._backend.qr(x._primitive, mode == "complete")
    if mode == "r":
        q = x._backend.full((0,), 0.0, x.dtype)
    return Qr(x._like(q), x._like(r))  # type: ignore[arg-type]  # of x's class


@explained
def lu_factor(x: X) -> LuFactor[X, IntTensor[Any]]:
    """Compute the LU decomposition with partial pivoting, in the form that `lu_solve` takes.

    Args:
        x: shape (…, m, n).

    >>> lu_factor(Tensor[NumPy].from_data([[1.0, 2.0], [2.0, 8.0]]))
    LuFactor(LU=Tensor([[ 2. ,  8. ],
            [ 0.5, -2. ]],
           shape=(2, 2), dtype=float32, device=NumPy), pivots=IntTensor([2, 2], shape=(2,), dtype=int64,
    device=NumPy))
    """
    x = matrices("lu_factor", x)
    factors, pivots, _ = x._backend.lu_factor(x._primitive)
    return LuFactor(x._like(factors), x._int(pivots))  # type: ignore[arg-type]  # of x's class


@explained
def lu(x: X) -> LU[X]:
    """Compute the LU decomposition with partial pivoting, x = P L U.

    Args:
        x: shape (…, m, n).

    >>> p, l, u = lu(Tensor[NumPy].from_data([[1.0, 2.0], [2.0, 8.0]]))
    >>> p.tolist(), l.tolist(), u.tolist()
    ([[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.5, 1.0]], [[2.0, 8.0], [0.0, -2.0]])
    """
    x = matrices("lu", x)
    b = x._backend
    factors, _, order = b.lu_factor(x._primitive)
    rows, columns = x.shape[-2:]
    k = min(rows, columns)
    batch = tuple([slice(0, size, 1) for size in x.shape[:-2]])
    lower = b.slice(factors, (*batch, slice(0, rows, 1), slice(0, k, 1)))
    upper = b.slice(factors, (*batch, slice(0, k, 1), slice(0, columns, 1)))
    d = x._device.discrete
    places = d.reshape(order, (*order.shape[:-1], 1, rows))
    permutation = d.eq(d.reshape(d.arange(0, rows, 1, order.dtype), (rows, 1)), places)
    return LU(
        x._like(b.where(permutation, b.full(permutation.shape, 1.0, x.dtype), 0.0)),  # type: ignore[arg-type]  # of x's class
        x._like(b.add(b.tril(lower, -1), b.eye(rows, k, x.dtype))),  # type: ignore[arg-type]  # of x's class
        x._like(b.triu(upper, 0)),  # type: ignore[arg-type]  # of x's class
    )


def conjugate_transposed(x: X) -> X:
    """Return the transposes of matrices, which of complex ones are conjugate."""
    b: Any = x._backend
    return x._like(b.mT(conjugated(b, x._primitive)))  # type: ignore[return-value]  # of x's class


def _complex(operation: str, x: Any) -> Any:
    """Return square matrices as complex ones."""
    return matrices(operation, x, square=True).complex()


def _lower(operation: str, x: Any, uplo: str) -> Any:
    """Return matrices whose lower triangle holds the triangle ``uplo`` of x."""
    x = matrices(operation, x, square=True)
    if uplo not in ("L", "U"):
        raise ArgumentError(f'{operation}() got UPLO={describe(uplo)}; expected "L" or "U"')
    return x if uplo == "L" else conjugate_transposed(x)


class CholeskyEx(NamedTuple, Generic[V, I]):
    """The result of `cholesky_ex`."""

    L: V
    """The factors, NaN of matrices that are not positive definite; of shape (…, n, n)."""
    info: I
    """For each matrix 0, or k if its leading k rows and columns are the first that are not positive definite; int32."""


class LuFactorEx(NamedTuple, Generic[V, I]):
    """The result of `lu_factor_ex`."""

    LU: V
    """Both factors in one matrix, without the diagonal of L."""
    pivots: I
    """Row i was interchanged with row pivots[i] - 1, from the first to the last."""
    info: I
    """For each matrix 0, or k if the k-th element on the diagonal of U is the first that is 0; int32."""


@explained
def cholesky_ex(x: X, *, upper: bool = False, check_errors: bool = False) -> CholeskyEx[X, IntTensor[Any]]:
    """Compute the Cholesky factors without an error for matrices that are not positive definite; see `cholesky`.

    Args:
        x: shape (…, n, n).
        upper: return Lᵀ.
        check_errors: whether to raise the error of `cholesky` after all.

    Raises:
        ShapeError: the matrices are not square.

    >>> factors, info = cholesky_ex(Tensor[NumPy].from_data([[[4.0]], [[-1.0]]]))
    >>> factors.tolist(), info.tolist()
    ([[[2.0]], [[nan]]], [0, 1])
    """
    x = matrices("cholesky_ex", x, square=True)
    if check_errors or has_values(x):
        try:
            factors = cholesky(x, upper=upper)
            return CholeskyEx(factors, IntTensor.zeros(x.shape[:-2], dtype="int32", device=x.device))
        except LinAlgError:
            if check_errors:
                raise
    device: Any = x.device
    info = new_tensor(IntTensor, device, device.cholesky_info(x._primitive)).to_dtype("int32")
    return CholeskyEx(where_regular(info, x, lambda regular: cholesky(regular, upper=upper)), info)


@explained
def lu_factor_ex(x: X, *, check_errors: bool = False) -> LuFactorEx[X, IntTensor[Any]]:
    """Compute the LU decomposition as `lu_factor`, and report where U is singular.

    Args:
        x: shape (…, m, n).
        check_errors: whether to raise an error for these matrices.

    Raises:
        LinAlgError: U is singular, and ``check_errors`` is True.

    >>> lu_factor_ex(Tensor[NumPy].from_data([[1.0, 2.0], [2.0, 4.0]])).info.item()
    2
    """
    factors, pivots = lu_factor(x)
    info = first_zero(factors.detach())
    if check_errors and bool((info != 0).any()):
        raise LinAlgError(f"lu_factor_ex(): the factor U is singular; info is {info.tolist()}")
    return LuFactorEx(factors, pivots, info)


def first_zero(factors: Any) -> Any:
    """Return the number, from 1, of the first 0 on the diagonals of matrices; 0 where there is none."""
    zero = factors.diagonal(0, -2, -1) == 0.0
    size = zero.shape[-1]
    if not size:
        return zero.any(-1).int("int32")
    places = IntTensor.arange(size, 0, -1, dtype="int32", device=factors.device)
    last = (zero.int("int32") * places).amax(-1)
    return where(zero.any(-1), size + 1 - last, last)


def where_regular(info: Any, x: Any, function: Any) -> Any:
    """Return a function of matrices, NaN of those that ``info`` reports."""
    return where((info != 0).reshape(*info.shape, 1, 1), math.nan, function(regularized(info, x)))


def regularized(info: Any, x: Any) -> Any:
    """Return matrices with the identity in place of those that ``info`` reports."""
    size = x.shape[-1]
    identity = x._like(x._backend.eye(size, size, x.dtype))
    return where((info != 0).reshape(*info.shape, 1, 1), identity, x)
