"""Distributions of successes with a probability, given as it is or as a logit: their base class and its members."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.backend.primitives import Float
from burnpy.distributions.distribution import Distribution
from burnpy.distributions.formulas import computed, impossible, log_binomial, times_log, whole
from burnpy.distributions.parameters import LOGIT, POSSIBLE, Parameter, ParameterLike
from burnpy.nn.module import rebound
from burnpy.special.elementary import entr, xlog1py
from burnpy.special.gamma_functions import betainc
from burnpy.tensor.draws import COUNT, POSITIVE, PROBABILITY
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
    logits = Parameter(LOGIT, otherwise=lambda d: d.probs.log() - (-d.probs).log1p())

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
        return self.probs.log(), (-self.probs).log1p()

    def _exact_failure(self) -> Tensor[B]:
        """Return 1 - probs in float64, for functions that are sensitive to its last digits."""
        return (-self.logits.double()).sigmoid() if vars(self)["probs"] is None else 1.0 - self.probs.double()

    @property
    def _failure(self) -> Tensor[B]:
        """1 - probs."""
        return (-self.logits).sigmoid() if vars(self)["probs"] is None else 1.0 - self.probs


class Bernoulli(OfSuccesses[B]):
    """The distribution of 1 with a probability, and of 0.

    Args:
        probs: the probability of 1.
        logits: log(probs / (1 - probs)), in place of ``probs``.
        device, validate: see `Distribution`.

    >>> Bernoulli(0.25, device=NumPy).log_prob(Tensor[NumPy].from_data([0.0, 1.0, 0.5])).exp().tolist()
    [0.75, 0.25, 0.0]
    """

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
        failure = self._failure
        of_failure = entr(failure).where(failure < 0.5, -xlog1py(failure, -self.probs))  # exact for small probabilities
        return entr(self.probs) + of_failure

    def cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return the probability of numbers up to a value."""
        failure = self._failure + value.zeros_like()
        return failure.masked_fill(value < 0.0, 0.0).masked_fill(value >= 1.0, 1.0)

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

    total_count = Parameter(COUNT)

    def sample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw numbers of successes, as floats."""
        return Tensor.binomial(self._shape(sample_shape), self.total_count, self.probs, generator=generator)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the probability; -inf for numbers other than 0, 1, …, total_count."""
        return self._by("log_prob", (_binomial_by_probs, _binomial_by_logits), value, self.total_count)

    def cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return the probability of numbers up to a value; small ones keep all digits."""
        count, total = value.floor().double(), self.total_count.double()
        inside = (count >= 0.0) & (count < total)
        least = count.where(inside, 0.0)
        p = betainc((total - least).clamp(1.0), least + 1.0, self._exact_failure())
        return p.where(inside, 1.0).where(count >= 0.0, 0.0).to_dtype(self._dtype)

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
        total_count: the number of failures, above 0.
        probs: the probability of a success.
        logits: log(probs / (1 - probs)), in place of ``probs``.
        device, validate: see `Distribution`.

    >>> log_p = NegativeBinomial(1.0, 0.5, device=NumPy).log_prob(Tensor[NumPy].from_data([0.0, 1.0]))
    >>> [round(p, 4) for p in log_p.exp().tolist()]
    [0.5, 0.25]
    """

    total_count = Parameter(POSITIVE)

    def sample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw numbers of successes, as floats: Poisson numbers whose rates are drawn from a gamma distribution."""
        shape, odds = self._shape(sample_shape), self.logits.exp().detach()
        rate = Tensor.gamma(shape, self.total_count.detach(), generator=generator) * odds
        return Tensor.poisson(shape, rate, generator=generator)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the probability; -inf for numbers other than 0, 1, 2, …"""
        return self._by("log_prob", (_negative_by_probs, _negative_by_logits), value, self.total_count)

    def cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return the probability of numbers up to a value; small ones keep all digits."""
        count = value.floor().double()
        p = betainc(self.total_count.double(), count.clamp(0.0) + 1.0, self._exact_failure())
        return p.where(count >= 0.0, 0.0).to_dtype(self._dtype)

    @property
    def mean(self) -> Tensor[B]:
        """total_count · probs / (1 - probs)."""
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor[B]:
        """⌊(total_count - 1) · probs / (1 - probs)⌋, at least 0."""
        return ((self.total_count - 1.0) * self.logits.exp()).floor().clamp(0.0)

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
        certain = self._failure == 0.0
        failures = (log_failure.masked_fill(certain, 0.0) * self._failure) / self.probs
        return -(failures + log_success)

    def cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return the probability of numbers up to a value; small ones keep all digits."""
        return (-((value.floor() + 1.0) * self._log_probs()[1]).expm1()).masked_fill(value < 0.0, 0.0)

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
    return p, b.add(b.neg(p), 1.0), b.log(p), b.log1p(b.neg(p))


