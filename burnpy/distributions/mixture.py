"""`Mixture`: a distribution of one family with one of several parameters, at random."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self

from burnpy.backend.errors import ShapeError
from burnpy.distributions.categorical import Categorical
from burnpy.distributions.distribution import Distribution
from burnpy.distributions.parameters import on_one_level
from burnpy.nn.module import rebound
from burnpy.tensor.creation import factory_shape
from burnpy.tensor.operands import broadcast_shape
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Shape
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


class Mixture(Distribution[B, Tensor[B]]):
    """A mixture of distributions of one family, the last dimension of a batch.

    Args:
        weights: the probabilities of the n components.
        components: a batch (…, n) of distributions.

    Raises:
        ShapeError: the batch does not fit the weights.
        DeviceError: weights and components are on different devices.

    >>> from burnpy.distributions import Normal
    >>> weights = Categorical(Tensor[NumPy].from_data([0.5, 0.5]))
    >>> d = Mixture(weights, Normal(Tensor[NumPy].from_data([-1.0, 1.0]), 0.1))
    >>> d.mean.item(), round(d.variance.item(), 2), d.sample((4,)).shape
    (0.0, 1.01, (4,))
    """

    def __init__(self, weights: Categorical[B], components: Distribution[B, Tensor[B]]) -> None:
        shape, count = components.batch_shape, weights.num_classes
        if not shape or shape[-1] != count or broadcast_shape(weights.batch_shape, shape[:-1]) != shape[:-1]:
            raise ShapeError(
                f"Mixture() got weights of batch shape {weights.batch_shape} and {count} classes, and components of "
                f"batch shape {shape}; expected (…, {count})"
            )
        parts = on_one_level("Mixture", weights, components)
        self.weights: Categorical[B] = parts[0]
        self.components: Distribution[B, Tensor[B]] = parts[1]

    @property
    def batch_shape(self) -> Shape:
        """The components' without the last dimension."""
        return self.components.batch_shape[:-1]

    @property
    def event_shape(self) -> Shape:
        """The components'."""
        return self.components.event_shape

    @property
    def _dim(self) -> int:
        """The dimension of the components, in values of all of them."""
        return -1 - len(self.event_shape)

    def sample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw a value of each component, and choose one of them."""
        drawn = self.components.sample(sample_shape, generator=generator)
        size = factory_shape(sample_shape, "Mixture.sample")
        chosen = self.weights.expand(self.batch_shape).sample(size, generator=generator)
        index = chosen.reshape((*chosen.shape, 1, *[1] * len(self.event_shape)))
        index = index.expand((*chosen.shape, 1, *self.event_shape))
        return drawn.gather(self._dim, index).squeeze(self._dim)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return log Σ weight · density."""
        logs = self.components.log_prob(value.unsqueeze(self._dim))
        total = (logs + self.weights._log_probs()).logsumexp(dim=-1)
        if vars(self.weights)["probs"] is None:
            return total
        # A weight of 0 adds nothing, but its slope is the ratio of the densities.
        shares, inside = self.weights._shares(), total > -math.inf
        ratio = (logs - total.where(inside, 0.0).unsqueeze(-1)).clamp(-80.0, 80.0).exp()
        return total + (shares.where(shares == 0.0, 0.0) * ratio).sum(dim=-1).where(inside, 0.0)

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        return (self.components.cdf(value.unsqueeze(-1)) * self.weights._shares()).sum(dim=-1)

    def _weighted(self, x: Tensor[B]) -> Tensor[B]:
        """Return the mean over the components."""
        weights = self.weights._shares()
        return (x * weights.reshape((*weights.shape, *[1] * len(self.event_shape)))).sum(dim=self._dim)

    @property
    def mean(self) -> Tensor[B]:
        """The mean of the components' means."""
        return self._weighted(self.components.mean)

    @property
    def variance(self) -> Tensor[B]:
        """The mean of the components' variances, and the variance of their means."""
        means = self.components.mean
        spread = (means - self.mean.unsqueeze(self._dim)).square()
        return self._weighted(self.components.variance + spread)

    def expand(self, batch_shape: Size) -> Self:
        """Return the distributions as a larger batch: see `Distribution.expand`."""
        shape = factory_shape(batch_shape, "Mixture.expand")
        components = self.components.expand((*shape, *self.components.batch_shape[-1:]))
        return self.replace(weights=self.weights.expand(shape), components=components)

    def valid(self: Mixture[Autodiff[I]]) -> Mixture[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)
