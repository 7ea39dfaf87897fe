"""Elementwise operations: each element of the result depends on one element of each argument."""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.operations import OperationsBase
from burnpy.backend.operations.complex_numbers import magnitude
from burnpy.backend.primitives import Bool, Discrete, Float, Inexact, Int, Number, Ordered, Real, Scalar, Value
from burnpy.backend.rules import identity
from burnpy.backend.schema import BILINEAR, LINEAR, NONDIFFERENTIABLE, POINTWISE, derived, required


def operand(i: Any, x: Any, y: Any) -> Any:
    """Return the second operand as a primitive."""
    return i.full((), y, x.dtype) if isinstance(y, (int, float, complex)) else y


def pair(b: Any, x: Any, y: Any) -> Any:
    """Return both operands as primitives of one dtype."""
    return b.promote(x, operand(b, x, y))


_FMOD = 100  # the remainder of floats is computed bit by bit


def pow_x_vjp(i: Any, g: Float, x: Float, y: Any) -> Float:
    """g · y · x^(y-1), which is 0 at y = 0 for every x, where the formula may say 0 · ∞ or 0 · NaN. Where `pow_y_vjp`
    is 0 whatever x and y, this does not depend on y, so that second derivatives are symmetric."""
    if isinstance(y, (int, float, complex)):
        return zero_vjp(i, g) if y == 0 else i.mul(g, i.mul(i.pow(x, y - 1), y))
    if x.dtype.kind == "c":
        some = i.ne(y, 0.0)
        return i.mul(g, i.where(some, i.mul(y, i.pow(x, i.sub(i.where(some, y, 1.0), 1.0))), 0.0))
    d = i.discrete
    constant = i.detach(x)
    usual = d.bitwise_and(i.isfinite(constant), i.isfinite(i.reciprocal(constant)))
    lost = d.bitwise_and(i.eq(y, 0.0), d.bitwise_not(usual))
    moves = d.bitwise_not(d.bitwise_or(lost, pow_ignores_y(i, x, y)))
    y = i.where(moves, y, i.detach(y))
    base = i.where(d.bitwise_not(lost), x, 1.0)
    return i.mul(g, i.mul(y, i.pow(base, i.sub(y, 1.0))))


def pow_y_vjp(i: Any, g: Float, x: Float, y: Float, out: Float) -> Float:
    """g · x^y · log(x), which is 0 at x = 0 for y >= 0, where the formula would say 0 · -∞."""
    return i.mul(g, i.mul(out, i.log(i.where(i.discrete.bitwise_not(pow_ignores_y(i, x, y)), x, 1.0))))


def pow_ignores_y(i: Any, x: Inexact, y: Inexact) -> Bool:
    """Return a mask of the elements where x^y counts as independent of y."""
    if x.dtype.kind == "c":
        return i.eq(i.add(x, i.mul(y, 0.0)), 0.0)
    return i.discrete.bitwise_and(i.eq(x, 0.0), i.ge(y, 0.0))


def maximum_vjp(i: Any, g: Float, x: Float, y: Any) -> Float:
    """g where x > y, half of it where they are equal, 0 where x < y."""
    return i.where(i.discrete.bitwise_not(i.lt(x, y)), i.where(i.eq(x, y), i.mul(g, 0.5), g), 0.0)


def minimum_vjp(i: Any, g: Float, x: Float, y: Any) -> Float:
    """g where x < y, half of it where they are equal, 0 where x > y."""
    return i.where(i.discrete.bitwise_not(i.gt(x, y)), i.where(i.eq(x, y), i.mul(g, 0.5), g), 0.0)


def clamp_vjp(i: Any, g: Float, x: Float, low: float | None, high: float | None) -> Float:
    """g where low <= x <= high, else 0."""
    if low is not None:
        g = i.where(i.ge(x, low), g, 0.0)
    return g if high is None else i.where(i.le(x, high), g, 0.0)


def clamp_between_x_vjp(i: Any, g: Float, x: Float, low: Float, high: Float) -> Float:
    """For ``clamp_between`` g where x is within the bounds, else 0."""
    return i.where(i.discrete.bitwise_and(i.ge(x, low), i.le(x, high)), g, 0.0)


def clamp_between_low_vjp(i: Any, g: Float, x: Float, low: Float, high: Float) -> Float:
    """g where x was raised to the lower bound, else 0."""
    return i.where(i.discrete.bitwise_and(i.lt(x, low), i.le(low, high)), g, 0.0)


