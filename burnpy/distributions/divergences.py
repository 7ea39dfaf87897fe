"""`kl`: the Kullback-Leibler divergence of two distributions, by formulas for the classes of both."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from burnpy.backend.errors import ArgumentError
from burnpy.distributions.distribution import Distribution
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B

F = TypeVar("F", bound=Callable[..., Tensor[Any]])
_FORMULAS: dict[tuple[type, type], Callable[..., Tensor[Any]]] = {}
_MODULES = ("burnpy.distributions.divergence_formulas", "burnpy.distributions.divergence_pairs")
"""The modules that register formulas. They need `kl` themselves, so they are imported by its first call."""


def kl(p: Distribution[B, Any], q: Distribution[B, Any]) -> Tensor[B]:
    """Return the divergence KL(p ‖ q), the mean of ``p.log_prob(x) - q.log_prob(x)`` for x drawn from p, in nats.

    It is inf where p has values that q has not. The pairs of families are PyTorch's.

    Raises:
        ArgumentError: there is no closed form for distributions of these classes; `register_kl` adds one.

    >>> from burnpy.distributions import Normal
    >>> kl(Normal(0.0, 1.0, device=NumPy), Normal(2.0, 1.0, device=NumPy)).item()
    2.0
    """
    for module in _MODULES:
        import_module(module)
    for p_class in type(p).__mro__:
        for q_class in type(q).__mro__:
            formula = _FORMULAS.get((p_class, q_class))
            if formula is not None:
                return formula(p, q)
    raise ArgumentError(
        f"kl() has no closed form for {type(p).__name__} and {type(q).__name__}; average p.log_prob(x) - q.log_prob(x) "
        "over samples x of p, or add a formula with register_kl()"
    )


def register_kl(p: type[Distribution[Any, Any]], q: type[Distribution[Any, Any]]) -> Callable[[F], F]:
    """Return a decorator that makes a function ``f(p, q)`` the divergence of two classes and their subclasses.

    >>> from burnpy.distributions import Normal
    >>> class Shifted(Normal):
    ...     pass
    >>> @register_kl(Shifted, Shifted)
    ... def of_equal_scales(p, q):
    ...     return ((p.loc - q.loc) / p.scale).square() * 0.5
    >>> kl(Shifted(0.0, 1.0, device=NumPy), Shifted(2.0, 1.0, device=NumPy)).item()
    2.0
    """

    def register(formula: F) -> F:
        _FORMULAS[(p, q)] = formula
        return formula

    return register
