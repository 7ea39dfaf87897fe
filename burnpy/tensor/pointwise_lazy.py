"""Elementwise arithmetic and functions that few programs call, loaded at first use.

`burnpy.tensor.arithmetic` has the operators, and `burnpy.tensor.pointwise` the other functions.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self

import numpy as np

from burnpy.backend.dtypes import float32, float64, has_few_exponents, int32, int64, largest
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.backend.primitives import Float, Int
from burnpy.tensor.comparison import _doubles
from burnpy.tensor.dim_checks import integer
from burnpy.tensor.operand_checks import check_broadcast, combined, number, operands, together
from burnpy.tensor.template import S, unary
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B, U, V

if TYPE_CHECKING:
    from burnpy.tensor.tensor import IntTensor, Tensor
    from burnpy.tensor.tensor_types import Ints


class Mantissas(NamedTuple, Generic[V, U]):
    """The result of ``x.frexp()``: x is mantissa · 2 to the power of the exponent."""

    mantissa: V
    """Floats whose magnitude is from 0.5 on, below 1."""
    exponent: U
    """Powers of two, int32."""


class FloatParts(TensorBase[B]):
    """Quotients that are added, and the parts of floats."""

    __slots__ = ()

    def frac(self) -> Self:
        """Return the part of x behind the point, with the sign of x: x - trunc(x). Its gradient is 1."""
        (out,) = self._backend.fused(_behind_the_point, (self._primitive,))
        return self._like(out)

    def ldexp(self, other: Ints[B] | Self | float) -> Self:
        """Return the product x · 2ⁿ with n = ``other``, rounded once if n is of ints, also where 2ⁿ itself would
        overflow.

        Args:
            other: an `IntTensor`, an int, or floats, with which it is ``x * other.exp2()``. The shapes broadcast.

        Raises:
            ShapeError: the shapes do not broadcast.

        Source: musl, scalbn.

        >>> Tensor[NumPy].from_data([1.5, 3.0]).ldexp(IntTensor[NumPy].from_data([4, -1])).tolist()
        [24.0, 1.5]
        """
        given: Any = other
        if isinstance(given, TensorBase) and given.kind == "int":
            x, exponent = together("ldexp", self, given)
            check_broadcast("ldexp", x, exponent)
            return x._like(_scaled(x, exponent._primitive))  # type: ignore[no-any-return]  # of this class
        if isinstance(given, int):
            exponent = self._device.discrete.full((), max(-_BEYOND_EXPONENTS, min(given, _BEYOND_EXPONENTS)), int64)
            return self._like(_scaled(self, exponent))
        x, power = combined("ldexp", self, given)
        b: Any = x._backend
        powers = power._primitive if isinstance(power, TensorBase) else b.full((), power, x.dtype)
        return x * x._like(b.exp2(powers))  # type: ignore[no-any-return]  # of this class

    def frexp(self) -> Mantissas[Self, IntTensor[B]]:
        """Return the mantissa and exponent of x = mantissa · 2ᵉ, the mantissa's magnitude from 0.5 on, below 1.

        The exponent, int32, of 0, infinities and NaN is 0, and the mantissa x itself. The gradient of the mantissa
        is 2⁻ᵉ.

        >>> mantissa, exponent = Tensor[NumPy].from_data([3.0, -0.125]).frexp()
        >>> mantissa.tolist(), exponent.tolist()
        ([0.75, -0.5], [2, -2])
        """
        b, x = self._backend, self._primitive
        narrow = has_few_exponents(x.dtype)
        mantissa, exponent = b.fused(_mantissa_and_exponent, (b.cast(x, float32) if narrow else x,))
        mantissa = b.cast(mantissa, x.dtype) if narrow else mantissa
        return Mantissas(self._like(mantissa), self._int(b.to_int(b.detach(exponent), int32)))

    def addcdiv(self, tensor1: Self, tensor2: Self, *, value: float = 1) -> Self:
        """Return the sum x + value · tensor1 / tensor2.

        Raises:
            ShapeError: the shapes do not broadcast.
        """
        x, first, second = combined("addcdiv", self, tensor1, tensor2)
        if not isinstance(second, TensorBase):
            second = x.full_like(second)  # x / 0 is ∞, and an error of numbers
        factor = number(self, value, "addcdiv")
        if isinstance(first, TensorBase):
            (out,) = x._backend.fused(_sum_with_quotient, [t._primitive for t in (x, first, second)], (factor,))
            return x._like(out)  # type: ignore[no-any-return]  # of this class
        return x + first / second * factor  # type: ignore[no-any-return]  # as above


class Combining(TensorBase[B], Generic[B, S]):
    """Functions of several tensors of one kind, which broadcast and promote."""

    __slots__ = ()

    def heaviside(self, values: Self | S) -> Self:
        """Return the step function: 0 where x < 0 or x is NaN, 1 where x > 0, and ``values`` where x is 0.

        It is constant in x, so its gradient goes to ``values`` alone.

        Raises:
            ShapeError: the shapes do not broadcast.
        """
        x, values = combined("heaviside", self, values)
        b = x._backend
        if x.kind == "float" and isinstance(values, TensorBase):
            (out,) = b.fused(_step, b.promote(x._primitive, values._primitive))
            return x._like(out)  # type: ignore[no-any-return]  # of this class
        above: Any = b.where(b.gt(x._primitive, 0), x.ones_like()._primitive, 0)
        return x._like(above).where(x.ne(0), values)  # type: ignore[no-any-return]  # of this class

    def addcmul(self, tensor1: Self, tensor2: Self, *, value: S | int = 1) -> Self:
        """Return the sum x + value · tensor1 · tensor2.

        Raises:
            ShapeError: the shapes do not broadcast.

        >>> x = IntTensor[NumPy].from_data([1, 2])
        >>> x.addcmul(x, x, value=10).tolist()
        [11, 42]
        """
        xs = combined("addcmul", self, tensor1, tensor2)
        factor = number(self, value, "addcmul")
        if self.kind == "float" and all(isinstance(x, TensorBase) for x in xs):
            (out,) = xs[0]._backend.fused(_sum_with_product, [x._primitive for x in xs], (factor,))
            return xs[0]._like(out)  # type: ignore[no-any-return]  # of this class
        x, first, second = xs
        return x + first * second * factor  # type: ignore[no-any-return]  # as above

    def float_power(self, exponent: Tensor[B] | Ints[B] | float) -> Tensor[B]:
        """Return the power in float64, a `Tensor`, of floats and of ints; the exponent may be of either kind too.

        Raises:
            ShapeError: the shapes do not broadcast.

        >>> IntTensor[NumPy].from_data([2, 10]).float_power(-1).tolist()
        [0.5, 0.1]
        """
        if not isinstance(exponent, TensorBase):
            base = _doubles(self)
            return base.pow(number(base, exponent, "float_power"))  # type: ignore[no-any-return]  # a Tensor
        if not {self.kind, exponent.kind} <= {"float", "int"}:
            raise KindError(f"float_power() takes floats and ints, got {describe(self)} and {describe(exponent)}")
        base, power = together("float_power", self, exponent)
        return _doubles(base).pow(_doubles(power))  # type: ignore[no-any-return]  # a Tensor

    def nan_to_num(
        self, nan: S | float = 0.0, posinf: S | float | None = None, neginf: S | float | None = None
    ) -> Self:
        """Return the elements with numbers in place of NaN and of the infinities; ints are returned unchanged.

        Args:
            nan: in place of NaN.
            posinf: in place of inf; None for the largest number of the dtype.
            neginf: in place of -inf; None for the least one.

        The gradient is 0 where an element was replaced.

        >>> Tensor[NumPy].from_data([float("nan"), float("inf"), 1.0]).nan_to_num(posinf=9.0).tolist()
        [0.0, 9.0, 1.0]
        """
        if self.kind != "float":
            return self
        most = largest(self.dtype)
        values = nan, most if posinf is None else posinf, -most if neginf is None else neginf
        numbers = tuple([number(self, value, "nan_to_num") for value in values])
        (out,) = self._backend.fused(_numbers_for_nan, (self._primitive,), numbers)
        return self._like(out)


def _sum_with_product(b: Any, x: Float, first: Float, second: Float, factor: float) -> tuple[Float]:
    return (b.add(x, b.mul(b.mul(first, second), factor)),)


def _sum_with_quotient(b: Any, x: Float, first: Float, second: Float, factor: float) -> tuple[Float]:
    return (b.add(x, b.mul(b.div(first, second), factor)),)


def _step(b: Any, x: Float, values: Float) -> tuple[Float]:
    return (b.where(b.eq(x, 0.0), values, b.to_float(b.gt(x, 0.0), x.dtype)),)


def _mantissa_and_exponent(b: Any, x: Float) -> tuple[Float, Float]:
    """Multiply by powers of two, which is exact, until the magnitude is from 0.5 on and below 1."""
    steps = [1 << k for k in reversed(range(7 if x.dtype.itemsize <= 4 else 10))]
    mantissa, exponent = x, b.full(x.shape, 0.0, x.dtype)
    regular = b.discrete.bitwise_and(b.isfinite(x), b.ne(x, 0.0))
    for step in (*steps, 1):
        large = b.ge(b.abs(mantissa), 2.0 ** (step - 1))
        mantissa = b.where(large, b.mul(mantissa, 2.0**-step), mantissa)
        exponent = b.where(large, b.add(exponent, float(step)), exponent)
    for step in (steps[0], *steps):
        small = b.lt(b.abs(mantissa), 2.0**-step)
        mantissa = b.where(small, b.mul(mantissa, 2.0**step), mantissa)
        exponent = b.where(small, b.sub(exponent, float(step)), exponent)
    return b.where(regular, mantissa, x), b.where(regular, exponent, 0.0)


def _behind_the_point(b: Any, x: Float) -> tuple[Float]:
    return (b.sub(x, b.trunc(x)),)


def _numbers_for_nan(b: Any, x: Float, nan: float, most: float, least: float) -> tuple[Float]:
    for found, value in ((b.isnan(x), nan), (b.eq(x, math.inf), most), (b.eq(x, -math.inf), least)):
        x = b.where(b.discrete.bitwise_not(found), x, value)
    return (x,)


def _sloped(b: Any, x: Any, slope: Any) -> tuple[Any]:
    sloped = b.discrete.bitwise_not(b.gt(x, 0.0))  # NaN too
    return (b.where(sloped, b.mul(b.where(sloped, x, 0.0), slope), x),)


def _shrunk(b: Any, x: Float, limit: float) -> tuple[Float]:
    return (b.where(b.discrete.bitwise_not(b.le(b.abs(x), limit)), x, 0.0),)


def _logit(b: Any, x: Float) -> tuple[Float]:
    fits = b.discrete.bitwise_and(b.ge(x, 0.0), b.le(x, 1.0))
    x = b.mul(x, b.where(fits, b.full((), 1.0, x.dtype), math.nan))  # the derivatives of both terms are finite outside
    return (b.sub(b.log(x), b.log1p(b.neg(x))),)


_BEYOND_EXPONENTS = 1 << 20
"""An exponent of two beyond those of all dtypes."""


def _scaled(x: Any, exponent: Int) -> Float:
    """Return the primitive of x times powers of two. Only the last factor rounds. Shorter floats take one factor in
    float64. Float64 takes three; a negative exponent is divided so that a product that is subnormal too early is far
    below the last rounding."""
    b, d, dtype = x._backend, x._device.discrete, x.dtype
    shape, out, rest = exponent.shape, x._primitive, d.cast(exponent, int64)
    powers, least = b.from_numpy(_powers_of_two()), _LEAST_EXPONENT
    if dtype != float64:
        out, lows = b.cast(out, float64), [least]
    else:
        lows = [least + _DIGITS, least + _DIGITS, least]
    for k, low in enumerate(lows):
        part = d.clamp(rest, low, 1 - least)
        places = d.reshape(d.sub(part, least), (math.prod(shape),))
        out = b.mul(out, b.reshape(b.index_select(powers, 0, places), shape))
        rest = d.sub(rest, part) if k + 1 < len(lows) else rest
    return out if dtype == float64 else b.cast(out, dtype)


_LEAST_EXPONENT, _DIGITS = -1022, 53
"""Of float64: the exponent of the least number that is not subnormal, and the number of digits."""


@cache
def _powers_of_two() -> Any:
    return np.ldexp(1.0, np.arange(_LEAST_EXPONENT, 2 - _LEAST_EXPONENT))


class Elementary(TensorBase[B]):
    """Elementary and special functions of floats, interpolation, and some activation functions."""

    __slots__ = ()

    def deg2rad(self) -> Self:
        """Return the angle x, in degrees, in radians."""
        return self._like(self._backend.mul(self._primitive, math.pi / 180))

    def rad2deg(self) -> Self:
        """Return the angle x, in radians, in degrees."""
        return self._like(self._backend.mul(self._primitive, 180 / math.pi))

    @unary
    def log1p(self) -> Self:
        """Compute log(1 + x), accurate near 0; -inf at -1, NaN below."""
        ...

    def logit(self, eps: float | None = None) -> Self:
        """Return the inverse of the sigmoid, log(x / (1 - x)); ±inf at 0 and 1, NaN outside of them.

        Args:
            eps: if given, x is first limited to the range from eps to 1 - eps.

        Raises:
            ArgumentError: ``eps`` is not from 0 to 0.5.

        >>> Tensor[NumPy].from_data([0.0, 0.5]).logit().tolist()
        [-inf, 0.0]
        """
        b, x = self._backend, self._primitive
        if eps is not None:
            if not 0.0 <= number(self, eps, "logit") <= 0.5:
                raise ArgumentError(f"logit() got eps={describe(eps)}; give a number from 0 to 0.5, or None")
            x = b.clamp(x, eps, 1.0 - eps)
        (out,) = b.fused(_logit, (x,))
        return self._like(out)

    def polygamma(self, n: int) -> Self:
        """Return the n-th derivative of `digamma`; infinite at 0 and at negative integers.

        Raises:
            ArgumentError: ``n`` is negative, or above 170: no float holds its factorial.

        >>> round(Tensor[NumPy].from_data(1.0).polygamma(1).item(), 4)  # π² / 6
        1.6449
        """
        order = integer(n, "order", "polygamma")
        if not 0 <= order <= 170:
            raise ArgumentError(f"polygamma() got the derivative of order {order}; give 0 to 170")
        b = self._backend
        return self._like(b.polygamma(self._primitive, order) if order else b.digamma(self._primitive))

    def mvlgamma(self, p: int) -> Self:
        """Return the logarithm of the multivariate gamma function of dimension p: the sum of lgamma(x - j / 2) over j <
        p, plus log(π) · p (p - 1) / 4.

        Raises:
            ArgumentError: ``p`` is less than 1.

        >>> round(Tensor[NumPy].from_data(3.0).mvlgamma(2).item(), 3)
        1.55
        """
        count = integer(p, "p", "mvlgamma")
        if count < 1:
            raise ArgumentError(f"mvlgamma() got p={count}; give 1 or more")
        b, x = self._backend, self._primitive
        total = b.lgamma(x)
        for j in range(1, count):
            total = b.add(total, b.lgamma(b.add(x, -j / 2)))
        return self._like(b.add(total, math.log(math.pi) * count * (count - 1) / 4))

    def hardshrink(self, lambd: float = 0.5) -> Self:
        """x where ``|x|`` is above ``lambd``, and 0 elsewhere; there the gradient is 0. A negative ``lambd`` keeps all.

        >>> Tensor[NumPy].from_data([-2.0, 0.25, 2.0]).hardshrink().tolist()
        [-2.0, 0.0, 2.0]
        """
        (out,) = self._backend.fused(_shrunk, (self._primitive,), (number(self, lambd, "hardshrink"),))
        return self._like(out)

    def prelu(self, weight: Self) -> Self:
        """x where it is positive, and weight · x elsewhere. The gradient at 0 is the weight.

        A weight that is NaN or infinite does not reach positive elements, nor their gradients.

        Args:
            weight: of one element, or a vector with one for each channel, which are dimension 1 of x.

        Source: He et al., Delving Deep into Rectifiers, 2015.

        Raises:
            ShapeError: there are neither as many weights as channels nor one.

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
            slopes = slopes.reshape((channels, *(1,) * (self.ndim - 2)) if slopes.shape[0] != 1 else ())
        if not slopes.ndim:  # which does not promote x
            slopes = slopes.to_dtype(x.dtype)
        b: Any = x._backend
        slope = slopes._primitive
        if slopes.ndim and x.dtype.itemsize < 4:  # whose backward pass is fused for arrays of one shape alone
            slope = b.expand(slope, x.shape)
        (out,) = b.fused(_sloped, (x._primitive, slope))
        return x._like(out)  # type: ignore[no-any-return]  # of this class
