"""`Transformed`: the distribution of a bijection's results."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

from burnpy.backend.errors import ArgumentError, KindError
from burnpy.distributions.bijections import Bijection
from burnpy.distributions.distribution import Reparametrized
from burnpy.distributions.parameters import on_one_level
from burnpy.nn.module import rebound
from burnpy.tensor.tensor import BoolTensor, Tensor
from burnpy.tensor.tensor_base import describe, new_tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Shape
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


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
        if self._event_ndim:
            raise ArgumentError(f"Transformed.cdf() takes numbers, and events here have shape {self.event_shape}")
        x, _, fits = self._preimage(value)
        below = self.base.cdf(x)
        sign: Any = 1.0
        for f in self.bijections:
            sign = f.sign() * sign
        below = 0.5 + sign * (below - 0.5) if isinstance(sign, Tensor) or sign < 0.0 else below
        if fits is None:
            return below
        last = self.bijections[-1].onto
        upper = math.inf if last is None else last.high
        return below.where(fits, (value >= upper).float().to_dtype(below.dtype))

    def expand(self, batch_shape: Size) -> Self:
        """Return the distributions as a larger batch: see `Distribution.expand`."""
        shape: Any = batch_shape if isinstance(batch_shape, tuple) else (batch_shape,)
        kept = self.base.batch_shape[len(self.batch_shape) :]
        return self.replace(base=self.base.expand((*shape, *kept)))

    def valid(self: Transformed[Autodiff[I]]) -> Transformed[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)
