"""Elementary functions: trigonometric, hyperbolic and logarithmic ones, their inverses, and functions of two arguments.

The defaults are composed of other operations; array libraries have functions of their own.
"""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.dtypes import kind_of
from burnpy.backend.operations import OperationsBase
from burnpy.backend.operations.pointwise import one_minus, one_minus_square, operand, pair, zero_vjp
from burnpy.backend.primitives import Bool, Float, Inexact, Real, Scalar
from burnpy.backend.rules import identity
from burnpy.backend.schema import NONDIFFERENTIABLE, POINTWISE, derived


def asin_vjp(i: Any, g: Inexact, x: Inexact) -> Inexact:
    """g / √(1 - x²), infinite at ±1; of complex numbers without overflow."""
    if x.dtype.kind == "c":
        return i.div(i.div(g, i.sqrt(one_minus(i, x))), i.sqrt(i.add(x, 1.0)))
    return i.div(g, i.sqrt(one_minus_square(i, x)))


def atan_vjp(i: Any, g: Inexact, x: Inexact) -> Inexact:
    """g / (1 + x²), without overflow."""
    if x.dtype.kind == "c":
        turned = _times_i(i, x)
        return i.div(i.div(g, one_minus(i, turned)), i.add(turned, 1.0))
    return i.mul(g, i.fused(_atan_slope, (x,))[0])


def atanh_vjp(i: Any, g: Inexact, x: Inexact) -> Inexact:
    """g / (1 - x²), infinite at ±1; of complex numbers without overflow."""
    if x.dtype.kind == "c":
        return i.div(i.div(g, one_minus(i, x)), i.add(x, 1.0))
    return i.div(g, one_minus_square(i, x))


def asinh_vjp(i: Any, g: Inexact, x: Inexact) -> Inexact:
    """g / √(1 + x²), without overflow."""
    return asin_vjp(i, g, _times_i(i, x)) if x.dtype.kind == "c" else i.div(g, i.hypot(x, 1.0))


def _atan_slope(b: Any, x: Float) -> tuple[Float]:
    """1 / (1 + x²), by way of numbers up to 1, as x² and its derivatives may overflow; 0 for infinity."""
    known = b.ne(b.abs(x), math.inf)
    x = b.where(known, x, 1.0)
    factor = b.reciprocal(b.clamp(b.abs(x), 1.0, None))
    square = b.mul(factor, factor)
    return (b.where(known, b.div(square, b.add(square, b.square(b.mul(x, factor)))), 0.0),)


def _times_i(i: Any, x: Inexact) -> Inexact:
    """Return the imaginary unit times complex numbers."""
    return i.complex(i.neg(i.imag(x)), i.real(x))


