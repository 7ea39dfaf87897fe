"""The implementation of the factories that draw from gamma, beta, Dirichlet and other distributions.

Numbers of the gamma, beta and Dirichlet distribution are drawn on a scale without bounds, as logarithms or logits, so
that small ones do not underflow, and are differentiable by the parameters: see `burnpy.backend.operations.random`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.dtypes import float64
from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.backend.primitives import Float
from burnpy.tensor.creation import Size
from burnpy.tensor.draws import FINITE, POSITIVE, PROBABILITY, Bound, Draw
from burnpy.tensor.operands import refuse_unless

RATE = Bound("a number from 0 to 9e18", 0.0, high=9e18)
"""The means of Poisson distributions whose numbers are int64."""
COUNT = Bound("a whole number from 0 to 2**53", 0.0, high=2.0**53, whole=True)
ANY = Bound("a number, which may be infinite", finite=False)
_FARTHEST = 1e100
"""The standard deviations to which ends are limited, so that their squares are finite."""


def gamma(
    cls: Any, shape: Size, concentration: Any, rate: Any, log: bool, dtype: Any, generator: Any, device: Any
) -> Any:
    """Implement ``Tensor.gamma``."""
    draw = Draw(
        cls, "gamma", shape, dtype, generator, device, concentration=(concentration, POSITIVE), rate=(rate, POSITIVE)
    )
    d, by = draw.device, draw.value("rate")
    out = d.random_gamma(draw.rng(), draw.full("concentration"), log, ())
    if isinstance(by, float):
        if by != 1.0:
            out = d.add(out, -float(np.log(by))) if log else d.div(out, by)
    else:
        out = d.sub(out, d.log(by)) if log else d.div(out, by)
    return draw.wrap(out)


def beta(cls: Any, shape: Size, a: Any, b: Any, log: bool, dtype: Any, generator: Any, device: Any) -> Any:
    """Implement ``Tensor.beta``."""
    draw = Draw(cls, "beta", shape, dtype, generator, device, a=(a, POSITIVE), b=(b, POSITIVE))
    d = draw.device
    logit = d.random_logit_beta(draw.rng(), draw.full("a"), draw.full("b"), ())
    return draw.wrap(d.neg(d.softplus(d.neg(logit), 1.0)) if log else d.sigmoid(logit))


def dirichlet(cls: Any, shape: Size, concentration: Any, log: bool, dtype: Any, generator: Any, device: Any) -> Any:
    """Implement ``Tensor.dirichlet``."""
    draw = Draw(cls, "dirichlet", shape, dtype, generator, device, concentration=(concentration, POSITIVE))
    if not draw.shape or not draw.shape[-1]:
        raise ShapeError(
            f"{draw.factory}() got shape {draw.shape}; its last dimension has the components, at least one"
        )
    d = draw.device
    logs = d.random_log_dirichlet(draw.rng(), draw.full("concentration"), ())
    return draw.wrap(logs if log else d.exp(logs))


def student_t(cls: Any, shape: Size, df: Any, loc: Any, scale: Any, dtype: Any, generator: Any, device: Any) -> Any:
    """Implement ``Tensor.student_t``: z · √(k / g), z normal and g of the gamma distribution of k = df / 2."""
    draw = Draw(
        cls, "student_t", shape, dtype, generator, device,
        df=(df, POSITIVE), loc=(loc, FINITE), scale=(scale, POSITIVE),
    )  # fmt: skip
    d, rng = draw.device, draw.rng()
    half = d.mul(draw.full("df"), 0.5)
    normal = d.random_normal(rng, draw.shape, draw.dtype)
    log_factor = d.sub(d.log(half), d.random_gamma(rng, half, True, ()))
    return draw.scaled(d.mul(normal, d.exp(d.mul(log_factor, 0.5))), "loc", "scale")


def gumbel(cls: Any, shape: Size, loc: Any, scale: Any, dtype: Any, generator: Any, device: Any) -> Any:
    """Implement ``Tensor.gumbel``: minus the logarithm of a number of the exponential distribution."""
    draw = Draw(cls, "gumbel", shape, dtype, generator, device, loc=(loc, FINITE), scale=(scale, POSITIVE))
    d = draw.device
    wide = draw.dtype if draw.dtype.itemsize >= 4 else np.dtype(np.float32)  # 16 bits round small ones to 0
    drawn = d.random_exponential(draw.rng(), draw.shape, wide)
    noise = d.neg(d.log(d.maximum(drawn, float(np.finfo(wide).tiny))))
    return draw.scaled(d.cast(noise, draw.dtype), "loc", "scale")


def poisson(cls: Any, shape: Size, rate: Any, dtype: Any, generator: Any, device: Any) -> Any:
    """Implement ``Tensor.poisson``."""
    draw = Draw(cls, "poisson", shape, dtype, generator, device, rate=(rate, RATE))
    d = draw.device
    return draw.wrap(d.random_poisson(draw.rng(), d.detach(draw.exact("rate")), ()))


def binomial(cls: Any, shape: Size, count: Any, prob: Any, dtype: Any, generator: Any, device: Any) -> Any:
    """Implement ``Tensor.binomial``."""
    draw = Draw(cls, "binomial", shape, dtype, generator, device, count=(count, COUNT), prob=(prob, PROBABILITY))
    d = draw.device
    parameters = [d.detach(draw.exact(name)) for name in ("count", "prob")]
    return draw.wrap(d.random_binomial(draw.rng(), *parameters, ()))


def truncated_normal(
    cls: Any, shape: Size, mean: Any, std: Any, low: Any, high: Any, dtype: Any, generator: Any, device: Any
) -> Any:
    """Implement ``Tensor.truncated_normal``, by the inverse of the logarithm of its distribution function in float64.

    The probability up to a number of the standard distribution is p₁ · (1 - v · (1 - p₀ / p₁)), where p₀ and p₁ are
    those of both ends, and v is uniform. An interval above the mean is mirrored, as small probabilities have more
    digits.
    """
    draw = Draw(
        cls, "truncated_normal", shape, dtype, generator, device,
        mean=(mean, FINITE), std=(std, POSITIVE), low=(low, ANY), high=(high, ANY),
    )  # fmt: skip
    d = draw.device
    center, width, first, last = (draw.primitive(name, float64) for name in ("mean", "std", "low", "high"))
    message = f"{draw.factory}() got an interval from low to high that is empty"
    refuse_unless(d, d.lt(d.detach(first), d.detach(last)), ArgumentError(message))
    ends = [_standardized(d, bound, center, width) for bound in (first, last)]
    above = d.gt(d.detach(ends[0]), 0.0)
    near, far = d.where(above, d.neg(ends[1]), ends[0]), d.where(above, d.neg(ends[0]), ends[1])
    most = d.log_ndtr(far)
    rest = d.expm1(d.sub(d.log_ndtr(near), most))
    share = d.add(d.neg(d.random_uniform(draw.rng(), draw.shape, float64)), 1.0)
    inverse = d.ndtri_exp(d.add(d.log1p(d.mul(share, rest)), most))
    drawn = d.add(d.mul(d.where(above, d.neg(inverse), inverse), width), center)
    return draw.wrap(d.maximum(d.minimum(drawn, last), first))  # rounding must not leave the interval


def _standardized(d: Any, bound: Float, mean: Float, std: Float) -> Float:
    """Return the standard deviations from the mean to a bound, limited to `_FARTHEST`."""
    finite = d.isfinite(d.detach(bound))
    inner = d.where(finite, bound, 0.0)
    distance = d.where(finite, d.div(d.sub(inner, mean), std), d.detach(bound))
    return d.clamp(distance, -_FARTHEST, _FARTHEST)
