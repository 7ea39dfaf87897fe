"""The Bernoulli distribution, and what distributions of successes have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend.primitives import Float
from burnpy.distributions.distribution import Distribution
from burnpy.distributions.formulas import computed, impossible
from burnpy.distributions.parameters import LOGIT, Parameter, ParameterLike
from burnpy.nn.module import rebound
from burnpy.special.elementary import entr, xlog1py
from burnpy.tensor.draws import PROBABILITY
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


def success_of_probs(b: Any, p: Float) -> tuple[Float, Float, Float, Float]:
    """Return the probability of a success and of a failure, and their logarithms."""
    return p, b.add(b.neg(p), 1.0), b.log(p), b.log1p(b.neg(p))


def success_of_logits(b: Any, x: Float) -> tuple[Float, Float, Float, Float]:
    """Return the probability of a success and of a failure, and their logarithms."""
    opposite = b.neg(x)
    return b.sigmoid(x), b.sigmoid(opposite), b.neg(b.softplus(opposite, 1.0)), b.neg(b.softplus(x, 1.0))


class Bernoulli(OfSuccesses[B]):
    """The distribution of 1 with a probability, and of 0.

    Args:
        probs: the probability of 1.
        logits: log(probs / (1 - probs)), in place of ``probs``.
        device: the device, if the parameter is a number.
        validate: whether to check the parameter's numbers.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> Bernoulli(0.25, device=NumPy).log_prob(Tensor[NumPy].from_data([0.0, 1.0, 0.5])).exp().tolist()
    [0.75, 0.25, 0.0]
    """

    def __init__(
        self,
        probs: ParameterLike[B] | None = None,
        *,
        logits: ParameterLike[B] | None = None,
        device: B | type[B] | None = None,
        validate: bool = True,
    ) -> None:
        self._hold_one(device, validate, probs, logits)

    def sample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw 0 and 1, as floats."""
        return self.probs.detach().expand(self._shape(sample_shape)).bernoulli(generator=generator)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the probability; -inf for numbers other than 0 and 1."""
        return self._by("log_prob", (_by_probs, _by_logits), value)

    def entropy(self) -> Tensor[B]:
        """Return the entropy."""
        if vars(self)["probs"] is None:
            size = self.logits.abs().clamp(None, 1e30)
            return size.softplus() - size * size.sigmoid()
        return entr(self.probs) - xlog1py(1.0 - self.probs, -self.probs)

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


def _outside(b: Any, x: Float) -> Any:
    return b.discrete.bitwise_and(b.ne(x, 0.0), b.ne(x, 1.0))


def _by_probs(b: Any, x: Float, p: Float) -> tuple[Float]:
    return (impossible(b, _outside(b, x), b.add(b.xlogy(x, p), b.xlog1py(b.add(b.neg(x), 1.0), b.neg(p)))),)


def _by_logits(b: Any, x: Float, logit: Float) -> tuple[Float]:
    wrong = b.where(b.eq(x, 1.0), b.neg(logit), logit)
    return (impossible(b, _outside(b, x), b.neg(b.softplus(wrong, 1.0))),)
