"""Distributions of one success with a probability, given as it is or as a logit, and their base class."""

from __future__ import annotations

import math
import operator
from functools import partial
from typing import TYPE_CHECKING, Any

from burnpy.distributions.distribution import Distribution, Reparametrized, doubled, register_kl
from burnpy.distributions.formulas import (
    at_end,
    computed,
    least_count,
    log_of,
    log_of_rest,
    of_mass,
    relative_entropy,
    times_log,
    whole,
    within,
)
from burnpy.distributions.parameters import LOGIT, POSSIBLE, Parameter, ParameterLike
from burnpy.nn.module import rebound
from burnpy.tensor.random_parameters import OPEN_UNIT, POSITIVE, PROBABILITY
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from collections.abc import Callable

    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Float
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

    def _log_prob_by(self, formulas: tuple[Callable[..., Float], ...], *operands: Tensor[B]) -> Tensor[B]:
        """Compute the formula for probabilities or the one for logits, of operands and the parameter."""
        by_logits = vars(self)["probs"] is None
        given = self.logits if by_logits else self.probs
        return computed(f"{type(self).__name__}.log_prob", formulas[by_logits], *operands, given)

    def _log_probs(self) -> tuple[Tensor[B], Tensor[B]]:
        """Return the logarithms of the probabilities of a success and of a failure."""
        if vars(self)["probs"] is None:
            return -(-self.logits).softplus(), -self.logits.softplus()
        return computed("log_prob", log_of, self.probs), computed("log_prob", log_of_rest, self.probs)

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
        return self._log_prob_by((_bernoulli_by_probs, _bernoulli_by_logits), value)

    def entropy(self) -> Tensor[B]:
        """Return the entropy."""
        if vars(self)["probs"] is None:
            size = self.logits.abs().clamp(None, 1e30)
            return size.softplus() - size * size.sigmoid()
        return computed("Bernoulli.entropy", _bernoulli_entropy, self.probs)

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        return (self._failure + value.zeros_like()).masked_fill(value >= 1.0, 1.0)

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        return (probability.detach() > self._failure.detach()).float().to_dtype(self._dtype)

    def enumerate_support(self, *, expand: bool = True) -> Tensor[B]:
        """Return 0 and 1: see `Distribution.enumerate_support`."""
        return self._enumerated(Tensor.arange(2, dtype=self._dtype, device=self.device), expand)  # type: ignore[no-any-return]  # a Tensor

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
        return self._log_prob_by((_geometric_by_probs, _geometric_by_logits), value)

    def entropy(self) -> Tensor[B]:
        """Return the entropy."""
        log_success, log_failure = self._log_probs()
        failures = log_failure.masked_fill(log_failure == -math.inf, 0.0) * self._failure / self.probs
        return -(failures + log_success)

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        count = value.floor().double() + 1.0
        return (-(count * self._log_probs()[1].double()).expm1()).to_dtype(self._dtype)

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        return least_count(self, probability, math.inf)

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


