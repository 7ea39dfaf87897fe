"""Linear algebra: kernels for small matrices, NumPy's LAPACK, and SciPy's where it is installed and faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.backend.dtypes import float32, float64
from burnpy_array import ArrayBackend
from burnpy_numpy.kernels.kernel import family_kernels

_TRIANGULAR, _FACTORED = 48, 32
"""The numbers of rows from which LAPACK takes less time for triangular equations, and for factors."""


class NumPyLinalg(ArrayBackend):
    """Small matrices by kernels, others by the functions of `burnpy_numpy.scipy_lapack`, which few programs need."""

    def _lapack(self, function: Callable[..., Any], *args: Any) -> Any:
        from burnpy_numpy.scipy_lapack import xp

        return self._call(function, xp, *args)

    def solve_triangular(self, a: Any, b: Any, upper: bool, unitriangular: bool) -> Any:
        if (
            _suits(a, _TRIANGULAR)
            and b.size
            and b.dtype is a.dtype
            and b.shape[:-2] == a.shape[:-2]
            and (kernels := family_kernels("linalg"))
        ):
            out = kernels.run_substitution(a, b, upper, unitriangular)
            if out is not None:
                return out
        from burnpy_numpy.scipy_lapack import solve_triangular

        return self._call(solve_triangular, a, b, upper, unitriangular)

    def lu_factor(self, x: Any) -> Any:
        from burnpy_numpy.scipy_lapack import lu_factor

        return self._call(lu_factor, x)

    def cholesky(self, x: Any) -> Any:
        out = None
        if _suits(x, _FACTORED) and (kernels := family_kernels("linalg")):
            out = kernels.run_cholesky_factor(x)
        return super().cholesky(x) if out is None else out


def _suits(x: Any, most: int) -> bool:
    """Return whether kernels are used for matrices, which are of fewer than ``most`` rows."""
    return x.shape[-1] < most and x.size > 0 and (x.dtype is float32 or x.dtype is float64)
