"""Functions whose result reports the matrices of a batch for which they fail, where others raise a `LinAlgError`."""

from __future__ import annotations

import math
from typing import Any, Generic, NamedTuple, TypeVar

from burnpy.backend.errors import LinAlgError
from burnpy.linalg.decompositions import cholesky, lu_factor
from burnpy.linalg.equations import solve
from burnpy.linalg.matrix_functions import inv
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dims import need_flag
from burnpy.tensor.joining import where
from burnpy.tensor.levels import has_values
from burnpy.tensor.linalg import matrices
from burnpy.tensor.tensor import IntTensor
from burnpy.tensor.tensor_base import new_tensor
from burnpy.typevars import V, X

I = TypeVar("I")  # noqa: E741  # the ints beside the floats V


class CholeskyEx(NamedTuple, Generic[V, I]):
    """The result of `cholesky_ex`."""

    L: V
    """The factors, NaN of matrices that are not positive definite; of shape (…, n, n)."""
    info: I
    """For each matrix 0, or k if its leading k rows and columns are the first that are not positive definite; int32."""


class InvEx(NamedTuple, Generic[V, I]):
    """The result of `inv_ex`."""

    inverse: V
    """The inverses, NaN of singular matrices; of shape (…, n, n)."""
    info: I
    """For each matrix 0, or k if it is singular and the k-th pivot of its LU decomposition is 0; int32."""


class SolveEx(NamedTuple, Generic[V, I]):
    """The result of `solve_ex`."""

    result: V
    """The solutions, NaN of singular matrices."""
    info: I
    """As of `inv_ex`."""


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
    need_flag(check_errors, "check_errors", "cholesky_ex")
    if check_errors or has_values(x):
        try:
            factors = cholesky(x, upper=upper)
            return CholeskyEx(factors, IntTensor.zeros(x.shape[:-2], dtype="int32", device=x.device))
        except LinAlgError:
            if check_errors:
                raise
    device: Any = x.device
    info = new_tensor(IntTensor, device, device.cholesky_info(x._primitive)).to_dtype("int32")
    return CholeskyEx(_where_good(info, x, lambda regular: cholesky(regular, upper=upper)), info)


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
    need_flag(check_errors, "check_errors", "inv_ex")
    info = _first_zero(lu_factor(x.detach()).LU)
    return InvEx(inv(x) if check_errors else _where_good(info, x, inv), info)


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
    need_flag(check_errors, "check_errors", "solve_ex")
    info = _first_zero(lu_factor(a.detach()).LU)
    if check_errors:
        return SolveEx(solve(a, b, left=left), info)
    solution = solve(_regular(info, a), b, left=left)
    vector = solution.ndim < max(a.ndim, 2)
    bad = (info != 0).reshape(*info.shape, *(1,) * (1 if vector else 2))
    return SolveEx(where(bad, math.nan, solution), info)


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
    need_flag(check_errors, "check_errors", "lu_factor_ex")
    factors, pivots = lu_factor(x)
    info = _first_zero(factors.detach())
    if check_errors and bool((info != 0).any()):
        raise LinAlgError(f"lu_factor_ex(): the factor U is singular; info is {info.tolist()}")
    return LuFactorEx(factors, pivots, info)


def _first_zero(factors: Any) -> Any:
    """Return the number, from 1, of the first 0 on the diagonals of matrices; 0 where there is none."""
    zero = factors.diagonal(0, -2, -1) == 0.0
    size = zero.shape[-1]
    if not size:
        return zero.any(-1).int("int32")
    places = IntTensor.arange(size, 0, -1, dtype="int32", device=factors.device)
    last = (zero.int("int32") * places).amax(-1)
    return where(zero.any(-1), size + 1 - last, last)


def _regular(info: Any, x: Any) -> Any:
    """Return matrices with the identity in place of those that ``info`` reports."""
    size = x.shape[-1]
    identity = x._like(x._backend.eye(size, size, x.dtype))
    return where((info != 0).reshape(*info.shape, 1, 1), identity, x)


def _where_good(info: Any, x: Any, function: Any) -> Any:
    """Return a function of matrices, NaN of those that ``info`` reports."""
    return where((info != 0).reshape(*info.shape, 1, 1), math.nan, function(_regular(info, x)))
