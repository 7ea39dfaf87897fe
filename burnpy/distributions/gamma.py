"""The gamma, the chi-squared and the inverse gamma distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.backend.numerics.incomplete import HALF_LOG_TAU, deviance, stirling_gap
from burnpy.distributions.distribution import Reparametrized, doubled, in_double, register_kl
from burnpy.distributions.formulas import (
    at_end,
    computed,
    excess,
    gamma_entropy,
    log_gamma_excess,
    log_quotient,
    quantile,
    with_ends,
    within,
)
from burnpy.distributions.parameters import Parameter, ParameterLike
from burnpy.nn.module import rebound
from burnpy.special import gammainc, gammaincc
from burnpy.tensor.random_parameters import POSITIVE
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

    _ends = (0.0, math.inf)
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

    @in_double
    def entropy(self) -> Tensor[B]:
        """Return the differential entropy."""
        a, rate = self.concentration, self.rate
        return gamma_entropy(a) - rate.log()

    @in_double
    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        a, rate, zero = self.concentration, self.rate, value == 0.0
        one = a.clamp(None, 1.0)  # for a > 1 it is 0 with a slope of 0
        factor = (one * rate.log() - (one + 1.0).lgamma()).exp()
        at_zero = value.where(zero, 1.0).pow(a) * factor  # so that no slope is 0 · inf
        return at_zero.where(zero, gammainc(a, rate * value.where(~zero, 1.0)))

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        """Return the quantile of a probability, by halving an interval of logarithms."""
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
        return self.concentration / self.rate / self.rate

    @property
    def mode(self) -> Tensor[B]:
        """(concentration - 1) / rate, at least 0."""
        return (self.concentration - 1.0).clamp(0.0) / self.rate

    def valid(self: Gamma[Autodiff[I]]) -> Gamma[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class Chi2(Gamma[B]):
    """The chi-squared distribution, of the sum of the squares of ``df`` standard normal numbers.

    Args:
        df: the degrees of freedom, above 0.
        device, validate: see `Distribution`.

    >>> round(Chi2(1.0, device=NumPy).cdf(Tensor[NumPy].from_data(3.841459)).item(), 4)
    0.95
    """

    df = Parameter(POSITIVE)

    def __init__(self, df: ParameterLike[B], *, device: B | type[B] | None = None, validate: bool = True) -> None:
        self._hold(device, validate, df=df)

    @property
    def concentration(self) -> Tensor[B]:  # type: ignore[override]  # made of a parameter
        """df / 2."""
        return self.df * 0.5

    @property
    def rate(self) -> Tensor[B]:  # type: ignore[override]  # a constant
        """½."""
        return self.df.full_like(0.5)

    def valid(self: Chi2[Autodiff[I]]) -> Chi2[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class InverseGamma(Reparametrized[B]):
    """The distribution of 1 / x for x of the gamma distribution.

    Args:
        concentration: the shape parameter, above 0.
        rate: the scale, above 0: the rate of the gamma distribution.
        device, validate: see `Distribution`.

    >>> InverseGamma(2.0, 3.0, device=NumPy).mean.item()
    3.0
    """

    _ends = (0.0, math.inf)
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
        logs = Tensor.gamma(self._shape(sample_shape), self.concentration, self.rate, log=True, generator=generator)
        return (-logs).exp().clamp(*POSITIVE.ends(self._dtype))

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density; -inf up to 0."""
        return computed("InverseGamma.log_prob", _inverse_gamma, value, self.concentration, self.rate)

    @in_double
    def entropy(self) -> Tensor[B]:
        """Return the differential entropy."""
        a, rate = self.concentration, self.rate
        return gamma_entropy(a) + rate.log() - 2.0 * a.digamma()

    @in_double
    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        zero = value == 0.0
        return gammaincc(self.concentration, self.rate / value.where(~zero, 1.0)).masked_fill(zero, 0.0)

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        """Return the quantile of a probability, by halving an interval of logarithms."""
        a = self.concentration.double()
        of, constant = (InverseGamma(x, 1.0, validate=False) for x in (a, a.detach()))
        x = quantile(of, constant, probability, lambda t: t.exp(), (-709.0, 709.0)) * self.rate.double()
        return with_ends(x, probability, 0.0, math.inf).to_dtype(self._dtype)

    @property
    def mean(self) -> Tensor[B]:
        """rate / (concentration - 1); inf for a concentration up to 1."""
        finite = self.concentration > 1.0
        return (self.rate / (self.concentration - 1.0).where(finite, 1.0)).where(finite, math.inf)

    @property
    def mode(self) -> Tensor[B]:
        """rate / (concentration + 1)."""
        return self.rate / (self.concentration + 1.0)

    @property
    def variance(self) -> Tensor[B]:
        """mean² / (concentration - 2); inf for a concentration up to 2."""
        finite = self.concentration > 2.0
        a = self.concentration.where(finite, 3.0)
        return ((self.rate / (a - 1.0)).square() / (a - 2.0)).where(finite, math.inf)

    def valid(self: InverseGamma[Autodiff[I]]) -> InverseGamma[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def _log_prob(b: Any, x: Float, a: Float, rate: Float) -> Float:
    inside = b.discrete.bitwise_and(b.gt(x, 0.0), b.lt(x, math.inf))
    y = b.where(inside, x, 1.0)
    log_y, log_rate = b.log(y), b.log(rate)
    at_mean = b.sub(b.add(b.mul(b.log(a), 0.5), -HALF_LOG_TAU), stirling_gap(b, a))  # of x · density
    value = b.sub(b.sub(at_mean, deviance(b, a, b.mul(y, rate), b.add(log_y, log_rate))), log_y)
    value = within(b, x, inside, value)
    return at_end(b, x, a, value, lambda zero: b.sub(log_rate, b.mul(rate, zero)))


@register_kl(Gamma, Gamma)
@register_kl(InverseGamma, InverseGamma)
@doubled
def _gammas(p: Gamma[B], q: Gamma[B]) -> Tensor[B]:
    a, c = p.concentration, q.concentration
    return log_gamma_excess(c, a) + a * excess(q.rate, p.rate) - (c - a) * log_quotient(q.rate, p.rate)


def _inverse_gamma(b: Any, x: Float, a: Float, rate: Float) -> Float:
    inside = b.discrete.bitwise_and(b.gt(x, 0.0), b.lt(x, math.inf))
    y = b.where(inside, x, 1.0)
    log_y, log_rate = b.log(y), b.log(rate)
    at_mean = b.sub(b.add(b.mul(b.log(a), 0.5), -HALF_LOG_TAU), stirling_gap(b, a))
    value = b.sub(b.sub(at_mean, deviance(b, a, b.div(rate, y), b.sub(log_rate, log_y))), log_y)
    return within(b, x, inside, value)