def clamp_between_high_vjp(i: Any, g: Float, x: Float, low: Float, high: Float) -> Float:
    """g where x was lowered to the upper bound, or the upper bound is below the lower one, else 0."""
    return i.where(i.discrete.bitwise_or(i.gt(x, high), i.lt(high, low)), g, 0.0)


def zero_vjp(i: Any, g: Float) -> Float:
    """No gradient: the operation is constant wherever it has a derivative."""
    return i.full(g.shape, 0.0, g.dtype)


def one_minus(i: Any, x: Float) -> Float:
    """1 - x."""
    return i.add(i.neg(x), 1.0)


def one_minus_square(b: Any, x: Float) -> Float:
    """Compute 1 - x², accurate near ±1, and with a derivative that is accurate near 0."""
    factors = b.mul(one_minus(b, x), b.add(x, 1.0))
    return b.where(b.lt(b.abs(x), 0.5), one_minus(b, b.mul(x, x)), factors)


def bell(b: Any, x: Float, rate: float, factor: float) -> tuple[Float]:
    """exp(rate · x²) · factor for a rate up to -½, 0 beyond ±40: the derivatives of large squares would overflow."""
    x = b.clamp(x, -40.0, 40.0)
    return (b.mul(b.exp(b.mul(b.mul(x, x), rate)), factor),)


class Arithmetic(OperationsBase):
    """Binary arithmetic. Float overflow and division by zero follow IEEE 754; ints wrap around."""

    @required(LINEAR, elementwise=True, vjp=(identity, lambda i, g: g), onnx="Add")
    def add(self, x: Number, y: Number | Scalar) -> Number:
        """Add elementwise: x + y."""
        ...

    @required(LINEAR, elementwise=True, vjp=(identity, lambda i, g: i.neg(g)), onnx="Sub")
    def sub(self, x: Number, y: Number | Scalar) -> Number:
        """Subtract elementwise: x - y."""
        ...

    @required(BILINEAR, elementwise=True, vjp=(lambda i, g, y: i.mul(g, y), lambda i, g, x: i.mul(g, x)), onnx="Mul")
    def mul(self, x: Number, y: Number | Scalar) -> Number:
        """Multiply elementwise: x · y."""
        ...

    @required(
        POINTWISE, vjp=(lambda i, g, y: i.div(g, y), lambda i, g, y, out: i.neg(i.div(i.mul(g, out), y))), onnx="Div"
    )
    def div(self, x: Inexact, y: Inexact | Scalar) -> Inexact:
        """Divide elementwise: x / y."""
        ...

    @required(POINTWISE, flops=9, vjp=(pow_x_vjp, pow_y_vjp), onnx="Pow")
    def pow(self, x: Number, y: Number | Scalar) -> Number:
        """Raise x to the power y elementwise: xʸ."""
        ...

    @required(POINTWISE, vjp=(maximum_vjp, lambda i, g, x, y: maximum_vjp(i, g, y, x)), onnx="Max")
    def maximum(self, x: Real, y: Real | Scalar) -> Real:
        """Elementwise maximum of x and y; NaN where either is NaN."""
        ...

    @required(POINTWISE, vjp=(minimum_vjp, lambda i, g, x, y: minimum_vjp(i, g, y, x)), onnx="Min")
    def minimum(self, x: Real, y: Real | Scalar) -> Real:
        """Elementwise minimum of x and y; NaN where either is NaN."""
        ...

    @derived(
        POINTWISE, vjp=(lambda i, g, x, y: i.where(i.ge(x, y), g, 0.0), lambda i, g, x, y: i.where(i.lt(x, y), g, 0.0))
    )
    def clamp_min(self, x: Real, y: Real | Scalar) -> Real:
        """Elementwise maximum of x and a lower bound y; where they are equal, the gradient goes to x."""
        return self.maximum(x, y)

    @derived(
        POINTWISE, vjp=(lambda i, g, x, y: i.where(i.le(x, y), g, 0.0), lambda i, g, x, y: i.where(i.gt(x, y), g, 0.0))
    )
    def clamp_max(self, x: Real, y: Real | Scalar) -> Real:
        """Elementwise minimum of x and an upper bound y; where they are equal, the gradient goes to x."""
        return self.minimum(x, y)

    @derived(POINTWISE, flops=2, vjp=(clamp_between_x_vjp, clamp_between_low_vjp, clamp_between_high_vjp))
    def clamp_between(self, x: Real, low: Real, high: Real) -> Real:
        """Clamp x to [low, high]: min(max(x, low), high); all three broadcast and have the same dtype.

        Where x equals a bound, the gradient goes to x.
        """
        return self.minimum(self.maximum(x, low), high)

    @required(POINTWISE, flops=_FMOD, vjp=(zero_vjp, lambda i, g: zero_vjp(i, g)), onnx="elementwise.floor_divide")
    def floor_divide(self, x: Real, y: Real | Scalar) -> Real:
        """Divide and round toward minus infinity: floor(x / y). The gradient is 0."""
        ...

    @required(
        POINTWISE,
        flops=_FMOD,
        vjp=(identity, lambda i, g, x, y: i.neg(i.mul(g, i.floor_divide(x, y)))),
        onnx="elementwise.remainder",
    )
    def remainder(self, x: Real, y: Real | Scalar) -> Real:
        """Remainder of floor division, x - y · floor(x / y), with the sign of y, as Python's ``%``."""
        ...


