"""Products of arrays, and the extension ``linalg``: `burnpy.linalg` with the standard's names and arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import burnpy.linalg as linalg
from burnpy.array_api.creation_and_manipulation import Axes, broadcast_shapes
from burnpy.array_api.data_types import FLOATING, NUMERIC, array, arrays, missing_from, standard
from burnpy.array_api.searching_and_statistics import sum as total
from burnpy.backend.errors import ShapeError
from burnpy.tensor import einsum
from burnpy.tensor.joining import stack
from burnpy.tensor.tensor_base import TensorBase

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


@standard
def matmul(x1: Any, x2: Any, /) -> Any:
    """Return the matrix product."""
    first, second = arrays(array(x1), array(x2), kinds=NUMERIC)
    return first @ second


@standard
def matrix_transpose(x: Any, /) -> Any:
    """Transpose the matrices of the last two axes."""
    return array(x).mT


@standard
def tensordot(x1: Any, x2: Any, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Any:
    """Return the sum of products over the last axes of ``x1`` and the first of ``x2``, or over pairs of axes."""
    first, second = arrays(array(x1), array(x2), kinds=NUMERIC)
    return einsum.tensordot(first, second, axes)


@standard
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the sum of products along an axis, of conjugates of complex ``x1``; the other axes broadcast."""
    first, second = arrays(array(x1), array(x2), kinds=NUMERIC)
    if not -min(first.ndim, second.ndim) <= axis < 0 or first.shape[axis] != second.shape[axis]:
        raise ShapeError(
            f"array() got axis={axis} of shapes {first.shape} and {second.shape}; "
            "expected a negative axis, of the same size in both"
        )
    first, second = first.movedim(axis, -1), second.movedim(axis, -1)
    if first.kind == "complex":
        first = first.conj()
    return (first.unsqueeze(-2) @ second.unsqueeze(-1)).squeeze((-2, -1))


class OfMatrices(Protocol):
    """A function of matrices, or of a batch of them."""

    def __call__(self, x: Any, /) -> Any:
        """Call it."""
        ...


def _of_matrices(name: str) -> Any:
    """Make a function of matrices from the one of `burnpy.linalg`."""

    def function(x: Any, /) -> Any:
        return getattr(linalg, name)(array(x, FLOATING))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Compute `burnpy.linalg.{name}` of a matrix or a batch of them."
    return standard(function)


det: OfMatrices = _of_matrices("det")
eig: OfMatrices = _of_matrices("eig")
eigh: OfMatrices = _of_matrices("eigh")
eigvals: OfMatrices = _of_matrices("eigvals")
eigvalsh: OfMatrices = _of_matrices("eigvalsh")
inv: OfMatrices = _of_matrices("inv")
slogdet: OfMatrices = _of_matrices("slogdet")
svdvals: OfMatrices = _of_matrices("svdvals")


@standard
def cholesky(x: Any, /, *, upper: bool = False) -> Any:
    """Return the Cholesky factors of positive definite matrices."""
    return linalg.cholesky(array(x, FLOATING), upper=upper)


@standard
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the cross products of vectors of three elements along an axis; the other axes broadcast."""
    first, second = arrays(array(x1), array(x2), kinds=NUMERIC)
    if not -min(first.ndim, second.ndim) <= axis < 0 or first.shape[axis] != 3 or second.shape[axis] != 3:
        raise ShapeError(
            f"array() got axis={axis} of shapes {first.shape} and {second.shape}; expected 3 elements along it"
        )
    ndim = max(first.ndim, second.ndim)
    first, second = (x.reshape((1,) * (ndim - x.ndim) + x.shape) for x in (first, second))
    return first.cross(second, axis)


@standard
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """Return the diagonals of the matrices of the last two axes."""
    return array(x).diagonal(offset, -2, -1)


@standard
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Return the norms of the matrices of the last two axes."""
    return linalg.matrix_norm(array(x, FLOATING), "fro" if ord is None else ord, keepdim=keepdims)


@standard
def matrix_power(x: Any, n: int, /) -> Any:
    """Return powers of square matrices; for negative n, of their inverses."""
    return linalg.matrix_power(array(x, FLOATING), n)


@standard
def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """Count the singular values above ``rtol`` times the largest."""
    return linalg.matrix_rank(array(x, FLOATING), rtol=rtol)


@standard
def outer(x1: Any, x2: Any, /) -> Any:
    """Return the products of each element of a vector and each of another."""
    first, second = arrays(array(x1), array(x2), kinds=NUMERIC)
    return first.outer(second)


@standard
def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """Return the pseudoinverses; singular values up to ``rtol`` times the largest count as 0.

    ``rtol`` is a number, or an array with one for each matrix.
    """
    x = array(x, FLOATING)
    if not isinstance(rtol, TensorBase):
        return linalg.pinv(x, rtol=rtol)
    batch = broadcast_shapes(x.shape[:-2], rtol.shape)
    limits = array(rtol).broadcast_to(batch).flatten().tolist()
    if not limits:
        return x.mT.broadcast_to((*batch, *x.mT.shape[-2:]))
    matrices = x.broadcast_to((*batch, *x.shape[-2:])).reshape(-1, *x.shape[-2:])
    inverses = stack([linalg.pinv(matrix, rtol=limit) for matrix, limit in zip(matrices, limits, strict=True)])
    return inverses.reshape(*batch, *inverses.shape[1:])


@standard
def qr(x: Any, /, *, mode: Literal["reduced", "complete"] = "reduced") -> Any:
    """Return the factors Q and R."""
    return linalg.qr(array(x, FLOATING), mode)


@standard
def solve(x1: Any, x2: Any, /) -> Any:
    """Solve the linear equations x1 x = x2; a 1-d ``x2`` is one vector, any other a batch of matrices."""
    first, second = arrays(array(x1), array(x2), kinds=FLOATING)
    if second.ndim == 1 or first.ndim < 2:
        return linalg.solve(first, second.unsqueeze(-1)).squeeze(-1)
    batch = max(first.ndim, second.ndim)
    first, second = (x.reshape((1,) * (batch - x.ndim) + x.shape) for x in (first, second))
    return linalg.solve(first, second)


@standard
def svd(x: Any, /, *, full_matrices: bool = True) -> Any:
    """Return the singular value decomposition: U, S and Vh."""
    return linalg.svd(array(x, FLOATING), full_matrices)


@standard
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Return the sums of the diagonals of the matrices of the last two axes, in the dtypes of ``sum``."""
    return total(diagonal(array(x, NUMERIC), offset=offset), axis=-1, dtype=dtype)


@standard
def vector_norm(x: Any, /, *, axis: Axes | None = None, keepdims: bool = False, ord: float = 2) -> Any:
    """Return the norm (Σ |x|ᵖ)^(1/p) with p = ``ord`` over all elements or some axes."""
    return linalg.vector_norm(array(x, FLOATING), ord, axis, keepdims)


if not TYPE_CHECKING:
    __getattr__ = missing_from(__name__)
