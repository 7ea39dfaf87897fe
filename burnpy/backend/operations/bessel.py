"""Modified Bessel functions of the first kind of orders 0 and 1, also scaled by e^-|x|."""

from __future__ import annotations

from typing import Any

from burnpy.backend.operations import OperationsBase, in_float32, in_float64
from burnpy.backend.primitives import Float
from burnpy.backend.schema import POINTWISE, derived


def i0e_vjp(i: Any, g: Float, x: Float) -> Float:
    """g · sign(x) · (|I₁| - I₀) e^-|x|, a difference that is computed without cancellation."""
    return i.mul(g, i.mul(i.sign(x), in_float64(i, "bessel", "scaled_difference", x)))


def i1e_vjp(i: Any, g: Float, x: Float) -> Float:
    """g · (I₀ - |I₁| - I₁ / x) e^-|x|; ½ at 0."""
    return i.neg(i.mul(g, i.add(in_float64(i, "bessel", "scaled_difference", x), i.bessel_ratio(x, 1, True))))


def ratio_vjp(i: Any, g: Float, x: Float, out: Float, order: int, scaled: bool) -> Float:
    """g · Iₙ₊₁(x) / xⁿ, and if it is scaled, the derivative of the factor times out."""
    slope = i.mul(x, i.bessel_ratio(x, order + 1, scaled))
    slope = i.sub(slope, i.mul(i.sign(x), out)) if scaled else slope
    return i.mul(g, slope)


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

    @derived(POINTWISE, flops=150, vjp=lambda i, g, x: i.mul(g, i.sub(i.i0(x), i.bessel_ratio(x, 1, False))))
    def i1(self, x: Float) -> Float:
        """Compute I₁(x), the modified Bessel function of the first kind of order 1."""
        return in_float64(self, "bessel", "bessel_one", x, False)

    @derived(POINTWISE, flops=150, vjp=i1e_vjp)
    def i1e(self, x: Float) -> Float:
        """Compute e^-|x| I₁(x), which is finite everywhere. The gradient at 0 is ½."""
        if x.dtype.itemsize > 4:
            return in_float64(self, "bessel", "bessel_one", x, True)
        return in_float32(self, "bessel", "scaled_bessel_one_single", x)

    @derived(POINTWISE, flops=150, vjp=ratio_vjp)
    def bessel_ratio(self, x: Float, order: int, scaled: bool) -> Float:
        """Compute Iₙ(x) / xⁿ of an order n from 0 on, times e^-|x| if ``scaled``; at 0 it is 1 / (2ⁿ n!)."""
        return in_float64(self, "bessel", "bessel_ratio", x, order, scaled)
