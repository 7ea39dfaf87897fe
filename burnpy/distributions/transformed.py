"""Distributions made of others: `Mixture`, one of several at random, and `Transformed`, a bijection's results."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from burnpy.backend.errors import ArgumentError, KindError, ShapeError, a
from burnpy.distributions.bijections import Bijection
from burnpy.distributions.categorical import Categorical
from burnpy.distributions.distribution import Distribution, Reparametrized
from burnpy.distributions.formulas import computed, log_of_rest
from burnpy.distributions.parameters import on_one_level
from burnpy.nn.module import rebound
from burnpy.tensor.creation import factory_shape
from burnpy.tensor.operand_checks import broadcast_shape
from burnpy.tensor.tensor import BoolTensor, Tensor
from burnpy.tensor.tensor_base import describe, new_tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Shape
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


Probability: TypeAlias = Callable[[Tensor[B]], Tensor[B]]


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


class Transformed(Reparametrized[B]):
    """The distribution of f(x) for x of a distribution and one or several bijections f, the first of them first.

    Args:
        base: the distribution, whose samples are differentiable.
        bijections: of `burnpy.distributions.bijections`.

    >>> from burnpy.distributions import Logistic
    >>> from burnpy.distributions.bijections import Sigmoid
    >>> uniform = Transformed(Logistic(0.0, 1.0, device=NumPy), Sigmoid())
    >>> [round(p, 3) for p in uniform.log_prob(Tensor[NumPy].from_data([0.25, 1.5])).exp().tolist()]
    [1.0, 0.0]
    """

    def __init__(self, base: Reparametrized[B], *bijections: Bijection[Any]) -> None:
        for f in bijections:
            argument: object = f
            if isinstance(argument, (list, tuple)):
                raise KindError(
                    f"Transformed() got {a(type(argument).__name__)}; pass its bijections one by one: "
                    "Transformed(base, *bijections)"
                )
            if not isinstance(argument, Bijection):
                raise KindError(
                    f"Transformed() got {describe(f)}; expected bijections of burnpy.distributions.bijections"
                )
        parts = on_one_level("Transformed", base, *bijections)
        self.base: Reparametrized[B] = parts[0]
        self.bijections: tuple[Bijection[Any], ...] = tuple(parts[1:])
        self._event_ndim = max([len(base.event_shape), *[f.event_dims for f in bijections]])

    @property
    def _base_shape(self) -> Shape:
        return (*self.base.batch_shape, *self.base.event_shape)

    @property
    def batch_shape(self) -> Shape:
        """The base's, without dimensions that a bijection maps together."""
        return self._base_shape[: len(self._base_shape) - self._event_ndim]

    @property
    def event_shape(self) -> Shape:
        """The shape that the bijections give the base's events."""
        shape = self._base_shape[len(self._base_shape) - self._event_ndim :]
        for f in self.bijections:
            shape = f.forward_event(shape)
        return shape

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw values of the base, and map them."""
        x = self.base.rsample(sample_shape, generator=generator)
        for f in self.bijections:
            x = f(x)
            x = x if f.onto is None else x.clamp(*f.onto.ends(x.dtype))
        return x

    def _summed(self, x: Tensor[B], event_dims: int) -> Tensor[B]:
        """Add up the dimensions of an event that the terms of a logarithm still have."""
        dims = self._event_ndim - event_dims
        return x.sum(dim=tuple(range(-dims, 0))) if dims else x

    def _preimage(self, value: Tensor[B]) -> tuple[Tensor[B], list[Tensor[B]], BoolTensor[B] | None]:
        """Return x of f(x) = value, the logarithms of the derivatives, and where the value is a result of f."""
        terms: list[Tensor[B]] = []
        fits: Any = None
        for f in reversed(self.bijections):
            if f.onto is not None:
                device: Any = value._device
                primitive = f.onto.holds(device, device.detach(value._primitive))
                inside: Any = new_tensor(BoolTensor, device, primitive)
                value = value.where(inside, f(value.zeros_like() + 0.5))
                fits = inside if fits is None else fits & inside
            value = f.inverse(value)
            terms.append(self._summed(f.log_det(value), f.event_dims))
        if fits is not None and self._event_ndim:
            fits = fits.all(dim=tuple(range(-self._event_ndim, 0)))
        return value, terms, fits

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the base's at f⁻¹ of the value, less the logarithm of the derivative of f there."""
        x, terms, fits = self._preimage(value)
        total = self._summed(self.base.log_prob(x), len(self.base.event_shape))
        for term in terms:
            total = total - term
        return total if fits is None else total.where(fits, -math.inf)

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return `cdf` of finite numbers, by the base's."""
        return self._below("cdf", value, self.base.cdf, lambda x: 1.0 - self.base.cdf(x), (0.0, 1.0))

    def _log_cdf(self, value: Tensor[B]) -> Tensor[B]:
        """Return `log_cdf` of finite numbers, by the base's."""

        def above(x: Tensor[B]) -> Tensor[B]:
            return computed("log_cdf", log_of_rest, self.base.cdf(x))

        return self._below("log_cdf", value, self.base.log_cdf, above, (-math.inf, 0.0))

    def _below(
        self, method: str, value: Tensor[B], below: Probability[B], above: Probability[B], ends: tuple[float, float]
    ) -> Tensor[B]:
        """Return the base's probability below f⁻¹ of a value, or above where f falls, or its logarithm. Outside of the
        support it is one of the ``ends``. Above a number is as much as below its mirror image, if the base is
        symmetric; this keeps the digits of tails."""
        x, _, fits = self._preimage(value)
        rising, center = self._rising(method), self.base._center
        if rising is True:
            found = below(x)
        elif center is not None:
            found = below(x.where(rising, 2.0 * center - x))
        else:
            found = below(x).where(rising, above(x))
        if fits is None:
            return found
        last = self.bijections[-1].onto
        upper = math.inf if last is None else last.high
        outside = found.full_like(ends[0]).where(value < upper, ends[1])
        return found.where(fits, outside)

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        """Return `icdf` of numbers from 0 to 1, by the base's."""
        rising, center = self._rising("icdf"), self.base._center
        if rising is True:
            found = self.base.icdf(probability)
        elif center is not None:
            found = self.base.icdf(probability)
            found = found.where(rising, 2.0 * center - found)
        else:
            found = self.base.icdf(probability.where(rising, 1.0 - probability))
        for f in self.bijections:
            found = f(found)
        return found

    def _rising(self, method: str) -> Any:
        """Return where the bijections rise together: True, or a BoolTensor. They fall elsewhere."""
        if self._event_ndim:
            raise ArgumentError(f"Transformed.{method}() takes numbers, and events here have shape {self.event_shape}")
        sign: Any = 1.0
        for f in self.bijections:
            sign = f.sign() * sign
        if isinstance(sign, Tensor):
            return sign > 0.0
        return True if sign > 0.0 else BoolTensor.full((), False, device=self.device)

    def expand(self, batch_shape: Size) -> Self:
        """Return the distributions as a larger batch: see `Distribution.expand`."""
        shape: Any = batch_shape if isinstance(batch_shape, tuple) else (batch_shape,)
        kept = self.base.batch_shape[len(self.batch_shape) :]
        return self.replace(base=self.base.expand((*shape, *kept)))

    def valid(self: Transformed[Autodiff[I]]) -> Transformed[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)
