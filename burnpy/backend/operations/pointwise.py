"""Elementwise operations: each element of the result depends on one element of each argument."""

from __future__ import annotations

import math

from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import Bool, Discrete, Float, Number, Scalar, Value
from burnpy.backend.schema import Algebra, derived, required

POINTWISE, LINEAR, BILINEAR = Algebra.POINTWISE, Algebra.LINEAR, Algebra.BILINEAR
NONE = Algebra.NONDIFFERENTIABLE

_FMOD = 100  # the remainder of floats is computed bit by bit


class Arithmetic(OperationsBase):
    """Binary arithmetic. Float overflow and division by zero follow IEEE 754; ints wrap around."""

    @required(LINEAR, elementwise=True)
    def add(self, x: Number, y: Number | Scalar) -> Number:
        """Add elementwise: x + y."""
        ...

    @required(LINEAR, elementwise=True)
    def sub(self, x: Number, y: Number | Scalar) -> Number:
        """Subtract elementwise: x - y."""
        ...

    @required(BILINEAR, elementwise=True)
    def mul(self, x: Number, y: Number | Scalar) -> Number:
        """Multiply elementwise: x · y."""
        ...

    @required(POINTWISE)
    def div(self, x: Float, y: Float | Scalar) -> Float:
        """Divide elementwise: x / y."""
        ...

    @required(POINTWISE, flops=9)
    def pow(self, x: Number, y: Number | Scalar) -> Number:
        """Raise x to the power y elementwise: xʸ."""
        ...

    @required(POINTWISE)
    def maximum(self, x: Number, y: Number | Scalar) -> Number:
        """Elementwise maximum of x and y; NaN where either is NaN."""
        ...

    @required(POINTWISE)
    def minimum(self, x: Number, y: Number | Scalar) -> Number:
        """Elementwise minimum of x and y; NaN where either is NaN."""
        ...

    @derived(POINTWISE)
    def clamp_min(self, x: Number, y: Number | Scalar) -> Number:
        """Elementwise maximum of x and a lower bound y; where they are equal, the gradient goes to x."""
        return self.maximum(x, y)

    @derived(POINTWISE)
    def clamp_max(self, x: Number, y: Number | Scalar) -> Number:
        """Elementwise minimum of x and an upper bound y; where they are equal, the gradient goes to x."""
        return self.minimum(x, y)

    @derived(POINTWISE, flops=2)
    def clamp_between(self, x: Number, low: Number, high: Number) -> Number:
        """Clamp x to [low, high]: min(max(x, low), high); all three broadcast and have the same dtype.

        Where x equals a bound, the gradient goes to x; where the bounds are equal, low has none.
        """
        return self.minimum(self.maximum(x, low), high)

    @required(POINTWISE, flops=_FMOD)
    def floor_divide(self, x: Number, y: Number | Scalar) -> Number:
        """Divide and round toward minus infinity: floor(x / y). The gradient is 0."""
        ...

    @required(POINTWISE, flops=_FMOD)
    def remainder(self, x: Number, y: Number | Scalar) -> Number:
        """Remainder of floor division, x - y · floor(x / y), with the sign of y, as Python's ``%``."""
        ...


class Comparison(OperationsBase):
    """Comparisons and logic."""

    @required(NONE, elementwise=True)
    def eq(self, x: Value, y: Value | Scalar) -> Bool:
        """Compare elementwise: x == y."""
        ...

    @required(NONE, elementwise=True)
    def ne(self, x: Value, y: Value | Scalar) -> Bool:
        """Compare elementwise: x != y."""
        ...

    @required(NONE, elementwise=True)
    def lt(self, x: Value, y: Value | Scalar) -> Bool:
        """Compare elementwise: x < y."""
        ...

    @required(NONE, elementwise=True)
    def le(self, x: Value, y: Value | Scalar) -> Bool:
        """Compare elementwise: x <= y."""
        ...

    @required(NONE, elementwise=True)
    def gt(self, x: Value, y: Value | Scalar) -> Bool:
        """Compare elementwise: x > y."""
        ...

    @required(NONE, elementwise=True)
    def ge(self, x: Value, y: Value | Scalar) -> Bool:
        """Compare elementwise: x >= y."""
        ...

    @required(NONE, elementwise=True)
    def bitwise_and(self, x: Discrete, y: Discrete | Scalar) -> Discrete:
        """Bitwise AND of ints; logical AND of bools."""
        ...

    @required(NONE, elementwise=True)
    def bitwise_or(self, x: Discrete, y: Discrete | Scalar) -> Discrete:
        """Bitwise OR of ints; logical OR of bools."""
        ...

    @required(NONE, elementwise=True)
    def bitwise_xor(self, x: Discrete, y: Discrete | Scalar) -> Discrete:
        """Bitwise XOR of ints; logical XOR of bools."""
        ...

    @required(NONE, elementwise=True)
    def bitwise_not(self, x: Discrete) -> Discrete:
        """Bitwise NOT of ints; logical NOT of bools."""
        ...

    @derived(NONE, elementwise=True)
    def isnan(self, x: Float) -> Bool:
        """Test elementwise for NaN."""
        return self.ne(x, x)

    @derived(NONE, elementwise=True)
    def isinf(self, x: Float) -> Bool:
        """Test elementwise for plus or minus infinity."""
        return self.eq(self.abs(x), math.inf)

    @derived(NONE, elementwise=True)
    def isfinite(self, x: Float) -> Bool:
        """Test elementwise for finite values: neither infinite nor NaN."""
        return self.lt(self.abs(x), math.inf)

    @required(LINEAR, elementwise=True)
    def where(self, condition: Bool, x: Value, y: Value | Scalar) -> Value:
        """Select x where condition is true and y elsewhere; all three broadcast, x and y have the same dtype."""
        ...