class Elementary(OperationsBase):
    """Elementary functions of one argument that few backends must write."""

    @derived(POINTWISE, method=True, flops=3, vjp=lambda i, g, out: i.mul(g, i.add(i.mul(out, out), 1.0)), onnx="Tan")
    def tan(self, x: Inexact) -> Inexact:
        """Compute the tangent of x radians."""
        return self.div(self.sin(x), self.cos(x))

    @derived(POINTWISE, method=True, flops=3, vjp=asin_vjp, onnx="Asin")
    def asin(self, x: Inexact) -> Inexact:
        """Compute the inverse sine in radians, from -π/2 to π/2; NaN outside of [-1, 1]. The gradient at ±1 is inf."""
        return self.atan(self.div(x, self.sqrt(one_minus_square(self, x))))

    @derived(POINTWISE, method=True, flops=3, vjp=lambda i, g, x: i.neg(asin_vjp(i, g, x)), onnx="Acos")
    def acos(self, x: Inexact) -> Inexact:
        """Compute the inverse cosine in radians, from 0 to π; NaN outside of [-1, 1]. The gradient at ±1 is -inf."""
        ratio = self.div(self.add(self.neg(x), 1.0), self.add(x, 1.0))
        return self.mul(self.atan(self.sqrt(ratio)), 2.0)

    @derived(POINTWISE, method=True, flops=3, vjp=atan_vjp, onnx="Atan")
    def atan(self, x: Inexact) -> Inexact:
        """Compute the inverse tangent in radians, from -π/2 to π/2."""
        from burnpy.backend.numerics.special import atan

        return atan(self, x)

    @derived(POINTWISE, method=True, flops=3, vjp=lambda i, g, x: i.mul(g, i.cosh(x)), onnx="Sinh")
    def sinh(self, x: Inexact) -> Inexact:
        """Compute the hyperbolic sine."""
        near = self.mul(self.sub(self.expm1(x), self.expm1(self.neg(x))), 0.5)
        size = self.abs(x)
        return self.where(self.gt(size, _FAR), self.copysign(_half_exp(self, size), x), near)

    @derived(POINTWISE, method=True, flops=3, vjp=lambda i, g, x: i.mul(g, i.sinh(x)), onnx="Cosh")
    def cosh(self, x: Inexact) -> Inexact:
        """Compute the hyperbolic cosine."""
        near, size = self.mul(self.add(self.exp(x), self.exp(self.neg(x))), 0.5), self.abs(x)
        return self.where(self.gt(size, _FAR), _half_exp(self, size), near)

    @derived(POINTWISE, method=True, flops=3, vjp=asinh_vjp)
    def asinh(self, x: Inexact) -> Inexact:
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
    def acosh(self, x: Inexact) -> Inexact:
        """Compute the inverse hyperbolic cosine, which is not negative; NaN below 1. The gradient at 1 is inf."""
        t = self.add(x, -1.0)  # log1p(t + √t · √(t + 2))
        return _log_of_double(self, t, self.add(t, self.mul(self.sqrt(t), self.sqrt(self.add(t, 2.0)))))

    @derived(POINTWISE, method=True, flops=3, vjp=atanh_vjp)
    def atanh(self, x: Inexact) -> Inexact:
        """Compute the inverse hyperbolic tangent; ±inf at ±1, NaN beyond."""
        size = self.abs(x)
        ratio = self.div(self.mul(size, 2.0), self.add(self.neg(size), 1.0))
        return self.copysign(self.mul(self.log1p(ratio), 0.5), x)  # log1p(2x / (1 - x)) / 2

    @derived(POINTWISE, method=True, flops=3, vjp=lambda i, g, out: i.mul(g, i.mul(out, math.log(2.0))))
    def exp2(self, x: Inexact) -> Inexact:
        """Compute the power of two, 2ˣ."""
        return self.pow(self.full((), 2.0, x.dtype), x)

    @derived(POINTWISE, method=True, flops=3, vjp=lambda i, g, x: i.div(g, i.mul(x, math.log(2.0))))
    def log2(self, x: Inexact) -> Inexact:
        """Compute the logarithm to base 2; -inf at 0, NaN below.

        >>> Tensor[NumPy].from_data([1.0, 8.0]).log2().tolist()
        [0.0, 3.0]
        """
        return self.div(self.log(x), math.log(2.0))

    @derived(POINTWISE, method=True, flops=3, vjp=lambda i, g, x: i.div(g, i.mul(x, math.log(10.0))))
    def log10(self, x: Inexact) -> Inexact:
        """Compute the logarithm to base 10; -inf at 0, NaN below."""
        return self.div(self.log(x), math.log(10.0))

    @derived(POINTWISE, flops=4, vjp=lambda i, g, x: i.mul(g, i.add(i.neg(i.log(x)), -1.0)))
    def entr(self, x: Float) -> Float:
        """Compute the entropy -x · log(x), which is 0 at 0 and -∞ for negative x. The gradient at 0 is inf."""
        positive = self.gt(x, 0.0)
        value = self.neg(self.mul(x, self.log(self.where(positive, x, self.full((), 1.0, x.dtype)))))
        value = self.add(value, 0.0)  # no -0.0
        return self.where(self.lt(x, 0.0), self.full((), -math.inf, x.dtype), value)

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


def ratio_or_zero(i: Any, part: Float, length: Float) -> Float:
    """part / length, which is 0 where the length is 0, at every order."""
    none = i.eq(length, 0.0)
    ratio = i.div(part, i.where(none, i.full((), 1.0, length.dtype), length))
    return i.where(i.discrete.bitwise_not(none), ratio, 0.0)


def hypot_x_vjp(i: Any, g: Float, x: Float, out: Float) -> Float:
    """g · x / √(x² + y²)."""
    return i.mul(g, ratio_or_zero(i, x, out))


def atan2_x_vjp(i: Any, g: Float, x: Float, y: Any) -> Float:
    """g · y / (x² + y²), by way of the length, whose square may overflow."""
    length = i.hypot(x, y)
    return ratio_or_zero(i, i.mul(g, ratio_or_zero(i, operand(i, x, y), length)), length)


