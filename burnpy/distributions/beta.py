"""The beta, the Dirichlet and the Kumaraswamy distribution."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from burnpy.backend.numerics.incomplete import HALF_LOG_TAU, log_split, stirling_gap
from burnpy.distributions.distribution import Reparametrized, doubled, in_double, register_kl
from burnpy.distributions.formulas import (
    EULER,
    at_end,
    computed,
    gamma_entropy,
    log_factorial,
    log_gamma_excess,
    on_simplex,
    quantile,
    with_ends,
    within,
)
from burnpy.distributions.parameters import Parameter, ParameterLike
from burnpy.nn.module import rebound
from burnpy.special import betainc, xlogy
from burnpy.tensor.random_parameters import OPEN_UNIT, POSITIVE
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Float, Shape
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


class Beta(Reparametrized[B]):
    """The beta distribution, with a density proportional to x^(concentration1 - 1) · (1 - x)^(concentration0 - 1).

    Args:
        concentration1: the parameter of x, above 0.
        concentration0: the parameter of 1 - x, above 0.
        device, validate: see `Distribution`.

    >>> d = Beta(2.0, 1.0, device=NumPy)
    >>> [round(p, 4) for p in d.log_prob(Tensor[NumPy].from_data([0.25, 1.0, 2.0])).exp().tolist()]
    [0.5, 2.0, 0.0]
    """

    _ends = (0.0, 1.0)
    concentration1 = Parameter(POSITIVE)
    concentration0 = Parameter(POSITIVE)

    def __init__(
        self,
        concentration1: ParameterLike[B],
        concentration0: ParameterLike[B],
        *,
        device: B | type[B] | None = None,
        validate: bool = True,
    ) -> None:
        self._hold(device, validate, concentration1=concentration1, concentration0=concentration0)

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw values; their gradients hold the probability of each fixed."""
        return Tensor.beta(self._shape(sample_shape), self.concentration1, self.concentration0, generator=generator)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density; -inf outside of [0, 1]."""
        return computed("Beta.log_prob", _log_prob, value, self.concentration1, self.concentration0)

    @in_double
    def entropy(self) -> Tensor[B]:
        """Return the differential entropy."""
        a, c = self.concentration1, self.concentration0
        total = a + c
        return gamma_entropy(a) + gamma_entropy(c) - gamma_entropy(total) - total.digamma()

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        return betainc(self.concentration1, self.concentration0, value)

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        """Return the quantile of a probability, by halving an interval of logits."""
        a, c = self.concentration1.double(), self.concentration0.double()
        of, constant = Beta(a, c, validate=False), Beta(a.detach(), c.detach(), validate=False)
        x = quantile(of, constant, probability, lambda t: t.sigmoid(), (-745.0, 745.0))
        return with_ends(x, probability, 0.0, 1.0).to_dtype(self._dtype)

    @property
    def mean(self) -> Tensor[B]:
        """concentration1 / (concentration1 + concentration0)."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def variance(self) -> Tensor[B]:
        """mean · (1 - mean) / (concentration1 + concentration0 + 1)."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 / total * (self.concentration0 / total) / (total + 1.0)

    @property
    def mode(self) -> Tensor[B]:
        """(concentration1 - 1) / (concentration1 + concentration0 - 2); NaN unless both are above 1."""
        a, c = self.concentration1 - 1.0, self.concentration0 - 1.0
        return (a / (a + c)).masked_fill((a <= 0.0) | (c <= 0.0), math.nan)

    def valid(self: Beta[Autodiff[I]]) -> Beta[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class Dirichlet(Reparametrized[B]):
    """The Dirichlet distribution of probabilities, whose sum is 1.

    Args:
        concentration: a parameter above 0 for each of n components, (…, n).
        validate: whether to check the parameter's numbers.

    >>> d = Dirichlet(Tensor[NumPy].from_data([1.0, 1.0, 1.0]))  # uniform
    >>> round(d.log_prob(Tensor[NumPy].from_data([0.2, 0.3, 0.5])).exp().item(), 4), d.mean.shape
    (2.0, (3,))
    """

    concentration = Parameter(POSITIVE, event_dims=1)

    def __init__(self, concentration: ParameterLike[B], *, validate: bool = True) -> None:
        self._hold(None, validate, concentration=concentration)

    @property
    def event_shape(self) -> Shape:
        """(n,)."""
        return self.concentration.shape[-1:]

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw probabilities; their gradients hold the probability of each fixed."""
        return Tensor.dirichlet(self._shape(sample_shape), self.concentration, generator=generator)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density of probabilities (…, n); -inf for others."""
        return self._log_density(value).where(on_simplex(value, closed=True), -math.inf)

    @in_double
    def _log_density(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density: that at the mean, whose terms do not cancel, and of the quotient."""
        a = self.concentration
        total = a.sum(dim=-1, keepdim=True)
        quotients = xlogy(a - 1.0, value.clamp(0.0) * (total / a)).sum(dim=-1)
        total = total.squeeze(-1)
        at_mean = total.log() * (a.shape[-1] - 0.5) - 0.5 * a.log().sum(dim=-1) - (a.shape[-1] - 1.0) * HALF_LOG_TAU
        return quotients + at_mean + _gap(total) - _gap(a).sum(dim=-1)

    @in_double
    def entropy(self) -> Tensor[B]:
        """Return the differential entropy."""
        a = self.concentration
        total = a.sum(dim=-1)
        return gamma_entropy(a).sum(dim=-1) - gamma_entropy(total) - (a.shape[-1] - 1.0) * total.digamma()

    @property
    def mean(self) -> Tensor[B]:
        """concentration / Σ concentration."""
        return self.concentration / self.concentration.sum(dim=-1, keepdim=True)

    @property
    def variance(self) -> Tensor[B]:
        """mean · (1 - mean) / (Σ concentration + 1)."""
        mean = self.mean
        return mean * (1.0 - mean) / (self.concentration.sum(dim=-1, keepdim=True) + 1.0)

    @property
    def mode(self) -> Tensor[B]:
        """(concentration - 1) / (Σ concentration - n); NaN unless all are above 1."""
        a = self.concentration - 1.0
        unbounded = (a <= 0.0).any(dim=-1, keepdim=True)
        return (a / a.sum(dim=-1, keepdim=True)).masked_fill(unbounded, math.nan)

    def valid(self: Dirichlet[Autodiff[I]]) -> Dirichlet[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class Kumaraswamy(Reparametrized[B]):
    """The Kumaraswamy distribution on [0, 1], with the distribution function 1 - (1 - xᵃ)ᶜ.

    Args:
        concentration1: a, above 0.
        concentration0: c, above 0.
        device, validate: see `Distribution`.

    >>> Kumaraswamy(2.0, 1.0, device=NumPy).cdf(Tensor[NumPy].from_data([0.5, 2.0])).round(decimals=4).tolist()
    [0.25, 1.0]
    """

    _ends = (0.0, 1.0)
    concentration1 = Parameter(POSITIVE)
    concentration0 = Parameter(POSITIVE)

    def __init__(
        self,
        concentration1: ParameterLike[B],
        concentration0: ParameterLike[B],
        *,
        device: B | type[B] | None = None,
        validate: bool = True,
    ) -> None:
        self._hold(device, validate, concentration1=concentration1, concentration0=concentration0)

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw values that are differentiable with respect to the parameters."""
        shape = self._shape(sample_shape)
        drawn = Tensor.exponential(shape, dtype=self._dtype, generator=generator, device=self.device)
        return self._quantile(drawn).clamp(*OPEN_UNIT.ends(self._dtype))

    def _quantile(self, tail: Tensor[B]) -> Tensor[B]:
        """Return the number beyond which the probability is e^-tail."""
        share = -(-tail / self.concentration0).expm1()
        zero = share == 0.0
        return (share.where(~zero, 1.0).log() / self.concentration1).exp().masked_fill(zero, 0.0)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density; -inf outside of [0, 1]."""
        called = "Kumaraswamy.log_prob"
        return computed(called, _kumaraswamy, value, self.concentration1, self.concentration0)

    @in_double
    def entropy(self) -> Tensor[B]:
        """Return the differential entropy."""
        a, c = self.concentration1, self.concentration0
        return 1.0 - c.reciprocal() + (1.0 - a.reciprocal()) * ((c + 1.0).digamma() + EULER) - a.log() - c.log()

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        a, c, zero = self.concentration1, self.concentration0, value == 0.0
        at_zero = c * value.where(zero, 1.0).pow(a)  # whose slope is the density
        return at_zero.where(zero, computed("Kumaraswamy.cdf", _kumaraswamy_cdf, value.where(~zero, 1.0), a, c))

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        return self._quantile(-(-probability).log1p())

    def _log_moment(self, order: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the mean of x to the power of order · concentration1."""
        return computed("mean", _kumaraswamy_moment, order, self.concentration0)

    def _log_spread(self) -> Tensor[B]:
        """Return the logarithm of the mean of x², over the square of the mean; for large a by a series in 1 / a."""
        order, c = self.concentration1.reciprocal(), self.concentration0
        large = order <= 1e-3
        u, v = order.where(large, 0.0), order.where(~large, 1.0)
        series = u.zeros_like()
        for n in (6, 5, 4, 3, 2):
            slope = c.ones_like().polygamma(n - 1) - (c + 1.0).polygamma(n - 1)
            series = series * u + slope * ((2.0**n - 2.0) / math.factorial(n))
        return (series * u.square()).where(large, self._log_moment(2.0 * v) - 2.0 * self._log_moment(v))

    @property
    @in_double
    def mean(self) -> Tensor[B]:
        """c · B(1 + 1 / a, c), with the beta function B."""
        return self._log_moment(self.concentration1.reciprocal()).exp()

    @property
    def mode(self) -> Tensor[B]:
        """((a - 1) / (a · c - 1))^(1 / a); NaN unless both are above 1."""
        a, c = self.concentration1, self.concentration0
        inside = (a > 1.0) & (c > 1.0)
        return ((a - 1.0) / (a * c - 1.0)).where(inside, 0.5).pow(a.reciprocal()).where(inside, math.nan)

    @property
    @in_double
    def variance(self) -> Tensor[B]:
        """c · B(1 + 2 / a, c) - mean²."""
        square = self._log_moment(2.0 * self.concentration1.reciprocal()).exp()
        return -square * (-self._log_spread()).expm1()  # the square of the mean may be 0, but this is at most 1

    def valid(self: Kumaraswamy[Autodiff[I]]) -> Kumaraswamy[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def _log_prob(b: Any, x: Float, a: Float, c: Float) -> Float:
    inside = b.discrete.bitwise_and(b.gt(x, 0.0), b.lt(x, 1.0))
    y = b.where(inside, x, 0.5)
    log_y, log_rest = b.log(y), b.log1p(b.neg(y))
    size = b.sub(b.add(b.log(a), b.log(c)), b.log(b.add(a, c)))
    at_mean = b.add(b.mul(size, 0.5), -HALF_LOG_TAU)  # of x · (1 - x) · density
    value = b.add(at_mean, log_split(b, a, c, y, b.add(b.neg(y), 1.0), log_y, log_rest))
    value = within(b, x, inside, b.sub(value, b.add(log_y, log_rest)))
    for distance, own, other in ((x, a, c), (b.add(b.neg(x), 1.0), c, a)):
        log_other, power = b.log(other), b.add(other, -1.0)
        value = at_end(b, distance, own, value, partial(_of_power_one, b, log_other, power))
    return value


def _of_power_one(b: Any, log_other: Float, power: Float, zero: Float) -> Float:
    return b.add(log_other, b.mul(power, b.log1p(b.neg(zero))))


@register_kl(Beta, Beta)
@doubled
def _betas(p: Beta[B], q: Beta[B]) -> Tensor[B]:
    (a, c), (other_a, other_c) = ((d.concentration1, d.concentration0) for d in (p, q))
    return log_gamma_excess(other_a, a) + log_gamma_excess(other_c, c) - log_gamma_excess(other_a + other_c, a + c)


def _gap(x: Tensor[B]) -> Tensor[B]:
    return computed("log_prob", stirling_gap, x)


@register_kl(Dirichlet, Dirichlet)
@doubled
def _dirichlets(p: Dirichlet[B], q: Dirichlet[B]) -> Tensor[B]:
    a, other = p.concentration, q.concentration
    return log_gamma_excess(other, a).sum(dim=-1) - log_gamma_excess(other.sum(dim=-1), a.sum(dim=-1))


def _log_rest_of_power(b: Any, log_x: Float, a: Float) -> Float:
    """Compute log(1 - xᵃ) for 0 < x < 1 without cancellation."""
    exponent = b.mul(a, log_x)
    near = b.gt(exponent, -math.log(2.0))
    close = b.log(b.neg(b.expm1(b.where(near, exponent, -1.0))))
    return b.where(near, close, b.log1p(b.neg(b.exp(b.where(near, b.full((), -1.0, log_x.dtype), exponent)))))


def _kumaraswamy(b: Any, x: Float, a: Float, c: Float) -> Float:
    inside = b.discrete.bitwise_and(b.gt(x, 0.0), b.lt(x, 1.0))
    log_x, log_a, log_c = b.log(b.where(inside, x, 0.5)), b.log(a), b.log(c)
    powers = b.add(b.mul(b.add(a, -1.0), log_x), b.mul(b.add(c, -1.0), _log_rest_of_power(b, log_x, a)))
    value = within(b, x, inside, b.add(b.add(log_a, log_c), powers))
    value = at_end(b, x, a, value, lambda zero: b.add(log_c, b.mul(b.add(c, -1.0), b.log1p(b.neg(zero)))))
    rest = b.add(b.neg(x), 1.0)
    return at_end(b, rest, c, value, lambda zero: b.add(log_a, b.mul(b.add(a, -1.0), b.log1p(b.neg(zero)))))


def _kumaraswamy_moment(b: Any, order: Float, c: Float) -> Float:
    """Compute log(Γ(1 + u) · Γ(1 + c) / Γ(1 + u + c)), in which u and c may change places, without large terms."""
    u, x = b.minimum(order, c), b.add(b.maximum(order, c), 1.0)
    more = b.add(x, u)
    growth = b.add(b.mul(b.add(x, -0.5), b.log1p(b.div(u, x))), b.mul(u, b.add(b.log(more), -1.0)))
    gaps = b.sub(stirling_gap(b, more), stirling_gap(b, x))
    return b.sub(log_factorial(b, u), b.add(growth, gaps))


def _kumaraswamy_cdf(b: Any, x: Float, a: Float, c: Float) -> Float:
    inside = b.lt(x, 1.0)
    rest = _log_rest_of_power(b, b.log(b.where(inside, x, 0.5)), a)
    return b.where(inside, b.neg(b.expm1(b.mul(c, rest))), 1.0)
