"""The uniform distribution, and the continuous Bernoulli distribution, which tilts it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError
from burnpy.distributions.bernoulli import OfSuccesses
from burnpy.distributions.distribution import Reparametrized, doubled, register_kl
from burnpy.distributions.formulas import computed, refined, within
from burnpy.distributions.parameters import Parameter, ParameterLike
from burnpy.nn.module import rebound
from burnpy.tensor.operand_checks import refuse_unless
from burnpy.tensor.random_parameters import FINITE, OPEN_UNIT
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Bool, Float
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


class Uniform(Reparametrized[B]):
    """The uniform distribution on [low, high).

    Args:
        low: the lower end.
        high: the upper end, above ``low``.
        device, validate: see `Distribution`.

    >>> Uniform(0.0, 0.5, device=NumPy).log_prob(Tensor[NumPy].from_data([0.1, 0.5])).exp().tolist()
    [2.0, 0.0]
    """

    low = Parameter(FINITE)
    high = Parameter(FINITE)

    def __init__(
        self, low: ParameterLike[B], high: ParameterLike[B], *, device: B | type[B] | None = None, validate: bool = True
    ) -> None:
        self._hold(device, validate, low=low, high=high)
        if validate:
            ordered = (self.low.detach() < self.high.detach())._primitive
            error = ArgumentError("Uniform() got an element of low that is not below the one of high")
            refuse_unless(self.low._device, ordered, error)

    @property
    def _center(self) -> Tensor[B]:
        return self.mean

    @property
    def _ends(self) -> tuple[Tensor[B], Tensor[B]]:  # type: ignore[override]  # they are parameters
        return self.low, self.high

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw values that are differentiable with respect to the ends."""
        shape = self._shape(sample_shape)
        drawn = Tensor.uniform(shape, dtype=self._dtype, generator=generator, device=self.device)
        x = self.low + (self.high - self.low) * drawn
        return x.where(x < self.high, self.low)  # it may round to the upper end

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density; -inf below ``low``, and from ``high`` on."""
        return computed("Uniform.log_prob", _log_prob, value, self.low, self.high)

    def entropy(self) -> Tensor[B]:
        """Return log(high - low)."""
        return (self.high - self.low).log()

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        return (value - self.low) / (self.high - self.low)

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        return self.low + (self.high - self.low) * probability

    @property
    def mean(self) -> Tensor[B]:
        """The middle."""
        return (self.low + self.high) * 0.5

    @property
    def variance(self) -> Tensor[B]:
        """(high - low)² / 12."""
        return (self.high - self.low).square() / 12.0

    def valid(self: Uniform[Autodiff[I]]) -> Uniform[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class ContinuousBernoulli(OfSuccesses[B], Reparametrized[B]):
    """The distribution on [0, 1] with a density proportional to probsˣ · (1 - probs)^(1 - x).

    Args:
        probs: between 0 and 1; the density is even for ½.
        logits: log(probs / (1 - probs)), in place of ``probs``.
        device, validate: see `Distribution`.

    Source: Loaiza-Ganem and Cunningham, The Continuous Bernoulli, 2019.

    >>> x = Tensor[NumPy].from_data([0.0, 0.5])
    >>> ContinuousBernoulli(0.5, device=NumPy).log_prob(x).exp().tolist()
    [1.0, 1.0]
    """

    _ends = (0.0, 1.0)
    probs = Parameter(OPEN_UNIT, otherwise=lambda d: d.logits.sigmoid())
    logits = Parameter(FINITE, otherwise=lambda d: d.probs.logit())

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw values that are differentiable with respect to the parameter."""
        shape = self._shape(sample_shape)
        drawn = Tensor.uniform(shape, dtype=self._dtype, generator=generator, device=self.device)
        return self._icdf(drawn)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density; -inf outside of [0, 1]."""
        return computed("ContinuousBernoulli.log_prob", _continuous, value, self.logits)

    def _tilt(self) -> tuple[Tensor[B], Tensor[B]]:
        """Return the first two derivatives of log of the density's integral with respect to the logit, less ½."""
        half = self.logits.double() * 0.5
        return computed("mean", _langevin, half) * 0.5, computed("variance", _langevin_slope, half) * 0.25

    def entropy(self) -> Tensor[B]:
        """Return the differential entropy."""
        logits = self.logits.double()
        norm = computed("entropy", log_sinhc, logits * 0.5)
        return (norm - logits * self._tilt()[0]).to_dtype(self._dtype)

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        return computed("ContinuousBernoulli.cdf", _continuous_cdf, value, self.logits)

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        """Return the quantile of a probability, a logarithm whose derivatives are those of `cdf`'s inverse."""
        p, logits = probability.double(), self.logits.double()
        x = computed("ContinuousBernoulli.icdf", _continuous_icdf, p.detach(), logits.detach())
        of = ContinuousBernoulli(logits=logits, validate=False)
        return refined(of, x, p).clamp(0.0, 1.0).to_dtype(self._dtype)

    @property
    def mean(self) -> Tensor[B]:
        """probs / (2 · probs - 1) + 1 / (2 · artanh(1 - 2 · probs)); ½ for probs of ½."""
        return (self._tilt()[0] + 0.5).to_dtype(self._dtype)

    @property
    def variance(self) -> Tensor[B]:
        """The derivative of the mean with respect to the logit."""
        return self._tilt()[1].to_dtype(self._dtype)

    def valid(self: ContinuousBernoulli[Autodiff[I]]) -> ContinuousBernoulli[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def _log_prob(b: Any, x: Float, low: Float, high: Float) -> Float:
    inside = b.discrete.bitwise_and(b.ge(x, low), b.lt(x, high))
    return within(b, x, inside, b.neg(b.log(b.sub(high, low))))


@register_kl(Uniform, Uniform)
def _uniforms(p: Uniform[B], q: Uniform[B]) -> Tensor[B]:
    inside = (q.low <= p.low) & (p.high <= q.high)
    wider = (p.low - q.low) + (q.high - p.high)
    return (wider / (p.high - p.low)).masked_fill(~inside, 0.0).log1p().where(inside, math.inf)


_SINHC = (
    1 / 6, -1 / 180, 1 / 2835, -1 / 37800, 1 / 467775, -691 / 3831077250, 2 / 127702575, -3617 / 2605132530000,
    43867 / 350813659321125, -174611 / 15313294652906250,
)  # fmt: skip
"""The series of log(sinh(t) / t) in the square of t."""


def _series(b: Any, square: Float, factors: list[float]) -> Float:
    total = b.mul(square, 0.0)
    for factor in reversed(factors):
        total = b.add(b.mul(total, square), factor)
    return total


def log_sinhc(b: Any, t: Float) -> Float:
    """Compute log(sinh(t) / t), which is 0 at 0, to all digits, its derivatives as well."""
    near = b.le(b.abs(t), 0.5)
    small, size = b.where(near, t, 0.0), b.where(near, b.full((), 1.0, t.dtype), b.abs(t))
    square = b.mul(small, small)
    far = b.sub(b.add(size, b.log1p(b.neg(b.exp(b.mul(size, -2.0))))), b.log(b.mul(size, 2.0)))
    return b.where(near, b.mul(square, _series(b, square, [*_SINHC])), far)


def _langevin(b: Any, t: Float) -> Float:
    """Compute coth(t) - 1 / t, the derivative of `log_sinhc`."""
    near = b.le(b.abs(t), 0.5)
    small, large = b.where(near, t, 0.0), b.where(near, b.full((), 1.0, t.dtype), t)
    factors = [2 * (k + 1) * factor for k, factor in enumerate(_SINHC)]
    far = b.sub(b.reciprocal(b.tanh(large)), b.reciprocal(large))
    return b.where(near, b.mul(small, _series(b, b.mul(small, small), factors)), far)


def _langevin_slope(b: Any, t: Float) -> Float:
    """Compute 1 / t² - 1 / sinh(t)², the derivative of `_langevin`."""
    near = b.le(b.abs(t), 0.5)
    small, size = b.where(near, t, 0.0), b.where(near, b.full((), 1.0, t.dtype), b.abs(t))
    factors = [2 * (k + 1) * (2 * k + 1) * factor for k, factor in enumerate(_SINHC)]
    inverse = b.mul(b.div(b.exp(b.neg(size)), b.neg(b.expm1(b.mul(size, -2.0)))), 2.0)
    far = b.sub(b.reciprocal(b.mul(size, size)), b.mul(inverse, inverse))
    return b.where(near, _series(b, b.mul(small, small), factors), far)


def _continuous(b: Any, x: Float, logit: Float) -> Float:
    inside = b.discrete.bitwise_and(b.ge(x, 0.0), b.le(x, 1.0))
    y = b.where(inside, x, 0.5)
    far, size, small = _sizes(b, logit)
    near = b.sub(b.mul(small, b.add(y, -0.5)), log_sinhc(b, b.mul(small, 0.5)))
    above = b.sub(b.log(size), b.log1p(b.neg(b.exp(b.neg(size)))))  # the density at the end where it is largest
    value = b.where(far, b.add(b.mul(logit, _from_mode(b, y, logit)), above), near)
    return within(b, x, inside, value)


def _sizes(b: Any, logit: Float) -> tuple[Bool, Float, Float]:
    """Return where a logit is large; there its size, elsewhere 1; and elsewhere the logit, there 0."""
    size = b.abs(logit)
    far = b.gt(size, 1.0)
    return far, b.where(far, size, 1.0), b.where(far, b.full((), 0.0, logit.dtype), logit)


def _from_mode(b: Any, x: Float, logit: Float) -> Float:
    """Return x less the end of [0, 1] where the density is largest."""
    return b.where(b.gt(logit, 0.0), b.add(x, -1.0), x)


def _continuous_cdf(b: Any, x: Float, logit: Float) -> Float:
    far, size, small = _sizes(b, logit)
    part, half = b.mul(b.mul(small, x), 0.5), b.mul(small, 0.5)
    near = b.mul(x, b.exp(b.sub(b.add(part, log_sinhc(b, part)), b.add(half, log_sinhc(b, half)))))
    share = b.div(b.expm1(b.neg(b.mul(size, x))), b.expm1(b.neg(size)))
    tail = b.exp(b.where(b.gt(logit, 0.0), b.mul(logit, b.add(x, -1.0)), 0.0))
    return b.where(far, b.mul(share, tail), near)


def _continuous_icdf(b: Any, p: Float, logit: Float) -> Float:
    even, high = b.le(b.abs(logit), 1e-6), b.gt(logit, 30.0)
    theta = b.where(even, b.full((), 1.0, p.dtype), logit)
    low = b.div(b.log1p(b.mul(p, b.expm1(b.clamp(theta, None, 30.0)))), theta)
    top = b.add(b.div(b.log1p(b.mul(b.add(b.neg(p), 1.0), b.expm1(b.neg(theta)))), theta), 1.0)
    return b.where(even, p, b.where(high, top, low))


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
@doubled
def _continuous_bernoullis(p: ContinuousBernoulli[B], q: ContinuousBernoulli[B]) -> Tensor[B]:
    norms = [computed("kl", log_sinhc, d.logits * 0.5) for d in (p, q)]
    return (p.logits - q.logits) * p._tilt()[0] - norms[0] + norms[1]
