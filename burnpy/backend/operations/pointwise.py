"""Operations of which each element of the result depends on one element of each argument."""

from __future__ import annotations

import math

from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import Bool, Discrete, Float, Number, Scalar, Value
from burnpy.backend.schema import Algebra, derived, required

POINTWISE, LINEAR, BILINEAR = Algebra.POINTWISE, Algebra.LINEAR, Algebra.BILINEAR
GENERAL, NONE = Algebra.GENERAL, Algebra.NONDIFFERENTIABLE


class Arithmetic(OperationsBase):
    """Binary arithmetic. Results overflow and divide by zero as IEEE 754 says; ints wrap around."""

    @required(LINEAR, elementwise=True)
    def add(self, x: Number, y: Number | Scalar) -> Number:
        """x + y."""
        ...

    @required(LINEAR, elementwise=True)
    def sub(self, x: Number, y: Number | Scalar) -> Number:
        """x - y."""
        ...

    @required(BILINEAR, elementwise=True)
    def mul(self, x: Number, y: Number | Scalar) -> Number:
        """x · y."""
        ...

    @required(POINTWISE)
    def div(self, x: Float, y: Float | Scalar) -> Float:
        """x / y."""
        ...

    @required(POINTWISE)
    def pow(self, x: Number, y: Number | Scalar) -> Number:
        """x to the power y."""
        ...

    @required(POINTWISE)
    def maximum(self, x: Number, y: Number | Scalar) -> Number:
        """The larger of x and y; NaN where either is NaN."""
        ...

    @required(POINTWISE)
    def minimum(self, x: Number, y: Number | Scalar) -> Number:
        """The smaller of x and y; NaN where either is NaN."""
        ...

    @derived(POINTWISE)
    def clamp_min(self, x: Number, y: Number | Scalar) -> Number:
        """The larger of x and y, whose gradient where they are equal is x's."""
        return self.maximum(x, y)

    @derived(POINTWISE)
    def clamp_max(self, x: Number, y: Number | Scalar) -> Number:
        """The smaller of x and y, whose gradient where they are equal is x's."""
        return self.minimum(x, y)

    @derived(GENERAL)
    def clamp_between(self, x: Number, low: Number, high: Number) -> Number:
        """x limited to low … high, high where that is the lower; all three broadcast and have one dtype.

        The gradient at a bound is x's; where the bounds are equal, low has none.
        """
        return self.minimum(self.maximum(x, low), high)

    @required(POINTWISE)
    def floor_divide(self, x: Number, y: Number | Scalar) -> Number:
        """x / y rounded toward minus infinity. Its gradient is 0."""
        ...

    @required(POINTWISE)
    def remainder(self, x: Number, y: Number | Scalar) -> Number:
        """x - y · floor(x / y): Python's ``%``, with the sign of y."""
        ...


class Comparison(OperationsBase):
    """Comparisons and logic."""

    @required(NONE)
    def eq(self, x: Value, y: Value | Scalar) -> Bool:
        """x == y."""
        ...

    @required(NONE)
    def ne(self, x: Value, y: Value | Scalar) -> Bool:
        """x != y."""
        ...

    @required(NONE)
    def lt(self, x: Value, y: Value | Scalar) -> Bool:
        """x < y."""
        ...

    @required(NONE)
    def le(self, x: Value, y: Value | Scalar) -> Bool:
        """x <= y."""
        ...

    @required(NONE)
    def gt(self, x: Value, y: Value | Scalar) -> Bool:
        """x > y."""
        ...

    @required(NONE)
    def ge(self, x: Value, y: Value | Scalar) -> Bool:
        """x >= y."""
        ...

    @required(NONE)
    def bitwise_and(self, x: Discrete, y: Discrete | Scalar) -> Discrete:
        """Bit by bit and; of bools, logical and."""
        ...

    @required(NONE)
    def bitwise_or(self, x: Discrete, y: Discrete | Scalar) -> Discrete:
        """Bit by bit or; of bools, logical or."""
        ...

    @required(NONE)
    def bitwise_xor(self, x: Discrete, y: Discrete | Scalar) -> Discrete:
        """Bit by bit exclusive or; of bools, logical exclusive or."""
        ...

    @required(NONE)
    def bitwise_not(self, x: Discrete) -> Discrete:
        """Every bit inverted; of bools, logical not."""
        ...

    @derived(NONE)
    def isnan(self, x: Float) -> Bool:
        """True where x is NaN."""
        return self.ne(x, x)

    @derived(NONE)
    def isinf(self, x: Float) -> Bool:
        """True where x is plus or minus infinity."""
        return self.eq(self.abs(x), math.inf)

    @derived(NONE)
    def isfinite(self, x: Float) -> Bool:
        """True where x is neither infinite nor NaN."""
        return self.lt(self.abs(x), math.inf)

    @required(LINEAR)
    def where(self, condition: Bool, x: Value, y: Value | Scalar) -> Value:
        """x where condition is true, y elsewhere; all three broadcast. x and y have one dtype."""
        ...


