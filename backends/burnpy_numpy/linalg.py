"""Linear algebra by NumPy's LAPACK, and SciPy's where it is installed and faster; loaded at first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy_array import ArrayBackend


class LinearAlgebra(ArrayBackend):
    """The functions of `burnpy_numpy.lapack`, which few programs need."""

    def _lapack(self, function: Callable[..., Any], *args: Any) -> Any:
        from burnpy_numpy.lapack import xp

        return self._call(function, xp, *args)

    def solve_triangular(self, a: Any, b: Any, upper: bool, unitriangular: bool) -> Any:
        from burnpy_numpy.lapack import solve_triangular

        return self._call(solve_triangular, a, b, upper, unitriangular)

    def lu_factor(self, x: Any) -> Any:
        from burnpy_numpy.lapack import lu_factor

        return self._call(lu_factor, x)