class Comparison(OperationsBase):
    """Comparisons and logic."""

    @required(NONDIFFERENTIABLE, elementwise=True, onnx="Equal")
    def eq(self, x: Value, y: Value | Scalar) -> Bool:
        """Compare elementwise: x == y."""
        ...

    @required(NONDIFFERENTIABLE, elementwise=True, onnx="elementwise.not_equal")
    def ne(self, x: Value, y: Value | Scalar) -> Bool:
        """Compare elementwise: x != y."""
        ...

    @required(NONDIFFERENTIABLE, elementwise=True, onnx="elementwise.less")
    def lt(self, x: Ordered, y: Ordered | Scalar) -> Bool:
        """Compare elementwise: x < y."""
        ...

    @required(NONDIFFERENTIABLE, elementwise=True, onnx="elementwise.less_equal")
    def le(self, x: Ordered, y: Ordered | Scalar) -> Bool:
        """Compare elementwise: x <= y."""
        ...

    @required(NONDIFFERENTIABLE, elementwise=True, onnx="elementwise.greater")
    def gt(self, x: Ordered, y: Ordered | Scalar) -> Bool:
        """Compare elementwise: x > y."""
        ...

    @required(NONDIFFERENTIABLE, elementwise=True, onnx="elementwise.greater_equal")
    def ge(self, x: Ordered, y: Ordered | Scalar) -> Bool:
        """Compare elementwise: x >= y."""
        ...

    @required(NONDIFFERENTIABLE, elementwise=True, onnx="elementwise.and_")
    def bitwise_and(self, x: Discrete, y: Discrete | Scalar) -> Discrete:
        """Bitwise AND of ints; logical AND of bools."""
        ...

    @required(NONDIFFERENTIABLE, elementwise=True, onnx="elementwise.or_")
    def bitwise_or(self, x: Discrete, y: Discrete | Scalar) -> Discrete:
        """Bitwise OR of ints; logical OR of bools."""
        ...

    @required(NONDIFFERENTIABLE, elementwise=True, onnx="elementwise.xor")
    def bitwise_xor(self, x: Discrete, y: Discrete | Scalar) -> Discrete:
        """Bitwise XOR of ints; logical XOR of bools."""
        ...

    @required(NONDIFFERENTIABLE, elementwise=True, onnx="elementwise.not_")
    def bitwise_not(self, x: Discrete) -> Discrete:
        """Bitwise NOT of ints; logical NOT of bools."""
        ...

    @derived(NONDIFFERENTIABLE, elementwise=True, onnx="IsNaN")
    def isnan(self, x: Inexact) -> Bool:
        """Test elementwise for NaN."""
        return self.ne(x, x)

    @derived(NONDIFFERENTIABLE, elementwise=True, onnx="IsInf")
    def isinf(self, x: Inexact) -> Bool:
        """Test elementwise for infinities: of a complex number, in a part."""
        return self.eq(magnitude(self, x), math.inf)

    @derived(NONDIFFERENTIABLE, elementwise=True)
    def isfinite(self, x: Inexact) -> Bool:
        """Test elementwise for finite values: neither infinite nor NaN."""
        return self.lt(magnitude(self, x), math.inf)

    @required(
        LINEAR,
        elementwise=True,
        vjp=(
            lambda i, g, condition: i.where(condition, g, 0.0),
            lambda i, g, condition: i.where(i.discrete.bitwise_not(condition), g, 0.0),
        ),
        onnx="elementwise.where",
    )
    def where(self, condition: Bool, x: Value, y: Value | Scalar) -> Value:
        """Select x where condition is true and y elsewhere; all three broadcast, x and y have the same dtype."""
        ...


