"""The pair of float tensors that a complex tensor is, and functions that make it of an operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar

from burnpy.backend.devices import Subscriptable
from burnpy.backend.errors import KindError, ShapeError, a
from burnpy.backend.primitives import DType, Shape
from burnpy.tensor.linalg import alike
from burnpy.tensor.tensor_base import TensorBase, class_name, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor

Operand: TypeAlias = "Tensor[B] | float | complex"
"""An operand beside complex tensors: a float tensor or a Python number."""

Z = TypeVar("Z", bound="ComplexBase[Any]")


class ComplexBase(Subscriptable, Generic[B]):
    """A real and an imaginary part: two float tensors of one shape and dtype, on one device."""

    __slots__ = ("__weakref__", "_imag", "_real")

    _real: Tensor[B]
    _imag: Tensor[B]

    def __init__(self, real: Tensor[B], imag: Tensor[B] | None = None) -> None:
        if imag is None:
            (self._real,) = alike("ComplexTensor", real)
            self._imag = self._real.zeros_like()
            return
        self._real, self._imag = alike("ComplexTensor", real, imag)
        if self._real.shape != self._imag.shape:
            raise ShapeError(
                f"ComplexTensor() got a real part of shape {real.shape} and an imaginary part of shape {imag.shape}; "
                "give both one shape, as x.expand() does"
            )

    @property
    def real(self) -> Tensor[B]:
        """The real part."""
        return self._real

    @property
    def imag(self) -> Tensor[B]:
        """The imaginary part."""
        return self._imag

    @property
    def _tree_parts(self) -> tuple[Tensor[B], Tensor[B]]:
        """Both parts; to `burnpy.func` a complex tensor is a tree of them."""
        return self._real, self._imag

    @property
    def shape(self) -> Shape:
        """The size of each dimension; () for a 0-d tensor."""
        return self._real.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._real.ndim

    @property
    def dtype(self) -> DType:
        """The dtype of each part, a float dtype."""
        return self._real.dtype

    @property
    def device(self) -> B:
        """The device of both parts."""
        return self._real.device

    def _made(self, real: Tensor[B], imag: Tensor[B]) -> Self:
        """Return a complex tensor of two parts that fit."""
        return made(type(self), real, imag)

    def _each(self, f: Callable[[Tensor[B]], Tensor[B]]) -> Self:
        """Return the complex tensor of f of both parts."""
        return made(type(self), f(self._real), f(self._imag))


def made(cls: type[Z], real: Any, imag: Any) -> Z:
    """Return a complex tensor of two parts that fit, without checks."""
    out = object.__new__(cls)
    out._real, out._imag = real, imag
    return out


def parts_of(operation: str, other: object) -> tuple[Any, Any]:
    """Return an operand's real and imaginary part, each a float tensor, a number, or None for an imaginary part 0."""
    if isinstance(other, ComplexBase):
        return other._real, other._imag
    if isinstance(other, TensorBase) and other.kind == "float":
        return other, None
    if isinstance(other, complex):  # NumPy's too
        return float(other.real), float(other.imag)
    if isinstance(other, (int, float)):
        return other, None
    hint = "; convert it with x.float()" if isinstance(other, TensorBase) else ""
    got = a(class_name(other)) if isinstance(other, TensorBase) else describe(other)
    raise KindError(
        f"{operation}() got a ComplexTensor and {got}; the other operand must be a ComplexTensor, a float Tensor or a "
        f"number{hint}"
    )


def matrix_parts(other: object) -> tuple[Any, Any]:
    """Return `parts_of` a factor of a matrix product, which is no number."""
    if isinstance(other, (int, float, complex)):
        raise KindError(f"matmul() got a ComplexTensor and the number {other!r}; to scale it write z * {other!r}")
    return parts_of("matmul", other)
