"""Linear algebra by the ``linalg`` of the array module: LAPACK of NumPy, cuSOLVER and cuBLAS of CuPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.backend import lapack
from burnpy_array.base import ArrayBase


def by(function: Callable[..., Any]) -> Any:
    """Return the method of an operation that a function of `burnpy.backend.lapack` computes."""

    def method(self: LinearAlgebra, *args: Any) -> Any:
        return self._lapack(function, *args)

    return method


class LinearAlgebra(ArrayBase):
    """Linear algebra, on the device of the arrays."""

    def _lapack(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return function(xp, *args), which raises NumPy's `LinAlgError` where a matrix has no result."""
        return self._call(function, self.xp, *args)

    cholesky, solve, solve_triangular = by(lapack.cholesky), by(lapack.solve), by(lapack.solve_triangular)
    inv, det, slogdet, adjugate = by(lapack.inv), by(lapack.det), by(lapack.slogdet), by(lapack.adjugate)
    eigh, eigvalsh, svd, svdvals = by(lapack.eigh), by(lapack.eigvalsh), by(lapack.svd), by(lapack.svdvals)
    qr, lu_factor, pinv, matrix_exp = by(lapack.qr), by(lapack.lu_factor), by(lapack.pinv), by(lapack.matrix_exp)
