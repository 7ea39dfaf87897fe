"""`ComplexTensor`: complex numbers as a pair of float tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Self, final, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from burnpy.backend.dtypes import float32
from burnpy.backend.errors import ArgumentError, DTypeError, ImmutableError, KindError, MissingNameError, ShapeError
from burnpy.fft.complex_arithmetic import ComplexArithmetic
from burnpy.fft.complex_base import made
from burnpy.fft.complex_shape import ComplexShape
from burnpy.tensor.call_errors import inherit_methods
from burnpy.tensor.creation import Factory
from burnpy.tensor.differentiation import inner_of
from burnpy.tensor.host_data import DTypeLike
from burnpy.tensor.linalg import alike
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.tensor.tensor_types import OnAutodiff
from burnpy.typevars import B2, B, I


@final
@inherit_methods
class ComplexTensor(ComplexArithmetic[B], ComplexShape[B]):
    """An immutable tensor of complex numbers: a real and an imaginary part of one shape and dtype, on one device.

    There is no complex dtype: ``z.dtype`` is the parts'. Operands of arithmetic are complex tensors, float tensors and
    Python numbers. Derivatives are those by the parts: a part that is tracked, or that follows from tracked tensors,
    has a gradient as any float tensor. The gradient of a real loss by z is ``g.real + i g.imag``, PyTorch's convention.

    Args:
        real: a float tensor.
        imag: another one of its shape, or None for 0. Dtypes promote.

    Raises:
        KindError: a part is no float tensor.
        ShapeError: the shapes differ.
        DeviceError: the devices differ.

    >>> z = ComplexTensor[NumPy].from_data([1 + 2j, -1j])
    >>> z * z.conj()
    ComplexTensor([5.+0.j, 1.+0.j], shape=(2,), dtype=float32, device=NumPy)
    >>> (2 * z + 1).tolist(), abs(z)[1].item()
    ([(3+4j), (1-2j)], 1.0)
    """

    __slots__ = ()

    @overload
    @classmethod
    def from_data(cls, data: ArrayLike, *, dtype: DTypeLike | None = None) -> Self: ...

    @overload
    @classmethod
    def from_data(
        cls, data: ArrayLike, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> ComplexTensor[B2]: ...

    @classmethod
    def from_data(cls, data: ArrayLike, *, dtype: DTypeLike | None = None, device: Any = None) -> Any:
        """Return a complex tensor with a copy of complex or real numbers, nested lists of such, or an array.

        Args:
            data: the numbers; complex128 arrays have float64 parts, complex64 arrays and lists float32 ones.
            dtype: the float dtype of the parts.
            device: where to make it; by default on the backend of the class, as in ``ComplexTensor[NumPy]``.

        Raises:
            DTypeError: the data are no numbers.
        """
        target = Factory(_On(cls), device, "from_data")
        array: Any = np.asarray(data)
        if array.dtype.kind not in "biufc":
            raise DTypeError(f"ComplexTensor.from_data() got {describe(data)}; expected complex or real numbers")
        typed = isinstance(data, (np.ndarray, np.generic)) and array.dtype.kind in "fc"
        wanted = target.dtype(dtype) if dtype is not None else array.real.dtype if typed else float32
        parts = [np.ascontiguousarray(part).astype(wanted).reshape(array.shape) for part in (array.real, array.imag)]
        return made(ComplexTensor, *[target.wrap(target.backend.from_numpy(part)) for part in parts])

    def to_device(self, device: B2 | type[B2]) -> ComplexTensor[B2]:
        """Return the tensor on another device."""
        return made(ComplexTensor, self._real.to_device(device), self._imag.to_device(device))

    def to_dtype(self, dtype: DTypeLike) -> Self:
        """Return the tensor with parts of another float dtype."""
        return self._each(lambda x: x.to_dtype(dtype))

    def inner(self: OnAutodiff[I]) -> ComplexTensor[I]:
        """Return the tensor on the inner backend, in the same memory.

        Raises:
            NotTrackedError: the tensor is on a plain backend already.
        """
        z: Any = self
        inner_of(z._real, "inner()")
        return made(ComplexTensor, z._real.inner(), z._imag.inner())

    def require_grad(self) -> Self:
        """Return the same numbers in two new tracked parts, such as ``z.real``, whose gradient is
        ``z.real.grad(grads)``.
        """
        return self._each(lambda x: x.require_grad())

    def is_require_grad(self) -> bool:
        """Return True if a part is tracked."""
        return self._real.is_require_grad() or self._imag.is_require_grad()

    def detach(self) -> Self:
        """Return the same numbers as constants."""
        return self._each(lambda x: x.detach())

    def to_numpy(self) -> NDArray[Any]:
        """Return a new NumPy array, complex128 for parts of float64, else complex64."""
        real, imag = self._real.to_numpy(), self._imag.to_numpy()
        out = np.empty(self.shape, np.complex128 if real.dtype == np.float64 else np.complex64)
        out.real, out.imag = real, imag
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the array for ``np.asarray(z)``, a copy of the numbers.

        Raises:
            ArgumentError: ``copy=False``.
        """
        if copy is False:
            raise ArgumentError("np.asarray(z, copy=False) got a ComplexTensor, a pair of arrays, which takes a copy")
        array = self.to_numpy()
        return array if dtype is None else array.astype(dtype)

    def tolist(self) -> Any:
        """Return the elements as Python's complex numbers, in nested lists."""
        return self.to_numpy().tolist()

    def item(self) -> complex:
        """Return the only element, as a Python number.

        Raises:
            ShapeError: the tensor does not have exactly one element.
        """
        return complex(self._real.item(), self._imag.item())

    def __complex__(self) -> complex:
        return self.item()

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise ShapeError(
                f"the truth value of a ComplexTensor with shape {self.shape} is ambiguous; use (z == w).all() or .any()"
            )
        return bool(self.item())

    if not TYPE_CHECKING:  # to type checkers, it has no other attributes, and no complex number is a float

        def __getattr__(self, name):
            raise MissingNameError(f"ComplexTensor has no {name}; compute with its parts, z.real and z.imag")

        def __float__(self):
            raise KindError(f"float() got a ComplexTensor of shape {self.shape}; take z.real, z.imag or z.abs()")

        def __lt__(self, other):
            raise KindError("complex numbers have no order; compare z.abs(), z.real or z.imag")

        __le__ = __gt__ = __ge__ = __lt__

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise ImmutableError("complex tensors are immutable; update the parts with z.real.at[...].set(y)")

    def __repr__(self) -> str:
        values = np.array2string(self.to_numpy(), separator=", ", prefix="ComplexTensor(", threshold=1000)
        attributes = [f"shape={self.shape}", f"dtype={self.dtype}", f"device={self.device}"]
        if self.is_require_grad():
            attributes.append("tracked")
        separator = ",\n" + " " * len("ComplexTensor(") if "\n" in values else ", "
        return f"ComplexTensor({values}{separator}{', '.join(attributes)})"

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute an operator with a NumPy number on its left; refuse NumPy's functions.

        Raises:
            KindError: the function was called by its name, or the left operand is an array.
        """
        names = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "power": "pow"}
        names |= {"equal": "eq", "not_equal": "ne"}
        name = names.get(ufunc.__name__)
        left = inputs[0]  # a NumPy number, which comparisons turn into a 0-d array
        if method == "__call__" and name and not options and getattr(left, "ndim", 1) == 0 and left is not self:
            return self._reflected(self, name, left.item())
        raise KindError(
            f"np.{ufunc.__name__}() got a ComplexTensor of shape {self.shape}, but computes with arrays; compute with "
            "complex tensors, or pass z.to_numpy()"
        )

    def __copy__(self) -> Self:
        return self._each(lambda x: x.__copy__())

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        return ComplexTensor, (self._real, self._imag)


class _On:
    """Name a class of complex tensors, or an alias with its backend, as the class of its parts to a `Factory`."""

    def __init__(self, cls: Any) -> None:
        self.__origin__ = Tensor
        self.__args__ = getattr(cls, "__args__", None)


def polar(size: Tensor[B], angle: Tensor[B]) -> ComplexTensor[B]:
    """Return the complex numbers of given magnitudes and angles in radians, which broadcast.

    >>> from math import pi
    >>> polar(Tensor[NumPy].from_data([2.0]), Tensor[NumPy].from_data([0.0])).tolist()
    [(2+0j)]
    """
    size, angle = alike("polar", size, angle)
    return made(ComplexTensor, size * angle.cos(), size * angle.sin())


def view_as_real(z: ComplexTensor[B]) -> Tensor[B]:
    """Return the parts of a complex tensor along a new last dimension of size 2.

    Raises:
        KindError: ``z`` is no complex tensor.
    """
    from burnpy.tensor import stack

    if not isinstance(z, ComplexTensor):
        raise KindError(f"view_as_real() takes a ComplexTensor, got {describe(z)}")
    return stack([z.real, z.imag], -1)


def view_as_complex(x: Tensor[B]) -> ComplexTensor[B]:
    """Return the complex tensor whose parts are along the last dimension of x, of size 2.

    Raises:
        ShapeError: the last dimension is not of size 2.

    >>> view_as_complex(Tensor[NumPy].from_data([[1.0, 2.0]])).tolist()
    [(1+2j)]
    """
    (x,) = alike("view_as_complex", x)
    if not x.ndim or x.shape[-1] != 2:
        raise ShapeError(f"view_as_complex() takes a last dimension of size 2, got shape {x.shape}")
    return made(ComplexTensor, x[..., 0], x[..., 1])
