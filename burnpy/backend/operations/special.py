"""Special functions: error, gamma and zeta functions, the incomplete ones, and the normal distribution.

Most floats are computed in float64, by the formulas of `burnpy.backend.numerics`. Backends without functions of their
own compute the defaults; they are exact to a few roundings.
"""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.dtypes import epsilon
from burnpy.backend.operations import OperationsBase, in_float32, in_float64
from burnpy.backend.operations.pointwise import bell, operand, pair
from burnpy.backend.primitives import Float, Scalar
from burnpy.backend.rules import SHIFTED
from burnpy.backend.schema import POINTWISE, derived


def zeta_slope_y_vjp(i: Any, g: Float, x: Float, y: Float, order: int) -> Float:
    """g · the derivative of -x · ζ(x + 1, y) by x, of an order."""
    above = i.add(x, 1.0)
    lower = i.zeta(above, y) if order == 1 else i.zeta_slope(above, y, order - 1)
    return i.neg(i.mul(g, i.add(i.mul(lower, float(order)), i.mul(x, i.zeta_slope(above, y, order)))))


class SpecialFunctions(OperationsBase):
    """Special functions; 16-bit floats are computed in float32."""

    @derived(
        POINTWISE,
        method=True,
        flops=20,
        vjp=lambda i, g, x: i.mul(g, i.fused(bell, (x,), (-1.0, -2 / math.sqrt(math.pi)))[0]),
    )
    def erfc(self, x: Float) -> Float:
        """Compute the complementary error function, 1 - erf(x). Small values keep all their digits.

        Source: Cody, Rational Chebyshev Approximation for the Error Function, 1969.

        >>> f"{Tensor[NumPy].from_data(9.0).erfc().item():.6g}"
        '4.13703e-37'
        """
        from burnpy.backend.numerics.error_functions import erfc

        return in_float32(self, erfc, x)

    @derived(
        POINTWISE,
        method=True,
        flops=20,
        vjp=lambda i, g, out: i.mul(g, i.mul(i.exp(i.mul(out, out)), math.sqrt(math.pi) / 2)),
    )
    def erfinv(self, x: Float) -> Float:
        """Compute the inverse of the error function; ±inf at ±1, NaN beyond.

        Source: Wichura, Algorithm AS 241, 1988.
        """
        from burnpy.backend.numerics.error_functions import erfinv

        return in_float32(self, erfinv, x)

    @derived(POINTWISE, method=True, flops=50, vjp=lambda i, g, x: i.mul(g, i.digamma(x)))
    def lgamma(self, x: Float) -> Float:
        """Compute the logarithm of the absolute value of the gamma function; inf at 0 and at negative integers.

        Source: Abramowitz and Stegun, Handbook of Mathematical Functions, chapter 6.

        >>> round(Tensor[NumPy].from_data(5.0).lgamma().exp().item(), 4)
        24.0
        """
        from burnpy.backend.numerics.special import lgamma

        return in_float32(self, lgamma, x)

    @derived(POINTWISE, method=True, flops=50, vjp=lambda i, g, x: i.mul(g, i.polygamma(x, 1)))
    def digamma(self, x: Float) -> Float:
        """Compute the derivative of `lgamma`; NaN at negative integers, -inf at 0 and inf at -0."""
        from burnpy.backend.numerics.special import digamma

        return in_float32(self, digamma, x)

    @derived(POINTWISE, flops=150, vjp=lambda i, g, x, n: i.mul(g, i.polygamma(x, n + 1)))
    def polygamma(self, x: Float, n: int) -> Float:
        """Return the n-th derivative of `digamma`, for n >= 1; infinite at 0 and at negative integers."""
        from burnpy.backend.numerics.special import polygamma

        return (in_float32 if n < 8 else in_float64)(self, polygamma, x, n)  # for the range of n!

    @derived(
        POINTWISE,
        flops=2000,
        vjp=(
            lambda i, g, x, y: i.mul(g, i.zeta_slope(x, operand(i, x, y), 1)),
            lambda i, g, x, y: i.neg(i.mul(g, i.mul(x, i.zeta(i.add(x, 1.0), y)))),
        ),
    )
    def zeta(self, x: Float, y: Float | Scalar) -> Float:
        """Compute Hurwitz' zeta function, the sum of (y + k)⁻ˣ over k from 0 on; Riemann's for y = 1.

        It is infinite at x = 1, and where ``y`` is 0 or a negative integer, and NaN for x < 1. For other negative
        ``y``, x must be an integer.

        Source: DLMF, 25.11, and Moshier, Cephes Mathematical Library, zeta.c.
        """
        from burnpy.backend.numerics.special import zeta

        x, y = pair(self, x, y)
        return in_float64(self, zeta, x, y, x.dtype.itemsize <= 4)

    @derived(
        POINTWISE, flops=1000, vjp=(lambda i, g, x, y, order: i.mul(g, i.zeta_slope(x, y, order + 1)), zeta_slope_y_vjp)
    )
    def zeta_slope(self, x: Float, y: Float, order: int) -> Float:
        """Return the derivative of an order, from 1 on, of `zeta` with respect to x, for x > 1 and y > 0; else NaN."""
        from burnpy.backend.numerics.special import zeta_slope

        return in_float64(self, zeta_slope, *self.promote(x, y), order)

    @derived(POINTWISE, method=True, flops=6, vjp=lambda i, g, x: i.sinc_backward(g, x, 1))
    def sinc(self, x: Float) -> Float:
        """Compute the normalized sinc, sin(πx) / (πx); 1 at 0, where its derivatives of all orders are exact."""
        from burnpy.backend.numerics.special import sinc

        return in_float32(self, sinc, x)

    @derived(
        POINTWISE,
        elementwise=(),
        like="x",
        flops=50,
        vjp=(
            lambda i, g, x, order: i.sinc_backward(g, x, order),
            lambda i, g, grad, x, order: i.sinc_backward(i.mul(g, grad), x, order + 1),
        ),
        batch=SHIFTED,
    )
    def sinc_backward(self, grad: Float, x: Float, order: int) -> Float:
        """Gradient of `sinc` and its derivatives: grad times the derivative of sinc of ``order``, from 1."""
        from burnpy.backend.numerics.special import sinc_derivative

        return self.mul(grad, in_float32(self, sinc_derivative, x, order))


