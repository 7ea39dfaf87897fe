"""Functions of complex tensors: to and from their parts, and methods that few programs call."""

from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, Any, Self

from burnpy.backend.dtypes import complex128, complex_dtype, part_dtype
from burnpy.backend.errors import KindError, ShapeError
from burnpy.backend.operations.scans import prefix
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import DimsLike, along, integer, shaped
from burnpy.tensor.distances import renormed
from burnpy.tensor.joining import stack
from burnpy.tensor.linalg import alike, floating
from burnpy.tensor.operand_checks import combined, number
from burnpy.tensor.tensor import ComplexTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor_types import Ints


@explained
def complex(real: Tensor[B], imag: Tensor[B] | None = None) -> ComplexTensor[B]:  # noqa: A001  # as in PyTorch
    """Return the complex tensor of a real and an imaginary part, which promote; float16 and bfloat16 become float32.

    Args:
        real: the real part.
        imag: the imaginary part, of the same shape; None for zeros.

    Raises:
        ShapeError: the shapes differ.
        KindError: a part is not a float tensor.
        DTypeError: the backend has no complex arrays.

    >>> import burnpy
    >>> burnpy.complex(Tensor[NumPy].from_data([1.0]), Tensor[NumPy].from_data([2.0])).tolist()
    [(1+2j)]
    """
    parts = alike("complex", real, *([] if imag is None else [imag]), take=_part)
    if parts[0].shape != parts[-1].shape:
        raise ShapeError(
            f"complex() got a real part of shape {parts[0].shape} and an imaginary part of shape {parts[-1].shape}; "
            "give both one shape, as x.expand() does"
        )
    wide = part_dtype(complex_dtype(parts[0].dtype))
    parts = [x.to_dtype(wide) for x in parts]
    if imag is None:
        parts.append(parts[0].zeros_like())
    first = parts[0]
    return first._complex(first._backend.complex(*[x._primitive for x in parts]))  # type: ignore[no-any-return]  # of that class


@explained
def polar(abs: Tensor[B], angle: Tensor[B]) -> ComplexTensor[B]:
    """Return the complex numbers of given magnitudes and angles in radians, which broadcast.

    >>> import burnpy
    >>> burnpy.polar(Tensor[NumPy].from_data([2.0]), Tensor[NumPy].from_data([0.0])).tolist()
    [(2+0j)]
    """
    size, turn = alike("polar", abs, angle, take=_part)
    return complex(size * turn.cos(), size * turn.sin())


@explained
def view_as_real(z: ComplexTensor[B]) -> Tensor[B]:
    """Return the parts of a complex tensor along a new last dimension of size 2.

    Raises:
        KindError: ``z`` is not a complex tensor.
    """
    if not isinstance(z, ComplexTensor):
        raise KindError(f"view_as_real() takes a ComplexTensor, got {describe(z)}")
    return stack([z.real, z.imag], -1)


@explained
def view_as_complex(x: Tensor[B]) -> ComplexTensor[B]:
    """Return the complex tensor whose parts are along the last dimension of x, of size 2.

    Raises:
        ShapeError: the last dimension is not of size 2.

    >>> import burnpy
    >>> burnpy.view_as_complex(Tensor[NumPy].from_data([[1.0, 2.0]])).tolist()
    [(1+2j)]
    """
    (x,) = alike("view_as_complex", x, take=_part)
    if not x.ndim or x.shape[-1] != 2:
        raise ShapeError(f"view_as_complex() takes a last dimension of size 2, got shape {x.shape}")
    return complex(x[..., 0], x[..., 1])


def _part(operation: str, x: Any) -> Any:
    """Return a float tensor."""
    return floating(operation, x, "parts")


