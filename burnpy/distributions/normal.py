"""The normal distribution and its relatives: log-normal, half-normal, logistic-normal, and von Mises of angles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ShapeError
from burnpy.backend.numerics.incomplete import HALF_LOG_TAU
from burnpy.distributions.bijections import StickBreaking
from burnpy.distributions.distribution import Distribution, Reparametrized, register_kl
from burnpy.distributions.formulas import computed, excess, on_simplex, within
from burnpy.distributions.location_scale import LocationScale, change_of_scale
from burnpy.distributions.parameters import Parameter, ParameterLike
from burnpy.distributions.transformed import Transformed
from burnpy.nn.module import rebound
from burnpy.special import erf, erfinv, i0e, i1e, log_ndtr, ndtr, ndtri
from burnpy.tensor.random_parameters import FINITE, POSITIVE
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Float, Shape
    from burnpy.tensor.creation import Size
    from burnpy.tensor.generator import Generator


class Normal(LocationScale[B]):
    """The normal distribution, with the density exp(-z² / 2) / (scale · √(2π)) of z = (x - loc) / scale.

    Args:
        loc: the mean, any finite number.
        scale: the standard deviation, above 0.
        device, validate: see `Distribution`.

    >>> x = Tensor[NumPy].from_data([0.0, 1.0])
    >>> [round(p, 4) for p in Normal(0.0, 1.0, device=NumPy).log_prob(x).tolist()]
    [-0.9189, -1.4189]
    """

    def _standard(self, shape: Shape, **settings: Any) -> Tensor[B]:
        return Tensor.normal(shape, **settings)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density."""
        return computed("Normal.log_prob", _normal, value, self.loc, self.scale)

    def entropy(self) -> Tensor[B]:
        """Return log(scale · √(2πe))."""
        return (self.scale.log() + (0.5 + HALF_LOG_TAU)).expand(self.batch_shape)

    def _standardized(self, value: Tensor[B]) -> Tensor[B]:
        return (value - self.loc) / self.scale

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        return ndtr(self._standardized(value))

    def _log_cdf(self, value: Tensor[B]) -> Tensor[B]:
        return log_ndtr(self._standardized(value))

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        return self.loc + self.scale * ndtri(probability)

    @property
    def _center(self) -> Tensor[B]:
        return self.loc

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
        device, validate: see `Distribution`.

    >>> LogNormal(0.0, 1.0, device=NumPy).cdf(Tensor[NumPy].from_data([-1.0, 1.0])).tolist()
    [0.0, 0.5]
    """

    _ends = (0.0, math.inf)

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw values that are differentiable with respect to the parameters."""
        return super().rsample(sample_shape, generator=generator).exp().clamp(*POSITIVE.ends(self._dtype))

    def _standard(self, shape: Shape, **settings: Any) -> Tensor[B]:
        return Tensor.normal(shape, **settings)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density; -inf up to 0."""
        return computed("LogNormal.log_prob", _log_normal, value, self.loc, self.scale)

    def entropy(self) -> Tensor[B]:
        """Return loc + log(scale · √(2πe))."""
        return self.loc + self.scale.log() + (0.5 + HALF_LOG_TAU)

    def _standardized(self, value: Tensor[B]) -> Tensor[B]:
        return (value.clamp(0.0).log() - self.loc) / self.scale

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        zero = value == 0.0
        return ndtr(self._standardized(value.where(~zero, 1.0))).masked_fill(zero, 0.0)

    def _log_cdf(self, value: Tensor[B]) -> Tensor[B]:
        zero = value == 0.0
        return log_ndtr(self._standardized(value.where(~zero, 1.0))).masked_fill(zero, -math.inf)

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
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
        return -(-square).expm1() * (2.0 * (self.loc + square)).exp()  # whose factors are not 0 and inf

    def valid(self: LogNormal[Autodiff[I]]) -> LogNormal[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class HalfNormal(Reparametrized[B]):
    """The distribution of |x| for x of the normal distribution with mean 0.

    Args:
        scale: the standard deviation of x, above 0.
        device, validate: see `Distribution`.

    >>> round(HalfNormal(1.0, device=NumPy).cdf(Tensor[NumPy].from_data(1.0)).item(), 4)
    0.6827
    """

    _ends = (0.0, math.inf)
    scale = Parameter(POSITIVE)

    def __init__(self, scale: ParameterLike[B], *, device: B | type[B] | None = None, validate: bool = True) -> None:
        self._hold(device, validate, scale=scale)

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw values that are differentiable with respect to the scale."""
        z = Tensor.normal(self._shape(sample_shape), dtype=self._dtype, generator=generator, device=self.device)
        return self.scale * z.abs()

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density; -inf below 0."""
        return computed("HalfNormal.log_prob", _half_normal, value, self.scale)

    def entropy(self) -> Tensor[B]:
        """Return log(scale · √(πe / 2))."""
        return self.scale.log() + (0.5 + HALF_LOG_TAU - math.log(2.0))

    def _cdf(self, value: Tensor[B]) -> Tensor[B]:
        return erf(value / self.scale * math.sqrt(0.5))

    def _icdf(self, probability: Tensor[B]) -> Tensor[B]:
        upper = probability > 0.5  # there 1 - p is exact
        tail = -ndtri((1.0 - probability).where(upper, 1.0) * 0.5)
        return self.scale * tail.where(upper, erfinv(probability.where(~upper, 0.0)) * math.sqrt(2.0))

    @property
    def mean(self) -> Tensor[B]:
        """√(2 / π) · scale."""
        return self.scale * math.sqrt(2.0 / math.pi)

    @property
    def mode(self) -> Tensor[B]:
        """0."""
        return self.scale.zeros_like()

    @property
    def variance(self) -> Tensor[B]:
        """(1 - 2 / π) · scale²."""
        return self.scale.square() * (1.0 - 2.0 / math.pi)

    def valid(self: HalfNormal[Autodiff[I]]) -> HalfNormal[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


class LogisticNormal(Transformed[B]):
    """The distribution of probabilities that `bijections.StickBreaking` makes of independent normal numbers.

    Args:
        loc: the means, (…, n) for probabilities of n + 1 classes.
        scale: the standard deviations, above 0, which broadcast with them.
        device, validate: see `Distribution`.

    >>> d = LogisticNormal(Tensor[NumPy].zeros((2,)), 1.0)
    >>> d.event_shape, d.sample((5,)).sum(dim=-1).round(decimals=4).tolist()
    ((3,), [1.0, 1.0, 1.0, 1.0, 1.0])
    """

    def __init__(
        self,
        loc: ParameterLike[B],
        scale: ParameterLike[B],
        *,
        device: B | type[B] | None = None,
        validate: bool = True,
    ) -> None:
        base = Normal(loc, scale, device=device, validate=validate)
        if not base.batch_shape:
            raise ShapeError("LogisticNormal() got loc and scale of shape (); their last dimension belongs to an event")
        super().__init__(base.expand(base.batch_shape), StickBreaking())

    def rsample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw probabilities that are differentiable with respect to the parameters."""
        x = super().rsample(sample_shape, generator=generator)
        return x.clamp(*POSITIVE.ends(x.dtype))

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density of probabilities (…, n + 1); -inf for others."""
        fits = on_simplex(value)
        inside = value.where(fits.unsqueeze(-1), 1.0 / value.shape[-1])
        return super().log_prob(inside).where(fits, -math.inf)

    def valid(self: LogisticNormal[Autodiff[I]]) -> LogisticNormal[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def _normal(b: Any, x: Float, loc: Float, scale: Float) -> Float:
    z = b.div(b.sub(x, loc), scale)
    return b.sub(b.mul(b.mul(z, z), -0.5), b.add(b.log(scale), HALF_LOG_TAU))


def _log_normal(b: Any, x: Float, loc: Float, scale: Float) -> Float:
    inside = b.discrete.bitwise_and(b.gt(x, 0.0), b.lt(x, math.inf))
    logarithm = b.log(b.where(inside, x, 1.0))
    return within(b, x, inside, b.sub(_normal(b, logarithm, loc, scale), logarithm))


@register_kl(Normal, Normal)
@register_kl(LogNormal, LogNormal)
def _normals(p: Normal[B], q: Normal[B]) -> Tensor[B]:
    return _half_normals(p, q) + 0.5 * ((p.loc - q.loc) / q.scale).square()


def _half_normal(b: Any, x: Float, scale: Float) -> Float:
    inside = b.discrete.bitwise_and(b.ge(x, 0.0), b.lt(x, math.inf))
    z = b.div(b.where(inside, x, 0.0), scale)
    head = b.add(b.log(scale), HALF_LOG_TAU - math.log(2.0))
    return within(b, x, inside, b.sub(b.mul(b.mul(z, z), -0.5), head))


@register_kl(HalfNormal, HalfNormal)
def _half_normals(p: Any, q: Any) -> Tensor[Any]:
    """Return (r² - 1) / 2 - log(r) for the ratio r of the scales, as r - 1 - log(r) and (r - 1)² / 2."""
    return excess(p.scale, q.scale) + 0.5 * change_of_scale(p.scale, q.scale).square()


_PROPOSALS = 32
"""The proposals for each sample. Two of three are accepted, so that all fail with a probability below 1e-15."""


_SERIES_FROM = 64.0
"""The concentration from where on the series of `VonMises` has all digits."""


def _shortfall_series(count: int) -> list[float]:
    """Return the coefficients of the series u of 1 - I₁(k) / I₀(k) in 1 / k, by 2u = u² + (1 - u) / k - u'."""
    series = [0.5]
    for n in range(2, count + 1):
        products = sum(series[j - 1] * series[n - j - 1] for j in range(1, n))
        series.append((products + (n - 2) * series[-1]) / 2.0)
    return series


