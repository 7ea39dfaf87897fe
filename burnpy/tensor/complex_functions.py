"""Methods of complex tensors that few programs call."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

from burnpy.backend.dtypes import complex128
from burnpy.backend.errors import KindError
from burnpy.tensor.complex_parts import complex as join
from burnpy.tensor.dims import DimsLike, integer
from burnpy.tensor.operands import combined, number
from burnpy.tensor.statistics import correlation, covariance
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import Ints


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
        """Return sin(πz) / (πz), and 1 at 0."""
        z: Any = self
        none = z == 0.0
        turned = z.where(~none, z.ones_like()) * math.pi
        return (turned.sin() / turned).where(~none, z.ones_like())  # type: ignore[no-any-return]  # of this class

    def lerp(self, end: Self, weight: Self | complex) -> Self:
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

    def addcmul(self, tensor1: Self, tensor2: Self, *, value: complex = 1) -> Self:
        """Return the sum z + value · tensor1 · tensor2.

        Raises:
            ShapeError: the shapes do not broadcast.
        """
        z, first, second = combined("addcmul", self, tensor1, tensor2)
        return z + first * second * number(self, value, "addcmul")  # type: ignore[no-any-return]  # of this class

    def addcdiv(self, tensor1: Self, tensor2: Self, *, value: complex = 1) -> Self:
        """Return the sum z + value · tensor1 / tensor2.

        Raises:
            ShapeError: the shapes do not broadcast.
        """
        z, first, second = combined("addcdiv", self, tensor1, tensor2)
        return z + first / second * number(self, value, "addcdiv")  # type: ignore[no-any-return]  # of this class

    def logaddexp(self, other: Self | complex) -> Self:
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

    def float_power(self, exponent: Self | complex) -> Self:
        """Return the power in complex128."""
        z: Any = self
        wide = exponent.complex(complex128) if isinstance(exponent, TensorBase) else exponent  # type: ignore[attr-defined]  # of this class
        return z.complex(complex128) ** wide  # type: ignore[no-any-return]  # of this class

    def ldexp(self, other: Ints[B] | Tensor[B] | float) -> Self:
        """Return z · 2ᵏ for the exponents k."""
        z: Any = self
        if not isinstance(other, TensorBase):
            return z * 2.0 ** number(z.real, other, "ldexp")  # type: ignore[no-any-return]  # of this class
        return join(z.real.ldexp(other), z.imag.ldexp(other))  # type: ignore[return-value]  # of this class

    def dist(self, other: Self, p: float = 2.0) -> Any:
        """Return the p-norm of the difference z - other, a `Tensor`: see `Tensor.dist`."""
        z: Any = self
        return (z - other).abs().norm(p)

    def cov(self, *, correction: int = 1, fweights: Ints[B] | None = None, aweights: Tensor[B] | None = None) -> Self:
        """Return the covariance matrix of the rows of z, E[(z - Ez)(z - Ez)ᴴ]: see `Tensor.cov`."""
        return covariance(self, integer(correction, "correction", "cov"), fweights, aweights)  # type: ignore[no-any-return]  # of this class

    def corrcoef(self) -> Self:
        """Return the correlation coefficients of the rows of z: see `Tensor.corrcoef`."""
        return correlation(self)  # type: ignore[no-any-return]  # of this class
