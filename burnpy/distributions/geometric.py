"""The geometric distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend.primitives import Float
from burnpy.distributions.bernoulli import OfSuccesses, success_of_logits, success_of_probs
from burnpy.distributions.formulas import impossible, times_log, whole
from burnpy.distributions.parameters import POSSIBLE, Parameter, ParameterLike
from burnpy.nn.module import rebound
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


class Geometric(OfSuccesses[B]):
    """The distribution of the number of failures, from 0 on, before the first success.

    Args:
        probs: the probability of a success, above 0.
        logits: log(probs / (1 - probs)), in place of ``probs``.
        device: the device, if the parameter is a number.
        validate: whether to check the parameter's numbers.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> Geometric(0.5, device=NumPy).log_prob(Tensor[NumPy].from_data([0.0, 1.0, 2.0])).exp().tolist()
    [0.5, 0.25, 0.125]
    """

    probs = Parameter(POSSIBLE, otherwise=lambda d: d.logits.sigmoid())

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
        """Draw numbers of failures, as floats."""
        shape = self._shape(sample_shape)
        drawn = Tensor.exponential(shape, dtype=self._dtype, generator=generator, device=self.device)
        return (drawn / -self._log_probs()[1]).floor().detach()

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the probability; -inf for numbers other than 0, 1, 2, …"""
        return self._by("log_prob", (_by_probs, _by_logits), value)

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


def _log_prob(b: Any, x: Float, log_p: Float, log_q: Float) -> tuple[Float]:
    return (impossible(b, b.discrete.bitwise_not(whole(b, x)), b.add(times_log(b, x, log_q), log_p)),)


def _by_probs(b: Any, x: Float, p: Float) -> tuple[Float]:
    return _log_prob(b, x, *success_of_probs(b, p)[2:])


def _by_logits(b: Any, x: Float, logit: Float) -> tuple[Float]:
    return _log_prob(b, x, *success_of_logits(b, logit)[2:])