def atan2_y_vjp(i: Any, g: Float, x: Float, y: Float) -> Float:
    """-g · x / (x² + y²)."""
    length = i.hypot(x, y)
    return i.neg(ratio_or_zero(i, i.mul(g, ratio_or_zero(i, x, length)), length))


def twice_difference(b: Any, x: Float, y: Float) -> tuple[Float]:
    """2 · (x - y)."""
    return (b.mul(b.sub(x, y), 2.0),)


def copysign_vjp(i: Any, g: Float, x: Float, y: Any) -> Float:
    """g where x and y have one sign, -g where they have two, 0 where x is 0."""
    moved = i.where(i.discrete.bitwise_xor(i.signbit(x), i.signbit(operand(i, x, y))), i.neg(g), g)
    return i.where(i.ne(x, 0.0), moved, 0.0)


def fmod_y_vjp(i: Any, g: Float, x: Float, y: Float) -> Float:
    """-g times the quotient rounded toward 0."""
    quotient = i.floor_divide(i.abs(x), i.abs(y))
    return i.neg(i.mul(g, i.mul(quotient, i.mul(i.sign(x), i.sign(y)))))


def fmax_takes_x(i: Any, x: Float, y: Any) -> Bool:
    """Return the mask of the elements that fmax takes from x: x >= y, or y is NaN."""
    y = operand(i, x, y)
    return i.discrete.bitwise_or(i.ge(x, y), i.isnan(y))


def fmin_takes_x(i: Any, x: Float, y: Any) -> Bool:
    """Return the mask of the elements that fmin takes from x: x <= y, or y is NaN."""
    y = operand(i, x, y)
    return i.discrete.bitwise_or(i.le(x, y), i.isnan(y))


def logaddexp_share(i: Any, x: Float, y: Any) -> Float:
    """eˣ / (eˣ + eʸ), exact where it is small; a half for two equal infinities."""
    x, y = i.promote(x, operand(i, x, y))
    tied = i.discrete.bitwise_and(i.eq(x, y), i.isinf(x))
    return i.exp(i.neg(i.softplus(i.where(i.discrete.bitwise_not(tied), i.sub(y, x), 0.0), 1.0)))


def xlogy_x_vjp(i: Any, g: Float, x: Float, y: Any) -> Float:
    """g · log(y), which is 0 at x = 0 for y <= 0."""
    y = operand(i, x, y)
    none = i.discrete.bitwise_and(i.eq(x, 0.0), i.le(y, 0.0))
    return i.mul(g, i.log(i.where(none, i.full((), 1.0, y.dtype), y)))


def xlogy_y_vjp(i: Any, g: Float, x: Float, y: Float) -> Float:
    """g · x / y, which is 0 at x = y = 0."""
    none = i.discrete.bitwise_and(i.eq(x, 0.0), i.eq(y, 0.0))
    return i.mul(g, i.div(x, i.where(none, i.full((), 1.0, y.dtype), y)))


def logaddexp2_share(i: Any, x: Float, y: Any) -> Float:
    """2ˣ / (2ˣ + 2ʸ), as `logaddexp_share` of natural logarithms."""
    return logaddexp_share(i, i.mul(x, math.log(2.0)), i.mul(operand(i, x, y), math.log(2.0)))


def xlog1py_x_vjp(i: Any, g: Float, x: Float, y: Any) -> Float:
    """g · log(1 + y), which is 0 at x = 0 for y <= -1."""
    y = operand(i, x, y)
    none = i.discrete.bitwise_and(i.eq(x, 0.0), i.le(y, -1.0))
    return i.mul(g, i.log1p(i.where(none, i.full((), 0.0, y.dtype), y)))


def xlog1py_y_vjp(i: Any, g: Float, x: Float, y: Float) -> Float:
    """g · x / (1 + y), which is 0 at x = 0 and y = -1."""
    none = i.discrete.bitwise_and(i.eq(x, 0.0), i.eq(y, -1.0))
    return i.mul(g, i.div(x, i.add(i.where(none, i.full((), 0.0, y.dtype), y), 1.0)))


