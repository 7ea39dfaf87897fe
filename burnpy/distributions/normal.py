"""The normal and the log-normal distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.backend.numerics.stirling import HALF_LOG_TAU
from burnpy.distributions.formulas import computed, impossible
from burnpy.distributions.location_scale import LocationScale
from burnpy.nn.module import rebound
from burnpy.special.error_functions import log_ndtr, ndtr, ndtri
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import DType, Float, Shape
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


class Normal(LocationScale[B]):
    """The normal distribution, with the density exp(-z² / 2) / (scale · √(2π)) of z = (x - loc) / scale.

    Args:
        loc: the mean, any finite number.
        scale: the standard deviation, above 0.
        device: the device, if both are numbers.
        validate: whether to check the parameters' numbers.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> x = Tensor[NumPy].from_data([0.0, 1.0])
    >>> [round(p, 4) for p in Normal(0.0, 1.0, device=NumPy).log_prob(x).tolist()]
    [-0.9189, -1.4189]
    """

    def _standard(self, shape: Shape, dtype: DType, device: Any, generator: Generator | None) -> Tensor[B]:
        return Tensor.normal(shape, dtype=dtype, device=device, generator=generator)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density."""
        return computed("Normal.log_prob", _normal, value, self.loc, self.scale)

    def entropy(self) -> Tensor[B]:
        """Return log(scale · √(2πe))."""
        return (self.scale.log() + (0.5 + HALF_LOG_TAU)).expand(self.batch_shape)

    def _standardized(self, value: Tensor[B]) -> Tensor[B]:
        return (value - self.loc) / self.scale

    def cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return the probability of numbers up to a value; small ones keep all digits."""
        return ndtr(self._standardized(value))

    def log_cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of `cdf`, which is finite where that rounds to 0."""
        return log_ndtr(self._standardized(value))

    def icdf(self, probability: Tensor[B]) -> Tensor[B]:
        """Return the quantile of a probability."""
        return self.loc + self.scale * ndtri(probability)

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
        """scale²."""
        return self.scale.square().expand(self.batch_shape)

    def valid(self: Normal[Autodiff[I]]) -> Normal[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class LogNormal(LocationScale[B]):
    """The distribution of eˣ for x of the normal distribution.

    Args:
        loc: the mean of the logarithm, any finite number.
        scale: the standard deviation of the logarithm, above 0.
        device: the device, if both are numbers.
        validate: whether to check the parameters' numbers.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> LogNormal(0.0, 1.0, device=NumPy).cdf(Tensor[NumPy].from_data([-1.0, 1.0])).tolist()
    [0.0, 0.5]
    """

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw values with gradients by the parameters."""
        return super().rsample(sample_shape, generator=generator).exp()

    def _standard(self, shape: Shape, dtype: DType, device: Any, generator: Generator | None) -> Tensor[B]:
        return Tensor.normal(shape, dtype=dtype, device=device, generator=generator)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density; -inf up to 0."""
        return computed("LogNormal.log_prob", _log_normal, value, self.loc, self.scale)

    def entropy(self) -> Tensor[B]:
        """Return loc + log(scale · √(2πe))."""
        return self.loc + self.scale.log() + (0.5 + HALF_LOG_TAU)

    def _standardized(self, value: Tensor[B]) -> Tensor[B]:
        return (value.clamp(0.0).log() - self.loc) / self.scale

    def cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return the probability of numbers up to a value; small ones keep all digits."""
        return ndtr(self._standardized(value))

    def log_cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of `cdf`, which is finite where that rounds to 0."""
        return log_ndtr(self._standardized(value))

    def icdf(self, probability: Tensor[B]) -> Tensor[B]:
        """Return the quantile of a probability."""
        return (self.loc + self.scale * ndtri(probability)).exp()

    @property
    def mean(self) -> Tensor[B]:
        """exp(loc + scale² / 2)."""
        return (self.loc + self.scale.square() * 0.5).exp()

    @property
    def mode(self) -> Tensor[B]:
        """exp(loc - scale²)."""
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor[B]:
        """(exp(scale²) - 1) · mean²."""
        square = self.scale.square()
        return square.expm1() * (2.0 * self.loc + square).exp()

    def valid(self: LogNormal[Autodiff[I]]) -> LogNormal[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def _normal(b: Any, x: Float, loc: Float, scale: Float) -> tuple[Float]:
    z = b.div(b.sub(x, loc), scale)
    return (b.sub(b.mul(b.mul(z, z), -0.5), b.add(b.log(scale), HALF_LOG_TAU)),)


def _log_normal(b: Any, x: Float, loc: Float, scale: Float) -> tuple[Float]:
    outside = b.discrete.bitwise_or(b.le(x, 0.0), b.eq(x, math.inf))
    logarithm = b.log(b.where(outside, b.full((), 1.0, x.dtype), x))
    return (impossible(b, outside, b.sub(*_normal(b, logarithm, loc, scale), logarithm)),)
