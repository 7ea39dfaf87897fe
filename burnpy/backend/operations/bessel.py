"""Modified Bessel functions, and the quotients of them and powers that have derivatives of all orders."""

from __future__ import annotations

from typing import Any

from burnpy.backend.operations import OperationsBase, in_float32, in_float64
from burnpy.backend.operations.programs import Formula
from burnpy.backend.primitives import Float
from burnpy.backend.schema import POINTWISE, derived


def i0e_vjp(i: Any, g: Float, x: Float) -> Float:
    """g · sign(x) · (|I₁| - I₀) e^-|x|, a difference that is computed without cancellation."""
    return i.mul(g, i.mul(i.sign(x), in_float64(i, _at_once, x, _difference)))


def _at_once(b: Any, x: Float, formula: Formula) -> Float:
    return b.fused(formula, (x,))[0]


def _difference(b: Any, x: Float) -> tuple[Float]:
    from burnpy.backend.numerics.special import scaled_difference

    return (scaled_difference(b, x),)


def i1_vjp(i: Any, g: Float, x: Float) -> Float:
    """g · (I₁ / x + I₂), which is infinite where I₀ - I₁ / x would be ∞ - ∞."""
    return i.mul(g, i.add(i.bessel_ratio(x, 1, False), i.mul(i.square(x), i.bessel_ratio(x, 2, False))))


def _falling(b: Any, x: Float) -> tuple[Float]:
    """Return -i1e'(x) = -(I₀ - |I₁| - I₁ / x) e^-|x|; -½ at 0. For large x the terms nearly cancel."""
    from burnpy.backend.numerics.special import bessel_ratio, scaled_difference

    return (b.add(scaled_difference(b, x), bessel_ratio(b, x, 1, True)),)


def ratio_vjp(i: Any, g: Float, x: Float, out: Float, order: int, scaled: bool) -> Float:
    """g · Iₙ₊₁(x) / xⁿ, and if it is scaled, the derivative of the factor times out."""
    ratio = i.bessel_ratio(x, order + 1, scaled)
    slope = i.where(i.ne(ratio, 0.0), i.mul(x, ratio), 0.0)  # ∞ · 0 would be NaN
    return i.mul(g, i.sub(slope, i.mul(i.sign(x), out)) if scaled else slope)


class Bessel(OperationsBase):
    """Modified Bessel functions; all floats are computed in float64."""

    @derived(POINTWISE, method=True, flops=150, vjp=lambda i, g, x: i.mul(g, i.i1(x)))
    def i0(self, x: Float) -> Float:
        """Compute I₀(x), the modified Bessel function of the first kind of order 0.

        >>> round(Tensor[NumPy].from_data(1.0).i0().item(), 4)
        1.2661
        """
        return self.bessel_ratio(x, 0, False)

    @derived(POINTWISE, flops=150, vjp=i0e_vjp)
    def i0e(self, x: Float) -> Float:
        """Compute e^-|x| I₀(x), which is finite everywhere. The gradient at 0 is 0."""
        return self.bessel_ratio(x, 0, True)

    @derived(POINTWISE, flops=150, vjp=i1_vjp)
    def i1(self, x: Float) -> Float:
        """Compute I₁(x), the modified Bessel function of the first kind of order 1."""
        from burnpy.backend.numerics.special import bessel_one

        return in_float64(self, bessel_one, x, False)

    @derived(POINTWISE, flops=150, vjp=lambda i, g, x: i.neg(i.mul(g, in_float64(i, _at_once, x, _falling))))
    def i1e(self, x: Float) -> Float:
        """Compute e^-|x| I₁(x), which is finite everywhere. The gradient at 0 is ½."""
        from burnpy.backend.numerics.special import bessel_one, scaled_bessel_one_single

        wide = x.dtype.itemsize > 4
        return in_float64(self, bessel_one, x, True) if wide else in_float32(self, scaled_bessel_one_single, x)

    @derived(POINTWISE, flops=150, vjp=ratio_vjp)
    def bessel_ratio(self, x: Float, order: int, scaled: bool) -> Float:
        """Compute Iₙ(x) / xⁿ of an order n from 0 on, times e^-|x| if ``scaled``; at 0 it is 1 / (2ⁿ n!)."""
        from burnpy.backend.numerics.special import bessel_ratio

        return in_float64(self, bessel_ratio, x, order, scaled)
