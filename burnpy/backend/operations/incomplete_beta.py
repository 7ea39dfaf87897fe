"""The regularized incomplete beta function, with derivatives by all arguments."""

from __future__ import annotations

from typing import Any

from burnpy.backend.operations import OperationsBase, in_float64
from burnpy.backend.primitives import Float
from burnpy.backend.schema import POINTWISE, derived


def betainc_x_vjp(i: Any, g: Float, x: Float, a: Float, b: Float) -> Float:
    """g · xᵃ⁻¹ (1 - x)ᵇ⁻¹ / B(a, b)."""
    return i.mul(g, i.betainc_density(x, a, b))


def betainc_a_vjp(i: Any, g: Float, x: Float, a: Float, b: Float) -> Float:
    """g · -dt/da · the density of the logit t, as the quantile t(a) moves against the function; 0 at both ends."""
    return i.neg(i.mul(g, _moved(i, x, a, b, a, b, False)))


def betainc_b_vjp(i: Any, g: Float, x: Float, a: Float, b: Float) -> Float:
    """Return the derivative of 1 - I(1 - x; b, a) by b."""
    return i.mul(g, _moved(i, x, a, b, b, a, True))


def _moved(i: Any, x: Float, a: Float, b: Float, first: Float, second: Float, mirrored: bool) -> Float:
    inside = i.discrete.bitwise_and(i.gt(x, 0.0), i.lt(x, 1.0))
    y = i.where(inside, x, 0.5)
    other = i.add(i.neg(y), 1.0)
    logit = i.sub(i.log(y), i.log1p(i.neg(y)))
    slope = i.beta_quantile_slope(i.neg(logit) if mirrored else logit, first, second)
    density = i.mul(i.betainc_density(y, a, b), i.mul(y, other))
    return i.where(inside, i.mul(density, slope), 0.0)


def density_x_vjp(i: Any, g: Float, x: Float, a: Float, b: Float) -> Float:
    """g · density · ((a - 1) / x - (b - 1) / (1 - x)); 0 where the density is 0 or infinite."""
    inside = i.discrete.bitwise_and(i.gt(x, 0.0), i.lt(x, 1.0))
    y = i.where(inside, x, 0.5)
    rate = i.sub(i.div(i.add(a, -1.0), y), i.div(i.add(b, -1.0), i.add(i.neg(y), 1.0)))
    return i.mul(g, i.where(inside, i.mul(i.betainc_density(y, a, b), rate), 0.0))


def density_a_vjp(i: Any, g: Float, x: Float, a: Float, b: Float) -> Float:
    """g · density · (log(x) - ψ(a) + ψ(a + b))."""
    return i.mul(g, _rated(i, x, a, b, a, False))


def density_b_vjp(i: Any, g: Float, x: Float, a: Float, b: Float) -> Float:
    """g · density · (log(1 - x) - ψ(b) + ψ(a + b))."""
    return i.mul(g, _rated(i, x, a, b, b, True))


def _rated(i: Any, x: Float, a: Float, b: Float, parameter: Float, mirrored: bool) -> Float:
    inside = i.discrete.bitwise_and(i.gt(x, 0.0), i.lt(x, 1.0))
    y = i.where(inside, x, 0.5)
    logarithm = i.log1p(i.neg(y)) if mirrored else i.log(y)
    rate = i.add(i.sub(logarithm, i.digamma(parameter)), i.digamma(i.add(a, b)))
    return i.where(inside, i.mul(i.betainc_density(y, a, b), rate), 0.0)


class IncompleteBeta(OperationsBase):
    """The incomplete beta function and its derivative; all floats are computed in float64."""

    @derived(POINTWISE, flops=3000, vjp=(betainc_x_vjp, betainc_a_vjp, betainc_b_vjp))
    def betainc(self, x: Float, a: Float, b: Float) -> Float:
        """Compute I(x; a, b), the regularized incomplete beta function, the distribution function of beta numbers.

        It is the integral of tᵃ⁻¹ (1 - t)ᵇ⁻¹ / B(a, b) from 0 to x. Numbers x outside of [0, 1], and negative
        parameters, give NaN.

        Source: DLMF 8.17.
        """
        return in_float64(self, "incomplete_beta", "incomplete_beta", *self.promote(x, a, b))

    @derived(POINTWISE, flops=500, vjp=(density_x_vjp, density_a_vjp, density_b_vjp))
    def betainc_density(self, x: Float, a: Float, b: Float) -> Float:
        """Return the derivative of `betainc` by x: xᵃ⁻¹ (1 - x)ᵇ⁻¹ / B(a, b); 0 outside of [0, 1]."""
        return in_float64(self, "incomplete_beta", "beta_density", *self.promote(x, a, b))
