"""Methods that are one operation each, by the kind of their operands.

This file is made by ``make generated`` from the operations of ``burnpy/backend/operations`` that are
declared with ``method=True``, and from their docstrings. A body of ``...`` is not what runs: the decorator copies a
function of `burnpy.tensor.template`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Self

from burnpy.tensor.template import S, binary, predicate, unary
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import BoolTensor


class FloatFunctions(TensorBase[B]):
    """Elementwise functions of floats, of one tensor or two, which broadcast; nothing warns, as in IEEE 754.

    Special functions are exact to a few roundings, and 16-bit floats are computed in float32.
    """

    __slots__ = ()

    @unary
    def i0(self) -> Self:
        """Compute I₀(x), the modified Bessel function of the first kind of order 0.

        >>> round(Tensor[NumPy].from_data(1.0).i0().item(), 4)
        1.2661
        """
        ...

    @unary
    def trunc(self) -> Self:
        """Round toward 0. The gradient is 0.

        >>> x = Tensor[NumPy].from_data([1.75, -1.75])
        >>> x.trunc().tolist(), x.frac().tolist()
        ([1.0, -1.0], [0.75, -0.75])
        """
        ...

    @binary
    def atan2(self, other: Self | float) -> Self:
        """Compute the angle of the point (other, x) in radians, from -π to π; x is the ordinate.

        The gradient at (0, 0) is 0.

        >>> Tensor[NumPy].from_data([0.0, 1.0]).atan2(Tensor[NumPy].from_data([1.0, 0.0])).rad2deg().tolist()
        [0.0, 90.0]
        """
        ...

    @binary
    def hypot(self, other: Self | float) -> Self:
        """Compute the length of the vector (x, other), √(x² + y²), without overflow.

        It is infinite where x or ``other`` is, even beside a NaN. At (0, 0) the derivatives of all orders are 0.
        """
        ...

    @binary
    def copysign(self, other: Self | float) -> Self:
        """Return the magnitude of x with the sign of ``other``; -0.0 counts as negative. The gradient at x = 0 is 0."""
        ...

    @binary
    def logaddexp(self, other: Self | float) -> Self:
        """Compute log(exp(x) + exp(other)) without overflow, as max(x, other) + log1p(exp(-|x - other|))."""
        ...

    @binary
    def logaddexp2(self, other: Self | float) -> Self:
        """Compute log2(exp2(x) + exp2(other)) without overflow; see `logaddexp`."""
        ...

    @binary
    def nextafter(self, other: Self | float) -> Self:
        """Return the next number of the dtype after x toward ``other``; where they are equal, ``other``.

        The gradient goes to x, where it differs from ``other``.

        Source of the default: Rump, Zimmermann, Boldo and Melquiond, Computing Predecessor and Successor in Rounding to
        Nearest, 2009.

        >>> Tensor[NumPy].from_data([1.0, 0.0]).nextafter(2.0).tolist()
        [1.0000001192092896, 1.401298464324817e-45]
        """
        ...

    @binary
    def xlogy(self, other: Self | float) -> Self:
        """Compute x · log(other), which is 0 at x = 0 unless ``other`` is NaN."""
        ...

    @unary
    def erfc(self) -> Self:
        """Compute the complementary error function, 1 - erf(x). Small values keep all their digits.

        Source: Cody, Rational Chebyshev Approximation for the Error Function, 1969.

        >>> f"{Tensor[NumPy].from_data(9.0).erfc().item():.6g}"
        '4.13703e-37'
        """
        ...

    @unary
    def erfinv(self) -> Self:
        """Compute the inverse of the error function; ±inf at ±1, NaN beyond.

        Source: Wichura, Algorithm AS 241, 1988.
        """
        ...

    @unary
    def lgamma(self) -> Self:
        """Compute the logarithm of the absolute value of the gamma function; inf at 0 and at negative integers.

        Source: Abramowitz and Stegun, Handbook of Mathematical Functions, chapter 6.

        >>> round(Tensor[NumPy].from_data(5.0).lgamma().exp().item(), 4)
        24.0
        """
        ...

    @unary
    def digamma(self) -> Self:
        """Compute the derivative of `lgamma`; NaN at negative integers, -inf at 0 and inf at -0."""
        ...

    @unary
    def sinc(self) -> Self:
        """Compute the normalized sinc, sin(πx) / (πx); 1 at 0, where its derivatives of all orders are exact."""
        ...

    @binary
    def igamma(self, other: Self | float) -> Self:
        """Compute P(x, other), the regularized lower incomplete gamma function.

        It is the integral of tˣ⁻¹ e⁻ᵗ / Γ(x) from 0 to ``other``: the distribution function of gamma numbers of shape
        x. A negative operand gives NaN. It is differentiable in both operands; PyTorch's only in ``other``.

        Source: Temme, The Asymptotic Expansion of the Incomplete Gamma Functions, 1979, and DLMF, chapter 8.

        >>> x = Tensor[NumPy].from_data([1.0, 2.0])
        >>> [round(p, 4) for p in x.igamma(1.0).tolist()]
        [0.6321, 0.2642]
        """
        ...

    @binary
    def igammac(self, other: Self | float) -> Self:
        """Compute 1 - P(x, other), the regularized upper incomplete gamma function, whose small values keep all digits.

        The operands are those of `igamma`.

        >>> f"{Tensor[NumPy].from_data(2.0).igammac(50.0).item():.6g}"
        '9.83662e-21'
        """
        ...


class AnalyticFunctions(TensorBase[B]):
    """Elementwise functions of floats or complex numbers; nothing warns, as in IEEE 754.

    Of complex numbers they are the principal values.
    """

    __slots__ = ()

    @unary
    def tan(self) -> Self:
        """Compute the tangent of x radians."""
        ...

    @unary
    def asin(self) -> Self:
        """Compute the inverse sine in radians, from -π/2 to π/2; NaN outside of [-1, 1]. The gradient at ±1 is inf."""
        ...

    @unary
    def acos(self) -> Self:
        """Compute the inverse cosine in radians, from 0 to π; NaN outside of [-1, 1]. The gradient at ±1 is -inf."""
        ...

    @unary
    def atan(self) -> Self:
        """Compute the inverse tangent in radians, from -π/2 to π/2."""
        ...

    @unary
    def sinh(self) -> Self:
        """Compute the hyperbolic sine."""
        ...

    @unary
    def cosh(self) -> Self:
        """Compute the hyperbolic cosine."""
        ...

    @unary
    def asinh(self) -> Self:
        """Compute the inverse hyperbolic sine, without overflow."""
        ...

    @unary
    def acosh(self) -> Self:
        """Compute the inverse hyperbolic cosine, which is not negative; NaN below 1. The gradient at 1 is inf."""
        ...

    @unary
    def atanh(self) -> Self:
        """Compute the inverse hyperbolic tangent; ±inf at ±1, NaN beyond."""
        ...

    @unary
    def exp2(self) -> Self:
        """Compute the power of two, 2ˣ."""
        ...

    @unary
    def log2(self) -> Self:
        """Compute the logarithm to base 2; -inf at 0, NaN below.

        >>> Tensor[NumPy].from_data([1.0, 8.0]).log2().tolist()
        [0.0, 3.0]
        """
        ...

    @unary
    def log10(self) -> Self:
        """Compute the logarithm to base 10; -inf at 0, NaN below."""
        ...

    @unary
    def expm1(self) -> Self:
        """Compute exp(x) - 1, accurate near 0."""
        ...


class NumberFunctions(TensorBase[B], Generic[B, S]):
    """Elementwise functions of floats or ints, of one tensor or two, which broadcast and promote."""

    __slots__ = ()

    @predicate
    def signbit(self) -> BoolTensor[B]:
        """Test elementwise for a negative sign, which -0.0 has too; of a NaN the result is not specified."""
        ...

    @binary
    def fmod(self, other: Self | S) -> Self:
        """Compute the remainder of division rounded toward 0, with the sign of x, as C's ``fmod``.

        Raises:
            ArgumentError: a divisor of ints is 0.

        >>> x = IntTensor[NumPy].from_data([7, -7])
        >>> x.fmod(3).tolist(), (x % 3).tolist()
        ([1, -1], [1, 2])
        """
        ...

    @binary
    def fmax(self, other: Self | S) -> Self:
        """Return the elementwise maximum, or the operand that is not NaN. The gradient of equal operands goes to x."""
        ...

    @binary
    def fmin(self, other: Self | S) -> Self:
        """Return the elementwise minimum, or the operand that is not NaN. The gradient of equal operands goes to x."""
        ...


class IntFunctions(TensorBase[B]):
    """Elementwise functions of ints, which broadcast, promote and may be Python ints."""

    __slots__ = ()

    @binary
    def gcd(self, other: Self | int) -> Self:
        """Compute the greatest common divisor, which is not negative; for x = 0 it is ``|other|``.

        >>> x = IntTensor[NumPy].from_data([4, 0, -6])
        >>> x.gcd(6).tolist(), x.lcm(6).tolist()
        ([2, 6, 6], [12, 0, 6])
        """
        ...

    @binary
    def lcm(self, other: Self | int) -> Self:
        """Compute the least common multiple, which is not negative; for x = 0 it is 0."""
        ...
