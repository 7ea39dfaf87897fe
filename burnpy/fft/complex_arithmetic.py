"""Arithmetic of complex tensors: the operators, magnitudes and angles, powers, and sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

from burnpy.backend.errors import ArgumentError, KindError
from burnpy.fft.complex_base import ComplexBase, Operand, matrix_parts, parts_of
from burnpy.tensor.dims import DimsLike
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import BoolTensor, Tensor

X = TypeVar("X", bound="ComplexArithmetic[Any]")

_REFLECTED = {
    "add": "__radd__",
    "sub": "__rsub__",
    "mul": "__rmul__",
    "div": "__rtruediv__",
    "pow": "__rpow__",
    "matmul": "__rmatmul__",
    "eq": "__eq__",
    "ne": "__ne__",
}
"""The special method of the right operand for each operation of tensors that is an operator."""


class ComplexArithmetic(ComplexBase[B]):
    """Elementwise arithmetic, whose operands broadcast and promote as those of float tensors do, and products."""

    __slots__ = ()

    @staticmethod
    def _reflected(x: Any, operation: str, left: Any) -> Any:
        """Return an operation of a tensor, ``left``, and a complex one, x."""
        name = _REFLECTED.get(operation)
        if name is None:
            raise KindError(
                f"{operation}() got {describe(left)} and a ComplexTensor of shape {x.shape}; it has no complex form: "
                "take z.real, z.imag, z.abs() or z.angle()"
            )
        return getattr(x, name)(left)

    def __add__(self, other: Self | Operand[B]) -> Self:
        real, imag = parts_of("add", other)
        return self._sum(self._real + real, self._imag if imag is None else self._imag + imag)

    __radd__ = __add__

    def __sub__(self, other: Self | Operand[B]) -> Self:
        real, imag = parts_of("sub", other)
        return self._sum(self._real - real, self._imag if imag is None else self._imag - imag)

    def __rsub__(self, other: Operand[B]) -> Self:
        return (-self).__add__(other)

    def __mul__(self, other: Self | Operand[B]) -> Self:
        real, imag = parts_of("mul", other)
        a, b = self._real, self._imag
        if imag is None:
            return self._made(a * real, b * real)
        return self._made(a * real - b * imag, a * imag + b * real)

    __rmul__ = __mul__

    def __truediv__(self, other: Self | Operand[B]) -> Self:
        real, imag = parts_of("div", other)
        if imag is None:
            return self._made(self._real / real, self._imag / real)
        if isinstance(real, TensorBase):
            return self * inverse_of(self, real, imag)
        return self * (1.0 / complex(real, imag)) if real or imag else self / 0.0

    def __rtruediv__(self, other: Operand[B]) -> Self:
        return inverse_of(self, self._real, self._imag) * other

    def __pow__(self, exponent: Self | Operand[B]) -> Self:
        """Return the principal value of the power; a small int is a product.

        Source of the convention: 0 to the power 0 is 1, as of real numbers.
        """
        given: Any = exponent
        if isinstance(given, int) and abs(given) <= 64:
            power = _product(self, abs(given))
            return power if given >= 0 else power.reciprocal()
        real, imag = parts_of("pow", exponent)
        size, angle = self.abs(), self.angle()
        if imag is None:
            return self._polar(size**real, angle * real)
        log = size.log()
        return self._polar((log * real - angle * imag).exp(), log * imag + angle * real)

    def __rpow__(self, base: Operand[B]) -> Self:
        real, imag = parts_of("pow", base)
        zeros = self._real.zeros_like()
        whole = self._made(zeros + real, zeros if imag is None else zeros + imag)
        return whole**self

    def __matmul__(self, other: Self | Tensor[B]) -> Self:
        real, imag = matrix_parts(other)
        a, b = self._real, self._imag
        if imag is None:
            return self._made(a @ real, b @ real)
        return self._made(a @ real - b @ imag, a @ imag + b @ real)

    def __rmatmul__(self, other: Tensor[B]) -> Self:
        real, _ = matrix_parts(other)
        return self._made(real @ self._real, real @ self._imag)

    def __neg__(self) -> Self:
        return self._each(lambda x: -x)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Tensor[B]:
        return self.abs()

    def __eq__(self, other: object) -> BoolTensor[B]:  # type: ignore[override]  # elementwise, as of tensors
        real, imag = parts_of("eq", other)
        equal: BoolTensor[B] = (self._real == real) & (self._imag == (0.0 if imag is None else imag))
        return equal

    def __ne__(self, other: object) -> BoolTensor[B]:  # type: ignore[override]  # elementwise, as of tensors
        return ~(self == other)

    __hash__ = object.__hash__

    def abs(self) -> Tensor[B]:
        """Return the magnitudes √(a² + b²), without overflow; their gradient at 0 is 0.

        >>> from burnpy.fft import ComplexTensor
        >>> ComplexTensor[NumPy].from_data([3 + 4j]).abs().tolist()
        [5.0]
        """
        return self._real.hypot(self._imag)

    def angle(self) -> Tensor[B]:
        """Return the angles in radians, from -π to π."""
        return self._imag.atan2(self._real)

    def conj(self) -> Self:
        """Return the complex conjugate, a - bi."""
        return self._made(self._real, -self._imag)

    def square(self) -> Self:
        """Return the elementwise square."""
        return self * self

    def reciprocal(self) -> Self:
        """Return the elementwise inverse 1 / z."""
        return inverse_of(self, self._real, self._imag)

    def sgn(self) -> Self:
        """Return the numbers of magnitude 1 in the same direction, and 0 for 0."""
        size = self.abs()
        return self / size.masked_fill(size == 0.0, 1.0)

    def exp(self) -> Self:
        """Return the exponential eᵃ (cos b + i sin b).

        >>> from burnpy.fft import ComplexTensor
        >>> z = ComplexTensor[NumPy].from_data([0.0, 3.14159265j]).exp()
        >>> z.real.round(decimals=3).tolist()
        [1.0, -1.0]
        """
        return self._polar(self._real.exp(), self._imag)

    def log(self) -> Self:
        """Return the principal logarithm, log |z| + i angle(z)."""
        return self._made(self.abs().log(), self.angle())

    def sqrt(self) -> Self:
        """Return the principal square root, whose real part is not negative."""
        return self._polar(self.abs().sqrt(), self.angle() * 0.5)

    def sum(self, dim: DimsLike = None, keepdim: bool = False) -> Self:
        """Return the sum over some dimensions, or over all."""
        return self._each(lambda x: x.sum(dim, keepdim))

    def mean(self, dim: DimsLike = None, keepdim: bool = False) -> Self:
        """Return the mean over some dimensions, or over all."""
        return self._each(lambda x: x.mean(dim, keepdim))

    def allclose(self, other: Self, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
        """Compare both parts with another complex tensor's: see ``Tensor.allclose``.

        Raises:
            ArgumentError: ``other`` is not complex.
        """
        if not isinstance(other, ComplexBase):
            raise ArgumentError(f"allclose() got a ComplexTensor and {describe(other)}; compare two complex tensors")
        return self._real.allclose(other._real, rtol, atol) and self._imag.allclose(other._imag, rtol, atol)

    def _sum(self, real: Tensor[B], imag: Tensor[B]) -> Self:
        """Return the complex tensor of two parts, where the second is broadcast and promoted if it has to be."""
        if imag.dtype != real.dtype:
            imag = imag.to_dtype(real.dtype)
        return self._made(real, imag if imag.shape == real.shape else imag.expand(real.shape))

    def _polar(self, size: Tensor[B], angle: Tensor[B]) -> Self:
        """Return size (cos angle + i sin angle)."""
        return self._made(size * angle.cos(), size * angle.sin())


def inverse_of(z: X, real: Any, imag: Any) -> X:
    """Return 1 / (real + i imag), of z's class, scaled by the larger part so that no square over- or underflows.

    The scale is a constant to derivatives, since the result does not depend on it.
    Source: Smith, Algorithm 116: Complex Division, 1962.
    """
    scale = real.detach().abs().maximum(imag.detach().abs())
    a, b = real / scale, imag / scale
    size = a * real + b * imag
    return z._made(a / size, -b / size)


def _product(z: X, count: int) -> X:
    """Return the product of ``count`` factors z, by squares."""
    out: X | None = None
    while count:
        if count & 1:
            out = z if out is None else out * z
        count >>= 1
        z = z * z if count else z
    return z._made(z.real.ones_like(), z.real.zeros_like()) if out is None else out