class Unary(OperationsBase):
    """Elementwise functions of one argument."""

    @required(LINEAR, elementwise=True, vjp=lambda i, g: i.neg(g), onnx="Neg")
    def neg(self, x: Number) -> Number:
        """Negate elementwise: -x."""
        ...

    @required(POINTWISE, vjp=lambda i, g, x: i.mul(g, i.sign(x)), onnx="Abs")
    def abs(self, x: Real) -> Real:
        """Absolute value, elementwise."""
        ...

    @required(POINTWISE, vjp=zero_vjp, onnx="Sign")
    def sign(self, x: Real) -> Real:
        """Sign of x: -1, 0 or 1; NaN for NaN. The gradient is 0."""
        ...

    @required(POINTWISE, vjp=zero_vjp, onnx="elementwise.floor")
    def floor(self, x: Float) -> Float:
        """Round down to the largest integer not greater than x."""
        ...

    @required(POINTWISE, vjp=zero_vjp, onnx="elementwise.ceil")
    def ceil(self, x: Float) -> Float:
        """Round up to the smallest integer not less than x."""
        ...

    @required(POINTWISE, vjp=zero_vjp, onnx="elementwise.round_")
    def round(self, x: Float) -> Float:
        """Round to the nearest integer, halves to even."""
        ...

    @required(POINTWISE, flops=3, vjp=lambda i, g, out: i.mul(g, out), onnx="Exp")
    def exp(self, x: Inexact) -> Inexact:
        """Exponential function, eˣ."""
        ...

    @required(POINTWISE, method=True, flops=3, vjp=lambda i, g, x: i.mul(g, i.exp(x)), onnx="elementwise.expm1")
    def expm1(self, x: Inexact) -> Inexact:
        """Compute exp(x) - 1, accurate near 0."""
        ...

    @required(POINTWISE, flops=3, vjp=lambda i, g, x: i.div(g, x), onnx="Log")
    def log(self, x: Inexact) -> Inexact:
        """Natural logarithm; -inf at 0, NaN below 0."""
        ...

    @required(POINTWISE, flops=3, vjp=lambda i, g, x: i.div(g, i.add(x, 1.0)), onnx="elementwise.log1p")
    def log1p(self, x: Inexact) -> Inexact:
        """Compute log(1 + x), accurate near 0; -inf at -1, NaN below."""
        ...

    @required(POINTWISE, vjp=lambda i, g, out: i.div(i.mul(g, 0.5), out), onnx="Sqrt")
    def sqrt(self, x: Inexact) -> Inexact:
        """Square root; NaN below 0."""
        ...

    @required(POINTWISE, flops=3, vjp=lambda i, g, x: i.mul(g, i.cos(x)), onnx="Sin")
    def sin(self, x: Inexact) -> Inexact:
        """Sine of x, in radians."""
        ...

    @required(POINTWISE, flops=3, vjp=lambda i, g, x: i.neg(i.mul(g, i.sin(x))), onnx="Cos")
    def cos(self, x: Inexact) -> Inexact:
        """Cosine of x, in radians."""
        ...

    @required(POINTWISE, flops=3, vjp=lambda i, g, out: i.mul(g, one_minus(i, i.mul(out, out))), onnx="Tanh")
    def tanh(self, x: Inexact) -> Inexact:
        """Hyperbolic tangent."""
        ...

    @derived(POINTWISE, vjp=lambda i, g, x: i.mul(g, i.mul(x, 2.0)))
    def square(self, x: Number) -> Number:
        """Square elementwise: x²."""
        return self.mul(x, x)

    @derived(POINTWISE, vjp=lambda i, g, out: i.neg(i.mul(i.mul(g, out), out)), onnx="Reciprocal")
    def reciprocal(self, x: Inexact) -> Inexact:
        """Reciprocal: 1 / x."""
        return self.div(self.full((), 1.0, x.dtype), x)

    @derived(POINTWISE, vjp=lambda i, g, out: i.mul(i.mul(i.mul(i.mul(g, -0.5), out), out), out))
    def rsqrt(self, x: Inexact) -> Inexact:
        """Reciprocal of the square root: 1 / √x."""
        return self.reciprocal(self.sqrt(x))

    @derived(POINTWISE, flops=6, vjp=lambda i, g, out: i.mul(g, i.mul(out, one_minus(i, out))), onnx="Sigmoid")
    def sigmoid(self, x: Float) -> Float:
        """Logistic sigmoid 1 / (1 + exp(-x)), for negative x as exp(x) / (1 + exp(x)), which does not overflow."""
        e = self.exp(self.neg(self.abs(x)))
        return self.div(self.where(self.lt(x, 0.0), e, 1.0), self.add(e, 1.0))

    @derived(
        POINTWISE,
        flops=9,
        vjp=lambda i, g, x: i.mul(g, i.fused(bell, (x,), (-1.0, 2 / math.sqrt(math.pi)))[0]),
        onnx="Erf",
    )
    def erf(self, x: Float) -> Float:
        """Error function, 2/√π ∫₀ˣ exp(-t²) dt."""
        from burnpy.backend.numerics.error_functions import erf

        return erf(self, x)

    @derived(POINTWISE, flops=2, vjp=clamp_vjp, onnx="elementwise.clamp")
    def clamp(self, x: Real, low: Scalar | None, high: Scalar | None) -> Real:
        """Clamp x to [low, high], where None is no bound; the gradient at a bound is 1."""
        raised = x if low is None else self.maximum(x, low)
        return raised if high is None else self.minimum(raised, high)