class Binary(OperationsBase):
    """Elementwise functions of two arguments."""

    @derived(POINTWISE, method=True, flops=6, vjp=(atan2_x_vjp, atan2_y_vjp))
    def atan2(self, x: Float, y: Float | Scalar) -> Float:
        """Compute the angle of the point (y, x) in radians, from -π to π; x is the ordinate.

        The gradient at (0, 0) is 0.

        >>> Tensor[NumPy].from_data([0.0, 1.0]).atan2(Tensor[NumPy].from_data([1.0, 0.0])).rad2deg().tolist()
        [0.0, 90.0]
        """
        x, y = pair(self, x, y)
        width, height = self.abs(y), self.abs(x)
        least, most = self.minimum(width, height), self.maximum(width, height)
        same = self.eq(width, height)  # 1 for two infinities
        ratio = self.div(least, self.where(self.eq(most, 0.0), self.add(most, 1.0), most))
        ratio = self.where(self.discrete.bitwise_and(same, self.ne(most, 0.0)), self.full((), 1.0, x.dtype), ratio)
        angle = self.atan(ratio)
        angle = self.where(self.gt(height, width), self.add(self.neg(angle), math.pi / 2), angle)
        angle = self.where(self.signbit(y), self.add(self.neg(angle), math.pi), angle)
        return self.copysign(angle, x)

    @derived(
        POINTWISE, method=True, flops=4, vjp=(hypot_x_vjp, lambda i, g, y, out: i.mul(g, ratio_or_zero(i, y, out)))
    )
    def hypot(self, x: Float, y: Float | Scalar) -> Float:
        """Compute the length of the vector (x, y), √(x² + y²), without overflow.

        It is infinite where x or ``y`` is, even beside a NaN. At (0, 0) the derivatives of all orders are 0.
        """
        x, y = pair(self, x, y)
        width, height = self.abs(x), self.abs(y)
        least, most = self.minimum(width, height), self.maximum(width, height)
        ratio = self.div(least, self.where(self.eq(most, 0.0), self.add(most, 1.0), most))
        length = self.mul(most, self.sqrt(self.add(self.mul(ratio, ratio), 1.0)))
        infinite = self.discrete.bitwise_or(self.isinf(x), self.isinf(y))
        return self.where(infinite, self.full((), math.inf, x.dtype), length)

    @derived(POINTWISE, method=True, vjp=(copysign_vjp, zero_vjp))
    def copysign(self, x: Float, y: Float | Scalar) -> Float:
        """Return the magnitude of x with the sign of ``y``; -0.0 counts as negative. The gradient at x = 0 is 0."""
        x, y = pair(self, x, y)
        size = self.abs(x)
        return self.where(self.signbit(y), self.neg(size), size)

    @derived(NONDIFFERENTIABLE, method=True, elementwise=True)
    def signbit(self, x: Real) -> Bool:
        """Test elementwise for a negative sign, which -0.0 has too; of a NaN the result is not specified."""
        if kind_of(x.dtype) == "int":
            return self.lt(x, 0)
        return self.lt(self.where(self.eq(x, 0.0), self.reciprocal(x), x), 0.0)

    @derived(POINTWISE, method=True, flops=100, vjp=(identity, fmod_y_vjp))
    def fmod(self, x: Real, y: Real | Scalar) -> Real:
        """Compute the remainder of division rounded toward 0, with the sign of x, as C's ``fmod``.

        Raises:
            ArgumentError: a divisor of ints is 0.

        >>> x = IntTensor[NumPy].from_data([7, -7])
        >>> x.fmod(3).tolist(), (x % 3).tolist()
        ([1, -1], [1, 2])
        """
        size = self.remainder(self.abs(x), abs(y) if isinstance(y, (int, float)) else self.abs(y))
        if kind_of(x.dtype) == "float":
            return self.copysign(size, x)
        return self.where(self.lt(x, 0), self.neg(size), size)

    @derived(
        POINTWISE,
        method=True,
        vjp=(
            lambda i, g, x, y: i.where(fmax_takes_x(i, x, y), g, 0.0),
            lambda i, g, x, y: i.where(i.discrete.bitwise_not(fmax_takes_x(i, x, y)), g, 0.0),
        ),
    )
    def fmax(self, x: Real, y: Real | Scalar) -> Real:
        """Return the elementwise maximum, or the operand that is not NaN. The gradient of equal operands goes to x."""
        if kind_of(x.dtype) == "int":
            return self.maximum(x, y)
        x, y = pair(self, x, y)
        return self.where(self.isnan(y), x, self.where(self.isnan(x), y, self.maximum(x, y)))

    @derived(
        POINTWISE,
        method=True,
        vjp=(
            lambda i, g, x, y: i.where(fmin_takes_x(i, x, y), g, 0.0),
            lambda i, g, x, y: i.where(i.discrete.bitwise_not(fmin_takes_x(i, x, y)), g, 0.0),
        ),
    )
    def fmin(self, x: Real, y: Real | Scalar) -> Real:
        """Return the elementwise minimum, or the operand that is not NaN. The gradient of equal operands goes to x."""
        if kind_of(x.dtype) == "int":
            return self.minimum(x, y)
        x, y = pair(self, x, y)
        return self.where(self.isnan(y), x, self.where(self.isnan(x), y, self.minimum(x, y)))

    @derived(
        POINTWISE,
        method=True,
        flops=8,
        vjp=(
            lambda i, g, x, y: i.mul(g, logaddexp_share(i, x, y)),
            lambda i, g, x, y: i.mul(g, logaddexp_share(i, y, x)),
        ),
    )
    def logaddexp(self, x: Float, y: Float | Scalar) -> Float:
        """Compute log(exp(x) + exp(y)) without overflow, as max(x, y) + log1p(exp(-|x - y|))."""
        x, y = pair(self, x, y)
        distance = self.abs(self.sub(x, y))
        distance = self.where(self.eq(x, y), self.full((), 0.0, x.dtype), distance)  # of infinities too
        return self.add(self.maximum(x, y), self.log1p(self.exp(self.neg(distance))))

    @derived(
        POINTWISE,
        method=True,
        flops=9,
        vjp=(
            lambda i, g, x, y: i.mul(g, logaddexp2_share(i, x, y)),
            lambda i, g, x, y: i.mul(g, logaddexp2_share(i, y, x)),
        ),
    )
    def logaddexp2(self, x: Float, y: Float | Scalar) -> Float:
        """Compute log2(exp2(x) + exp2(y)) without overflow; see `logaddexp`."""
        x, y = pair(self, x, y)
        distance = self.abs(self.sub(x, y))
        distance = self.where(self.eq(x, y), self.full((), 0.0, x.dtype), distance)  # of infinities too
        excess = self.log1p(self.exp(self.mul(distance, -math.log(2.0))))
        return self.add(self.maximum(x, y), self.mul(excess, 1.0 / math.log(2.0)))

    @derived(
        POINTWISE, method=True, flops=12, vjp=(lambda i, g, x, y: i.where(i.ne(x, operand(i, x, y)), g, 0.0), zero_vjp)
    )
    def nextafter(self, x: Float, y: Float | Scalar) -> Float:
        """Return the next number of the dtype after x toward ``y``; where they are equal, ``y``.

        The gradient goes to x, where it differs from ``y``.

        Source of the default: Rump, Zimmermann, Boldo and Melquiond, Computing Predecessor and Successor in Rounding to
        Nearest, 2009.

        >>> Tensor[NumPy].from_data([1.0, 0.0]).nextafter(2.0).tolist()
        [1.0000001192092896, 1.401298464324817e-45]
        """
        from burnpy.backend.numerics.arithmetic import neighbour

        return neighbour(self, *pair(self, x, y))

    @derived(POINTWISE, method=True, flops=4, vjp=(xlogy_x_vjp, xlogy_y_vjp))
    def xlogy(self, x: Float, y: Float | Scalar) -> Float:
        """Compute x · log(y), which is 0 at x = 0 unless ``y`` is NaN."""
        x, y = pair(self, x, y)
        none = self.discrete.bitwise_and(self.eq(x, 0.0), self.eq(y, y))
        return self.where(none, self.full((), 0.0, x.dtype), self.mul(x, self.log(y)))

    @derived(POINTWISE, flops=4, vjp=(xlog1py_x_vjp, xlog1py_y_vjp))
    def xlog1py(self, x: Float, y: Float | Scalar) -> Float:
        """Compute x · log(1 + y), which is 0 at x = 0 unless ``y`` is NaN."""
        x, y = pair(self, x, y)
        none = self.discrete.bitwise_and(self.eq(x, 0.0), self.eq(y, y))
        return self.where(none, self.full((), 0.0, x.dtype), self.mul(x, self.log1p(y)))

    @derived(
        POINTWISE,
        flops=2,
        vjp=(
            lambda i, g, x, y: i.mul(g, i.fused(twice_difference, (x, operand(i, x, y)))[0]),
            lambda i, g, x, y: i.mul(g, i.fused(twice_difference, (y, x))[0]),
        ),
    )
    def squared_difference(self, x: Float, y: Float | Scalar) -> Float:
        """Compute (x - y)²."""
        difference = self.sub(x, y)
        return self.mul(difference, difference)
