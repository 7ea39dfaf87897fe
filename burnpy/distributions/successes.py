"""Distributions of successes with a probability, given as it is or as a logit: their base class and its members."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

from burnpy.backend.primitives import Float
from burnpy.distributions.distribution import Distribution, doubled, register_kl
from burnpy.distributions.formulas import (
    computed,
    log_binomial,
    log_of,
    log_of_rest,
    of_mass,
    relative_entropy,
    times_log,
    whole,
)
from burnpy.distributions.parameters import LOGIT, POSSIBLE, Parameter, ParameterLike
from burnpy.nn.module import rebound
from burnpy.special.gamma_functions import betainc
from burnpy.tensor.random_parameters import COUNT, NOT_NEGATIVE, PROBABILITY
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from collections.abc import Callable

    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


class OfSuccesses(Distribution[B, Tensor[B]]):
    """The base class of distributions of successes with a probability, given as it is or as a logit."""

    probs = Parameter(PROBABILITY, otherwise=lambda d: d.logits.sigmoid())
    logits = Parameter(LOGIT, otherwise=lambda d: operator.sub(*d._log_probs()))

    def __init__(
        self,
        probs: ParameterLike[B] | None = None,
        *,
        logits: ParameterLike[B] | None = None,
        device: B | type[B] | None = None,
        validate: bool = True,
    ) -> None:
        self._hold_one(device, validate, probs, logits)

    def _by(self, called: str, formulas: tuple[Callable[..., tuple[Float]], ...], *operands: Tensor[B]) -> Tensor[B]:
        """Compute the formula for probabilities or the one for logits, of operands and the parameter."""
        by_logits = vars(self)["probs"] is None
        given = self.logits if by_logits else self.probs
        return computed(f"{type(self).__name__}.{called}", formulas[by_logits], *operands, given)

    def _log_probs(self) -> tuple[Tensor[B], Tensor[B]]:
        """Return the logarithms of the probabilities of a success and of a failure."""
        if vars(self)["probs"] is None:
            return -(-self.logits).softplus(), -self.logits.softplus()
        return computed("log_prob", _log, self.probs), computed("log_prob", _log_rest, self.probs)

    def _exact_failure(self) -> Tensor[B]:
        """Return 1 - probs in float64, for functions that are sensitive to its last digits."""
        return (-self.logits.double()).sigmoid() if vars(self)["probs"] is None else 1.0 - self.probs.double()

    @property
    def _failure(self) -> Tensor[B]:
        """1 - probs."""
        return (-self.logits).sigmoid() if vars(self)["probs"] is None else 1.0 - self.probs

    @property
    def _odds(self) -> Tensor[B]:
        """probs / (1 - probs)."""
        return self.logits.exp() if vars(self)["probs"] is None else self.probs / self._failure


class Bernoulli(OfSuccesses[B]):
    """The distribution of 1 with a probability, and of 0.

    Args:
        probs: the probability of 1.
        logits: log(probs / (1 - probs)), in place of ``probs``.
        device, validate: see `Distribution`.

    >>> Bernoulli(0.25, device=NumPy).log_prob(Tensor[NumPy].from_data([0.0, 1.0, 0.5])).exp().tolist()
    [0.75, 0.25, 0.0]
    """

    _ends = (0.0, 1.0)

    def sample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw 0 and 1, as floats."""
        return self.probs.detach().expand(self._shape(sample_shape)).bernoulli(generator=generator)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the probability; -inf for numbers other than 0 and 1."""
        return self._by("log_prob", (_bernoulli_by_probs, _bernoulli_by_logits), value)

    def entropy(self) -> Tensor[B]:
        """Return the entropy."""
        if vars(self)["probs"] is None:
            size = self.logits.abs().clamp(None, 1e30)
            return size.softplus() - size * size.sigmoid()
        return computed("Bernoulli.entropy", _bernoulli_entropy, self.probs)

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        return (self._failure + value.zeros_like()).masked_fill(value >= 1.0, 1.0)

    @property
    def mean(self) -> Tensor[B]:
        """The probability."""
        return self.probs

    @property
    def mode(self) -> Tensor[B]:
        """1 where the probability is above ½."""
        return (self.probs > 0.5).float().to_dtype(self._dtype)

    @property
    def variance(self) -> Tensor[B]:
        """probs · (1 - probs)."""
        return self.probs * self._failure

    def valid(self: Bernoulli[Autodiff[I]]) -> Bernoulli[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


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
        return self._by("log_prob", (_binomial_by_probs, _binomial_by_logits), value, self.total_count)

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        count, total = value.floor().double(), self.total_count.double()
        inside = count < total
        least = count.where(inside, 0.0)
        p = betainc((total - least).clamp(1.0), least + 1.0, self._exact_failure())
        return p.where(inside, 1.0).to_dtype(self._dtype)

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
        return self._by("log_prob", (_negative_by_probs, _negative_by_logits), value, self.total_count)

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        total = self.total_count.double()
        some = total > 0.0
        p = betainc(total.where(some, 1.0), value.floor().double() + 1.0, self._exact_failure())
        return p.where(some, 1.0).to_dtype(self._dtype)

    @property
    def mean(self) -> Tensor[B]:
        """total_count · probs / (1 - probs)."""
        return self.total_count * self._odds

    @property
    def mode(self) -> Tensor[B]:
        """⌊(total_count - 1) · probs / (1 - probs)⌋, at least 0."""
        return ((self.total_count - 1.0) * self._odds).floor().clamp(0.0)

    @property
    def variance(self) -> Tensor[B]:
        """total_count · probs / (1 - probs)²."""
        return self.mean / self._failure

    def valid(self: NegativeBinomial[Autodiff[I]]) -> NegativeBinomial[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class Geometric(OfSuccesses[B]):
    """The distribution of the number of failures, from 0 on, before the first success.

    Args:
        probs: the probability of a success, above 0.
        logits: log(probs / (1 - probs)), in place of ``probs``.
        device, validate: see `Distribution`.

    >>> Geometric(0.5, device=NumPy).log_prob(Tensor[NumPy].from_data([0.0, 1.0, 2.0])).exp().tolist()
    [0.5, 0.25, 0.125]
    """

    _ends = (0.0, math.inf)
    probs = Parameter(POSSIBLE, otherwise=lambda d: d.logits.sigmoid())

    def sample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw numbers of failures, as floats."""
        shape = self._shape(sample_shape)
        drawn = Tensor.exponential(shape, dtype=self._dtype, generator=generator, device=self.device)
        return (drawn / -self._log_probs()[1]).floor().detach()

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the probability; -inf for numbers other than 0, 1, 2, …"""
        return self._by("log_prob", (_geometric_by_probs, _geometric_by_logits), value)

    def entropy(self) -> Tensor[B]:
        """Return the entropy."""
        log_success, log_failure = self._log_probs()
        failures = log_failure.masked_fill(log_failure == -math.inf, 0.0) * self._failure / self.probs
        return -(failures + log_success)

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        return -((value.floor() + 1.0) * self._log_probs()[1]).expm1()

    @property
    def mean(self) -> Tensor[B]:
        """(1 - probs) / probs."""
        return self._failure / self.probs

    @property
    def mode(self) -> Tensor[B]:
        """0."""
        return self.probs.zeros_like()

    @property
    def variance(self) -> Tensor[B]:
        """(1 - probs) / probs²."""
        return self._failure / self.probs.square()

    def valid(self: Geometric[Autodiff[I]]) -> Geometric[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def success_of_probs(b: Any, p: Float) -> tuple[Float, Float, Float, Float]:
    """Return the probability of a success and of a failure, and their logarithms."""
    return p, b.add(b.neg(p), 1.0), log_of(b, p), log_of_rest(b, p)


def _log(b: Any, p: Float) -> tuple[Float]:
    return (log_of(b, p),)


def _log_rest(b: Any, p: Float) -> tuple[Float]:
    return (log_of_rest(b, p),)


def _bernoulli_entropy(b: Any, p: Float) -> tuple[Float]:
    q = b.add(b.neg(p), 1.0)
    return (b.neg(b.add(times_log(b, p, log_of(b, p)), times_log(b, q, log_of_rest(b, p)))),)


def success_of_logits(b: Any, x: Float) -> tuple[Float, Float, Float, Float]:
    """Return the probability of a success and of a failure, and their logarithms."""
    opposite = b.neg(x)
    return b.sigmoid(x), b.sigmoid(opposite), b.neg(b.softplus(opposite, 1.0)), b.neg(b.softplus(x, 1.0))


def _bernoulli_by_probs(b: Any, x: Float, p: Float) -> tuple[Float]:
    one, zero = b.eq(x, 1.0), b.eq(x, 0.0)
    log_p = b.where(one, log_of(b, b.where(one, p, 1.0)), log_of_rest(b, b.where(b.ne(x, 1.0), p, 0.0)))
    return (of_mass(b, x, b.discrete.bitwise_or(one, zero), log_p),)


def _bernoulli_by_logits(b: Any, x: Float, logit: Float) -> tuple[Float]:
    one, zero = b.eq(x, 1.0), b.eq(x, 0.0)
    wrong = b.where(one, b.neg(logit), logit)
    return (of_mass(b, x, b.discrete.bitwise_or(one, zero), b.neg(b.softplus(wrong, 1.0))),)


def _binomial(b: Any, x: Float, total: Float, success: tuple[Float, Float, Float, Float]) -> tuple[Float]:
    inside = b.discrete.bitwise_and(whole(b, x), b.le(x, total))
    successes = b.where(inside, x, 0.0)
    return (of_mass(b, x, inside, log_binomial(b, successes, b.sub(total, successes), *success)),)


def _binomial_by_probs(b: Any, x: Float, total: Float, p: Float) -> tuple[Float]:
    return _binomial(b, x, total, success_of_probs(b, p))


def _binomial_by_logits(b: Any, x: Float, total: Float, logit: Float) -> tuple[Float]:
    return _binomial(b, x, total, success_of_logits(b, logit))


def _negative(b: Any, x: Float, total: Float, success: tuple[Float, Float, Float, Float]) -> tuple[Float]:
    """Return the last of x + total trials is a failure."""
    inside = whole(b, x)
    successes = b.where(inside, x, 0.0)
    some = b.ne(total, 0.0)
    inside = b.discrete.bitwise_and(inside, b.discrete.bitwise_or(some, b.eq(x, 0.0)))
    last = b.log1p(b.div(successes, b.where(some, total, 1.0)))
    return (of_mass(b, x, inside, b.sub(log_binomial(b, successes, total, *success), last)),)


def _negative_by_probs(b: Any, x: Float, total: Float, p: Float) -> tuple[Float]:
    return _negative(b, x, total, success_of_probs(b, p))


def _negative_by_logits(b: Any, x: Float, total: Float, logit: Float) -> tuple[Float]:
    return _negative(b, x, total, success_of_logits(b, logit))


def _geometric(b: Any, x: Float, log_p: Float, log_q: Float) -> tuple[Float]:
    inside = whole(b, x)
    return (of_mass(b, x, inside, b.add(times_log(b, b.where(inside, x, 0.0), log_q), log_p)),)


def _geometric_by_probs(b: Any, x: Float, p: Float) -> tuple[Float]:
    return _geometric(b, x, *success_of_probs(b, p)[2:])


def _geometric_by_logits(b: Any, x: Float, logit: Float) -> tuple[Float]:
    return _geometric(b, x, *success_of_logits(b, logit)[2:])


@register_kl(Bernoulli, Bernoulli)
@doubled
def _bernoullis(p: OfSuccesses[B], q: OfSuccesses[B]) -> Tensor[B]:
    (log_p, log_p_rest), (log_q, log_q_rest) = p._log_probs(), q._log_probs()
    successes = relative_entropy(p.probs, q.probs, log_p, log_q)
    return successes + relative_entropy(p._failure, q._failure, log_p_rest, log_q_rest)


@register_kl(Geometric, Geometric)
@doubled
def _geometrics(p: Geometric[B], q: Geometric[B]) -> Tensor[B]:
    return _bernoullis(p, q) / p.probs


@register_kl(Binomial, Binomial)
@doubled
def _binomials(p: Binomial[B], q: Binomial[B]) -> Tensor[B]:
    """Return the divergence for equal numbers of trials; inf for more trials of p, NaN for fewer, without a closed
    form.
    """
    count, other = p.total_count, q.total_count
    return (_bernoullis(p, q) * count).where(count <= other, math.inf).where(count >= other, math.nan)
