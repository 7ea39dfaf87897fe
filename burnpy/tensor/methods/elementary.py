"""Elementary and special functions of float tensors, of one and of two, and some activation functions."""

from __future__ import annotations

import math
from typing import Any, Self

from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.backend.operations.lists import lerp_each
from burnpy.tensor.dims import integer
from burnpy.tensor.methods.arithmetic import combined
from burnpy.tensor.operands import number, operands, together
from burnpy.tensor.template import binary, unary
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B


class Elementary(TensorBase[B]):
    """Elementary and special functions of floats, of one tensor or two, which broadcast; nothing warns, as in IEEE 754.

    Special functions are exact to a few roundings, and 16-bit floats are computed in float32.
    """

    __slots__ = ()

    @unary
    def expm1(self) -> Self:
        """The function exp(x) - 1, accurate near 0."""
        ...

    @unary
    def log1p(self) -> Self:
        """The function log(1 + x), accurate near 0."""
        ...

    @unary
    def exp2(self) -> Self:
        """The power of two, 2 to the power x."""
        ...

    @unary
    def log2(self) -> Self:
        """The logarithm to base 2; -inf at 0, NaN below.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([1.0, 8.0]).log2().tolist()
        [0.0, 3.0]
        """
        ...

    @unary
    def log10(self) -> Self:
        """The logarithm to base 10; -inf at 0, NaN below."""
        ...

    @unary
    def tan(self) -> Self:
        """The tangent of x radians."""
        ...

    @unary
    def asin(self) -> Self:
        """The inverse sine in radians, from -π/2 to π/2; NaN outside of [-1, 1]. Its gradient at ±1 is inf."""
        ...

    @unary
    def acos(self) -> Self:
        """The inverse cosine in radians, from 0 to π; NaN outside of [-1, 1]. Its gradient at ±1 is -inf."""
        ...

    @unary
    def atan(self) -> Self:
        """The inverse tangent in radians, from -π/2 to π/2."""
        ...

    @unary
    def sinh(self) -> Self:
        """The hyperbolic sine."""
        ...

    @unary
    def cosh(self) -> Self:
        """The hyperbolic cosine."""
        ...

    @unary
    def asinh(self) -> Self:
        """The inverse hyperbolic sine."""
        ...

    @unary
    def acosh(self) -> Self:
        """The inverse hyperbolic cosine, which is not negative; NaN below 1. Its gradient at 1 is inf."""
        ...

    @unary
    def atanh(self) -> Self:
        """The inverse hyperbolic tangent; ±inf at ±1, NaN beyond."""
        ...

    @unary
    def trunc(self) -> Self:
        """The integer next to x toward 0, as a float. Its gradient is 0.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].from_data([1.75, -1.75])
        >>> x.trunc().tolist(), x.frac().tolist()
        ([1.0, -1.0], [0.75, -0.75])
        """
        ...

    def frac(self) -> Self:
        """The part of x behind the point, with the sign of x: x - trunc(x). Its gradient is 1."""
        b, x = self._backend, self._primitive
        return self._like(b.sub(x, b.trunc(x)))

    def deg2rad(self) -> Self:
        """The angle x, in degrees, in radians."""
        return self._like(self._backend.mul(self._primitive, math.pi / 180))

    def rad2deg(self) -> Self:
        """The angle x, in radians, in degrees."""
        return self._like(self._backend.mul(self._primitive, 180 / math.pi))

    def logit(self, eps: float | None = None) -> Self:
        """The inverse of the sigmoid, log(x / (1 - x)); ±inf at 0 and 1, NaN outside of them.

        Args:
            eps: if given, x is first limited to the range from eps to 1 - eps.

        Raises:
            ArgumentError: ``eps`` is not from 0 to 0.5.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([0.0, 0.5]).logit().tolist()
        [-inf, 0.0]
        """
        b, x = self._backend, self._primitive
        if eps is not None:
            if not 0.0 <= number(self, eps, "logit") <= 0.5:
                raise ArgumentError(f"logit() got eps={describe(eps)}; give a number from 0 to 0.5, or None")
            x = b.clamp(x, eps, 1.0 - eps)
        return self._like(b.sub(b.log(x), b.log1p(b.neg(x))))

    @unary
    def erfc(self) -> Self:
        """Compute the complementary error function, 1 - erf(x). Small values keep all their digits.

        Source: Cody, Rational Chebyshev Approximation for the Error Function, 1969.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> f"{Tensor[NumPy].from_data(9.0).erfc().item():.6g}"
        '4.13703e-37'
        """
        ...

    @unary
    def erfinv(self) -> Self:
        """The inverse of the error function; ±inf at ±1, NaN beyond.

        Source: Wichura, Algorithm AS 241, 1988.
        """
        ...

    @unary
    def lgamma(self) -> Self:
        """The logarithm of the absolute value of the gamma function; inf at 0 and at negative integers.

        Source: Abramowitz and Stegun, Handbook of Mathematical Functions, chapter 6.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> round(Tensor[NumPy].from_data(5.0).lgamma().exp().item(), 4)
        24.0
        """
        ...

    @unary
    def digamma(self) -> Self:
        """The derivative of `lgamma`; NaN at negative integers, ∓inf at ±0."""
        ...

    def polygamma(self, n: int) -> Self:
        """The n-th derivative of `digamma`; infinite at 0 and at negative integers.

        Raises:
            ArgumentError: ``n`` is negative.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> round(Tensor[NumPy].from_data(1.0).polygamma(1).item(), 4)  # π² / 6
        1.6449
        """
        order = integer(n, "order", "polygamma")
        if order < 0:
            raise ArgumentError(f"polygamma() got the derivative of order {order}; give 0 or more")
        b = self._backend
        return self._like(b.polygamma(self._primitive, order) if order else b.digamma(self._primitive))

    @unary
    def sinc(self) -> Self:
        """The normalized sinc, sin(πx) / (πx); 1 at 0, where its derivatives of all orders are exact."""
        ...

    @binary
    def atan2(self, other: Self | float) -> Self:
        """The angle of the point (other, x) in radians, from -π to π: x is the ordinate, ``other`` the abscissa.

        The gradient at (0, 0) is 0.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([0.0, 1.0]).atan2(Tensor[NumPy].from_data([1.0, 0.0])).rad2deg().tolist()
        [0.0, 90.0]
        """
        ...

    @binary
    def hypot(self, other: Self | float) -> Self:
        """The length of the vector (x, other), √(x² + other²), without overflow. The gradient at (0, 0) is 0."""
        ...

    @binary
    def copysign(self, other: Self | float) -> Self:
        """Return the magnitude of x with the sign of ``other``; -0.0 counts as negative. The gradient at x = 0 is 0."""
        ...

    @binary
    def logaddexp(self, other: Self | float) -> Self:
        """The logarithm of exp(x) + exp(other), without overflow."""
        ...

    @binary
    def xlogy(self, other: Self | float) -> Self:
        """The product x · log(other), which is 0 at x = 0 unless ``other`` is NaN."""
        ...

    def lerp(self, end: Self, weight: Self | float) -> Self:
        """The linear interpolation x + weight · (end - x), which is exactly ``end`` at weight 1.

        Raises:
            ShapeError: the shapes do not broadcast.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([0.0, 10.0]).lerp(Tensor[NumPy].from_data([4.0, 20.0]), 0.25).tolist()
        [1.0, 12.5]
        """
        x, stop, part = combined("lerp", self, end, weight)
        ends = (x._primitive, stop._primitive)
        if isinstance(part, TensorBase):
            (out,) = x._backend.fused(_from_nearer, (*ends, part._primitive))
        elif abs(part) < 0.5:
            (out,) = x._backend.fused(lerp_each, ends, (part,))
        else:
            (out,) = x._backend.fused(_from_end, ends, (1.0 - part,))
        return x._like(out)  # type: ignore[no-any-return]  # of this class

    def addcdiv(self, tensor1: Self, tensor2: Self, *, value: float = 1) -> Self:
        """The sum x + value · tensor1 / tensor2.

        Raises:
            ShapeError: the shapes do not broadcast.
        """
        x, first, second = combined("addcdiv", self, tensor1, tensor2)
        quotient: Any = first / second
        return x + (quotient if value == 1 else quotient * number(self, value, "addcdiv"))  # type: ignore[no-any-return]  # as above

    def hardshrink(self, lambd: float = 0.5) -> Self:
        """x where ``|x|`` is above ``lambd``, and 0 elsewhere; there the gradient is 0. A negative ``lambd`` keeps all.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([-2.0, 0.25, 2.0]).hardshrink().tolist()
        [-2.0, 0.0, 2.0]
        """
        b, x, limit = self._backend, self._primitive, number(self, lambd, "hardshrink")
        return self._like(b.where(b.discrete.bitwise_not(b.le(b.abs(x), limit)), x, 0.0))

    def prelu(self, weight: Self) -> Self:
        """x where it is positive, and weight · x elsewhere. The gradient at 0 is the weight.

        A weight that is NaN or infinite does not reach positive elements, nor their gradients.

        Args:
            weight: of one element, or a vector with one for each channel, which are dimension 1 of x.

        Source: He et al., Delving Deep into Rectifiers, 2015.

        Raises:
            ShapeError: there are neither as many weights as channels nor one.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].from_data([[-1.0, -1.0], [1.0, 1.0]])
        >>> x.prelu(Tensor[NumPy].from_data([0.5, 0.25])).tolist()
        [[-0.5, -0.25], [1.0, 1.0]]
        """
        if not isinstance(weight, TensorBase):
            raise KindError(f"prelu() takes a Tensor as weight, got {describe(weight)}")
        operands(self, weight, "prelu")  # raises an error if they cannot be combined
        channels = self.shape[1] if self.ndim > 1 else 1
        if weight.shape not in ((), (1,), (channels,)):
            raise ShapeError(
                f"prelu() got x of shape {self.shape} and weight of shape {weight.shape}; expected a weight of shape "
                f"(1,), or ({channels},) for the channels in dimension 1"
            )
        x, slopes = together("prelu", self, weight)
        if slopes.ndim:
            slopes = slopes.reshape((channels, *(1,) * (self.ndim - 2)) if slopes.shape[0] > 1 else ())
        b: Any = x._backend
        sloped = b.discrete.bitwise_not(b.gt(x._primitive, 0.0))  # NaN too
        negative = b.where(sloped, x._primitive, 0.0)
        return x._like(b.where(sloped, b.mul(negative, slopes._primitive), x._primitive))  # type: ignore[no-any-return]  # of this class


def _from_end(b: Any, x: Any, stop: Any, rest: Any) -> tuple[Any]:
    return (b.sub(stop, b.mul(b.sub(stop, x), rest)),)


def _from_nearer(b: Any, x: Any, stop: Any, share: Any) -> tuple[Any]:
    step = b.sub(stop, x)
    near, far = b.add(x, b.mul(step, share)), b.sub(stop, b.mul(step, b.add(b.neg(share), 1.0)))
    return (b.where(b.lt(b.abs(share), 0.5), near, far),)
