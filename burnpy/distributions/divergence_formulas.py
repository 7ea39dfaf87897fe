"""Divergences of two distributions of one family."""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.errors import ArgumentError
from burnpy.distributions.beta import Beta, Dirichlet
from burnpy.distributions.categorical import Categorical, OneHotCategorical
from burnpy.distributions.distribution import Independent
from burnpy.distributions.divergences import kl, register_kl
from burnpy.distributions.exponential import Exponential, Weibull
from burnpy.distributions.formulas import EULER
from burnpy.distributions.gamma import Gamma
from burnpy.distributions.location_scale import Cauchy, Gumbel, Laplace, LogNormal, Normal
from burnpy.distributions.multivariate_normal import MultivariateNormal
from burnpy.distributions.poisson import Poisson
from burnpy.distributions.successes import Bernoulli, Binomial, Geometric, OfSuccesses
from burnpy.distributions.transformed import Transformed
from burnpy.distributions.uniform import Uniform
from burnpy.linalg.equations import solve_triangular
from burnpy.special.elementary import xlogy
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B


@register_kl(Normal, Normal)
@register_kl(LogNormal, LogNormal)
def _normal(p: Normal[B], q: Normal[B]) -> Tensor[B]:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1.0 - ratio.log())


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: MultivariateNormal[B], q: MultivariateNormal[B]) -> Tensor[B]:
    shape = (*(p.batch_shape if len(p.batch_shape) > len(q.batch_shape) else q.batch_shape), 1, 1)
    factor = q.scale_tril
    spread = solve_triangular(factor, p.scale_tril.expand((*shape[:-2], *p.scale_tril.shape[-2:])), upper=False)
    shift = solve_triangular(factor, (p.loc - q.loc).unsqueeze(-1), upper=False)
    square = spread.square().sum(dim=(-2, -1)) + shift.square().sum(dim=(-2, -1))
    return q._half_log_det() - p._half_log_det() + 0.5 * (square - p.loc.shape[-1])


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace[B], q: Laplace[B]) -> Tensor[B]:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return ratio * (-distance / p.scale).exp() + distance / q.scale - 1.0 - ratio.log()


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy[B], q: Cauchy[B]) -> Tensor[B]:
    total, distance = p.scale + q.scale, p.loc - q.loc
    return ((total.square() + distance.square()) / (4.0 * p.scale * q.scale)).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel[B], q: Gumbel[B]) -> Tensor[B]:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    power = ((1.0 + ratio).lgamma() - shift).exp()
    return -ratio.log() + EULER * (ratio - 1.0) + shift + power - 1.0


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential[B], q: Exponential[B]) -> Tensor[B]:
    ratio = q.rate / p.rate
    return ratio - 1.0 - ratio.log()


@register_kl(Weibull, Weibull)
def _weibull(p: Weibull[B], q: Weibull[B]) -> Tensor[B]:
    k, other = p.concentration, q.concentration
    log_ratio = (p.scale / q.scale).log()
    power = (other * log_ratio + (other / k + 1.0).lgamma()).exp()
    return (k / other).log() - other * log_ratio + EULER * (other / k - 1.0) + power - 1.0


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma[B], q: Gamma[B]) -> Tensor[B]:
    a, c, ratio = p.concentration, q.concentration, q.rate / p.rate
    return c.lgamma() - a.lgamma() - c * ratio.log() + (a - c) * a.digamma() + a * (ratio - 1.0)


@register_kl(Beta, Beta)
def _beta(p: Beta[B], q: Beta[B]) -> Tensor[B]:
    terms = []
    for d in (p, q):
        a, c = d.concentration1, d.concentration0
        terms.append((a, c, a + c, a.lgamma() + c.lgamma() - (a + c).lgamma()))
    (a, c, total, log_beta), (other_a, other_c, other_total, other_log_beta) = terms
    mean_logs = (a - other_a) * a.digamma() + (c - other_c) * c.digamma() - (total - other_total) * total.digamma()
    return other_log_beta - log_beta + mean_logs


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet[B], q: Dirichlet[B]) -> Tensor[B]:
    a = p.concentration
    logs = a.digamma() - a.sum(dim=-1, keepdim=True).digamma()
    return q._log_beta() - p._log_beta() + ((a - q.concentration) * logs).sum(dim=-1)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform[B], q: Uniform[B]) -> Tensor[B]:
    inside = (q.low <= p.low) & (p.high <= q.high)
    return ((q.high - q.low) / (p.high - p.low)).log().where(inside, math.inf)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: OfSuccesses[B], q: OfSuccesses[B]) -> Tensor[B]:
    log_success, log_failure = q._log_probs()
    return _relative(p.probs, log_success) + _relative(p._failure, log_failure)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric[B], q: Geometric[B]) -> Tensor[B]:
    return _bernoulli(p, q) / p.probs


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial[B], q: Binomial[B]) -> Tensor[B]:
    """Return the divergence for equal numbers of trials; inf for more trials of p, NaN for fewer, without a closed
    form.
    """
    count, other = p.total_count, q.total_count
    return (_bernoulli(p, q) * count).where(count <= other, math.inf).where(count >= other, math.nan)


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson[B], q: Poisson[B]) -> Tensor[B]:
    return _relative(p.rate, q.rate.log()) - p.rate + q.rate


@register_kl(Categorical, Categorical)
@register_kl(OneHotCategorical, OneHotCategorical)
def _classes(p: Categorical[B], q: Categorical[B]) -> Tensor[B]:
    logs = p._log_probs()
    possible = logs > -math.inf
    return (logs.exp() * (logs - q._log_probs()).where(possible, 0.0)).sum(dim=-1)


@register_kl(Independent, Independent)
def _independent(p: Independent[B, Any], q: Independent[B, Any]) -> Tensor[B]:
    if p.ndims != q.ndims:
        raise ArgumentError(f"kl() got Independent of ndims={p.ndims} and of ndims={q.ndims}; expected equal numbers")
    return p._summed(kl(p.base, q.base))


@register_kl(Transformed, Transformed)
def _transformed(p: Transformed[B], q: Transformed[B]) -> Tensor[B]:
    """Return the divergence of the bases, which a bijection does not change."""
    same = len(p.bijections) == len(q.bijections) and all(
        f is g or (type(f) is type(g) and not f.params() and vars(f) == vars(g))
        for f, g in zip(p.bijections, q.bijections, strict=True)
    )
    if not same or p.event_shape != q.event_shape:
        raise ArgumentError("kl() of two Transformed distributions expects the same bijections, and equal event shapes")
    return p._summed(kl(p.base, q.base), len(p.base.event_shape))


def _relative(p: Tensor[B], log_q: Tensor[B]) -> Tensor[B]:
    """Return p · (log p - log q), which is 0 for p = 0."""
    return xlogy(p, p) - p * log_q.masked_fill(p == 0.0, 0.0)
