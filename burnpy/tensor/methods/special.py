"""Special functions of float tensors: error functions, the gamma function and its derivatives, and sinc."""

from __future__ import annotations

from typing import Self

from burnpy.backend.errors import ArgumentError
from burnpy.tensor.base import TensorBase
from burnpy.tensor.dims import integer
from burnpy.tensor.template import unary
from burnpy.typevars import B


class Special(TensorBase[B]):
    """Special functions, exact to a few roundings; 16-bit floats are computed in float32."""

    __slots__ = ()

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
