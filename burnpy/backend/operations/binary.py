"""Elementwise functions of two arguments: angles and lengths, remainders, and arithmetic of logarithms.

The defaults are composed of other operations; array libraries have functions of their own.
"""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.dtypes import kind_of
from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import Bool, Float, Number, Scalar
from burnpy.backend.schema import Algebra, derived

POINTWISE, NONE = Algebra.POINTWISE, Algebra.NONDIFFERENTIABLE


class Binary(OperationsBase):
    """Elementwise functions of two arguments."""

    @derived(POINTWISE, flops=6)
    def atan2(self, x: Float, y: Float | Scalar) -> Float:
        """Angle of the point (y, x) in radians, from -π to π: x is the ordinate, y the abscissa.

        The gradient at (0, 0) is 0.
        """
        x, y = _pair(self, x, y)
        width, height = self.abs(y), self.abs(x)
        least, most = self.minimum(width, height), self.maximum(width, height)
        same = self.eq(width, height)  # 1 for two infinities
        ratio = self.div(least, self.where(self.eq(most, 0.0), self.add(most, 1.0), most))
        ratio = self.where(self.discrete.bitwise_and(same, self.ne(most, 0.0)), self.full((), 1.0, x.dtype), ratio)
        angle = self.atan(ratio)
        angle = self.where(self.gt(height, width), self.add(self.neg(angle), math.pi / 2), angle)
        angle = self.where(self.signbit(y), self.add(self.neg(angle), math.pi), angle)
        return self.copysign(angle, x)

    @derived(POINTWISE, flops=4)
    def hypot(self, x: Float, y: Float | Scalar) -> Float:
        """Length of the vector (x, y), √(x² + y²), without overflow; infinite where either is, even beside a NaN.

        The gradient at (0, 0) is 0, as are all higher derivatives.
        """
        x, y = _pair(self, x, y)
        width, height = self.abs(x), self.abs(y)
        least, most = self.minimum(width, height), self.maximum(width, height)
        ratio = self.div(least, self.where(self.eq(most, 0.0), self.add(most, 1.0), most))
        length = self.mul(most, self.sqrt(self.add(self.mul(ratio, ratio), 1.0)))
        infinite = self.discrete.bitwise_or(self.isinf(x), self.isinf(y))
        return self.where(infinite, self.full((), math.inf, x.dtype), length)

    @derived(POINTWISE)
    def copysign(self, x: Float, y: Float | Scalar) -> Float:
        """Magnitude of x with the sign of y, signed zeros included. The gradient is 0 at x = 0, and by y."""
        x, y = _pair(self, x, y)
        size = self.abs(x)
        return self.where(self.signbit(y), self.neg(size), size)

    @derived(NONE, elementwise=True)
    def signbit(self, x: Number) -> Bool:
        """Test elementwise for a negative sign, which -0.0 has too; of a NaN the result is not specified."""
        if kind_of(x.dtype) == "int":
            return self.lt(x, 0)
        return self.lt(self.where(self.eq(x, 0.0), self.reciprocal(x), x), 0.0)

    @derived(POINTWISE, flops=100)
    def fmod(self, x: Number, y: Number | Scalar) -> Number:
        """Remainder of division rounded toward 0, with the sign of x, as C's ``fmod``; of ints by 0 an error."""
        size = self.remainder(self.abs(x), abs(y) if isinstance(y, (int, float)) else self.abs(y))
        if kind_of(x.dtype) == "float":
            return self.copysign(size, x)
        return self.where(self.lt(x, 0), self.neg(size), size)

    @derived(POINTWISE)
    def fmax(self, x: Number, y: Number | Scalar) -> Number:
        """Elementwise maximum of x and y, or the one that is not NaN. The gradient of equal ones goes to x."""
        if kind_of(x.dtype) == "int":
            return self.maximum(x, y)
        x, y = _pair(self, x, y)
        return self.where(self.isnan(y), x, self.where(self.isnan(x), y, self.maximum(x, y)))

    @derived(POINTWISE)
    def fmin(self, x: Number, y: Number | Scalar) -> Number:
        """Elementwise minimum of x and y, or the one that is not NaN. The gradient of equal ones goes to x."""
        if kind_of(x.dtype) == "int":
            return self.minimum(x, y)
        x, y = _pair(self, x, y)
        return self.where(self.isnan(y), x, self.where(self.isnan(x), y, self.minimum(x, y)))

    @derived(POINTWISE, flops=8)
    def logaddexp(self, x: Float, y: Float | Scalar) -> Float:
        """Compute log(exp(x) + exp(y)) without overflow, as max(x, y) + log1p(exp(-|x - y|))."""
        x, y = _pair(self, x, y)
        distance = self.abs(self.sub(x, y))
        distance = self.where(self.eq(x, y), self.full((), 0.0, x.dtype), distance)  # of infinities too
        return self.add(self.maximum(x, y), self.log1p(self.exp(self.neg(distance))))

    @derived(POINTWISE, flops=4)
    def xlogy(self, x: Float, y: Float | Scalar) -> Float:
        """Compute x · log(y), which is 0 at x = 0 unless y is NaN."""
        x, y = _pair(self, x, y)
        none = self.discrete.bitwise_and(self.eq(x, 0.0), self.eq(y, y))
        return self.where(none, self.full((), 0.0, x.dtype), self.mul(x, self.log(y)))


def _pair(b: Any, x: Float, y: Any) -> tuple[Float, Float]:
    """Return both operands as primitives of one dtype."""
    if isinstance(y, (int, float)):
        return x, b.full((), y, x.dtype)
    first, second = b.promote(x, y)
    return first, second
