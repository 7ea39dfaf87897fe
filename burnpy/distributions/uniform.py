"""The uniform distribution on an interval."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError
from burnpy.distributions.distribution import Reparametrized, register_kl
from burnpy.distributions.formulas import computed, within
from burnpy.distributions.parameters import Parameter, ParameterLike
from burnpy.nn.module import rebound
from burnpy.tensor.operands import refuse_unless
from burnpy.tensor.random_parameters import FINITE
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Float
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
        self,
        low: ParameterLike[B],
        high: ParameterLike[B],
        *,
        device: B | type[B] | None = None,
        validate: bool = True,
    ) -> None:
        self._hold(device, validate, low=low, high=high)
        if validate:
            ordered = (self.low.detach() < self.high.detach())._primitive
            error = ArgumentError("Uniform() got an element of low that is not below the one of high")
            refuse_unless(self.low._device, ordered, error)

    @property
    def _ends(self) -> tuple[Tensor[B], Tensor[B]]:  # type: ignore[override]  # they are parameters
        return self.low, self.high

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw values with gradients by the ends."""
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


def _log_prob(b: Any, x: Float, low: Float, high: Float) -> tuple[Float]:
    inside = b.discrete.bitwise_and(b.ge(x, low), b.lt(x, high))
    return (within(b, x, inside, b.neg(b.log(b.sub(high, low)))),)


@register_kl(Uniform, Uniform)
def _uniforms(p: Uniform[B], q: Uniform[B]) -> Tensor[B]:
    inside = (q.low <= p.low) & (p.high <= q.high)
    wider = (p.low - q.low) + (q.high - p.high)
    return (wider / (p.high - p.low)).masked_fill(~inside, 0.0).log1p().where(inside, math.inf)
