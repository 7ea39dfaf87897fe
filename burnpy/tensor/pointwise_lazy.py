"""Elementwise functions that few programs call, loaded at first use; `burnpy.tensor.pointwise` has the others."""

from __future__ import annotations

import math
from typing import Any, Self

from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.tensor.dims import integer
from burnpy.tensor.operands import number, operands, together
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B


class Elementary(TensorBase[B]):
    """Elementary and special functions of floats, interpolation, and some activation functions."""

    __slots__ = ()

    def deg2rad(self) -> Self:
        """Return the angle x, in degrees, in radians."""
        return self._like(self._backend.mul(self._primitive, math.pi / 180))

    def rad2deg(self) -> Self:
        """Return the angle x, in radians, in degrees."""
        return self._like(self._backend.mul(self._primitive, 180 / math.pi))

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
        return self._like(b.sub(b.log(x), b.log1p(b.neg(x))))

    def polygamma(self, n: int) -> Self:
        """Return the n-th derivative of `digamma`; infinite at 0 and at negative integers.

        Raises:
            ArgumentError: ``n`` is negative.

        >>> round(Tensor[NumPy].from_data(1.0).polygamma(1).item(), 4)  # π² / 6
        1.6449
        """
        order = integer(n, "order", "polygamma")
        if order < 0:
            raise ArgumentError(f"polygamma() got the derivative of order {order}; give 0 or more")
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
        b: Any = x._backend
        sloped = b.discrete.bitwise_not(b.gt(x._primitive, 0.0))  # NaN too
        negative = b.where(sloped, x._primitive, 0.0)
        return x._like(b.where(sloped, b.mul(negative, slopes._primitive), x._primitive))  # type: ignore[no-any-return]  # of this class
