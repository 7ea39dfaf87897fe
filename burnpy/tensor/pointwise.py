"""Elementwise functions of float and complex tensors; `burnpy.tensor.pointwise_lazy` has those that are rare.

A body of ``...`` is not what runs: the decorator above it copies a function of `burnpy.tensor.template`, ``@binary``
the function ``_binary``, with the method's name in place of ``OPERATION``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Literal, Self

import numpy as np

from burnpy.backend.dtypes import float32
from burnpy.backend.errors import ArgumentError
from burnpy.tensor.arithmetic import is_floor
from burnpy.tensor.dim_checks import integer
from burnpy.tensor.operand_checks import number
from burnpy.tensor.template import S, binary, predicate, unary
from burnpy.tensor.tensor_base import TensorBase, blank, describe, owned
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.arithmetic import RoundingMode
    from burnpy.tensor.tensor import BoolTensor


class Analytic(TensorBase[B], Generic[B, S]):
    """Elementwise functions of floats and complex numbers. Results have the shape and dtype of x.

    No function warns: log(0) is -inf and sqrt(-1) is NaN, as in IEEE 754.
    """

    __slots__ = ()

    @unary
    def exp(self) -> Self:
        """Return the exponential function, e to the power x."""
        ...

    @unary
    def log(self) -> Self:
        """Return the natural logarithm; -inf at 0, NaN below; of complex numbers log |z| + i angle(z)."""
        ...

    @unary
    def sqrt(self) -> Self:
        """Return the square root; NaN below 0, of complex numbers the one whose real part is not negative.

        Its gradient at 0 is inf.
        """
        ...

    @unary
    def rsqrt(self) -> Self:
        """Return the reciprocal of the square root, 1 / sqrt(x)."""
        ...

    @unary
    def reciprocal(self) -> Self:
        """Return the reciprocal, 1 / x."""
        ...

    @unary
    def sin(self) -> Self:
        """Return the sine of x radians."""
        ...

    @unary
    def cos(self) -> Self:
        """Return the cosine of x radians."""
        ...

    @unary
    def tanh(self) -> Self:
        """Return the hyperbolic tangent."""
        ...

    @predicate
    def isnan(self) -> BoolTensor[B]:
        """Return a `BoolTensor` that is True where x, or a part of a complex x, is NaN."""
        ...

    @predicate
    def isinf(self) -> BoolTensor[B]:
        """Return a `BoolTensor` that is True where x, or a part of a complex x, is infinite."""
        ...

    @predicate
    def isfinite(self) -> BoolTensor[B]:
        """Return a `BoolTensor` that is True where x is neither infinite nor NaN.

        >>> Tensor[NumPy].from_data([1.0, float("inf"), float("nan")]).isfinite().tolist()
        [True, False, False]
        """
        ...

    def __rtruediv__(self, other: S) -> Self:
        return self._like(self._backend.full((), number(self, other, "div"), self.dtype)).div(self)  # type: ignore[attr-defined, no-any-return]  # of the kind


class Pointwise(Analytic[B, float]):
    """Elementwise functions that only float tensors have. Results have the shape and dtype of x.

    No function warns: log(0) is -inf and sqrt(-1) is NaN, as in IEEE 754.
    """

    __slots__ = ()

    @binary
    def div(self, other: Self | float, *, rounding_mode: RoundingMode | None = None) -> Self:
        """Return the elementwise quotient; also ``x / y``. Operands broadcast and promote; x / 0 is ±inf or NaN.

        Args:
            other: the divisor.
            rounding_mode: ``"floor"`` rounds toward minus infinity, as ``x // y``, ``"trunc"`` toward 0; the gradient
                of both is 0. None does not round.

        Raises:
            ArgumentError: ``rounding_mode`` is something else.

        >>> (Tensor[NumPy].from_data([1.0, -1.0, 0.0]) / 0).tolist()
        [inf, -inf, nan]
        """
        ...

    def _div_with(self, other: Self | float, rounding_mode: RoundingMode) -> Self:
        if is_floor(rounding_mode):
            return self.floor_divide(other)  # type: ignore[attr-defined, no-any-return]  # Arithmetic's
        quotient: Self = self.div(other)
        b, q = quotient._backend, quotient._primitive
        return quotient._like(b.where(b.lt(q, 0.0), b.ceil(q), b.floor(q)))

    if TYPE_CHECKING:  # an operator takes no option

        def __truediv__(self, other: Self | float) -> Self: ...
    else:
        __truediv__ = div

    @unary
    def erf(self) -> Self:
        """Return the error function, 2/√π ∫₀ˣ exp(-t²) dt."""
        ...

    @unary
    def floor(self) -> Self:
        """Return the largest integer less than or equal to x, as a float. Its gradient is 0."""
        ...

    @unary
    def ceil(self) -> Self:
        """Return the smallest integer greater than or equal to x, as a float. Its gradient is 0."""
        ...

    @owned
    def round(self, decimals: int = 0) -> Self:
        """Return the nearest integer as a float, with ties to even; its gradient is 0.

        Args:
            decimals: the number of decimal places to round to; -2 rounds to hundreds.

        >>> x = Tensor[NumPy].from_data([0.5, 1.5, 2.5, 1234.5678], dtype="float64")
        >>> x.round().tolist(), x.round(decimals=2).tolist(), x.round(decimals=-2).tolist()
        ([0.0, 2.0, 2.0, 1235.0], [0.5, 1.5, 2.5, 1234.57], [0.0, 0.0, 0.0, 1200.0])
        """
        if decimals.__class__ is not int or decimals:
            return self._rounded(integer(decimals, "number of decimals", "round"))
        out: Self = blank()
        out._device = self._device
        out._primitive = self._backend.round(self._primitive)
        return out

    def _rounded(self, decimals: int) -> Self:
        """Return x rounded as in PyTorch: scaled by a power of ten, rounded and scaled back. Numbers that the scaling
        would make infinite have no decimal places and are returned unchanged."""
        b, dtype = self._backend, self.dtype
        x = self._primitive if dtype.itemsize > 2 else b.cast(self._primitive, float32)
        most = int(np.finfo(x.dtype).max).bit_length() * 3 // 10
        if not -most <= decimals <= most:
            raise ArgumentError(
                f"round() got decimals={decimals} of dtype {dtype}; give a number from {-most} to {most}"
            )
        power = 10.0 ** abs(decimals)
        if decimals < 0:
            out = b.mul(b.round(b.div(x, power)), power)
        else:
            digits = b.mul(x, power)
            out = b.where(b.isfinite(digits), b.div(b.round(digits), power), b.detach(x))
        return self._like(out if x.dtype == dtype else b.cast(out, dtype))

    @unary
    def sigmoid(self) -> Self:
        """Return the logistic function, 1 / (1 + exp(-x))."""
        ...

    @unary
    def relu(self) -> Self:
        """Return the rectified linear unit, max(x, 0). Its gradient at 0 is 0."""
        ...

    @unary
    def silu(self) -> Self:
        """Return the sigmoid linear unit, x · sigmoid(x), also known as swish."""
        ...

    def gelu(self, approximate: Literal["none", "tanh"] = "none") -> Self:
        """Return the Gaussian error linear unit, x · Φ(x) with Φ the standard normal CDF; with ``"tanh"``, an
        approximation.

        Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016.

        Raises:
            ArgumentError: ``approximate`` is something else.
        """
        if approximate != "none" and approximate != "tanh":
            raise ArgumentError(f'gelu() got approximate={describe(approximate)}; expected "none" or "tanh"')
        return self._like(self._backend.gelu(self._primitive, approximate == "tanh"))

    def softplus(self, beta: float = 1.0) -> Self:
        """Return the smooth relu log(1 + exp(beta · x)) / beta, computed without overflow.

        Raises:
            ArgumentError: ``beta`` is 0.
        """
        if number(self, beta, "softplus") == 0:
            raise ArgumentError("softplus() got beta=0, which would divide by zero; pass a positive number")
        return self._like(self._backend.softplus(self._primitive, beta))

    def __round__(self, ndigits: int | None = None) -> Self:
        return self.round(decimals=ndigits or 0)
