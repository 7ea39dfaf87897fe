"""The Cauchy distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.distributions.formulas import computed, log1p_of_square
from burnpy.distributions.location_scale import LocationScale
from burnpy.nn.module import rebound
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import DType, Float, Shape
    from burnpy.tensor.generator import Generator


class Cauchy(LocationScale[B]):
    """The Cauchy distribution, with the density 1 / (π · scale · (1 + z²)) of z = (x - loc) / scale; it has no mean.

    Args:
        loc: the median, any finite number.
        scale: the scale, above 0.
        device: the device, if both are numbers.
        validate: whether to check the parameters' numbers.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> d = Cauchy(0.0, 1.0, device=NumPy)
    >>> [round(p, 4) for p in d.cdf(Tensor[NumPy].from_data([-1.0, 0.0])).tolist()]
    [0.25, 0.5]
    """

    def _standard(self, shape: Shape, dtype: DType, device: Any, generator: Generator | None) -> Tensor[B]:
        first, second = (Tensor.normal(shape, dtype=dtype, device=device, generator=generator) for _ in range(2))
        return first / second

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density."""
        return computed("Cauchy.log_prob", _log_prob, value, self.loc, self.scale)

    def entropy(self) -> Tensor[B]:
        """Return log(4π · scale)."""
        return (self.scale.log() + math.log(4.0 * math.pi)).expand(self.batch_shape)

    def cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return the probability of numbers up to a value; small ones keep all digits."""
        below = (self.loc - value) / self.scale
        return below.ones_like().atan2(below) / math.pi

    def icdf(self, probability: Tensor[B]) -> Tensor[B]:
        """Return the quantile of a probability."""
        return self.loc - self.scale / (probability * math.pi).tan()

    @property
    def mean(self) -> Tensor[B]:
        """NaN: there is none."""
        return (self.loc * math.nan).expand(self.batch_shape)

    @property
    def mode(self) -> Tensor[B]:
        """The location."""
        return self.loc.expand(self.batch_shape)

    @property
    def variance(self) -> Tensor[B]:
        """NaN: there is none."""
        return self.mean

    def valid(self: Cauchy[Autodiff[I]]) -> Cauchy[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def _log_prob(b: Any, x: Float, loc: Float, scale: Float) -> tuple[Float]:
    z = b.div(b.sub(x, loc), scale)
    return (b.sub(b.neg(log1p_of_square(b, z)), b.add(b.log(scale), math.log(math.pi))),)
