"""Functions of each element of a float tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from burnpy.backend.errors import ArgumentError
from burnpy.tensor.base import B, TensorBase
from burnpy.tensor.operands import number
from burnpy.tensor.template import binary, predicate, unary

if TYPE_CHECKING:
    from burnpy.tensor.bool_tensor import BoolTensor


class Pointwise(TensorBase[B]):
    """Elementwise functions that only float tensors have. Results have the shape and dtype of x.

    Nothing here warns: a logarithm of 0 is -inf and a root of -1 NaN, as IEEE 754 has it.
    """

    __slots__ = ()

    @binary
    def div(self, other: Self | float) -> Self:
        """The quotient, elementwise; also ``x / y``. Operands broadcast and promote; x / 0 is ±inf or NaN.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> (Tensor[NumPy].from_data([1.0, -1.0, 0.0]) / 0).tolist()
        [inf, -inf, nan]
        """
        ...

    @unary
    def exp(self) -> Self:
        """e to the power x."""
        ...

    @unary
    def expm1(self) -> Self:
        """exp(x) - 1, exact near 0."""
        ...

    @unary
    def log(self) -> Self:
        """The natural logarithm; -inf at 0, NaN below."""
        ...

    @unary
    def log1p(self) -> Self:
        """log(1 + x), exact near 0."""
        ...

    @unary
    def sqrt(self) -> Self:
        """The square root; NaN below 0. Its gradient at 0 is inf."""
        ...

    @unary
    def rsqrt(self) -> Self:
        """1 / sqrt(x)."""
        ...

    @unary
    def reciprocal(self) -> Self:
        """1 / x."""
        ...

    @unary
    def sin(self) -> Self:
        """The sine of x radians."""
        ...

    @unary
    def cos(self) -> Self:
        """The cosine of x radians."""
        ...

    @unary
    def tanh(self) -> Self:
        """The hyperbolic tangent."""
        ...

    @unary
    def erf(self) -> Self:
        """The error function 2/√π ∫₀ˣ exp(-t²) dt."""
        ...

    @unary
    def floor(self) -> Self:
        """The next integer at or below x, as a float. Its gradient is 0."""
        ...

    @unary
    def ceil(self) -> Self:
        """The next integer at or above x, as a float. Its gradient is 0."""
        ...

    @unary
    def round(self) -> Self:
        """The nearest integer, as a float, halves to even. Its gradient is 0.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([0.5, 1.5, 2.5]).round().tolist()
        [0.0, 2.0, 2.0]
        """
        ...

    @unary
    def sigmoid(self) -> Self:
        """1 / (1 + exp(-x))."""
        ...

    @unary
    def relu(self) -> Self:
        """max(x, 0). Its gradient at 0 is 0."""
        ...

    @unary
    def silu(self) -> Self:
        """x · sigmoid(x), also known as swish."""
        ...

    def gelu(self, approximate: Literal["none", "tanh"] = "none") -> Self:
        """x · Φ(x), Φ the normal distribution function; or, with ``"tanh"``, an approximation.

        Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016.

        Raises:
            ArgumentError: ``approximate`` is something else.
        """
        if approximate != "none" and approximate != "tanh":
            raise ArgumentError(f'gelu() was asked for approximate={approximate!r}; it is "none" or "tanh"')
        return self._like(self._backend.gelu(self._primitive, approximate == "tanh"))

    def softplus(self, beta: float = 1.0) -> Self:
        """log(1 + exp(beta · x)) / beta, a smooth relu, without overflow.

        Raises:
            ArgumentError: ``beta`` is 0.
        """
        if number(self, beta, "softplus") == 0:
            raise ArgumentError("softplus() was asked for beta=0, by which it would divide; give a positive number")
        return self._like(self._backend.softplus(self._primitive, beta))

    @predicate
    def isnan(self) -> BoolTensor[B]:
        """Where NaN."""
        ...

    @predicate
    def isinf(self) -> BoolTensor[B]:
        """Where plus or minus infinity."""
        ...

    @predicate
    def isfinite(self) -> BoolTensor[B]:
        """Where neither infinite nor NaN.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([1.0, float("inf"), float("nan")]).isfinite().tolist()
        [True, False, False]
        """
        ...

    def __rtruediv__(self, other: float) -> Self:
        return self._like(self._backend.full((), number(self, other, "div"), self.dtype)).div(self)

    __truediv__ = div
    __round__: Any = round