class Integers(OperationsBase):
    """Elementwise operations of ints."""

    @derived(NONDIFFERENTIABLE, method=True, elementwise=True, flops=100)
    def gcd(self, x: Int, y: Int | Scalar) -> Int:
        """Compute the greatest common divisor, which is not negative; for x = 0 it is ``|y|``.

        >>> x = IntTensor[NumPy].from_data([4, 0, -6])
        >>> x.gcd(6).tolist(), x.lcm(6).tolist()
        ([2, 6, 6], [12, 0, 6])
        """
        first, second = map(self.abs, pair(self, x, y))
        for _ in range(3 * 8 * first.dtype.itemsize // 2):  # no two numbers of n bits need 1.45 n divisions
            done = self.eq(second, 0)
            divisor = self.where(done, self.full((), 1, first.dtype), second)
            first, second = self.where(done, first, second), self.where(done, second, self.remainder(first, divisor))
        return first

    @derived(NONDIFFERENTIABLE, method=True, elementwise=True, flops=100)
    def lcm(self, x: Int, y: Int | Scalar) -> Int:
        """Compute the least common multiple, which is not negative; for x = 0 it is 0."""
        first, second = pair(self, x, y)
        divisor = self.gcd(first, second)
        none = self.eq(divisor, 0)
        share = self.floor_divide(self.abs(first), self.where(none, self.full((), 1, divisor.dtype), divisor))
        return self.mul(share, self.abs(second))

    @derived(NONDIFFERENTIABLE, elementwise=True)
    def bitwise_left_shift(self, x: Int, y: Int | Scalar) -> Int:
        """Shift the bits of x by y places to the left: x · 2ʸ; 0 where y is negative or no less than the bits."""
        x, y = pair(self, x, y)
        bits = 8 * x.dtype.itemsize
        fits = self.bitwise_and(self.ge(y, 0), self.lt(y, bits))
        power = self.pow(self.full((), 2, x.dtype), self.minimum(self.maximum(y, 0), bits - 1))
        return self.where(fits, self.mul(x, power), 0)

    @derived(NONDIFFERENTIABLE, elementwise=True)
    def bitwise_right_shift(self, x: Int, y: Int | Scalar) -> Int:
        """Shift the bits of x by y places to the right, ⌊x / 2ʸ⌋; by all where y is negative or beyond the bits."""
        x, places = pair(self, x, y)
        bits = 8 * x.dtype.itemsize
        fits = self.bitwise_and(self.ge(places, 0), self.lt(places, bits))
        places = self.where(fits, places, self.full((), bits, places.dtype))
        half, two = self.floor_divide(places, 2), self.full((), 2, x.dtype)  # 2 ** bits does not fit, its root does
        half_power, rest_power = self.pow(two, half), self.pow(two, self.sub(places, half))
        return self.floor_divide(self.floor_divide(x, half_power), rest_power)
