"""Special functions: the complement and inverse of the error function, gamma and zeta functions, entropy, sinc.

NumPy has none of them, so it computes the defaults; they are exact to a few roundings.
"""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.operations import OperationsBase, in_float32, in_float64
from burnpy.backend.operations.binary import operand, pair
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
        vjp=lambda i, g, x: i.mul(g, i.mul(i.exp(i.neg(i.mul(x, x))), -2 / math.sqrt(math.pi))),
    )
    def erfc(self, x: Float) -> Float:
        """Compute the complementary error function, 1 - erf(x). Small values keep all their digits.

        Source: Cody, Rational Chebyshev Approximation for the Error Function, 1969.

        >>> f"{Tensor[NumPy].from_data(9.0).erfc().item():.6g}"
        '4.13703e-37'
        """
        return in_float32(self, "approximations", "erfc", x)

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
        return in_float32(self, "approximations", "erfinv", x)

    @derived(POINTWISE, method=True, flops=50, vjp=lambda i, g, x: i.mul(g, i.digamma(x)))
    def lgamma(self, x: Float) -> Float:
        """Compute the logarithm of the absolute value of the gamma function; inf at 0 and at negative integers.

        Source: Abramowitz and Stegun, Handbook of Mathematical Functions, chapter 6.

        >>> round(Tensor[NumPy].from_data(5.0).lgamma().exp().item(), 4)
        24.0
        """
        return in_float32(self, "approximations", "lgamma", x)

    @derived(POINTWISE, method=True, flops=50, vjp=lambda i, g, x: i.mul(g, i.polygamma(x, 1)))
    def digamma(self, x: Float) -> Float:
        """Compute the derivative of `lgamma`; NaN at negative integers, -inf at 0 and inf at -0."""
        return in_float32(self, "approximations", "digamma", x)

    @derived(POINTWISE, flops=150, vjp=lambda i, g, x, n: i.mul(g, i.polygamma(x, n + 1)))
    def polygamma(self, x: Float, n: int) -> Float:
        """Return the n-th derivative of `digamma`, for n >= 1; infinite at 0 and at negative integers."""
        return in_float32(self, "approximations", "polygamma", x, n)

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
        x, y = pair(self, x, y)
        return in_float64(self, "zeta", "zeta", x, y, x.dtype.itemsize <= 4)

    @derived(
        POINTWISE, flops=1000, vjp=(lambda i, g, x, y, order: i.mul(g, i.zeta_slope(x, y, order + 1)), zeta_slope_y_vjp)
    )
    def zeta_slope(self, x: Float, y: Float, order: int) -> Float:
        """Return the derivative of `zeta` by x of an order, from 1 on, for x > 1 and y > 0; else NaN."""
        return in_float64(self, "zeta", "zeta_slope", *self.promote(x, y), order)

    @derived(POINTWISE, flops=4, vjp=lambda i, g, x: i.mul(g, i.add(i.neg(i.log(x)), -1.0)))
    def entr(self, x: Float) -> Float:
        """Compute the entropy -x · log(x), which is 0 at 0 and -∞ for negative x. The gradient at 0 is inf."""
        positive = self.gt(x, 0.0)
        value = self.neg(self.mul(x, self.log(self.where(positive, x, self.full((), 1.0, x.dtype)))))
        value = self.add(value, 0.0)  # no -0.0
        return self.where(self.lt(x, 0.0), self.full((), -math.inf, x.dtype), value)

    @derived(POINTWISE, method=True, flops=6, vjp=lambda i, g, x: i.sinc_backward(g, x, 1))
    def sinc(self, x: Float) -> Float:
        """Compute the normalized sinc, sin(πx) / (πx); 1 at 0, where its derivatives of all orders are exact."""
        return in_float32(self, "sinc", "sinc", x)

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
        """Gradient of `sinc` and of its derivatives: grad times the derivative of sinc of this order, from 1."""
        return self.mul(grad, in_float32(self, "sinc", "sinc_derivative", x, order))
