"""Elementary functions of float tensors: exponentials and logarithms, trigonometric and hyperbolic functions."""

from __future__ import annotations

import math
from typing import Self

from burnpy.backend.errors import ArgumentError
from burnpy.tensor.base import TensorBase, describe
from burnpy.tensor.operands import number
from burnpy.tensor.template import unary
from burnpy.typevars import B


class Elementary(TensorBase[B]):
    """Elementary functions; results have the shape and dtype of x, and nothing warns, as in IEEE 754."""

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