class Unary(OperationsBase):
    """Elementwise functions of one argument."""

    @required(LINEAR, elementwise=True)
    def neg(self, x: Number) -> Number:
        """Negate elementwise: -x."""
        ...

    @required(POINTWISE)
    def abs(self, x: Number) -> Number:
        """Absolute value, elementwise."""
        ...

    @required(POINTWISE)
    def sign(self, x: Number) -> Number:
        """Sign of x: -1, 0 or 1; NaN for NaN. The gradient is 0."""
        ...

    @required(POINTWISE)
    def floor(self, x: Float) -> Float:
        """Round down to the largest integer not greater than x."""
        ...

    @required(POINTWISE)
    def ceil(self, x: Float) -> Float:
        """Round up to the smallest integer not less than x."""
        ...

    @required(POINTWISE)
    def round(self, x: Float) -> Float:
        """Round to the nearest integer, halves to even."""
        ...

    @required(POINTWISE, flops=3)
    def exp(self, x: Float) -> Float:
        """Exponential function, eˣ."""
        ...

    @required(POINTWISE, flops=3)
    def expm1(self, x: Float) -> Float:
        """Compute exp(x) - 1, accurate near 0."""
        ...

    @required(POINTWISE, flops=3)
    def log(self, x: Float) -> Float:
        """Natural logarithm; -inf at 0, NaN below 0."""
        ...

    @required(POINTWISE, flops=3)
    def log1p(self, x: Float) -> Float:
        """Compute log(1 + x), accurate near 0."""
        ...

    @required(POINTWISE)
    def sqrt(self, x: Float) -> Float:
        """Square root; NaN below 0."""
        ...

    @required(POINTWISE, flops=3)
    def sin(self, x: Float) -> Float:
        """Sine of x, in radians."""
        ...

    @required(POINTWISE, flops=3)
    def cos(self, x: Float) -> Float:
        """Cosine of x, in radians."""
        ...

    @required(POINTWISE, flops=3)
    def tanh(self, x: Float) -> Float:
        """Hyperbolic tangent."""
        ...

    @derived(POINTWISE)
    def square(self, x: Number) -> Number:
        """Square elementwise: x²."""
        return self.mul(x, x)

    @derived(POINTWISE)
    def reciprocal(self, x: Float) -> Float:
        """Reciprocal: 1 / x."""
        return self.div(self.full((), 1.0, x.dtype), x)

    @derived(POINTWISE)
    def rsqrt(self, x: Float) -> Float:
        """Reciprocal of the square root: 1 / √x."""
        return self.reciprocal(self.sqrt(x))

    @derived(POINTWISE, flops=6)
    def sigmoid(self, x: Float) -> Float:
        """Logistic sigmoid 1 / (1 + exp(-x)), for negative x as exp(x) / (1 + exp(x)), which does not overflow."""
        e = self.exp(self.neg(self.abs(x)))
        return self.div(self.where(self.lt(x, 0.0), e, 1.0), self.add(e, 1.0))

    @derived(POINTWISE, flops=9)
    def erf(self, x: Float) -> Float:
        """Error function, 2/√π ∫₀ˣ exp(-t²) dt."""
        from burnpy.backend.operations.approximations import erf

        return erf(self, x)

    @derived(POINTWISE, flops=2)
    def clamp(self, x: Number, low: Scalar | None, high: Scalar | None) -> Number:
        """Clamp x to [low, high], where None is no bound; the gradient at a bound is 1."""
        raised = x if low is None else self.maximum(x, low)
        return raised if high is None else self.minimum(raised, high)