def igamma_x_vjp(i: Any, g: Float, x: Float, y: Any) -> Float:
    """g · ∂P(x, y) / ∂x, computed by the derivatives of series and fractions."""
    return i.mul(g, i.igamma_slope(x, operand(i, x, y), 1))


def igamma_y_vjp(i: Any, g: Float, x: Float, y: Float) -> Float:
    """g · yˣ⁻¹ e⁻ʸ / Γ(x)."""
    return i.mul(g, i.igamma_density(x, y))


def slope_y_vjp(i: Any, g: Float, x: Float, y: Float, order: int) -> Float:
    """g · the derivative of an order of the density with respect to x: it times a complete Bell polynomial."""
    density = i.igamma_density(x, y)
    rates = [i.sub(i.log(y), i.digamma(x)), *(i.neg(i.polygamma(x, k)) for k in range(1, order))]
    bell = [i.full(density.shape, 1.0, density.dtype)]
    for n in range(order):
        total = i.mul(bell[n], rates[0])
        for k in range(1, n + 1):
            total = i.add(total, i.mul(i.mul(bell[n - k], rates[k]), float(math.comb(n, k))))
        bell.append(total)
    return i.mul(g, i.where(i.ne(density, 0.0), i.mul(density, bell[order]), 0.0))


def density_y_vjp(i: Any, g: Float, x: Float, y: Float) -> Float:
    """g · density · ((x - 1) / y - 1); at y = 0 the limit, a difference of densities."""
    density, shape, origin = i.igamma_density(x, y), i.add(x, -1.0), i.eq(y, 0.0)
    rate = i.add(i.div(shape, i.where(origin, i.full((), 1.0, y.dtype), y)), -1.0)
    inside = i.where(i.ne(density, 0.0), i.mul(density, rate), 0.0)
    limit = i.sub(i.igamma_density(i.clamp(shape, 0.0, None), y), density)
    return i.mul(g, i.where(origin, limit, inside))


