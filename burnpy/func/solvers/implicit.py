"""Derivatives of a solution by the equation that holds at it, not by the steps that found it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from burnpy.autodiff.modes import no_grad
from burnpy.func.derivatives.jacobians import jacfwd
from burnpy.func.solvers.linear import Factors

ORDER = 2
"""The order up to which derivatives are exact."""


def implicit(f: Callable[[Any], Any], x: Any, depends: Any) -> Any:
    """Return a solution of f(x) = 0, a vector, with the derivatives that the implicit function theorem gives.

    They are the derivatives of the iteration x ← x - J⁻¹ f(x), where the Jacobian J at the solution is a constant: each
    step makes the derivatives of one more order exact. So they exist in both modes, under `vmap` and in compiled
    functions, by all tensors that ``f`` closes over. The values stay as they are.

    Args:
        f: the function of a vector.
        x: the solution.
        depends: a tensor that depends on all that ``f`` closes over; the solution is returned as it is if that has no
            derivative.
    """
    if not is_differentiated(depends):
        return x
    with no_grad():
        factors = Factors(jacfwd(f)(x))
    for _ in range(ORDER):
        value = f(x)
        x = x - factors.solve(value - value.detach())
    return x


def is_differentiated(x: Any) -> bool:
    """Return whether a tensor is tracked, or has a tangent, on any level of its device."""
    return any(getattr(x, "tangent", None) is not None for x in _values(x)) or is_tracked(x)


def is_tracked(x: Any) -> bool:
    """Return whether a tensor is tracked, for gradients in reverse, on any level of its device."""
    return any(getattr(x, "node", None) is not None for x in _values(x))


def _values(x: Any) -> Iterator[Any]:
    """Yield the primitive of a tensor, and those beneath it."""
    device, primitive = x._device, x._primitive
    while device.differentiates:
        yield primitive
        primitive, device = getattr(primitive, "value", primitive), device.inner
