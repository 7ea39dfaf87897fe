"""The regularized incomplete gamma functions, with derivatives by both arguments.

The default computes all numbers by the same steps in float64, and so does the kernel that is traced from it.
"""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.operations import OperationsBase, in_float64
from burnpy.backend.operations.binary import operand, pair
from burnpy.backend.primitives import Float, Scalar
from burnpy.backend.schema import POINTWISE, derived


def igamma_x_vjp(i: Any, g: Float, x: Float, y: Any) -> Float:
    """g · ∂P(x, y) / ∂x, computed by the derivatives of series and fractions."""
    return i.mul(g, i.igamma_slope(x, operand(i, x, y), 1))


def igamma_y_vjp(i: Any, g: Float, x: Float, y: Float) -> Float:
    """g · yˣ⁻¹ e⁻ʸ / Γ(x)."""
    return i.mul(g, i.igamma_density(x, y))


def slope_y_vjp(i: Any, g: Float, x: Float, y: Float, order: int) -> Float:
    """g · the derivative of the density by x of an order: the density times a complete Bell polynomial."""
    density = i.igamma_density(x, y)
    rates = [i.sub(i.log(y), i.digamma(x)), *(i.neg(i.polygamma(x, k)) for k in range(1, order))]
    bell = [i.full(density.shape, 1.0, density.dtype)]
    for n in range(order):
        total = i.mul(bell[n], rates[0])
        for k in range(1, n + 1):
            total = i.add(total, i.mul(i.mul(bell[n - k], rates[k]), float(math.comb(n, k))))
        bell.append(total)
    slope = i.where(i.ne(density, 0.0), i.mul(density, bell[order]), 0.0)
    return i.mul(g, slope)


def density_y_vjp(i: Any, g: Float, x: Float, y: Float) -> Float:
    """g · density · ((x - 1) / y - 1); at y = 0 the limit, a difference of densities."""
    density, shape = i.igamma_density(x, y), i.add(x, -1.0)
    origin = i.eq(y, 0.0)
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
        x. A negative operand gives NaN. It has derivatives by both operands, PyTorch's by ``y`` only.

        Source: Temme, The Asymptotic Expansion of the Incomplete Gamma Functions, 1979, and DLMF, chapter 8.

        >>> x = Tensor[NumPy].from_data([1.0, 2.0])
        >>> [round(p, 4) for p in x.igamma(1.0).tolist()]
        [0.6321, 0.2642]
        """
        x, y = pair(self, x, y)
        return in_float64(self, "incomplete_gamma", "incomplete_gamma", x, y, False, x.dtype.itemsize <= 4)

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
        x, y = pair(self, x, y)
        return in_float64(self, "incomplete_gamma", "incomplete_gamma", x, y, True, x.dtype.itemsize <= 4)

    @derived(POINTWISE, flops=700, vjp=(lambda i, g, x, y: slope_y_vjp(i, g, x, y, 1), density_y_vjp))
    def igamma_density(self, x: Float, y: Float) -> Float:
        """Return the derivative of `igamma` by y: yˣ⁻¹ e⁻ʸ / Γ(x); 0 at x = 0."""
        return in_float64(self, "incomplete_gamma", "gamma_density", *self.promote(x, y))

    @derived(
        POINTWISE, flops=4500, vjp=(lambda i, g, x, y, order: i.mul(g, i.igamma_slope(x, y, order + 1)), slope_y_vjp)
    )
    def igamma_slope(self, x: Float, y: Float, order: int) -> Float:
        """Return the derivative of `igamma` by x of an order, from 1 on; at x = 0 that from the right."""
        return in_float64(self, "incomplete_gamma", "gamma_slope", *self.promote(x, y), order)
