"""The gamma distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.backend.numerics.stirling import HALF_LOG_TAU, deviance, stirling_gap
from burnpy.distributions.distribution import Reparametrized
from burnpy.distributions.formulas import computed, impossible
from burnpy.distributions.parameters import Parameter, ParameterLike
from burnpy.distributions.quantiles import quantile, with_ends
from burnpy.nn.module import rebound
from burnpy.special.gamma_functions import gammainc
from burnpy.tensor.draws import POSITIVE
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Float
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


class Gamma(Reparametrized[B]):
    """The gamma distribution, with a density proportional to x^(concentration - 1) · e^(-rate · x) on x >= 0.

    Args:
        concentration: the shape parameter, above 0.
        rate: the inverse of the scale, above 0.
        device, validate: see `Distribution`.

    >>> d = Gamma(2.0, Tensor[NumPy].from_data([1.0, 2.0]))
    >>> d.mean.tolist(), [round(p, 4) for p in d.log_prob(Tensor[NumPy].from_data(1.0)).tolist()]
    ([2.0, 1.0], [-1.0, -0.6137])
    """

    concentration = Parameter(POSITIVE)
    rate = Parameter(POSITIVE)

    def __init__(
        self,
        concentration: ParameterLike[B],
        rate: ParameterLike[B],
        *,
        device: B | type[B] | None = None,
        validate: bool = True,
    ) -> None:
        self._hold(device, validate, concentration=concentration, rate=rate)

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw values; their gradients hold the probability of each fixed."""
        shape = self._shape(sample_shape)
        return Tensor.gamma(shape, self.concentration, self.rate, generator=generator)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density; -inf below 0."""
        return computed("Gamma.log_prob", _log_prob, value, self.concentration, self.rate)

    def entropy(self) -> Tensor[B]:
        """Return the differential entropy."""
        a, rate = self.concentration, self.rate
        return a - rate.log() + a.lgamma() + (1.0 - a) * a.digamma()

    def cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return the probability of numbers up to a value."""
        return gammainc(self.concentration, (self.rate * value).clamp(0.0))

    def icdf(self, probability: Tensor[B]) -> Tensor[B]:
        """Return the quantile of a probability, by halving an interval of logarithms; NaN outside of [0, 1]."""
        a = self.concentration.double()
        of, constant = (Gamma(x, 1.0, validate=False) for x in (a, a.detach()))
        x = quantile(of, constant, probability, lambda t: t.exp(), (-745.0, 709.0)) / self.rate.double()
        return with_ends(x, probability, 0.0, math.inf).to_dtype(self._dtype)

    @property
    def mean(self) -> Tensor[B]:
        """concentration / rate."""
        return self.concentration / self.rate

    @property
    def variance(self) -> Tensor[B]:
        """concentration / rate²."""
        return self.concentration / self.rate.square()

    @property
    def mode(self) -> Tensor[B]:
        """(concentration - 1) / rate, at least 0."""
        return (self.concentration - 1.0).clamp(0.0) / self.rate

    def valid(self: Gamma[Autodiff[I]]) -> Gamma[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def _log_prob(b: Any, x: Float, a: Float, rate: Float) -> tuple[Float]:
    d = b.discrete
    inside = d.bitwise_and(b.gt(x, 0.0), b.lt(x, math.inf))
    y = b.where(inside, x, 1.0)
    log_y, log_rate = b.log(y), b.log(rate)
    at_mean = b.sub(b.add(b.mul(b.log(a), 0.5), -HALF_LOG_TAU), stirling_gap(b, a))  # of x · density
    value = b.sub(b.sub(at_mean, deviance(b, a, b.mul(y, rate), b.add(log_y, log_rate))), log_y)
    end = b.where(b.eq(a, 1.0), log_rate, impossible(b, b.gt(a, 1.0), b.full(a.shape, math.inf, a.dtype)))
    value = b.where(b.eq(x, 0.0), end, value)
    return (impossible(b, d.bitwise_or(b.lt(x, 0.0), b.eq(x, math.inf)), b.where(b.eq(x, x), value, x)),)