_SHORTFALL = _shortfall_series(16)


class VonMises(Distribution[B, Tensor[B]]):
    """The von Mises distribution of angles from -π to π.

    Its density is proportional to exp(concentration · cos(x - loc)).

    Args:
        loc: the mean angle.
        concentration: 1 / variance for large ones, above 0.
        device, validate: see `Distribution`.

    >>> VonMises(1.0, 400.0, device=NumPy).sample((1000,)).mean().round(decimals=1).item()
    1.0
    """

    loc = Parameter(FINITE)
    concentration = Parameter(POSITIVE)

    def __init__(
        self,
        loc: ParameterLike[B],
        concentration: ParameterLike[B],
        *,
        device: B | type[B] | None = None,
        validate: bool = True,
    ) -> None:
        self._hold(device, validate, loc=loc, concentration=concentration)

    def sample(self, sample_shape: Size = (), *, generator: Generator | None = None) -> Tensor[B]:
        """Draw angles by rejection from a wrapped Cauchy distribution; a fixed number of proposals, for plans.

        Source: Best and Fisher, Efficient Simulation of the von Mises Distribution, 1979.
        """
        shape, k = self._shape(sample_shape), self.concentration.detach().double()
        tau = 1.0 + (1.0 + 4.0 * k.square()).sqrt()
        rho = 2.0 * k / (tau + (2.0 * tau).sqrt())  # (tau - √(2 tau)) / (2 k), without cancellation
        gap = (1.0 - rho).square() / (2.0 * rho)
        r = 1.0 + gap
        settings: Any = {"dtype": "float64", "generator": generator, "device": self.device}
        angle = Tensor.zeros(shape, dtype="float64", device=self.device)  # of cosine f = (1 + r z) / (r + z)
        pending = angle == 0.0
        for _ in range(_PROPOSALS):
            z = (Tensor.uniform(shape, **settings) * math.pi).cos()
            c = k * (gap * (r + 1.0) / (r + z))  # k (r - f)
            level = Tensor.uniform(shape, **settings)
            accepted = pending & ((c * (2.0 - c) > level) | ((c / level).log() + 1.0 - c >= 0.0))
            side = (Tensor.uniform(shape, **settings) - 0.5).sign()
            half = (gap * (1.0 - z) / (2.0 * (r + z))).clamp(0.0, 1.0)  # (1 - f) / 2, the square of sin(angle / 2)
            angle = (2.0 * half.sqrt().asin() * side).where(accepted, angle)
            pending = pending & ~accepted
            if self.device.discrete.eager_checks and not pending.any().item():
                break
        turned = angle + self.loc.detach() + math.pi
        return (turned - (turned / (2.0 * math.pi)).floor() * (2.0 * math.pi) - math.pi).to_dtype(self._dtype)

    def log_prob(self, value: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the density, which has period 2π."""
        return computed("VonMises.log_prob", _log_prob, value, self.loc, self.concentration)

    def entropy(self) -> Tensor[B]:
        """Return the differential entropy."""
        k = self.concentration.double()
        return ((2.0 * math.pi * i0e(k)).log() + k * self._shortfall()).expand(self.batch_shape).to_dtype(self._dtype)

    def _shortfall(self) -> Tensor[B]:
        """Return 1 - I₁(k) / I₀(k) of the concentration k in float64; for large k by the series of 1 / k."""
        k = self.concentration.double()
        far = k > _SERIES_FROM
        near = k.where(~far, _SERIES_FROM)
        inverse, total = k.where(far, _SERIES_FROM).reciprocal(), k.zeros_like()
        for c in reversed(_SHORTFALL):
            total = (total + c) * inverse
        return total.where(far, 1.0 - i1e(near) / i0e(near))

    @property
    def mean(self) -> Tensor[B]:
        """The mean angle."""
        return self.loc.expand(self.batch_shape)

    @property
    def mode(self) -> Tensor[B]:
        """The mean angle."""
        return self.mean

    @property
    def variance(self) -> Tensor[B]:
        """The circular variance 1 - I₁(concentration) / I₀(concentration)."""
        return self._shortfall().expand(self.batch_shape).to_dtype(self._dtype)

    def valid(self: VonMises[Autodiff[I]]) -> VonMises[I]:
        """Return the same distribution on the inner backend."""
        return rebound(self)


def _log_prob(b: Any, x: Float, loc: Float, k: Float) -> Float:
    sine, at_mode = b.sin(b.mul(b.sub(x, loc), 0.5)), b.neg(b.add(b.log(b.i0e(k)), math.log(2.0 * math.pi)))
    return b.sub(at_mode, b.mul(b.mul(b.mul(sine, sine), k), 2.0))
