"""Decompositions, inverses, determinants and the solution of linear equations, of matrices (…, n, m) in batches.

The defaults copy to the host, compute there by `burnpy.backend.lapack`, and copy back: a decomposition made of other
operations would take a launch, or a call, for each column. A backend with a library of its own overrides them.
float16 and bfloat16 are computed in float32.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import Float, Int
from burnpy.backend.schema import Algebra, derived

GENERAL = Algebra.GENERAL


class LinearAlgebra(OperationsBase):
    """Linear algebra. Batch dimensions of two arguments are the same, and dtypes too."""

    @derived(GENERAL, like="x", flops=lambda x: prod(x) * x[-1] // 3)
    def cholesky(self, x: Float) -> Float:
        """Lower triangular L with L Lᵀ = x, for symmetric positive definite x, of which the lower triangle is read."""
        return _by_host(self, "cholesky", x)

    @derived(GENERAL, like="b", flops=lambda a, b: prod(b) * a[-1])
    def solve_triangular(self, a: Float, b: Float, upper: bool, unitriangular: bool) -> Float:
        """Solve a x = b, where of a, (…, n, n), one triangle is read, with ones as its diagonal if unitriangular.

        b has shape (…, n, k). Division by a 0 on the diagonal gives inf or NaN.
        """
        return _by_host(self, "solve_triangular", a, b, upper, unitriangular)

    @derived(GENERAL, like="b", flops=lambda a, b: 2 * prod(a) * a[-1] // 3 + 2 * prod(b) * a[-1])
    def solve(self, a: Float, b: Float) -> Float:
        """Solve a x = b for invertible a of shape (…, n, n) and b of shape (…, n, k)."""
        return _by_host(self, "solve", a, b)

    @derived(GENERAL, like="x", flops=lambda x: 2 * prod(x) * x[-1])
    def inv(self, x: Float) -> Float:
        """Inverse of invertible matrices."""
        return _by_host(self, "inv", x)

    @derived(GENERAL, flops=lambda x: 2 * prod(x) * x[-1] // 3)
    def det(self, x: Float) -> Float:
        """Determinant of square matrices, of the shape of the batch."""
        return _by_host(self, "det", x)

    @derived(GENERAL, like="x", flops=lambda x: 3 * prod(x) * x[-1])
    def adjugate(self, x: Float) -> Float:
        """Adjugate of square matrices: det(x) x⁻¹, which exists at singular x too; its transpose is det's gradient."""
        return _by_host(self, "adjugate", x)

    @derived(GENERAL, flops=lambda x: 2 * prod(x) * x[-1] // 3)
    def slogdet(self, x: Float) -> tuple[Float, Float]:
        """Sign (-1, 0 or 1) and logarithm of the magnitude of the determinant, which may overflow where they do not."""
        return _by_host(self, "slogdet", x)  # type: ignore[no-any-return]  # a pair

    @derived(GENERAL, flops=lambda x: 9 * prod(x) * x[-1])
    def eigh(self, x: Float) -> tuple[Float, Float]:
        """Eigenvalues, ascending, (…, n), and eigenvectors, the columns of (…, n, n), of symmetric matrices.

        The lower triangle of x is read.
        """
        return _by_host(self, "eigh", x)  # type: ignore[no-any-return]  # a pair

    @derived(GENERAL, flops=lambda x: 4 * prod(x) * x[-1] // 3)
    def eigvalsh(self, x: Float) -> Float:
        """Eigenvalues of symmetric matrices, ascending."""
        return self.eigh(x)[0]

    @derived(GENERAL, flops=lambda x: 6 * prod(x) * min(x[-1], x[-2]))
    def svd(self, x: Float, full_matrices: bool) -> tuple[Float, Float, Float]:
        """Singular value decomposition x = u @ diag(s) @ vh, with s descending.

        For x of shape (…, m, n) and k = min(m, n), the shapes are (…, m, k), (…, k), (…, k, n), or, with
        ``full_matrices``, (…, m, m), (…, k), (…, n, n).
        """
        return _by_host(self, "svd", x, full_matrices)  # type: ignore[no-any-return]  # a triple

    @derived(GENERAL, flops=lambda x: 3 * prod(x) * min(x[-1], x[-2]))
    def svdvals(self, x: Float) -> Float:
        """Singular values, descending."""
        return self.svd(x, False)[1]

    @derived(GENERAL, flops=lambda x: 4 * prod(x) * min(x[-1], x[-2]))
    def qr(self, x: Float, complete: bool) -> tuple[Float, Float]:
        """QR decomposition: orthonormal columns q, (…, m, k), and upper triangular r, (…, k, n); x = q @ r.

        k is min(m, n), or m if ``complete``.
        """
        return _by_host(self, "qr", x, complete)  # type: ignore[no-any-return]  # a pair

    @derived(GENERAL, flops=lambda x: prod(x) * min(x[-1], x[-2]))
    def lu_factor(self, x: Float) -> tuple[Float, Int, Int]:
        """LU decomposition with partial pivoting, of x (…, m, n): the factors, the pivots and the permutation.

        The factors are in one matrix of x's shape, without the ones on the diagonal of L. ``pivots`` are LAPACK's:
        row i was interchanged with row pivots[i] - 1. ``x[permutation] = L U``. Both are int64.
        """
        return _by_host(self, "lu_factor", x)  # type: ignore[no-any-return]  # a triple

    @derived(GENERAL, flops=lambda x: 12 * prod(x) * min(x[-1], x[-2]))
    def pinv(self, x: Float, atol: float, rtol: float) -> Float:
        """Pseudoinverse of Moore and Penrose, (…, n, m) for x of (…, m, n).

        Singular values up to max(atol, rtol · the largest) count as 0.
        """
        return _by_host(self, "pinv", x, atol, rtol)

    @derived(GENERAL, like="x", flops=lambda x: 20 * prod(x) * x[-1])
    def matrix_exp(self, x: Float) -> Float:
        """Matrix exponential of square matrices, Σ xᵏ / k!."""
        return _by_host(self, "matrix_exp", x)


def _by_host(device: Any, name: str, *args: Any) -> Any:
    """Call a function of `lapack` with NumPy arrays, and return its result, or results, as primitives."""
    import burnpy.backend.lapack as lapack  # at first use, as few programs need it

    arrays = [device.to_numpy(a) if hasattr(a, "dtype") else a for a in args]
    with np.errstate(all="ignore"):
        out = getattr(lapack, name)(np, *arrays)

    def adopted(array: np.ndarray[Any, Any]) -> Any:
        array = np.asarray(array)
        return (device.discrete if array.dtype.kind == "i" else device).adopt_numpy(array)

    return tuple(map(adopted, out)) if isinstance(out, tuple) else adopted(out)
