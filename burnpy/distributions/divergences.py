"""`kl`: the Kullback-Leibler divergence of two distributions, for the pairs of families that have a closed form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from burnpy.backend.errors import ArgumentError
from burnpy.distributions.categorical import OfClasses
from burnpy.distributions.distribution import Distribution
from burnpy.distributions.gamma import Gamma
from burnpy.distributions.normal import Normal
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B

_PAIRS: dict[tuple[type, type], Callable[[Any, Any], Tensor[Any]]] = {}


def kl(p: Distribution[B, Any], q: Distribution[B, Any]) -> Tensor[B]:
    """Return the divergence KL(p ‖ q), the mean of ``p.log_prob(x) - q.log_prob(x)`` for x drawn from p, in nats.

    It is inf where p has values that q has not.

    Raises:
        ArgumentError: there is no closed form for distributions of these classes; `register_kl` adds one.

    >>> from burnpy.backend import NumPy
    >>> from burnpy.distributions import Normal
    >>> kl(Normal(0.0, 1.0, device=NumPy), Normal(2.0, 1.0, device=NumPy)).item()
    2.0
    """
    for p_class in type(p).__mro__:
        for q_class in type(q).__mro__:
            formula = _PAIRS.get((p_class, q_class))
            if formula is not None:
                return formula(p, q)
    raise ArgumentError(
        f"kl() has no closed form for {type(p).__name__} and {type(q).__name__}; average p.log_prob(x) - q.log_prob(x) "
        "over samples x of p, or add a formula with register_kl()"
    )


F = TypeVar("F", bound=Callable[..., Tensor[Any]])


def register_kl(p: type[Distribution[Any, Any]], q: type[Distribution[Any, Any]]) -> Callable[[F], F]:
    """Return a decorator that makes a function ``f(p, q)`` the divergence of two classes and their subclasses."""

    def register(formula: F) -> F:
        _PAIRS[(p, q)] = formula
        return formula

    return register


@register_kl(Normal, Normal)
def _normal(p: Normal[B], q: Normal[B]) -> Tensor[B]:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1.0 - ratio.log())


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma[B], q: Gamma[B]) -> Tensor[B]:
    a, c = p.concentration, q.concentration
    return c * (p.rate / q.rate).log() + c.lgamma() - a.lgamma() + (a - c) * a.digamma() + a * (q.rate / p.rate - 1.0)


@register_kl(OfClasses, OfClasses)
def _classes(p: OfClasses[B, Any], q: OfClasses[B, Any]) -> Tensor[B]:
    logs = p._log_probs()
    difference = (logs - q._log_probs()).where(logs > float("-inf"), 0.0)
    return (logs.exp() * difference).sum(dim=-1)
