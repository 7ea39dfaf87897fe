"""`kl`, the Kullback-Leibler divergence, and its formulas for distributions of two families or made of others.

Those of one family stand in its file. Those of two are minus the entropy of the first, and the mean of the second's
log_prob, computed from means of functions of x, such as log x and e^-x, under the first distribution.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

from burnpy.backend.errors import ArgumentError, DeviceError, ShapeError, a
from burnpy.distributions.bernoulli import Bernoulli
from burnpy.distributions.beta import Beta
from burnpy.distributions.bijections import Bijection
from burnpy.distributions.binomial_and_poisson import Binomial, Poisson
from burnpy.distributions.distribution import DIVERGENCES, Distribution, Independent, doubled, register_kl
from burnpy.distributions.exponential import Exponential, Pareto
from burnpy.distributions.formulas import EULER, computed, log_of
from burnpy.distributions.gamma import Gamma
from burnpy.distributions.location_scale import Gumbel, Laplace
from burnpy.distributions.normal import Normal
from burnpy.distributions.transformed import Transformed
from burnpy.distributions.uniform import ContinuousBernoulli, Uniform, log_sinhc
from burnpy.special import erf, xlogy
from burnpy.tensor.call_errors import explained
from burnpy.tensor.operand_checks import broadcast_shape
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, T, U


@explained
def kl(p: Distribution[B, T], q: Distribution[B, U]) -> Tensor[B]:  # by Any, mypy would forget B
    """Return the divergence KL(p ‖ q), the mean of ``p.log_prob(x) - q.log_prob(x)`` for x drawn from p, in nats.

    It is inf where p has values that q has not. The pairs of families are PyTorch's.

    Raises:
        ArgumentError: there is no closed form for distributions of these classes; `register_kl` adds one.

    >>> from burnpy.distributions import Normal
    >>> kl(Normal(0.0, 1.0, device=NumPy), Normal(2.0, 1.0, device=NumPy)).item()
    2.0
    """
    for p_class in type(p).__mro__:
        for q_class in type(q).__mro__:
            formula = DIVERGENCES.get((p_class, q_class))
            if formula is not None:
                try:
                    return formula(p, q)
                except (DeviceError, ShapeError) as error:
                    raise _refusal(p, q, error) from None
    raise ArgumentError(
        f"kl() has no closed form for {type(p).__name__} and {type(q).__name__}; average p.log_prob(x) - q.log_prob(x) "
        "over samples x of p, or add a formula with register_kl()"
    )


def _refusal(p: Any, q: Any, error: DeviceError | ShapeError) -> Exception:
    """Return the error for distributions on two devices, or of shapes that do not broadcast; else ``error``."""
    names = type(p).__name__, type(q).__name__
    if isinstance(error, DeviceError) and p.device is not q.device:
        return DeviceError(
            f"kl() got {a(names[0])} on {p.device} and {a(names[1])} on {q.device}; move one with .to_device(device)"
        )
    if isinstance(error, ShapeError) and p.event_shape + p.batch_shape != q.event_shape + q.batch_shape:
        return ShapeError(
            f"kl() got {a(names[0])} of batch shape {p.batch_shape} and event shape {p.event_shape}, and {a(names[1])} "
            f"of {q.batch_shape} and {q.event_shape}; batches must broadcast, and events be equal"
        )
    return error


@register_kl(Independent, Independent)
def _independents(p: Independent[B, Any], q: Independent[B, Any]) -> Tensor[B]:
    if p.ndims != q.ndims:
        raise ArgumentError(f"kl() got Independent of ndims={p.ndims} and of ndims={q.ndims}; expected equal numbers")
    return p._summed(kl(p.base, q.base))


@register_kl(Transformed, Transformed)
def _transformed(p: Transformed[B], q: Transformed[B]) -> Tensor[B]:
    """Return the divergence of the bases, which a bijection does not change."""
    same = len(p.bijections) == len(q.bijections) and all(map(Bijection.equals, p.bijections, q.bijections))
    if not same or p.event_shape != q.event_shape:
        raise ArgumentError("kl() of two Transformed distributions expects the same bijections, and equal event shapes")
    return p._summed(kl(p.base, q.base), len(p.base.event_shape))


Real = Distribution[B, Tensor[B]]


def mean_log(p: Any) -> Tensor[Any]:
    """Return the mean of log x."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Gamma):
        return p.concentration.digamma() - p.rate.log()
    if isinstance(p, Exponential):
        return -EULER - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    low: Tensor[Any] = p.low
    high: Tensor[Any] = p.high
    return (xlogy(high, high) - xlogy(low, low)) / (high - low) - 1.0


def log_mean_exp(p: Any, t: Tensor[Any], shift: Tensor[Any]) -> Tensor[Any]:
    """Return the logarithm of the mean of exp(-t · (x - shift)), for t > 0."""
    if isinstance(p, Normal):
        return 0.5 * (t * p.scale).square() - t * (p.loc - shift)
    if isinstance(p, Exponential):
        return t * shift - (t / p.rate).log1p()
    if isinstance(p, Gamma):
        return t * shift - p.concentration * (t / p.rate).log1p()
    spread = computed("kl", log_sinhc, t * (p.high - p.low) * 0.5)
    middle: Tensor[Any] = (p.low + p.high) * 0.5
    return spread - t * (middle - shift)