class ComplexFunctions(TensorBase[B]):
    """Functions of complex numbers that are those of floats in other formulas."""

    __slots__ = ()

    def sigmoid(self) -> Self:
        """Return the logistic function, 1 / (1 + exp(-z)), without overflow.

        >>> ComplexTensor[NumPy].from_data([0j, -1000 + 0j]).sigmoid().tolist()
        [(0.5+0j), 0j]
        """
        z: Any = self
        below = z.real < 0.0
        e = z.where(below, -z).exp()
        return e.where(below, e.ones_like()) / (e + 1.0)  # type: ignore[no-any-return]  # of this class

    def silu(self) -> Self:
        """Return the sigmoid linear unit, z · sigmoid(z)."""
        return self * self.sigmoid()  # type: ignore[operator, no-any-return]  # Arithmetic's

    def sinc(self) -> Self:
        """Return sin(πz) / (πz), and 1 at 0, with exact derivatives of all orders there."""
        z: Any = self
        near = z.abs() <= 0.5
        square, series = (z.where(near, z.zeros_like()) * math.pi).square(), z.zeros_like()
        for k in range(12, 0, -1):  # Taylor's
            series = (series + 1.0) * square * (-1.0 / (2 * k * (2 * k + 1)))
        turned = z.where(~near, z.ones_like()) * math.pi
        return (series + 1.0).where(near, turned.sin() / turned)  # type: ignore[no-any-return]  # of this class

    def log1p(self) -> Self:
        """Return log(1 + z), accurate near 0."""
        z: Any = self
        near = z.abs() <= 0.5
        small = z.where(near, z.zeros_like())
        x, y = small.real, small.imag
        part: Any = complex(0.5 * (x * (x + 2.0) + y.square()).log1p(), y.atan2(x + 1.0))
        return part.where(near, (z.where(~near, z.ones_like()) + 1.0).log())  # type: ignore[no-any-return]  # of this class

    def lerp(self, end: Self, weight: Self | builtins.complex) -> Self:
        """Return the linear interpolation z + weight · (end - z), which is exactly ``end`` at weight 1.

        Raises:
            KindError: ``end`` is not a tensor.
            ShapeError: the shapes do not broadcast.
        """
        z, stop, part = combined("lerp", self, end, weight)
        if not isinstance(stop, TensorBase):
            raise KindError(f"lerp() interpolates between tensors, got {describe(end)} as end; use z.full_like(end)")
        from_start, from_end = z + part * (stop - z), stop - (1.0 - part) * (stop - z)
        near: Any = abs(part) < 0.5
        if isinstance(near, bool):
            return from_start if near else from_end  # type: ignore[no-any-return]  # of this class
        return from_start.where(near, from_end)  # type: ignore[no-any-return]  # of this class

    def addcmul(self, tensor1: Self, tensor2: Self, *, value: builtins.complex = 1) -> Self:
        """Return the sum z + value · tensor1 · tensor2.

        Raises:
            ShapeError: the shapes do not broadcast.
        """
        z, first, second = combined("addcmul", self, tensor1, tensor2)
        return z + first * second * number(self, value, "addcmul")  # type: ignore[no-any-return]  # of this class

    def addcdiv(self, tensor1: Self, tensor2: Self, *, value: builtins.complex = 1) -> Self:
        """Return the sum z + value · tensor1 / tensor2.

        Raises:
            ShapeError: the shapes do not broadcast.
        """
        z, first, second = combined("addcdiv", self, tensor1, tensor2)
        if not isinstance(second, TensorBase):
            second = z.full_like(second)  # numbers raise an error for x / 0
        return z + first / second * number(self, value, "addcdiv")  # type: ignore[no-any-return]  # of this class

    def logaddexp(self, other: Self | builtins.complex) -> Self:
        """Return log(exp(z) + exp(w)), without overflow."""
        z, given = combined("logaddexp", self, other)
        w: Any = given if isinstance(given, TensorBase) else z.full_like(given)
        above: Any = z.real >= w.real
        most, least = z.where(above, w), w.where(above, z)
        return most + (least - most).exp().log1p()  # type: ignore[no-any-return]  # of this class

    def logsumexp(self, dim: DimsLike = None, keepdim: bool = False) -> Self:
        """Return log(sum(exp(z))) over ``dim``, without overflow: see `Tensor.logsumexp`."""
        z: Any = self
        real = z.real.detach()
        most = real.amax(dim, True)
        most = most.where(most.isfinite(), 0.0)
        total = (z - most.complex()).exp().sum(dim, keepdim).log()
        return total + (most if keepdim else most.squeeze(dim)).complex()  # type: ignore[no-any-return]  # of this class

    def float_power(self, exponent: Self | builtins.complex) -> Self:
        """Return the power in complex128."""
        z: Any = self
        wide = exponent.complex(complex128) if isinstance(exponent, TensorBase) else exponent  # type: ignore[attr-defined]  # of this class
        return z.complex(complex128) ** wide  # type: ignore[no-any-return]  # of this class

    def logcumsumexp(self, dim: int) -> Self:
        """Return the cumulative log(sum(exp(z))) along ``dim``, without overflow, with angles from -π to π."""
        a: Any = along(self, dim, "logcumsumexp")

        def combined(z: Any, w: Any) -> Any:
            return self._like(z).logaddexp(self._like(w))._primitive

        b = self._backend
        out: Any = self._like(shaped(b, prefix(b, combined, a.primitive, a.dim), self.shape))
        turns = (out.imag.detach() * (0.5 / math.pi)).round()
        return complex(out.real, out.imag - turns * (2.0 * math.pi))  # type: ignore[return-value]  # of this class

    def ldexp(self, other: Ints[B] | Tensor[B] | Self | builtins.complex) -> Self:
        """Return z · 2ᵏ for the exponents k, which may be complex."""
        z: Any = self
        k: Any = other if isinstance(other, TensorBase) else number(z, other, "ldexp")
        if isinstance(k, (builtins.complex, ComplexTensor)):
            return z * 2.0 ** (k if isinstance(k, TensorBase) else z.full_like(k))  # type: ignore[no-any-return]  # of this class
        return complex(z.real.ldexp(k), z.imag.ldexp(k))  # type: ignore[return-value]  # of this class

    def dist(self, other: Self, p: float = 2.0) -> Any:
        """Return the p-norm of the difference z - other, a `Tensor`: see `Tensor.dist`."""
        z: Any = self
        return (z - other).norm(p)

    def renorm(self, p: float, dim: int, maxnorm: float) -> Self:
        """Return the slices along ``dim``, those whose p-norm is above ``maxnorm`` scaled down: see `Tensor.renorm`."""
        return self._like(renormed(self, p, dim, maxnorm))

    def cov(self, *, correction: int = 1, fweights: Ints[B] | None = None, aweights: Tensor[B] | None = None) -> Self:
        """Return the covariance matrix of the rows of z, E[(z - Ez)(z - Ez)ᴴ]: see `Tensor.cov`."""
        from burnpy.tensor.statistics import covariance  # which no other function needs

        return covariance(self, integer(correction, "correction", "cov"), fweights, aweights)  # type: ignore[no-any-return]  # of this class

    def corrcoef(self) -> Self:
        """Return the correlation coefficients of the rows of z: see `Tensor.corrcoef`."""
        from burnpy.tensor.statistics import correlation

        return correlation(self)  # type: ignore[no-any-return]  # of this class
