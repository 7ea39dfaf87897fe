"""The exponential and the Weibull distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.distributions.distribution import Reparametrized, doubled, in_double, register_kl
from burnpy.distributions.formulas import (
    EULER,
    at_end,
    computed,
    excess,
    log_factorial,
    log_quotient,
    log_ratio,
    within,
)
from burnpy.distributions.parameters import Parameter, ParameterLike
from burnpy.nn.module import rebound
from burnpy.tensor.random_parameters import NOT_NEGATIVE, POSITIVE
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Float
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


class Exponential(Reparametrized[B]):
    """The exponential distribution, with the density rate · e^(-rate · x) on x >= 0.

    Args:
        rate: the inverse of the mean, above 0.
        device, validate: see `Distribution`.

    >>> Exponential(2.0, device=NumPy).log_prob(Tensor[NumPy].from_data([1.0, -1.0])).tolist()
    [-1.306..., -inf]
    """

    _ends = (0.0, math.inf)
    rate = Parameter(POSITIVE)

    def __init__(self, rate: ParameterLike[B], *, device: B | type[B] | None = None, validate: bool = True) -> None:
        self._hold(device, validate, rate=rate)

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw values that are differentiable with respect to the rate."""
        shape = self._shape(sample_shape)
        drawn = Tensor.exponential(shape, dtype=self._dtype, generator=generator, device=self.device)
        return (drawn / self.rate).clamp(*NOT_NEGATIVE.ends(self._dtype))

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density; -inf below 0."""
        return computed("Exponential.log_prob", _exponential, value, self.rate)

    def entropy(self) -> Tensor[B]:
        """Return 1 - log(rate)."""
        return 1.0 - self.rate.log()

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        return -(-(self.rate * value)).expm1()

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        return -(-probability).log1p() / self.rate

    @property
    def mean(self) -> Tensor[B]:
        """1 / rate."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor[B]:
        """0."""
        return self.rate.zeros_like()

    @property
    def variance(self) -> Tensor[B]:
        """1 / rate²."""
        return self.rate.reciprocal().square()

    def valid(self: Exponential[Autodiff[I]]) -> Exponential[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class Weibull(Reparametrized[B]):
    """The Weibull distribution: scale · e^(1 / concentration) for e of the standard exponential distribution.

    Args:
        scale: the scale, above 0.
        concentration: the shape parameter, above 0; 1 for the exponential distribution.
        device, validate: see `Distribution`.

    >>> round(Weibull(1.0, 2.0, device=NumPy).cdf(Tensor[NumPy].from_data(1.0)).item(), 4)
    0.6321
    """

    _ends = (0.0, math.inf)
    scale = Parameter(POSITIVE)
    concentration = Parameter(POSITIVE)

    def __init__(
        self,
        scale: ParameterLike[B],
        concentration: ParameterLike[B],
        *,
        device: B | type[B] | None = None,
        validate: bool = True,
    ) -> None:
        self._hold(device, validate, scale=scale, concentration=concentration)

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw values that are differentiable with respect to the parameters."""
        shape = self._shape(sample_shape)
        drawn = Tensor.exponential(shape, dtype=self._dtype, generator=generator, device=self.device)
        return (self.scale * drawn.pow(self.concentration.reciprocal())).clamp(*POSITIVE.ends(self._dtype))

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density; -inf below 0."""
        return computed("Weibull.log_prob", _weibull, value, self.scale, self.concentration)

    def entropy(self) -> Tensor[B]:
        """Return the differential entropy."""
        k = self.concentration
        return EULER * (1.0 - k.reciprocal()) + (self.scale / k).log() + 1.0

    @in_double
    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return 1 - exp(-(x / scale)ᵏ); at 0 by two powers, whose slopes are not 0 · inf."""
        k, zero = self.concentration, value == 0.0
        at_zero = value.where(zero, 1.0).pow(k) * self.scale.pow(-k.clamp(None, 1.0))  # for k > 1, 0 with a slope of 0
        power = k * log_quotient(value.where(~zero, self.scale), self.scale)
        exponent = at_zero.where(zero, power.clamp(None, 7.0).exp())  # beyond, exp(-e⁷) is 0, and so is its slope
        return -(-exponent).expm1()

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        return self.scale * (-(-probability).log1p()).pow(self.concentration.reciprocal())

    @property
    def mean(self) -> Tensor[B]:
        """scale · Γ(1 + 1 / concentration)."""
        return self.scale * (1.0 + self.concentration.reciprocal()).lgamma().exp()

    @property
    def mode(self) -> Tensor[B]:
        """scale · (1 - 1 / concentration)^(1 / concentration), or 0 for a concentration up to 1."""
        inverse = self.concentration.reciprocal()
        return self.scale * (1.0 - inverse).clamp(0.0).pow(inverse)

    @property
    @in_double
    def variance(self) -> Tensor[B]:
        """scale² · (Γ(1 + 2 / concentration) - Γ(1 + 1 / concentration)²)."""
        inverse = self.concentration.reciprocal()
        first, second = (computed("variance", log_factorial, inverse * n) for n in (1.0, 2.0))
        return self.scale.square() * (2.0 * first).exp() * (second - 2.0 * first).expm1()

    def valid(self: Weibull[Autodiff[I]]) -> Weibull[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class Pareto(Reparametrized[B]):
    """The Pareto distribution, with the density alpha · scale^alpha / x^(alpha + 1) on x >= scale.

    Args:
        scale: the least value, above 0.
        alpha: the power of the tail, above 0.
        device, validate: see `Distribution`.

    >>> Pareto(1.0, 2.0, device=NumPy).cdf(Tensor[NumPy].from_data([0.5, 2.0])).tolist()
    [0.0, 0.75]
    """

    scale = Parameter(POSITIVE)
    alpha = Parameter(POSITIVE)

    def __init__(
        self,
        scale: ParameterLike[B],
        alpha: ParameterLike[B],
        *,
        device: B | type[B] | None = None,
        validate: bool = True,
    ) -> None:
        self._hold(device, validate, scale=scale, alpha=alpha)

    @property
    def _ends(self) -> tuple[Tensor[B], float]:  # type: ignore[override]  # it is a parameter
        return self.scale, math.inf

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw scale · e^(x / alpha) for x of the exponential distribution."""
        shape = self._shape(sample_shape)
        drawn = Tensor.exponential(shape, dtype=self._dtype, generator=generator, device=self.device)
        return (self.scale * (drawn / self.alpha).exp()).clamp(*POSITIVE.ends(self._dtype)).maximum(self.scale)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density; -inf below the scale."""
        return computed("Pareto.log_prob", _pareto, value, self.scale, self.alpha)

    def entropy(self) -> Tensor[B]:
        """Return log(scale / alpha) + 1 + 1 / alpha."""
        return (self.scale / self.alpha).log() + 1.0 + self.alpha.reciprocal()

    @in_double
    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        return -(-self.alpha * log_quotient(value, self.scale)).expm1()

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        return self.scale * (-(-probability).log1p() / self.alpha).exp()

    @property
    def mean(self) -> Tensor[B]:
        """scale · alpha / (alpha - 1); inf for alpha up to 1."""
        finite = self.alpha > 1.0
        return (self.scale * (self.alpha / (self.alpha - 1.0).where(finite, 1.0))).where(finite, math.inf)

    @property
    def mode(self) -> Tensor[B]:
        """The scale."""
        return self.scale.expand(self.batch_shape)

    @property
    def variance(self) -> Tensor[B]:
        """scale² · alpha / ((alpha - 1)² · (alpha - 2)); inf for alpha up to 2."""
        finite = self.alpha > 2.0
        alpha = self.alpha.where(finite, 3.0)
        return ((self.scale / (alpha - 1.0)).square() * (alpha / (alpha - 2.0))).where(finite, math.inf)

    def valid(self: Pareto[Autodiff[I]]) -> Pareto[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def _exponential(b: Any, x: Float, rate: Float) -> Float:
    inside = b.discrete.bitwise_and(b.ge(x, 0.0), b.lt(x, math.inf))
    return within(b, x, inside, b.sub(b.log(rate), b.mul(rate, b.where(inside, x, 0.0))))


def _weibull(b: Any, x: Float, scale: Float, k: Float) -> Float:
    inside = b.discrete.bitwise_and(b.gt(x, 0.0), b.lt(x, math.inf))
    y = log_ratio(b, b.where(inside, x, scale), scale)
    head = b.sub(b.log(k), b.log(scale))
    value = b.sub(b.add(head, b.mul(b.add(k, -1.0), y)), b.exp(b.mul(k, y)))
    return at_end(b, x, k, within(b, x, inside, value), lambda zero: b.sub(head, b.div(zero, scale)))


@register_kl(Exponential, Exponential)
def _exponentials(p: Exponential[B], q: Exponential[B]) -> Tensor[B]:
    return excess(q.rate, p.rate)


@register_kl(Weibull, Weibull)
@doubled
def _weibulls(p: Weibull[B], q: Weibull[B]) -> Tensor[B]:
    change = (q.concentration - p.concentration) / p.concentration
    power = q.concentration * log_quotient(p.scale, q.scale)
    shape = log_quotient(q.concentration, p.concentration)
    return (power + (change + 2.0).lgamma()).expm1() - shape - power + EULER * change


def _pareto(b: Any, x: Float, scale: Float, alpha: Float) -> Float:
    inside = b.discrete.bitwise_and(b.ge(x, scale), b.lt(x, math.inf))
    growth = log_ratio(b, b.where(inside, x, scale), scale)
    return within(b, x, inside, b.sub(b.log(b.div(alpha, scale)), b.mul(b.add(alpha, 1.0), growth)))


@register_kl(Pareto, Pareto)
def _paretos(p: Pareto[B], q: Pareto[B]) -> Tensor[B]:
    inside = p.scale >= q.scale
    shift = (q.alpha * ((p.scale - q.scale) / q.scale).where(inside, 0.0).log1p()).where(inside, math.inf)
    return excess(q.alpha, p.alpha) + shift
