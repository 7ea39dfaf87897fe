"""The binomial and the negative binomial distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.backend.primitives import Float
from burnpy.distributions.bernoulli import OfSuccesses, success_of_logits, success_of_probs
from burnpy.distributions.formulas import log_binomial, whole
from burnpy.distributions.parameters import Parameter, ParameterLike
from burnpy.nn.module import rebound
from burnpy.special.gamma_functions import betainc
from burnpy.tensor.draws import COUNT, POSITIVE
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


class Binomial(OfSuccesses[B]):
    """The distribution of the number of successes in ``total_count`` trials.

    Args:
        total_count: the number of trials, a whole number.
        probs: the probability of a success.
        logits: log(probs / (1 - probs)), in place of ``probs``.
        device: the device, if all parameters are numbers.
        validate: whether to check the parameters' numbers.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> x = Tensor[NumPy].from_data([0.0, 1.0, 2.0])
    >>> [round(p, 4) for p in Binomial(2, 0.5, device=NumPy).log_prob(x).exp().tolist()]
    [0.25, 0.5, 0.25]
    """

    total_count = Parameter(COUNT)

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


class NegativeBinomial(OfSuccesses[B]):
    """The distribution of the number of successes before ``total_count`` failures, which need not be whole.

    As in PyTorch, ``probs`` is the probability of the successes that are counted. SciPy's ``nbinom`` takes 1 - probs.

    Args:
        total_count: the number of failures, above 0.
        probs: the probability of a success.
        logits: log(probs / (1 - probs)), in place of ``probs``.
        device: the device, if all parameters are numbers.
        validate: whether to check the parameters' numbers.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> log_p = NegativeBinomial(1.0, 0.5, device=NumPy).log_prob(Tensor[NumPy].from_data([0.0, 1.0]))
    >>> [round(p, 4) for p in log_p.exp().tolist()]
    [0.5, 0.25]
    """

    total_count = Parameter(POSITIVE)

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
