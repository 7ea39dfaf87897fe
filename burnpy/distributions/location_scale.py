"""Distributions of loc + scale · z, where z has a standard distribution: their base class and its members."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.distributions.distribution import Reparametrized, doubled, register_kl
from burnpy.distributions.formulas import (
    EULER,
    computed,
    excess,
    finite,
    impossible,
    log1p_of_square,
    log_quotient,
    replaced,
    within,
)
from burnpy.distributions.parameters import Parameter, ParameterLike
from burnpy.nn.module import rebound
from burnpy.tensor.random_parameters import FINITE, POSITIVE
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import DType, Float, Shape
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


class LocationScale(Reparametrized[B]):
    """The base class of distributions of loc + scale · z.

    Args:
        loc: the location, any finite number.
        scale: the scale, above 0.
        device, validate: see `Distribution`.
    """

    loc = Parameter(FINITE)
    scale = Parameter(POSITIVE)

    def __init__(
        self,
        loc: ParameterLike[B],
        scale: ParameterLike[B],
        *,
        device: B | type[B] | None = None,
        validate: bool = True,
    ) -> None:
        self._hold(device, validate, loc=loc, scale=scale)

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw loc + scale · z."""
        shape, settings = self._shape(sample_shape), {"dtype": self._dtype, "device": self.device}
        return self.loc + self.scale * self._standard(shape, generator=generator, **settings)

    def _standard(self, shape: Shape, **settings: Any) -> Tensor[B]:
        """Draw z, with the settings of `Tensor.normal`."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor[B]:
        """The location."""
        return self.loc.expand(self.batch_shape)

    @property
    def mode(self) -> Tensor[B]:
        """The location."""
        return self.loc.expand(self.batch_shape)


class Laplace(LocationScale[B]):
    """The Laplace distribution, with the density exp(-|z|) / (2 · scale) of z = (x - loc) / scale.

    Args:
        loc: the mean, any finite number.
        scale: the scale, above 0.
        device, validate: see `Distribution`.

    >>> x = Tensor[NumPy].from_data([0.0, 2.0])
    >>> [round(p, 4) for p in Laplace(0.0, 1.0, device=NumPy).log_prob(x).tolist()]
    [-0.6931, -2.6931]
    """

    def _standard(self, shape: Shape, **settings: Any) -> Tensor[B]:
        first, second = (Tensor.exponential(shape, **settings) for _ in range(2))
        return first - second

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density, whose derivative at the location is 0."""
        return computed("Laplace.log_prob", _laplace, value, self.loc, self.scale)

    def entropy(self) -> Tensor[B]:
        """Return log(2e · scale)."""
        return (self.scale.log() + (1.0 + math.log(2.0))).expand(self.batch_shape)

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        return computed("Laplace.cdf", _laplace_cdf, value, self.loc, self.scale)

    def _log_cdf(self, value: Tensor[B]) -> Tensor[B]:
        return computed("Laplace.log_cdf", _laplace_log_cdf, value, self.loc, self.scale)

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        return computed("Laplace.icdf", _laplace_icdf, probability, self.loc, self.scale)

    @property
    def _center(self) -> Tensor[B]:
        return self.loc

    @property
    def variance(self) -> Tensor[B]:
        """2 · scale²."""
        return (2.0 * self.scale.square()).expand(self.batch_shape)

    def valid(self: Laplace[Autodiff[I]]) -> Laplace[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class Logistic(LocationScale[B]):
    """The logistic distribution, whose distribution function is the sigmoid of z = (x - loc) / scale.

    Args:
        loc: the mean, any finite number.
        scale: the scale, above 0.
        device, validate: see `Distribution`.

    >>> Logistic(1.0, 2.0, device=NumPy).cdf(Tensor[NumPy].from_data(1.0)).item()
    0.5
    """

    def _standard(self, shape: Shape, **settings: Any) -> Tensor[B]:
        first, second = (Tensor.gumbel(shape, **settings) for _ in range(2))
        return first - second

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density."""
        return computed("Logistic.log_prob", _logistic, value, self.loc, self.scale)

    def entropy(self) -> Tensor[B]:
        """Return log(scale) + 2."""
        return (self.scale.log() + 2.0).expand(self.batch_shape)

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        return ((value - self.loc) / self.scale).sigmoid()

    def _log_cdf(self, value: Tensor[B]) -> Tensor[B]:
        return -((self.loc - value) / self.scale).softplus()

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        return self.loc + self.scale * (probability.log() - (-probability).log1p())

    @property
    def _center(self) -> Tensor[B]:
        return self.loc

    @property
    def variance(self) -> Tensor[B]:
        """π² / 3 · scale²."""
        return (self.scale.square() * (math.pi**2 / 3.0)).expand(self.batch_shape)

    def valid(self: Logistic[Autodiff[I]]) -> Logistic[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class Cauchy(LocationScale[B]):
    """The Cauchy distribution, with the density 1 / (π · scale · (1 + z²)) of z = (x - loc) / scale; it has no mean.

    Args:
        loc: the median, any finite number.
        scale: the scale, above 0.
        device, validate: see `Distribution`.

    >>> d = Cauchy(0.0, 1.0, device=NumPy)
    >>> [round(p, 4) for p in d.cdf(Tensor[NumPy].from_data([-1.0, 0.0])).tolist()]
    [0.25, 0.5]
    """

    def _standard(self, shape: Shape, **settings: Any) -> Tensor[B]:
        return _standard_cauchy(shape=shape, **settings)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density."""
        return computed("Cauchy.log_prob", _cauchy, value, self.loc, self.scale)

    def entropy(self) -> Tensor[B]:
        """Return log(4π · scale)."""
        return (self.scale.log() + math.log(4.0 * math.pi)).expand(self.batch_shape)

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        return self.scale.atan2(self.loc - value) / math.pi

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        upper = probability > 0.5
        tail = self.scale / ((1.0 - probability).where(upper, probability) * math.pi).tan()
        return self.loc + tail.where(upper, -tail)

    @property
    def _center(self) -> Tensor[B]:
        return self.loc

    @property
    def mean(self) -> Tensor[B]:
        """NaN: there is none."""
        return (self.loc * math.nan).expand(self.batch_shape)

    @property
    def variance(self) -> Tensor[B]:
        """NaN: there is none."""
        return self.mean

    def valid(self: Cauchy[Autodiff[I]]) -> Cauchy[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class Gumbel(LocationScale[B]):
    """The Gumbel distribution, with the density exp(-z - e⁻ᶻ) / scale of z = (x - loc) / scale.

    Args:
        loc: the mode, any finite number.
        scale: the scale, above 0.
        device, validate: see `Distribution`.

    >>> round(Gumbel(0.0, 1.0, device=NumPy).mean.item(), 4)
    0.5772
    """

    def _standard(self, shape: Shape, **settings: Any) -> Tensor[B]:
        return Tensor.gumbel(shape, **settings)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density."""
        return computed("Gumbel.log_prob", _gumbel, value, self.loc, self.scale)

    def entropy(self) -> Tensor[B]:
        """Return log(scale) + γ + 1."""
        return (self.scale.log() + (1.0 + EULER)).expand(self.batch_shape)

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        exponent = ((self.loc - value) / self.scale).clamp(None, 20.0)  # beyond, exp(-e²⁰) is 0, and so is its slope
        return (-exponent.exp()).exp()

    def _log_cdf(self, value: Tensor[B]) -> Tensor[B]:
        return -((self.loc - value) / self.scale).exp()

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        return self.loc - self.scale * (0.0 - probability.log()).log()  # of +0 at 1, so that the slope is ∞

    @property
    def mean(self) -> Tensor[B]:
        """loc + γ · scale, with Euler's constant γ."""
        return self.loc + EULER * self.scale

    @property
    def variance(self) -> Tensor[B]:
        """π² / 6 · scale²."""
        return (self.scale.square() * (math.pi**2 / 6.0)).expand(self.batch_shape)

    def valid(self: Gumbel[Autodiff[I]]) -> Gumbel[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class HalfCauchy(Reparametrized[B]):
    """The distribution of |x| for x of the Cauchy distribution with location 0.

    Args:
        scale: the median, above 0.
        device, validate: see `Distribution`.

    >>> round(HalfCauchy(2.0, device=NumPy).cdf(Tensor[NumPy].from_data(2.0)).item(), 4)
    0.5
    """

    _ends = (0.0, math.inf)
    scale = Parameter(POSITIVE)

    def __init__(self, scale: ParameterLike[B], *, device: B | type[B] | None = None, validate: bool = True) -> None:
        self._hold(device, validate, scale=scale)

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw values that are differentiable with respect to the scale."""
        drawn = _standard_cauchy(self.device, self._shape(sample_shape), self._dtype, generator=generator)
        return self.scale * drawn.abs()

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density; -inf below 0."""
        return computed("HalfCauchy.log_prob", _half_cauchy, value, self.scale)

    def entropy(self) -> Tensor[B]:
        """Return log(2π · scale)."""
        return self.scale.log() + math.log(2.0 * math.pi)

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        return value.atan2(self.scale) * (2.0 / math.pi)

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        upper = probability > 0.5
        tail = ((1.0 - probability).where(upper, probability) * (0.5 * math.pi)).tan()
        return self.scale * tail.where(~upper, tail.where(upper, 1.0).reciprocal())

    @property
    def mean(self) -> Tensor[B]:
        """Infinite."""
        return self.scale.full_like(math.inf)

    @property
    def mode(self) -> Tensor[B]:
        """0."""
        return self.scale.zeros_like()

    @property
    def variance(self) -> Tensor[B]:
        """Infinite."""
        return self.mean

    def valid(self: HalfCauchy[Autodiff[I]]) -> HalfCauchy[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def _laplace(b: Any, x: Float, loc: Float, scale: Float) -> Float:
    size = b.abs(b.div(b.sub(x, loc), scale))
    return b.sub(b.neg(size), b.add(b.log(scale), math.log(2.0)))


def _laplace_cdf(b: Any, x: Float, loc: Float, scale: Float) -> Float:
    z = b.div(b.sub(x, loc), scale)
    below = b.lt(z, 0.0)
    tail = b.mul(b.exp(b.where(below, z, b.neg(z))), 0.5)  # the derivative of |z| at 0 would be 0
    return b.where(below, tail, b.add(b.neg(tail), 1.0))


def _laplace_log_cdf(b: Any, x: Float, loc: Float, scale: Float) -> Float:
    z = b.div(b.sub(x, loc), scale)
    above = b.log1p(b.mul(b.exp(b.neg(b.clamp(z, 0.0, None))), -0.5))
    return b.where(b.lt(z, 0.0), b.add(z, -math.log(2.0)), above)


def _laplace_icdf(b: Any, p: Float, loc: Float, scale: Float) -> Float:
    below = b.lt(p, 0.5)
    tail = b.log(b.mul(b.where(below, p, b.add(b.neg(p), 1.0)), 2.0))
    return b.add(loc, b.mul(scale, b.where(below, tail, b.neg(tail))))


def _logistic(b: Any, x: Float, loc: Float, scale: Float) -> Float:
    inside = finite(b, x)
    z = b.div(b.sub(b.where(inside, x, 0.0), loc), scale)
    tails = b.add(b.softplus(z, 1.0), b.softplus(b.neg(z), 1.0))
    return within(b, x, inside, b.neg(b.add(tails, b.log(scale))))


def _cauchy(b: Any, x: Float, loc: Float, scale: Float) -> Float:
    inside = finite(b, x)
    growth = log1p_of_square(b, b.sub(b.where(inside, x, 0.0), loc), scale)
    return within(b, x, inside, b.neg(b.add(growth, b.add(b.log(scale), math.log(math.pi)))))


def _gumbel(b: Any, x: Float, loc: Float, scale: Float) -> Float:
    inside = finite(b, x)
    z = b.div(b.sub(b.where(inside, x, 0.0), loc), scale)
    far = b.lt(z, -1e4)  # where the exponential is infinite
    z = replaced(b, far, z, 0.0)
    value = impossible(b, far, b.neg(b.add(b.add(z, b.exp(b.neg(z))), b.log(scale))))
    return within(b, x, inside, value)


def change_of_scale(p: Tensor[B], q: Tensor[B]) -> Tensor[B]:
    """Return the ratio of two scales, less 1."""
    return (p - q) / q


@register_kl(Laplace, Laplace)
@doubled
def _laplaces(p: Laplace[B], q: Laplace[B]) -> Tensor[B]:
    gap = (p.loc - q.loc) / p.scale
    distance = gap.where(gap >= 0.0, -gap)  # the second derivative of |gap| at 0 would be 0
    return p.scale / q.scale * ((-distance).expm1() + distance) + excess(p.scale, q.scale)


@register_kl(Cauchy, Cauchy)
def _cauchys(p: Cauchy[B], q: Cauchy[B]) -> Tensor[B]:
    scale = 2.0 * p.scale.sqrt() * q.scale.sqrt()
    return computed("kl", _log1p_of_squares, p.loc - q.loc, p.scale - q.scale, scale)


def _log1p_of_squares(b: Any, x: Float, y: Float, scale: Float) -> Float:
    """log(1 + (x² + y²) / scale²); near 0 without the root of the sum, which has no second derivatives there."""
    near = b.discrete.bitwise_and(b.lt(b.abs(x), scale), b.lt(b.abs(y), scale))
    squares = [b.square(b.div(b.where(near, part, 0.0), scale)) for part in (x, y)]
    distance = b.hypot(b.where(near, scale, x), b.where(near, scale, y))
    return b.where(near, b.log1p(b.add(squares[0], squares[1])), log1p_of_square(b, distance, scale))


@register_kl(Gumbel, Gumbel)
@doubled
def _gumbels(p: Gumbel[B], q: Gumbel[B]) -> Tensor[B]:
    change, shift = change_of_scale(p.scale, q.scale), (p.loc - q.loc) / q.scale
    power = (2.0 + change).lgamma() - shift
    return EULER * change - log_quotient(p.scale, q.scale) + (power.expm1() + shift)


def _standard_cauchy(device: B, shape: Shape, dtype: DType, **settings: Any) -> Tensor[B]:
    """Draw the ratio of two normal numbers, which is finite."""
    first, second = (Tensor.normal(shape, dtype=dtype, device=device, **settings) for _ in range(2))
    return first / second.abs().clamp(1e-4 if dtype.itemsize < 4 else 1e-30)


def _half_cauchy(b: Any, x: Float, scale: Float) -> Float:
    inside = b.discrete.bitwise_and(b.ge(x, 0.0), b.lt(x, math.inf))
    growth = log1p_of_square(b, b.where(inside, x, 0.0), scale)
    return within(b, x, inside, b.neg(b.add(growth, b.add(b.log(scale), math.log(0.5 * math.pi)))))


@register_kl(HalfCauchy, HalfCauchy)
def _half_cauchys(p: HalfCauchy[B], q: HalfCauchy[B]) -> Tensor[B]:
    zero = p.scale.zeros_like()
    return _cauchys(Cauchy(zero, p.scale, validate=False), Cauchy(zero, q.scale, validate=False))  # they are symmetric