class IncompleteGamma(OperationsBase):
    """The incomplete gamma functions and their derivatives; all floats are computed in float64."""

    @derived(POINTWISE, method=True, flops=1500, vjp=(igamma_x_vjp, igamma_y_vjp))
    def igamma(self, x: Float, y: Float | Scalar) -> Float:
        """Compute P(x, y), the regularized lower incomplete gamma function.

        It is the integral of tˣ⁻¹ e⁻ᵗ / Γ(x) from 0 to ``y``: the distribution function of gamma numbers of shape
        x. A negative operand gives NaN. It is differentiable in both operands; PyTorch's only in ``y``.

        Source: Temme, The Asymptotic Expansion of the Incomplete Gamma Functions, 1979, and DLMF, chapter 8.

        >>> x = Tensor[NumPy].from_data([1.0, 2.0])
        >>> [round(p, 4) for p in x.igamma(1.0).tolist()]
        [0.6321, 0.2642]
        """
        from burnpy.backend.numerics.incomplete import incomplete_gamma

        x, y = pair(self, x, y)
        return in_float64(self, incomplete_gamma, x, y, False, x.dtype.itemsize <= 4)

    @derived(
        POINTWISE,
        method=True,
        flops=1500,
        vjp=(lambda i, g, x, y: i.neg(igamma_x_vjp(i, g, x, y)), lambda i, g, x, y: i.neg(igamma_y_vjp(i, g, x, y))),
    )
    def igammac(self, x: Float, y: Float | Scalar) -> Float:
        """Compute 1 - P(x, y), the regularized upper incomplete gamma function, whose small values keep all digits.

        The operands are those of `igamma`.

        >>> f"{Tensor[NumPy].from_data(2.0).igammac(50.0).item():.6g}"
        '9.83662e-21'
        """
        from burnpy.backend.numerics.incomplete import incomplete_gamma

        x, y = pair(self, x, y)
        return in_float64(self, incomplete_gamma, x, y, True, x.dtype.itemsize <= 4)

    @derived(POINTWISE, flops=700, vjp=(lambda i, g, x, y: slope_y_vjp(i, g, x, y, 1), density_y_vjp))
    def igamma_density(self, x: Float, y: Float) -> Float:
        """Return the derivative of `igamma` with respect to y: yˣ⁻¹ e⁻ʸ / Γ(x); 0 at x = 0."""
        from burnpy.backend.numerics.incomplete import gamma_density

        return in_float64(self, gamma_density, *self.promote(x, y))

    @derived(
        POINTWISE, flops=4500, vjp=(lambda i, g, x, y, order: i.mul(g, i.igamma_slope(x, y, order + 1)), slope_y_vjp)
    )
    def igamma_slope(self, x: Float, y: Float, order: int) -> Float:
        """Return the derivative of an order, from 1 on, of `igamma` with respect to x; at x = 0 from the right."""
        from burnpy.backend.numerics.incomplete import gamma_slope

        return in_float64(self, gamma_slope, *self.promote(x, y), order)


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
    logit = i.sub(i.log(y), i.log1p(i.neg(y)))
    slope = i.beta_quantile_slope(i.neg(logit) if mirrored else logit, first, second)
    density = i.mul(i.betainc_density(y, a, b), i.mul(y, i.add(i.neg(y), 1.0)))
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
    rate = i.add(i.sub(i.log1p(i.neg(y)) if mirrored else i.log(y), i.digamma(parameter)), i.digamma(i.add(a, b)))
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
        from burnpy.backend.numerics.incomplete_beta import incomplete_beta

        return in_float64(self, incomplete_beta, *self.promote(x, a, b))

    @derived(POINTWISE, flops=500, vjp=(density_x_vjp, density_a_vjp, density_b_vjp))
    def betainc_density(self, x: Float, a: Float, b: Float) -> Float:
        """Return the derivative of `betainc` with respect to x: xᵃ⁻¹ (1 - x)ᵇ⁻¹ / B(a, b); 0 outside [0, 1]."""
        from burnpy.backend.numerics.incomplete_beta import beta_density

        return in_float64(self, beta_density, *self.promote(x, a, b))