class RelaxedBernoulli(OfSuccesses[B], Reparametrized[B]):
    """The distribution on (0, 1) that approaches the Bernoulli distribution for a temperature next to 0.

    Its values are the sigmoid of (logits + z) / temperature for z of the standard logistic distribution. Training
    leaves the temperature unchanged.

    Args:
        temperature: above 0.
        probs: the probability of a value above ½.
        logits: log(probs / (1 - probs)), in place of ``probs``.
        device, validate: see `Distribution`.

    Source: Maddison, Mnih and Teh, The Concrete Distribution, 2017.

    >>> RelaxedBernoulli(0.5, logits=0.0, device=NumPy).cdf(Tensor[NumPy].from_data(0.5)).item()
    0.5
    """

    _ends = (0.0, 1.0)
    temperature = Parameter(POSITIVE, learned=False)

    def __init__(
        self,
        temperature: ParameterLike[B],
        probs: ParameterLike[B] | None = None,
        *,
        logits: ParameterLike[B] | None = None,
        device: B | type[B] | None = None,
        validate: bool = True,
    ) -> None:
        self._hold_one(device, validate, probs, logits, temperature=temperature)

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw values that are differentiable with respect to the parameters."""
        settings: Any = {"dtype": self._dtype, "generator": generator, "device": self.device}
        shape = self._shape(sample_shape)
        noise = Tensor.gumbel(shape, **settings) - Tensor.gumbel(shape, **settings)
        return ((self.logits + noise) / self.temperature).sigmoid().clamp(*OPEN_UNIT.ends(self._dtype))

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density; -inf outside of [0, 1]."""
        return computed("RelaxedBernoulli.log_prob", _relaxed_bernoulli, value, self.temperature, self.logits)

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return `cdf`; at the ends by powers, whose slopes are not 0 · inf."""
        t, logits, zero, one = self.temperature, self.logits, value == 0.0, value == 1.0
        low = value.where(zero, 1.0).pow(t) * (-logits).clamp(None, 80.0).exp()
        high = 1.0 - (1.0 - value.where(one, 0.0)).pow(t) * logits.clamp(None, 80.0).exp()
        inside = (t * value.masked_fill(zero | one, 0.5).logit() - logits).sigmoid()
        return low.where(zero, high.where(one, inside))

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        return ((self.logits + probability.logit()) / self.temperature).sigmoid()

    def valid(self: RelaxedBernoulli[Autodiff[I]]) -> RelaxedBernoulli[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def success_of_probs(b: Any, p: Float) -> tuple[Float, Float, Float, Float]:
    """Return the probability of a success and of a failure, and their logarithms."""
    return p, b.add(b.neg(p), 1.0), log_of(b, p), log_of_rest(b, p)


def success_of_logits(b: Any, x: Float) -> tuple[Float, Float, Float, Float]:
    """Return the probability of a success and of a failure, and their logarithms."""
    opposite = b.neg(x)
    return b.sigmoid(x), b.sigmoid(opposite), b.neg(b.softplus(opposite, 1.0)), b.neg(b.softplus(x, 1.0))


def _bernoulli_entropy(b: Any, p: Float) -> Float:
    q = b.add(b.neg(p), 1.0)
    return b.neg(b.add(times_log(b, p, log_of(b, p)), times_log(b, q, log_of_rest(b, p))))


def _bernoulli_by_probs(b: Any, x: Float, p: Float) -> Float:
    one, zero = b.eq(x, 1.0), b.eq(x, 0.0)
    log_p = b.where(one, log_of(b, b.where(one, p, 1.0)), log_of_rest(b, b.where(b.ne(x, 1.0), p, 0.0)))
    return of_mass(b, x, b.discrete.bitwise_or(one, zero), log_p)


def _bernoulli_by_logits(b: Any, x: Float, logit: Float) -> Float:
    one, zero = b.eq(x, 1.0), b.eq(x, 0.0)
    wrong = b.where(one, b.neg(logit), logit)
    return of_mass(b, x, b.discrete.bitwise_or(one, zero), b.neg(b.softplus(wrong, 1.0)))


def _geometric(b: Any, x: Float, log_p: Float, log_q: Float) -> Float:
    inside = whole(b, x)
    return of_mass(b, x, inside, b.add(times_log(b, b.where(inside, x, 0.0), log_q), log_p))


def _geometric_by_probs(b: Any, x: Float, p: Float) -> Float:
    return _geometric(b, x, *success_of_probs(b, p)[2:])


def _geometric_by_logits(b: Any, x: Float, logit: Float) -> Float:
    return _geometric(b, x, *success_of_logits(b, logit)[2:])


@register_kl(Bernoulli, Bernoulli)
@doubled
def bernoulli_divergence(p: OfSuccesses[B], q: OfSuccesses[B]) -> Tensor[B]:
    """Return the divergence of one trial."""
    (log_p, log_p_rest), (log_q, log_q_rest) = p._log_probs(), q._log_probs()
    successes = relative_entropy(p.probs, q.probs, log_p, log_q)
    return successes + relative_entropy(p._failure, q._failure, log_p_rest, log_q_rest)


@register_kl(Geometric, Geometric)
@doubled
def _geometrics(p: Geometric[B], q: Geometric[B]) -> Tensor[B]:
    return bernoulli_divergence(p, q) / p.probs


def _relaxed_bernoulli(b: Any, x: Float, temperature: Float, logit: Float) -> Float:
    inside = b.discrete.bitwise_and(b.gt(x, 0.0), b.lt(x, 1.0))
    y = b.where(inside, x, 0.5)
    log_y, log_rest = b.log(y), b.log1p(b.neg(y))
    d = b.sub(logit, b.mul(temperature, b.sub(log_y, log_rest)))
    tails = b.add(b.softplus(d, 1.0), b.softplus(b.neg(d), 1.0))
    value = within(b, x, inside, b.sub(b.sub(b.log(temperature), tails), b.add(log_y, log_rest)))
    for distance, shift in ((x, b.neg(logit)), (b.add(b.neg(x), 1.0), logit)):
        value = at_end(b, distance, temperature, value, partial(_of_temperature_one, b, shift))
    return value


def _of_temperature_one(b: Any, shift: Float, zero: Float) -> Float:
    limited = b.clamp(shift, None, 80.0 if shift.dtype.itemsize == 4 else 700.0)  # the exponential stays finite
    return b.sub(shift, b.mul(b.log1p(b.mul(zero, b.expm1(limited))), 2.0))
