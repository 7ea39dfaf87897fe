"""Derivatives of a solution by the equation that holds at it, not by the steps that found it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.autodiff.modes import no_grad
from burnpy.func.jacobians import jacfwd
from burnpy.linalg.decompositions import lu
from burnpy.linalg.equations import solve_triangular
from burnpy.tensor.levels import is_followed, values_beneath


def implicit(f: Callable[[Any], Any], x: Any, depends: Any) -> Any:
    """Return a solution of f(x) = 0, a vector, with the derivatives that the implicit function theorem gives.

    They are the derivatives of the iteration x ← x - J⁻¹ f(x), where the Jacobian J at the solution is a constant: each
    step makes the derivatives of one more order exact, and there is one for each level that differentiates. So they
    exist in both modes, under `vmap` and in compiled functions, by all tensors that ``f`` closes over. The values stay
    as they are.

    Args:
        f: the function of a vector.
        x: the solution.
        depends: a tensor that depends on all that ``f`` closes over; the solution is returned as it is if that has no
            derivative.
    """
    order = derivative_order(depends)
    if not order:
        return x
    with no_grad():
        factors = Factors(jacfwd(f)(x))
    for _ in range(order):
        value = f(x)
        x = x - factors.solve(value - value.detach())
    return x


def derivative_order(x: Any) -> int:
    """Return the number of levels of a tensor's device on which it is tracked or has a tangent.

    Each level differentiates once, so that no derivative of higher order is computed.
    """
    return sum(map(is_followed, values_beneath(x)))


def is_tracked(x: Any) -> bool:
    """Return whether a tensor is tracked, for gradients in reverse, on any level of its device."""
    return any(getattr(x, "node", None) is not None for x in values_beneath(x))


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