@register_kl(Bernoulli, Poisson)
@doubled
def _bernoulli_poisson(p: Bernoulli[B], q: Poisson[B]) -> Tensor[B]:
    log_rate = computed("kl", log_of, q.rate)
    return -p.entropy() - (p.probs * log_rate.masked_fill(p.probs == 0.0, 0.0) - q.rate)


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Pareto, Normal)
@register_kl(Uniform, Normal)
@doubled
def _normal(p: Real[B], q: Normal[B]) -> Tensor[B]:
    square = (p.variance + (p.mean - q.loc).square()) / q.scale.square()
    return -p.entropy() + 0.5 * (square + math.log(2.0 * math.pi)) + q.scale.log()


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Gamma, Exponential)
@register_kl(Pareto, Exponential)
@doubled
def _exponential(p: Real[B], q: Exponential[B]) -> Tensor[B]:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Uniform, Exponential)
@doubled
def _uniform_exponential(p: Uniform[B], q: Exponential[B]) -> Tensor[B]:
    return _exponential(p, q).where(p.low >= 0.0, math.inf)


@register_kl(Beta, Gamma)
@register_kl(Exponential, Gamma)
@register_kl(Pareto, Gamma)
@doubled
def _gamma(p: Real[B], q: Gamma[B]) -> Tensor[B]:
    a, rate = q.concentration, q.rate
    return -p.entropy() - (a * rate.log() - a.lgamma() + (a - 1.0) * mean_log(p) - rate * p.mean)


@register_kl(Uniform, Gamma)
@doubled
def _uniform_gamma(p: Uniform[B], q: Gamma[B]) -> Tensor[B]:
    inside = p.low >= 0.0
    return _gamma(p, q).where(inside, math.inf)


@register_kl(Exponential, Gumbel)
@register_kl(Gamma, Gumbel)
@register_kl(Normal, Gumbel)
@register_kl(Uniform, Gumbel)
@doubled
def _gumbel(p: Real[B], q: Gumbel[B]) -> Tensor[B]:
    rate = q.scale.reciprocal()
    return -p.entropy() + q.scale.log() + (p.mean - q.loc) * rate + log_mean_exp(p, rate, q.loc).exp()


@register_kl(Normal, Laplace)
@doubled
def _normal_laplace(p: Normal[B], q: Laplace[B]) -> Tensor[B]:
    shift = (p.loc - q.loc) / p.scale
    density = math.sqrt(2.0 / math.pi) * (-0.5 * shift.square()).exp()
    distance = p.scale * (density + shift * erf(shift * math.sqrt(0.5)))
    return -p.entropy() + (2.0 * q.scale).log() + distance / q.scale


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
@doubled
def _unit_uniform(p: Real[B], q: Uniform[B]) -> Tensor[B]:
    inside = (q.low <= 0.0) & (q.high >= 1.0)
    return (-p.entropy() + (q.high - q.low).log()).where(inside, math.inf)


@register_kl(Uniform, Beta)
@doubled
def _uniform_beta(p: Uniform[B], q: Beta[B]) -> Tensor[B]:
    a, c = q.concentration1, q.concentration0
    low, high, width = 1.0 - p.high, 1.0 - p.low, p.high - p.low
    mean_log_rest = (xlogy(high, high) - xlogy(low, low)) / width - 1.0
    log_beta = a.lgamma() + c.lgamma() - (a + c).lgamma()
    value = -p.entropy() + log_beta - (a - 1.0) * mean_log(p) - (c - 1.0) * mean_log_rest
    return value.where((p.low >= 0.0) & (p.high <= 1.0), math.inf)


@register_kl(Beta, ContinuousBernoulli)
@doubled
def _beta_continuous_bernoulli(p: Real[B], q: ContinuousBernoulli[B]) -> Tensor[B]:
    return -p.entropy() - q.log_prob(p.mean)  # which is linear


@register_kl(Uniform, ContinuousBernoulli)
@doubled
def _uniform_continuous_bernoulli(p: Uniform[B], q: ContinuousBernoulli[B]) -> Tensor[B]:
    return _beta_continuous_bernoulli(p, q).where((p.low >= 0.0) & (p.high <= 1.0), math.inf)


@register_kl(Uniform, Pareto)
@doubled
def _uniform_pareto(p: Uniform[B], q: Pareto[B]) -> Tensor[B]:
    mean = q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1.0) * mean_log(p)
    return (-p.entropy() - mean).where(p.low >= q.scale, math.inf)


def infinite(p: Distribution[B, Any], q: Distribution[B, Any]) -> Tensor[B]:
    """Return inf: p has values that q has not, whatever the parameters."""
    shape = broadcast_shape(p.batch_shape, q.batch_shape) or ()
    return Tensor.full(shape, math.inf, dtype=p._dtype, device=p.device)


_WITHOUT: list[tuple[Any, Any]] = [
    *product((Beta, ContinuousBernoulli), (Pareto,)),
    *product((Exponential, Gamma), (Beta, ContinuousBernoulli, Pareto, Uniform)),
    *product((Pareto,), (Beta, ContinuousBernoulli, Uniform)),
    *product((Normal, Laplace, Gumbel), (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    *product((Poisson,), (Bernoulli, Binomial)),
]
for _p, _q in _WITHOUT:
    register_kl(_p, _q)(infinite)