def normal_ratio_vjp(i: Any, g: Float, x: Float, out: Float) -> Float:
    """-g · out · (x + out). The sum cancels for negative x; erfcx and its derivative, then a series, replace it."""
    far = -2.0 * epsilon(x.dtype) ** -0.5  # where the series is exact; below it the derivative of erfcx underflows
    scaled = i.mul(i.clamp(x, far, 0.0), -math.sqrt(0.5))
    rate = i.mul(i.div(i.erfcx_slope(scaled, 1), i.erfcx(scaled)), math.sqrt(0.5))
    rate = i.where(i.lt(x, 0.0), rate, i.neg(i.add(x, out)))
    series = i.add(i.reciprocal(i.square(i.clamp(x, None, far))), -1.0)
    return i.mul(g, i.where(i.lt(x, far), series, i.where(i.ne(out, 0.0), i.mul(out, rate), 0.0)))


class NormalDistribution(OperationsBase):
    """Functions of the normal distribution; all floats are computed in float64."""

    @derived(POINTWISE, flops=100, vjp=lambda i, g, x: i.mul(g, i.erfcx_slope(x, 1)))
    def erfcx(self, x: Float) -> Float:
        """Compute exp(x²) · erfc(x), which does not underflow for large x.

        Source: Cody, Rational Chebyshev Approximation for the Error Function, 1969.
        """
        from burnpy.backend.numerics.error_functions import erfcx

        return in_float64(self, erfcx, x)

    @derived(POINTWISE, flops=120, vjp=lambda i, g, x, order: i.mul(g, i.erfcx_slope(x, order + 1)))
    def erfcx_slope(self, x: Float, order: int) -> Float:
        """Return a derivative of `erfcx`; the first is 2x · erfcx(x) - 2 / √π. Large x cause no cancellation."""
        from burnpy.backend.numerics.error_functions import erfcx_slope

        return in_float64(self, erfcx_slope, x, order)

    @derived(
        POINTWISE, flops=100, vjp=lambda i, g, x: i.mul(g, i.fused(bell, (x,), (-0.5, 1 / math.sqrt(2 * math.pi)))[0])
    )
    def ndtr(self, x: Float) -> Float:
        """Compute the distribution function of the standard normal distribution; small values keep all their digits."""
        from burnpy.backend.numerics.error_functions import ndtr, rough_ndtr

        return in_float64(self, ndtr if x.dtype.itemsize > 4 else rough_ndtr, x)

    @derived(POINTWISE, flops=200, vjp=lambda i, g, x: i.mul(g, i.normal_ratio(x)))
    def log_ndtr(self, x: Float) -> Float:
        """Compute the logarithm of `ndtr`, with its gradient, for numbers of any size."""
        from burnpy.backend.numerics.error_functions import log_ndtr

        return in_float64(self, log_ndtr, x)

    @derived(POINTWISE, flops=100, vjp=normal_ratio_vjp)
    def normal_ratio(self, x: Float) -> Float:
        """Return the derivative of `log_ndtr`, the density over `ndtr`: about -x for negative x, 0 for large x."""
        from burnpy.backend.numerics.error_functions import normal_ratio

        return in_float64(self, normal_ratio, x)

    @derived(
        POINTWISE,
        flops=100,
        vjp=lambda i, g, out: i.mul(g, i.mul(i.exp(i.mul(i.mul(out, out), 0.5)), math.sqrt(2 * math.pi))),
    )
    def ndtri(self, x: Float) -> Float:
        """Compute the inverse of `ndtr`, the quantiles of the normal distribution; ∓∞ at 0 and 1, NaN outside.

        Source: Wichura, Algorithm AS 241, 1988.
        """
        from burnpy.backend.numerics.error_functions import ndtri

        return in_float64(self, ndtri, x)

    @derived(POINTWISE, flops=120, vjp=lambda i, g, out: i.div(g, i.normal_ratio(out)))
    def ndtri_exp(self, x: Float) -> Float:
        """Compute `ndtri` of exp(x), the inverse of `log_ndtr`; -∞ at -∞, ∞ at 0, NaN above.

        Source: as for `ndtri`, and below -700 Newton's method with the asymptotic series of `ndtr`.
        """
        from burnpy.backend.numerics.error_functions import ndtri_exp

        return in_float64(self, ndtri_exp, x)
