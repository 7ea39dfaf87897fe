"""The factors of a matrix, with which several linear equations are solved; a singular matrix gives infinite values."""

from __future__ import annotations

from typing import Any

from burnpy.linalg.decompositions import lu
from burnpy.linalg.equations import solve_triangular


class Factors:
    """The LU decomposition of a square matrix.

    Args:
        matrix: shape (n, n).
    """

    def __init__(self, matrix: Any) -> None:
        self._permutation, self._lower, self._upper = lu(matrix)

    def solve(self, right: Any) -> Any:
        """Return the solution for a right side of shape (n,)."""
        column = self._permutation.mT @ right.unsqueeze(1)
        column = solve_triangular(self._lower, column, upper=False, unitriangular=True)
        return solve_triangular(self._upper, column, upper=True).squeeze(1)
