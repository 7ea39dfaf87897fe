"""Distributions of counts: binomial, negative binomial and multinomial, of successes in trials; Poisson."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError
from burnpy.backend.numerics.incomplete import HALF_LOG_TAU, deviance, stirling_gap
from burnpy.distributions.bernoulli import OfSuccesses, bernoulli_divergence, success_of_logits, success_of_probs
from burnpy.distributions.categorical import OfClasses
from burnpy.distributions.distribution import Distribution, doubled, in_double, register_kl
from burnpy.distributions.formulas import computed, least_count, log_binomial, log_of, of_mass, relative_entropy, whole
from burnpy.distributions.parameters import Parameter, ParameterLike
from burnpy.nn.module import rebound
from burnpy.special import betainc, gammaincc
from burnpy.tensor.joining import stack
from burnpy.tensor.random_parameters import COUNT, NOT_NEGATIVE, RATE
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Float, Shape
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


class OfTrials(OfSuccesses[B]):
    """The base class of distributions of successes in several trials, whose ``total_count`` a subclass declares."""

    total_count: Any

    def __init__(
        self,
        total_count: ParameterLike[B],
        probs: ParameterLike[B] | None = None,
        *,
        logits: ParameterLike[B] | None = None,
        device: B | type[B] | None = None,
        validate: bool = True,
    ) -> None:
        self._hold_one(device, validate, probs, logits, total_count=total_count)


class Binomial(OfTrials[B]):
    """The distribution of the number of successes in ``total_count`` trials.

    Args:
        total_count: the number of trials, a whole number.
        probs: the probability of a success.
        logits: log(probs / (1 - probs)), in place of ``probs``.
        device, validate: see `Distribution`.

    >>> x = Tensor[NumPy].from_data([0.0, 1.0, 2.0])
    >>> [round(p, 4) for p in Binomial(2, 0.5, device=NumPy).log_prob(x).exp().tolist()]
    [0.25, 0.5, 0.25]
    """

    _ends = (0.0, math.inf)
    total_count = Parameter(COUNT)

    def sample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw numbers of successes, as floats."""
        return Tensor.binomial(self._shape(sample_shape), self.total_count, self.probs, generator=generator)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the probability; -inf for numbers other than 0, 1, …, total_count."""
        return self._log_prob_by((_binomial_by_probs, _binomial_by_logits), value, self.total_count)

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        count, total = value.floor().double(), self.total_count.double()
        inside = count < total
        least = count.where(inside, 0.0)
        p = betainc((total - least).clamp(1.0), least + 1.0, self._exact_failure())
        return p.where(inside, 1.0).to_dtype(self._dtype)

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        return least_count(self, probability, self.total_count.detach().double())

    def enumerate_support(self, *, expand: bool = True) -> Tensor[B]:
        """Return 0 to ``total_count``, which must be equal in the batch: see `Distribution.enumerate_support`."""
        counts = self.total_count.detach()
        most = int(counts.max().item()) if counts.numel() else 0
        if not (counts == float(most)).all():
            raise ArgumentError("Binomial.enumerate_support() expects an equal total_count for the whole batch")
        return self._enumerated(Tensor.arange(most + 1, dtype=self._dtype, device=self.device), expand)  # type: ignore[no-any-return]  # a Tensor

    @in_double  # in 16 bits, not even the numbers are exact
    def entropy(self) -> Tensor[B]:
        """Return the entropy, by a sum over all numbers of successes, in as much memory; the largest count is read."""
        total = self.total_count.detach()
        most = int(total.max().item()) if total.numel() else 0
        numbers = Tensor.arange(most + 1, dtype=self._dtype, device=self.device).reshape(
            -1, *(1,) * len(self.batch_shape)
        )
        log_p = self.log_prob(numbers.minimum(total))
        log_p = log_p.where((numbers <= total) & (log_p > -math.inf), 0.0)
        return -(log_p.exp() * log_p).sum(dim=0)

    @property
    def mean(self) -> Tensor[B]:
        """total_count · probs."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor[B]:
        """The most probable number, the smaller of two: ⌈(total_count + 1) · probs⌉ - 1, at least 0."""
        return (((self.total_count + 1.0) * self.probs).ceil() - 1.0).clamp(0.0)

    @property
    def variance(self) -> Tensor[B]:
        """total_count · probs · (1 - probs)."""
        return self.total_count * self.probs * self._failure

    def valid(self: Binomial[Autodiff[I]]) -> Binomial[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class NegativeBinomial(OfTrials[B]):
    """The distribution of the number of successes before ``total_count`` failures, which need not be whole.

    As in PyTorch, ``probs`` is the probability of the successes that are counted. SciPy's ``nbinom`` takes 1 - probs.

    Args:
        total_count: the number of failures, 0 or larger; for 0 all draws are 0.
        probs: the probability of a success.
        logits: log(probs / (1 - probs)), in place of ``probs``.
        device, validate: see `Distribution`.

    >>> log_p = NegativeBinomial(1.0, 0.5, device=NumPy).log_prob(Tensor[NumPy].from_data([0.0, 1.0]))
    >>> [round(p, 4) for p in log_p.exp().tolist()]
    [0.5, 0.25]
    """

    _ends = (0.0, math.inf)
    total_count = Parameter(NOT_NEGATIVE)

    def sample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw numbers of successes, as floats: Poisson numbers whose rates are drawn from a gamma distribution."""
        shape, total = self._shape(sample_shape), self.total_count.detach()
        none = total == 0.0
        rate = Tensor.gamma(shape, total.masked_fill(none, 1.0), generator=generator) * self._odds.detach()
        return Tensor.poisson(shape, rate.masked_fill(none, 0.0), generator=generator)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the probability; -inf for numbers other than 0, 1, 2, …"""
        return self._log_prob_by((_negative_by_probs, _negative_by_logits), value, self.total_count)

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        total = self.total_count.double()
        some = total > 0.0
        p = betainc(total.where(some, 1.0), value.floor().double() + 1.0, self._exact_failure())
        return p.where(some, 1.0).to_dtype(self._dtype)

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        return least_count(self, probability, math.inf)

    @property
    def mean(self) -> Tensor[B]:
        """total_count · probs / (1 - probs)."""
        return self.total_count * self._odds

    @property
    def mode(self) -> Tensor[B]:
        """⌊(total_count - 1) · probs / (1 - probs)⌋, at least 0."""
        return ((self.total_count - 1.0) * self._odds).detach().floor().clamp(0.0)

    @property
    def variance(self) -> Tensor[B]:
        """total_count · probs / (1 - probs)²."""
        return self.mean / self._failure

    def valid(self: NegativeBinomial[Autodiff[I]]) -> NegativeBinomial[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class Multinomial(OfClasses[B, Tensor[B]]):
    """The distribution of the numbers of draws from each of n classes.

    Args:
        total_count: the number of draws, an int.
        probs: relative probabilities (…, n), which need not add up to 1.
        logits: their logarithms, up to a constant, in place of ``probs``.
        validate: whether to check the parameters' numbers.

    >>> d = Multinomial(2, Tensor[NumPy].from_data([1.0, 1.0]))
    >>> d.log_prob(Tensor[NumPy].from_data([[2.0, 0.0], [1.0, 1.0], [1.0, 0.0]])).exp().tolist()
    [0.25, 0.5, 0.0]
    """

    def __init__(
        self,
        total_count: int,
        probs: ParameterLike[B] | None = None,
        *,
        logits: ParameterLike[B] | None = None,
        validate: bool = True,
    ) -> None:
        super().__init__(probs, logits=logits, validate=validate)
        argument: object = total_count
        if not isinstance(argument, int) or not 0 <= argument <= 2**53:
            raise ArgumentError(f"Multinomial() got total_count={total_count!r:.80}; expected an int from 0 to 2**53")
        self.total_count = total_count

    @property
    def event_shape(self) -> Shape:
        """The number of classes."""
        return (self.num_classes,)

    def sample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw numbers of draws, as floats: of each class a binomial one, given the classes before it."""
        shape = self._shape(sample_shape)[:-1]
        probs = self._log_probs().detach().double().exp()
        left = probs.flip(-1).cumsum(-1).flip(-1)  # the probability of this class and those after it
        share = (probs / left).clamp(0.0, 1.0).masked_fill(left <= 0.0, 0.0)
        remaining = Tensor.full(shape, float(self.total_count), dtype="float64", device=self.device)
        counts = []
        for k in range(self.num_classes - 1):
            count = Tensor.binomial(shape, remaining, share[..., k], generator=generator)
            counts.append(count)
            remaining = remaining - count
        return stack([*counts, remaining], dim=-1).to_dtype(self._dtype)

    @in_double
    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the probability; -inf unless the numbers are whole and add up to ``total_count``."""
        whole = ((value >= 0.0) & (value == value.floor())).all(dim=-1)
        fits = whole & (value.sum(dim=-1) == float(self.total_count))
        count = Tensor.full((), float(self.total_count), dtype="float64", device=self.device)
        rates, log_rates = self._shares() * count, self._log_probs() + count.clamp(1.0).log()
        terms = computed("Multinomial.log_prob", _of_rate, value, rates, log_rates)  # as for Poisson distributions,
        total = terms.sum(dim=-1) - Poisson(count, validate=False).log_prob(count)  # given the sum of their numbers
        return total.where(fits & (total > -math.inf), -math.inf)

    @property
    def mean(self) -> Tensor[B]:
        """total_count · probs."""
        return self._shares() * float(self.total_count)

    @property
    def variance(self) -> Tensor[B]:
        """total_count · probs · (1 - probs)."""
        p = self._shares()
        return p * (1.0 - p) * float(self.total_count)

    @in_double
    def entropy(self) -> Tensor[B]:
        """Return the entropy, by a sum over the numbers of each class, from 0 to ``total_count``, in as much memory."""
        of_one_draw, p = super().entropy(), self._shares()
        numbers = Tensor.arange(self.total_count + 1, dtype=self._dtype, device=self.device)
        numbers = numbers.reshape(-1, *(1,) * p.ndim)
        chance = Binomial(self.total_count, p, validate=False).log_prob(numbers).exp()
        log_factorials = (chance * (numbers + 1.0).lgamma()).sum(dim=(0, -1))
        return of_one_draw * float(self.total_count) - math.lgamma(self.total_count + 1.0) + log_factorials

    def valid(self: Multinomial[Autodiff[I]]) -> Multinomial[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def _binomial(b: Any, x: Float, total: Float, success: tuple[Float, Float, Float, Float]) -> Float:
    inside = b.discrete.bitwise_and(whole(b, x), b.le(x, total))
    successes = b.where(inside, x, 0.0)
    return of_mass(b, x, inside, log_binomial(b, successes, b.sub(total, successes), *success))


def _binomial_by_probs(b: Any, x: Float, total: Float, p: Float) -> Float:
    return _binomial(b, x, total, success_of_probs(b, p))


def _binomial_by_logits(b: Any, x: Float, total: Float, logit: Float) -> Float:
    return _binomial(b, x, total, success_of_logits(b, logit))


def _negative(b: Any, x: Float, total: Float, success: tuple[Float, Float, Float, Float]) -> Float:
    """Return the last of x + total trials is a failure."""
    inside = whole(b, x)
    successes = b.where(inside, x, 0.0)
    some = b.ne(total, 0.0)
    inside = b.discrete.bitwise_and(inside, b.discrete.bitwise_or(some, b.eq(x, 0.0)))
    last = b.log1p(b.div(successes, b.where(some, total, 1.0)))
    return of_mass(b, x, inside, b.sub(log_binomial(b, successes, total, *success), last))


def _negative_by_probs(b: Any, x: Float, total: Float, p: Float) -> Float:
    return _negative(b, x, total, success_of_probs(b, p))


def _negative_by_logits(b: Any, x: Float, total: Float, logit: Float) -> Float:
    return _negative(b, x, total, success_of_logits(b, logit))


@register_kl(Binomial, Binomial)
@doubled
def _binomials(p: Binomial[B], q: Binomial[B]) -> Tensor[B]:
    """Return the divergence for equal numbers of trials; inf for more trials of p, NaN for fewer, without a closed
    form."""
    count, other = p.total_count, q.total_count
    return (bernoulli_divergence(p, q) * count).where(count <= other, math.inf).where(count >= other, math.nan)


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
        return gammaincc(value.floor().double() + 1.0, self.rate.double()).to_dtype(self._dtype)

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


def _log_prob(b: Any, x: Float, rate: Float) -> Float:
    return _of_rate(b, x, rate, log_of(b, rate))


def _of_rate(b: Any, x: Float, rate: Float, log_rate: Float) -> Float:
    d, none, some = b.discrete, b.eq(x, 0.0), b.ne(log_rate, -math.inf)
    inside = d.bitwise_and(whole(b, x), d.bitwise_or(none, some))
    count = b.where(d.bitwise_and(inside, b.ne(x, 0.0)), x, 1.0)
    log_size = b.add(b.mul(b.log(count), 0.5), HALF_LOG_TAU)
    value = b.neg(
        b.add(deviance(b, count, rate, b.where(some, log_rate, 0.0)), b.add(log_size, stirling_gap(b, count)))
    )
    return of_mass(b, x, inside, b.where(none, b.neg(rate), value))


@register_kl(Poisson, Poisson)
def _poissons(p: Poisson[B], q: Poisson[B]) -> Tensor[B]:
    log_p, log_q = (computed("kl", log_of, d.rate) for d in (p, q))
    return relative_entropy(p.rate, q.rate, log_p, log_q)
