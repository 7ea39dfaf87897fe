"""`quantile`: the inverse of a distribution function that has none in closed form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.distributions.distribution import Distribution
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B

_STEPS = 64
"""The halvings of an interval of logarithms, after which float64 has no number left inside."""


def quantile(
    of: Distribution[B, Tensor[B]],
    constant: Distribution[B, Tensor[B]],
    probability: Tensor[B],
    mapped: Callable[[Tensor[B]], Tensor[B]],
    ends: tuple[float, float],
) -> Tensor[B]:
    """Return x with ``of.cdf(x) == probability``, in float64.

    The interval is halved a fixed number of times, so that plans and `vmap` have it, too. Two steps of Newton's method
    follow, through which the derivatives by the probability and the parameters are right, first and second ones.

    Args:
        of: the distribution, of float64 parameters.
        constant: the same distribution, without gradients.
        probability: from 0 to 1; beyond, and at both ends, the result has no meaning.
        mapped: an increasing function from an interval to the distribution's support.
        ends: of the interval.
    """
    p = probability.double()
    wanted = p.detach() + constant.mean.detach().double().zeros_like()
    low, high = wanted.full_like(ends[0]), wanted.full_like(ends[1])
    for _ in range(_STEPS):
        middle = (low + high) * 0.5
        below = constant.cdf(mapped(middle)) < wanted
        low, high = middle.where(below, low), high.where(below, middle)
    x: Any = mapped(high)
    for _ in range(2):
        density = of.log_prob(x).exp()
        usable = (density > 1e-290) & density.isfinite()
        step = (of.cdf(x) - p) / density.where(usable, 1.0)
        x = x - step.where(usable, 0.0)
    return x  # type: ignore[no-any-return]  # a Tensor


def with_ends(x: Tensor[B], probability: Tensor[B], low: float, high: float) -> Tensor[B]:
    """Return quantiles with the ends of the support at 0 and at 1."""
    return x.where(probability > 0.0, low).where(probability < 1.0, high)