def success_of_logits(b: Any, x: Float) -> tuple[Float, Float, Float, Float]:
    """Return the probability of a success and of a failure, and their logarithms."""
    opposite = b.neg(x)
    return b.sigmoid(x), b.sigmoid(opposite), b.neg(b.softplus(opposite, 1.0)), b.neg(b.softplus(x, 1.0))


def _outside(b: Any, x: Float) -> Any:
    return b.discrete.bitwise_and(b.ne(x, 0.0), b.ne(x, 1.0))


def _bernoulli_by_probs(b: Any, x: Float, p: Float) -> tuple[Float]:
    return (impossible(b, _outside(b, x), b.add(b.xlogy(x, p), b.xlog1py(b.add(b.neg(x), 1.0), b.neg(p)))),)


def _bernoulli_by_logits(b: Any, x: Float, logit: Float) -> tuple[Float]:
    wrong = b.where(b.eq(x, 1.0), b.neg(logit), logit)
    return (impossible(b, _outside(b, x), b.neg(b.softplus(wrong, 1.0))),)


def _binomial(b: Any, x: Float, total: Float, success: tuple[Float, Float, Float, Float]) -> tuple[Float]:
    inside = b.discrete.bitwise_and(whole(b, x), b.le(x, total))
    successes = b.where(inside, x, 0.0)
    return (b.where(inside, log_binomial(b, successes, b.sub(total, successes), *success), -math.inf),)


def _binomial_by_probs(b: Any, x: Float, total: Float, p: Float) -> tuple[Float]:
    return _binomial(b, x, total, success_of_probs(b, p))


def _binomial_by_logits(b: Any, x: Float, total: Float, logit: Float) -> tuple[Float]:
    return _binomial(b, x, total, success_of_logits(b, logit))


def _negative(b: Any, x: Float, total: Float, success: tuple[Float, Float, Float, Float]) -> tuple[Float]:
    """Return the last of x + total trials is a failure."""
    inside = whole(b, x)
    successes = b.where(inside, x, 0.0)
    last = b.log1p(b.div(successes, total))
    return (b.where(inside, b.sub(log_binomial(b, successes, total, *success), last), -math.inf),)


def _negative_by_probs(b: Any, x: Float, total: Float, p: Float) -> tuple[Float]:
    return _negative(b, x, total, success_of_probs(b, p))


def _negative_by_logits(b: Any, x: Float, total: Float, logit: Float) -> tuple[Float]:
    return _negative(b, x, total, success_of_logits(b, logit))


def _geometric(b: Any, x: Float, log_p: Float, log_q: Float) -> tuple[Float]:
    return (impossible(b, b.discrete.bitwise_not(whole(b, x)), b.add(times_log(b, x, log_q), log_p)),)


def _geometric_by_probs(b: Any, x: Float, p: Float) -> tuple[Float]:
    return _geometric(b, x, *success_of_probs(b, p)[2:])


def _geometric_by_logits(b: Any, x: Float, logit: Float) -> tuple[Float]:
    return _geometric(b, x, *success_of_logits(b, logit)[2:])
