"""The Laplace distribution."""

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


class Laplace(LocationScale[B]):
    """The Laplace distribution, with the density exp(-|z|) / (2 · scale) of z = (x - loc) / scale.

    Args:
        loc: the mean, any finite number.
        scale: the scale, above 0.
        device: the device, if both are numbers.
        validate: whether to check the parameters' numbers.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> x = Tensor[NumPy].from_data([0.0, 2.0])
    >>> [round(p, 4) for p in Laplace(0.0, 1.0, device=NumPy).log_prob(x).tolist()]
    [-0.6931, -2.6931]
    """

    def _standard(self, shape: Shape, dtype: DType, device: Any, generator: Generator | None) -> Tensor[B]:
        first, second = (Tensor.exponential(shape, dtype=dtype, device=device, generator=generator) for _ in range(2))
        return first - second

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density, whose derivative at the location is 0."""
        return computed("Laplace.log_prob", _log_prob, value, self.loc, self.scale)

    def entropy(self) -> Tensor[B]:
        """Return log(2e · scale)."""
        return (self.scale.log() + (1.0 + math.log(2.0))).expand(self.batch_shape)

    def cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return the probability of numbers up to a value."""
        return computed("Laplace.cdf", _cdf, value, self.loc, self.scale)

    def log_cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of `cdf`, which is finite where that rounds to 0."""
        return computed("Laplace.log_cdf", _log_cdf, value, self.loc, self.scale)

    def icdf(self, probability: Tensor[B]) -> Tensor[B]:
        """Return the quantile of a probability."""
        return computed("Laplace.icdf", _icdf, probability, self.loc, self.scale)

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
        """2 · scale²."""
        return (2.0 * self.scale.square()).expand(self.batch_shape)

    def valid(self: Laplace[Autodiff[I]]) -> Laplace[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def _log_prob(b: Any, x: Float, loc: Float, scale: Float) -> tuple[Float]:
    size = b.abs(b.div(b.sub(x, loc), scale))
    return (b.sub(b.neg(size), b.add(b.log(scale), math.log(2.0))),)


def _cdf(b: Any, x: Float, loc: Float, scale: Float) -> tuple[Float]:
    z = b.div(b.sub(x, loc), scale)
    tail = b.mul(b.exp(b.neg(b.abs(z))), 0.5)
    return (b.where(b.lt(z, 0.0), tail, b.add(b.neg(tail), 1.0)),)


def _log_cdf(b: Any, x: Float, loc: Float, scale: Float) -> tuple[Float]:
    z = b.div(b.sub(x, loc), scale)
    above = b.log1p(b.mul(b.exp(b.neg(b.maximum(z, 0.0))), -0.5))
    return (b.where(b.lt(z, 0.0), b.add(z, -math.log(2.0)), above),)


def _icdf(b: Any, p: Float, loc: Float, scale: Float) -> tuple[Float]:
    below = b.lt(p, 0.5)
    tail = b.log(b.mul(b.where(below, p, b.add(b.neg(p), 1.0)), 2.0))
    return (b.add(loc, b.mul(scale, b.where(below, tail, b.neg(tail)))),)