class Unary(OperationsBase):
    """Functions of one argument."""

    @required(LINEAR, elementwise=True)
    def neg(self, x: Number) -> Number:
        """-x."""
        ...

    @required(POINTWISE)
    def abs(self, x: Number) -> Number:
        """The absolute value."""
        ...

    @required(POINTWISE)
    def sign(self, x: Number) -> Number:
        """-1, 0 or 1, as x is negative, zero or positive; NaN of NaN. Its gradient is 0."""
        ...

    @required(POINTWISE)
    def floor(self, x: Float) -> Float:
        """The next integer at or below x."""
        ...

    @required(POINTWISE)
    def ceil(self, x: Float) -> Float:
        """The next integer at or above x."""
        ...

    @required(POINTWISE)
    def round(self, x: Float) -> Float:
        """The nearest integer, halves to even."""
        ...

    @required(POINTWISE)
    def exp(self, x: Float) -> Float:
        """e to the power x."""
        ...

    @required(POINTWISE)
    def expm1(self, x: Float) -> Float:
        """exp(x) - 1, exact near 0."""
        ...

    @required(POINTWISE)
    def log(self, x: Float) -> Float:
        """The natural logarithm; -inf at 0, NaN below."""
        ...

    @required(POINTWISE)
    def log1p(self, x: Float) -> Float:
        """log(1 + x), exact near 0."""
        ...

    @required(POINTWISE)
    def sqrt(self, x: Float) -> Float:
        """The square root; NaN below 0."""
        ...

    @required(POINTWISE)
    def sin(self, x: Float) -> Float:
        """The sine of x radians."""
        ...

    @required(POINTWISE)
    def cos(self, x: Float) -> Float:
        """The cosine of x radians."""
        ...

    @required(POINTWISE)
    def tanh(self, x: Float) -> Float:
        """The hyperbolic tangent."""
        ...

    @derived(POINTWISE)
    def square(self, x: Number) -> Number:
        """x · x."""
        return self.mul(x, x)

    @derived(POINTWISE)
    def reciprocal(self, x: Float) -> Float:
        """1 / x."""
        return self.div(self.full((), 1.0, x.dtype), x)

    @derived(POINTWISE)
    def rsqrt(self, x: Float) -> Float:
        """1 / sqrt(x)."""
        return self.reciprocal(self.sqrt(x))

    @derived(POINTWISE)
    def sigmoid(self, x: Float) -> Float:
        """1 / (1 + exp(-x)), computed as (1 + tanh(x / 2)) / 2, which does not overflow."""
        return self.mul(self.add(self.tanh(self.mul(x, 0.5)), 1.0), 0.5)

    @derived(POINTWISE)
    def erf(self, x: Float) -> Float:
        """The error function 2/√π ∫₀ˣ exp(-t²) dt."""
        from burnpy.backend.operations.special import erf

        return erf(self, x)

    @derived(POINTWISE)
    def clamp(self, x: Number, low: Scalar | None, high: Scalar | None) -> Number:
        """x limited to low … high, of which either may be None; the gradient at a bound is 1."""
        raised = x if low is None else self.maximum(x, low)
        return raised if high is None else self.minimum(raised, high)
