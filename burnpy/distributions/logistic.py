"""The logistic distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.distributions.formulas import computed
from burnpy.distributions.location_scale import LocationScale
from burnpy.nn.module import rebound
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import DType, Float, Shape
    from burnpy.tensor.generator import Generator


class Logistic(LocationScale[B]):
    """The logistic distribution, whose distribution function is the sigmoid of z = (x - loc) / scale.

    Args:
        loc: the mean, any finite number.
        scale: the scale, above 0.
        device: the device, if both are numbers.
        validate: whether to check the parameters' numbers.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> Logistic(1.0, 2.0, device=NumPy).cdf(Tensor[NumPy].from_data(1.0)).item()
    0.5
    """

    def _standard(self, shape: Shape, dtype: DType, device: Any, generator: Generator | None) -> Tensor[B]:
        first, second = (Tensor.gumbel(shape, dtype=dtype, device=device, generator=generator) for _ in range(2))
        return first - second

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density."""
        return computed("Logistic.log_prob", _log_prob, value, self.loc, self.scale)

    def entropy(self) -> Tensor[B]:
        """Return log(scale) + 2."""
        return (self.scale.log() + 2.0).expand(self.batch_shape)

    def cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return the probability of numbers up to a value; small ones keep all digits."""
        return ((value - self.loc) / self.scale).sigmoid()

    def log_cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of `cdf`, which is finite where that rounds to 0."""
        return -((self.loc - value) / self.scale).softplus()

    def icdf(self, probability: Tensor[B]) -> Tensor[B]:
        """Return the quantile of a probability."""
        return self.loc + self.scale * (probability.log() - (-probability).log1p())

    @property
    def mean(self) -> Tensor[B]:
        """The location."""
        return self.loc.expand(self.batch_shape)

    @property
    def mode(self) -> Tensor[B]:
        """The location."""
        return self.mean

    @property
    def variance(self) -> Tensor[B]:
        """π² / 3 · scale²."""
        return (self.scale.square() * (math.pi**2 / 3.0)).expand(self.batch_shape)

    def valid(self: Logistic[Autodiff[I]]) -> Logistic[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def _log_prob(b: Any, x: Float, loc: Float, scale: Float) -> tuple[Float]:
    z = b.div(b.sub(x, loc), scale)
    return (b.neg(b.add(b.add(z, b.mul(b.softplus(b.neg(z), 1.0), 2.0)), b.log(scale))),)
