"""Elementary functions: trigonometric, hyperbolic and logarithmic ones, and their inverses.

The defaults are composed of other operations; array libraries have functions of their own.
"""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.operations import OperationsBase, by_formula
from burnpy.backend.operations.pointwise import one_minus, zero_vjp
from burnpy.backend.primitives import Float
from burnpy.backend.schema import POINTWISE, derived


def asin_vjp(i: Any, g: Float, x: Float) -> Float:
    """g / √(1 - x²), infinite at ±1."""
    return i.div(g, i.sqrt(i.mul(one_minus(i, x), i.add(x, 1.0))))


class Elementary(OperationsBase):
    """Elementary functions of one argument that few backends must write."""

    @derived(POINTWISE, method=True, flops=3, vjp=lambda i, g, out: i.mul(g, i.add(i.mul(out, out), 1.0)), onnx="Tan")
    def tan(self, x: Float) -> Float:
        """Compute the tangent of x radians."""
        return self.div(self.sin(x), self.cos(x))

    @derived(POINTWISE, method=True, flops=3, vjp=asin_vjp, onnx="Asin")
    def asin(self, x: Float) -> Float:
        """Compute the inverse sine in radians, from -π/2 to π/2; NaN outside of [-1, 1]. The gradient at ±1 is inf."""
        return self.atan(self.div(x, self.sqrt(_one_minus_square(self, x))))

    @derived(POINTWISE, method=True, flops=3, vjp=lambda i, g, x: i.neg(asin_vjp(i, g, x)), onnx="Acos")
    def acos(self, x: Float) -> Float:
        """Compute the inverse cosine in radians, from 0 to π; NaN outside of [-1, 1]. The gradient at ±1 is -inf."""
        ratio = self.div(self.add(self.neg(x), 1.0), self.add(x, 1.0))
        return self.mul(self.atan(self.sqrt(ratio)), 2.0)

    @derived(POINTWISE, method=True, flops=3, vjp=lambda i, g, x: i.div(g, i.add(i.mul(x, x), 1.0)), onnx="Atan")
    def atan(self, x: Float) -> Float:
        """Compute the inverse tangent in radians, from -π/2 to π/2."""
        return by_formula(self, "approximations", "atan", x)

    @derived(POINTWISE, method=True, flops=3, vjp=lambda i, g, x: i.mul(g, i.cosh(x)), onnx="Sinh")
    def sinh(self, x: Float) -> Float:
        """Compute the hyperbolic sine."""
        near = self.mul(self.sub(self.expm1(x), self.expm1(self.neg(x))), 0.5)
        size = self.abs(x)
        return self.where(self.gt(size, _FAR), self.copysign(_half_exp(self, size), x), near)

    @derived(POINTWISE, method=True, flops=3, vjp=lambda i, g, x: i.mul(g, i.sinh(x)), onnx="Cosh")
    def cosh(self, x: Float) -> Float:
        """Compute the hyperbolic cosine."""
        near, size = self.mul(self.add(self.exp(x), self.exp(self.neg(x))), 0.5), self.abs(x)
        return self.where(self.gt(size, _FAR), _half_exp(self, size), near)

    @derived(POINTWISE, method=True, flops=3, vjp=lambda i, g, x: i.div(g, i.hypot(x, 1.0)))
    def asinh(self, x: Float) -> Float:
        """Compute the inverse hyperbolic sine, without overflow."""
        size = self.abs(x)
        inverse = self.reciprocal(size)
        root = self.sqrt(self.add(self.mul(inverse, inverse), 1.0))
        sums = self.add(size, self.div(size, self.add(inverse, root)))
        return self.copysign(_log_of_double(self, size, sums), x)  # sign(x) · log1p(a + a² / (1 + √(1 + a²))), a = |x|

    @derived(
        POINTWISE,
        method=True,
        flops=3,
        vjp=lambda i, g, x: i.div(i.div(g, i.sqrt(i.add(x, -1.0))), i.sqrt(i.add(x, 1.0))),
    )
    def acosh(self, x: Float) -> Float:
        """Compute the inverse hyperbolic cosine, which is not negative; NaN below 1. The gradient at 1 is inf."""
        t = self.add(x, -1.0)  # log1p(t + √t · √(t + 2))
        return _log_of_double(self, t, self.add(t, self.mul(self.sqrt(t), self.sqrt(self.add(t, 2.0)))))

    @derived(POINTWISE, method=True, flops=3, vjp=lambda i, g, x: i.div(i.div(g, one_minus(i, x)), i.add(x, 1.0)))
    def atanh(self, x: Float) -> Float:
        """Compute the inverse hyperbolic tangent; ±inf at ±1, NaN beyond."""
        size = self.abs(x)
        ratio = self.div(self.mul(size, 2.0), self.add(self.neg(size), 1.0))
        return self.copysign(self.mul(self.log1p(ratio), 0.5), x)  # log1p(2x / (1 - x)) / 2

    @derived(POINTWISE, method=True, flops=3, vjp=lambda i, g, out: i.mul(g, i.mul(out, math.log(2.0))))
    def exp2(self, x: Float) -> Float:
        """Compute the power of two, 2ˣ."""
        return self.pow(self.full((), 2.0, x.dtype), x)

    @derived(POINTWISE, method=True, flops=3, vjp=lambda i, g, x: i.div(g, i.mul(x, math.log(2.0))))
    def log2(self, x: Float) -> Float:
        """Compute the logarithm to base 2; -inf at 0, NaN below.

        >>> Tensor[NumPy].from_data([1.0, 8.0]).log2().tolist()
        [0.0, 3.0]
        """
        return self.div(self.log(x), math.log(2.0))

    @derived(POINTWISE, method=True, flops=3, vjp=lambda i, g, x: i.div(g, i.mul(x, math.log(10.0))))
    def log10(self, x: Float) -> Float:
        """Compute the logarithm to base 10; -inf at 0, NaN below."""
        return self.div(self.log(x), math.log(10.0))

    @derived(POINTWISE, method=True, vjp=zero_vjp)
    def trunc(self, x: Float) -> Float:
        """Round toward 0. The gradient is 0.

        >>> x = Tensor[NumPy].from_data([1.75, -1.75])
        >>> x.trunc().tolist(), x.frac().tolist()
        ([1.0, -1.0], [0.75, -0.75])
        """
        return self.where(self.lt(x, 0.0), self.ceil(x), self.floor(x))


_FAR, _HUGE = 80.0, 1e10


def _half_exp(b: Elementary, x: Float) -> Float:
    """Return exp(x) / 2, which is finite for some x whose exp is not."""
    root = b.exp(b.mul(x, 0.5))
    return b.mul(b.mul(root, 0.5), root)


def _log_of_double(b: Elementary, x: Float, double: Float) -> Float:
    """Return log1p(double), which is about twice x where x is huge, and may be infinite there."""
    huge = b.gt(x, _HUGE)
    return b.add(b.log1p(b.where(huge, x, double)), b.where(huge, b.full((), math.log(2.0), x.dtype), 0.0))


def _one_minus_square(b: Elementary, x: Float) -> Float:
    """Return 1 - x², accurate near ±1."""
    return b.mul(b.add(b.neg(x), 1.0), b.add(x, 1.0))
