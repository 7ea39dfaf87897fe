"""The scaled complementary error function, and the normal distribution function with its logarithm and inverse."""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.operations import OperationsBase, in_float64
from burnpy.backend.primitives import Float
from burnpy.backend.schema import POINTWISE, derived


def normal_density(i: Any, x: Float) -> Float:
    """exp(-x² / 2) / √(2π)."""
    return i.mul(i.exp(i.mul(i.mul(x, x), -0.5)), 1 / math.sqrt(2 * math.pi))


def normal_ratio_vjp(i: Any, g: Float, x: Float, out: Float) -> Float:
    """-g · out · (x + out), for negative x by erfcx and its derivative, as the sum cancels there."""
    scaled = i.mul(i.clamp(x, None, 0.0), -math.sqrt(0.5))
    rate = i.mul(i.div(i.erfcx_slope(scaled), i.erfcx(scaled)), math.sqrt(0.5))
    rate = i.where(i.lt(x, 0.0), rate, i.neg(i.add(x, out)))
    return i.mul(g, i.where(i.ne(out, 0.0), i.mul(out, rate), 0.0))


class NormalDistribution(OperationsBase):
    """Functions of the normal distribution; all floats are computed in float64."""

    @derived(POINTWISE, flops=100, vjp=lambda i, g, x: i.mul(g, i.erfcx_slope(x)))
    def erfcx(self, x: Float) -> Float:
        """Compute exp(x²) · erfc(x), which does not underflow for large x.

        Source: Cody, Rational Chebyshev Approximation for the Error Function, 1969.
        """
        return in_float64(self, "normal_distribution", "erfcx", x)

    @derived(POINTWISE, flops=120, vjp=lambda i, g, x, out: i.mul(g, i.mul(i.add(i.erfcx(x), i.mul(x, out)), 2.0)))
    def erfcx_slope(self, x: Float) -> Float:
        """Return the derivative of `erfcx`, 2x · erfcx(x) - 2 / √π, without its cancellation for large x."""
        return in_float64(self, "normal_distribution", "erfcx_slope", x)

    @derived(POINTWISE, flops=100, vjp=lambda i, g, x: i.mul(g, normal_density(i, x)))
    def ndtr(self, x: Float) -> Float:
        """Compute the distribution function of the standard normal distribution; small values keep all their digits."""
        return in_float64(self, "normal_distribution", "ndtr" if x.dtype.itemsize > 4 else "rough_ndtr", x)

    @derived(POINTWISE, flops=200, vjp=lambda i, g, x: i.mul(g, i.normal_ratio(x)))
    def log_ndtr(self, x: Float) -> Float:
        """Compute the logarithm of `ndtr`, with its gradient, for numbers of any size."""
        return in_float64(self, "normal_distribution", "log_ndtr", x)

    @derived(POINTWISE, flops=100, vjp=normal_ratio_vjp)
    def normal_ratio(self, x: Float) -> Float:
        """Return the derivative of `log_ndtr`, the density divided by `ndtr`: about -x for negative x, 0 for
        large x.
        """
        return in_float64(self, "normal_distribution", "normal_ratio", x)

    @derived(
        POINTWISE,
        flops=100,
        vjp=lambda i, g, out: i.mul(g, i.mul(i.exp(i.mul(i.mul(out, out), 0.5)), math.sqrt(2 * math.pi))),
    )
    def ndtri(self, x: Float) -> Float:
        """Compute the inverse of `ndtr`, the quantiles of the normal distribution; ∓∞ at 0 and 1, NaN outside.

        Source: Wichura, Algorithm AS 241, 1988.
        """
        return in_float64(self, "normal_distribution", "ndtri", x)

    @derived(POINTWISE, flops=120, vjp=lambda i, g, out: i.div(g, i.normal_ratio(out)))
    def ndtri_exp(self, x: Float) -> Float:
        """Compute `ndtri` of exp(x), the inverse of `log_ndtr`; -∞ at -∞, ∞ at 0, NaN above.

        Source: as for `ndtri`, and below -700 Newton's method with the asymptotic series of `ndtr`.
        """
        return in_float64(self, "normal_distribution", "ndtri_exp", x)
