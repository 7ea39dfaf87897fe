"""The Gumbel distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.distributions.formulas import EULER, computed
from burnpy.distributions.location_scale import LocationScale
from burnpy.nn.module import rebound
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import DType, Float, Shape
    from burnpy.tensor.generator import Generator


class Gumbel(LocationScale[B]):
    """The Gumbel distribution, with the density exp(-z - e⁻ᶻ) / scale of z = (x - loc) / scale.

    Args:
        loc: the mode, any finite number.
        scale: the scale, above 0.
        device: the device, if both are numbers.
        validate: whether to check the parameters' numbers.

    >>> from burnpy.backend import NumPy
    >>> round(Gumbel(0.0, 1.0, device=NumPy).mean.item(), 4)
    0.5772
    """

    def _standard(self, shape: Shape, dtype: DType, device: Any, generator: Generator | None) -> Tensor[B]:
        return Tensor.gumbel(shape, dtype=dtype, device=device, generator=generator)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density."""
        return computed("Gumbel.log_prob", _log_prob, value, self.loc, self.scale)

    def entropy(self) -> Tensor[B]:
        """Return log(scale) + γ + 1."""
        return (self.scale.log() + (1.0 + EULER)).expand(self.batch_shape)

    def cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return the probability of numbers up to a value."""
        return self.log_cdf(value).exp()

    def log_cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of `cdf`, which is finite where that rounds to 0."""
        return -((self.loc - value) / self.scale).exp()

    def icdf(self, probability: Tensor[B]) -> Tensor[B]:
        """Return the quantile of a probability."""
        return self.loc - self.scale * (-probability.log()).log()

    @property
    def mean(self) -> Tensor[B]:
        """loc + γ · scale, with Euler's constant γ."""
        return self.loc + EULER * self.scale

    @property
    def mode(self) -> Tensor[B]:
        """The location."""
        return self.loc.expand(self.batch_shape)

    @property
    def variance(self) -> Tensor[B]:
        """π² / 6 · scale²."""
        return (self.scale.square() * (math.pi**2 / 6.0)).expand(self.batch_shape)

    def valid(self: Gumbel[Autodiff[I]]) -> Gumbel[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def _log_prob(b: Any, x: Float, loc: Float, scale: Float) -> tuple[Float]:
    z = b.div(b.sub(x, loc), scale)
    return (b.neg(b.add(b.add(z, b.exp(b.neg(z))), b.log(scale))),)
