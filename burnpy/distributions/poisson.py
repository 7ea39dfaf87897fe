"""The Poisson distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.backend.numerics.incomplete import HALF_LOG_TAU, deviance, stirling_gap
from burnpy.distributions.distribution import Distribution, register_kl
from burnpy.distributions.formulas import computed, least_count, log_of, of_mass, relative_entropy, whole
from burnpy.distributions.parameters import Parameter, ParameterLike
from burnpy.nn.module import rebound
from burnpy.special.functions import gammaincc
from burnpy.tensor.random_parameters import RATE
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Float
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


class Poisson(Distribution[B, Tensor[B]]):
    """The Poisson distribution of the numbers 0, 1, 2, … with a mean.

    Args:
        rate: the mean, 0 or larger.
        device, validate: see `Distribution`.

    >>> log_p = Poisson(1.0, device=NumPy).log_prob(Tensor[NumPy].from_data([0.0, 1.0, 0.5]))
    >>> [round(x, 4) for x in log_p.tolist()]
    [-1.0, -1.0, -inf]
    """

    _ends = (0.0, math.inf)
    rate = Parameter(RATE)

    def __init__(self, rate: ParameterLike[B], *, device: B | type[B] | None = None, validate: bool = True) -> None:
        self._hold(device, validate, rate=rate)

    def sample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw whole numbers, as floats."""
        return Tensor.poisson(self._shape(sample_shape), self.rate, generator=generator)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the probability; -inf for numbers other than 0, 1, 2, …"""
        return computed("Poisson.log_prob", _log_prob, value, self.rate)

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        return gammaincc(value.floor() + 1.0, self.rate)

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        return least_count(self, probability, math.inf)

    @property
    def mean(self) -> Tensor[B]:
        """The rate."""
        return self.rate

    @property
    def mode(self) -> Tensor[B]:
        """⌊rate⌋."""
        return self.rate.floor()

    @property
    def variance(self) -> Tensor[B]:
        """The rate."""
        return self.rate

    def valid(self: Poisson[Autodiff[I]]) -> Poisson[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def _log_prob(b: Any, x: Float, rate: Float) -> tuple[Float]:
    inside, none = whole(b, x), b.eq(x, 0.0)
    count = b.where(b.discrete.bitwise_and(inside, b.ne(x, 0.0)), x, 1.0)
    log_size = b.add(b.mul(b.log(count), 0.5), HALF_LOG_TAU)
    value = b.neg(b.add(deviance(b, count, rate, log_of(b, rate)), b.add(log_size, stirling_gap(b, count))))
    return (of_mass(b, x, inside, b.where(none, b.neg(rate), value)),)


@register_kl(Poisson, Poisson)
def _poissons(p: Poisson[B], q: Poisson[B]) -> Tensor[B]:
    log_p, log_q = (computed("kl", lambda b, rate: (log_of(b, rate),), d.rate) for d in (p, q))
    return relative_entropy(p.rate, q.rate, log_p, log_q)
