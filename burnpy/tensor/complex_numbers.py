"""Methods that only complex tensors have: their parts, magnitudes and angles."""

from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, Any, NoReturn, Self

from burnpy.backend.dtypes import dtype_of
from burnpy.backend.errors import KindError
from burnpy.tensor.conversion import Conversion, cast
from burnpy.tensor.dim_checks import DimsLike, dims_of
from burnpy.tensor.pointwise import Analytic
from burnpy.tensor.template import binary
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.host_data import DTypeLike
    from burnpy.tensor.tensor import Tensor


class ComplexNumbers(Analytic[B, complex], Conversion[B]):
    """The parts of complex numbers, and functions that are not those of floats.

    Derivatives follow PyTorch: the gradient of a real loss by z is ∂L/∂Re + i ∂L/∂Im.
    """

    __slots__ = ()

    @property
    def real(self) -> Tensor[B]:
        """The real part."""
        return self._float(self._backend.real(self._primitive))

    @property
    def imag(self) -> Tensor[B]:
        """The imaginary part."""
        return self._float(self._backend.imag(self._primitive))

    def conj(self) -> Self:
        """Return the complex conjugate, a - bi."""
        return self._like(self._backend.conj(self._primitive))

    @property
    def mH(self) -> Self:  # noqa: N802  # PyTorch's name
        """The conjugate transpose of the last two dimensions."""
        z: Any = self
        return z.mT.conj()  # type: ignore[no-any-return]  # of this class

    def abs(self) -> Tensor[B]:
        """Return the magnitudes √(a² + b²), without overflow; also ``abs(z)``. Their gradient at 0 is 0.

        >>> ComplexTensor[NumPy].from_data([3 + 4j]).abs().tolist()
        [5.0]
        """
        return self._float(self._backend.complex_abs(self._primitive))

    def angle(self) -> Tensor[B]:
        """Return the angles in radians, from -π to π; their gradient at 0 is 0."""
        return self._float(self._backend.angle(self._primitive))

    def sgn(self) -> Self:
        """Return the numbers of magnitude 1 in the same direction, and 0 for 0."""
        from burnpy.backend.operations.complex_numbers import unit

        return self._like(unit(self._backend, self._primitive))

    @binary
    def div(self, other: Self | builtins.complex) -> Self:
        """Return the elementwise quotient; also ``z / w``. Operands broadcast and promote."""
        ...

    def complex(self, dtype: DTypeLike | None = None) -> Self:
        """Return the tensor itself, or in another complex dtype."""
        return self if dtype is None else cast(self, dtype_of(dtype, "complex"))

    def norm(self, p: float | str | None = "fro", dim: DimsLike = None, keepdim: bool = False) -> Tensor[B]:
        """Return the p-norm of the magnitudes over ``dim``: see `Tensor.norm`."""
        if p not in (None, "fro", 2):
            return self.abs().norm(p, dim, keepdim)
        b, z = self._backend, self._primitive  # of the parts, as magnitudes of 0 have no second derivatives
        parts = b.cat([b.reshape(part, (*self.shape, 1)) for part in (b.real(z), b.imag(z))], self.ndim)
        size = b.vector_norm(parts, 2.0, (*dims_of(dim, self.ndim, "norm"), self.ndim), keepdim)
        return self._float(b.reshape(size, size.shape[:-1]) if keepdim else size)

    def var(self, dim: DimsLike = None, keepdim: bool = False, *, correction: float = 1) -> Tensor[B]:
        """Return the variance over ``dim``, of |z - mean|²: see `Tensor.var`."""
        dims = dims_of(dim, self.ndim, "var")
        b = self._backend
        centered = b.center(self._primitive, dims)
        parts = [b.var(part, dims, keepdim, correction) for part in (b.real(centered), b.imag(centered))]
        return self._float(b.add(*parts))

    def std(self, dim: DimsLike = None, keepdim: bool = False, *, correction: float = 1) -> Tensor[B]:
        """Return the standard deviation over ``dim``, the root of `var`: see `Tensor.std`."""
        dims = dims_of(dim, self.ndim, "std")
        count = math.prod([self.shape[d] for d in dims]) - correction
        centered = self._like(self._backend.center(self._primitive, dims))
        return centered.norm(2.0, dims, keepdim) * (1.0 / math.sqrt(count) if count > 0 else math.inf)

    def item(self) -> builtins.complex:
        """Return the only element, as a Python complex number.

        Raises:
            ShapeError: the tensor does not have exactly one element.
        """
        return builtins.complex(self._item("item()"))

    __abs__ = abs
    if TYPE_CHECKING:

        def __truediv__(self, other: Self | builtins.complex) -> Self: ...
    else:
        __truediv__ = div


def refuse_order(z: TensorBase[Any], other: object = None) -> NoReturn:
    """Raise the error for an operator that needs an order."""
    raise KindError(f"complex numbers have no order, got {describe(z)}; compare z.abs(), z.real or z.imag")


def refuse_real(z: TensorBase[Any]) -> NoReturn:
    """Raise the error for a complex tensor in place of a real number."""
    raise KindError(f"a float or an int was expected, got {describe(z)}; take z.real, z.imag or z.abs()")
