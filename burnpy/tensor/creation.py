"""The implementation of the factories of the tensor classes: finding the device, checking shapes, and filling.

A factory is a classmethod of the class or of an alias of it: ``Tensor[NumPy].zeros((2, 3))`` calls the functions here
with the alias as ``cls``, ``Tensor.zeros((2, 3), device=NumPy)`` with the class itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np

from burnpy.backend.devices import device_of
from burnpy.backend.dtypes import DEFAULT, dtype_of, int_limits, kind_of, part_dtype
from burnpy.backend.errors import ArgumentError, DeviceError, DTypeError, KindError, a, no_complex_arrays
from burnpy.backend.primitives import INEXACT, KindName, Shape
from burnpy.tensor import dim_checks
from burnpy.tensor.conversion import DLPACK_CPU, imported
from burnpy.tensor.host_data import DTypeLike, array_of, dtype_of_typed, fitting, frozen, refuse_tracked, writer
from burnpy.tensor.levels import drawing_device
from burnpy.tensor.operand_checks import is_number
from burnpy.tensor.tensor_base import TensorBase, describe, new_tensor
from burnpy.typevars import B

Size: TypeAlias = int | Sequence[int]
"""A shape: ``(2, 3)``, ``[2, 3]`` or, for one dimension, ``2``."""


class Factory:
    """The class and the device of the tensor that a factory creates."""

    __slots__ = ("backend", "cls", "device", "factory", "kind")

    def __init__(self, cls: Any, device: Any, factory: str, *, draws: bool = False) -> None:
        self.cls: type[Any] = getattr(cls, "__origin__", cls)
        self.kind: KindName = self.cls.kind
        self.factory = f"{self.cls.__name__}.{factory}"
        self.device: Any = device_of(_backend_argument(self.cls, cls, factory) if device is None else device)
        if self.kind == "complex" and not self.device.complex_arrays:
            raise no_complex_arrays(self.device)
        if draws:
            self.device = drawing_device(self.device)
        self.backend: Any = self.device if self.kind in INEXACT else self.device.discrete

    def wrap(self, primitive: Any) -> Any:
        """Return a tensor of the class and on the device that holds ``primitive``."""
        return new_tensor(self.cls, self.device, primitive)

    def dtype(self, dtype: Any) -> Any:
        """Return ``dtype`` as a checked NumPy dtype, or the default of the kind for None."""
        return DEFAULT[self.kind] if dtype is None else dtype_of(dtype, self.kind)


def _backend_argument(cls: type[Any], alias: Any, factory: str) -> Any:
    name = cls.__name__
    arguments = getattr(alias, "__args__", None)
    if arguments is None:
        raise DeviceError(
            f"{name}.{factory}() does not know its backend; write {name}[NumPy].{factory}(...), "
            f"or {name}.{factory}(..., device=NumPy)"
        )
    if len(arguments) > 1:
        raise DeviceError(f"{name}[...] got {len(arguments)} backends, and a tensor is on one: {name}[NumPy]")
    if isinstance(arguments[0], TypeVar):
        raise DeviceError(
            f"{name}[{arguments[0].__name__}].{factory}() names a type variable, which is not a backend when the "
            f"program runs; generic code takes device: B | type[B] and writes {name}.{factory}(..., device=device)"
        )
    return arguments[0]


def from_data(cls: Any, data: Any, dtype: Any, device: Any, copy: bool) -> Any:
    """Implement ``from_data`` of the tensor classes."""
    target = Factory(cls, device, "from_data")
    if copy and hasattr(data, "__dlpack_device__"):
        refuse_tracked(data, target.kind)
        primitive = target.backend.imported(data)
        if primitive is not None:
            return target.wrap(_converted(target, data, primitive, dtype))
        if not isinstance(data, (np.ndarray, TensorBase)) and data.__dlpack_device__()[0] != DLPACK_CPU:
            raise ArgumentError(
                f"{target.factory}() got {a(type(data).__name__)} on a GPU for {target.device}; make the tensor "
                "with device=CuPy, and move it with x.to_device(...)"
            )
    if copy:
        return target.wrap(target.backend.from_numpy(array_of(data, target.kind, dtype)))
    return target.wrap(target.backend.adopt_numpy(frozen(data, target.kind, dtype)))


def from_dlpack(cls: Any, source: Any, device: Any) -> Any:
    """Implement ``from_dlpack`` of the tensor classes."""
    target = Factory(cls, device, "from_dlpack")
    primitive = target.backend.imported(source) if hasattr(source, "__dlpack_device__") else None
    if primitive is not None:
        return target.wrap(_converted(target, source, primitive, None))
    array = imported(source, target.cls.__name__)
    return from_data(cls, array, None, target.device, bool(writer(array)))


def _converted(target: Factory, data: Any, primitive: Any, dtype: Any) -> Any:
    """Return the copy of an array on a GPU, converted to ``dtype``."""
    wanted = dtype_of_typed(data, primitive, target.kind, None if dtype is None else target.dtype(dtype))
    if wanted == primitive.dtype:
        return primitive
    if target.kind == "int" and kind_of(primitive.dtype) == "int":
        raise DTypeError(
            f"{target.factory}() got an array of dtype {primitive.dtype} on a GPU and dtype={str(wanted)!r}; "
            "leave the dtype out, and convert the tensor with x.to_dtype(...)"
        )
    return target.backend.cast(primitive, wanted)


def full(cls: Any, shape: Size, value: Any, dtype: Any, device: Any, factory: str = "full") -> Any:
    """Implement ``full``, ``zeros`` and ``ones`` of the tensor classes."""
    target = Factory(cls, device, factory)
    target_dtype = target.dtype(dtype)
    if is_number(value) and target.kind in INEXACT:
        return full(cls, shape, 1, dtype, device, factory).mul(value)
    return target.wrap(
        target.backend.full(
            factory_shape(shape, target.factory),
            fitting(value, target.kind, target_dtype, target.factory),
            target_dtype,
        )
    )


def linspace(cls: Any, start: complex, end: complex, steps: int, dtype: Any, device: Any) -> Any:
    """Implement ``linspace`` of `Tensor` and `ComplexTensor`, whose parts are evenly spaced each."""
    target = Factory(cls, device, "linspace")
    target_dtype = target.dtype(dtype)
    low, high = (fitting(x, target.kind, target_dtype, target.factory) for x in (start, end))
    (count,) = factory_shape((steps,), target.factory)
    b = target.backend
    if target.kind != "complex":
        return target.wrap(b.linspace(low, high, count, target_dtype))
    ends = ((low.real, high.real), (low.imag, high.imag))
    return target.wrap(b.complex(*[b.linspace(*each, count, part_dtype(target_dtype)) for each in ends]))


def eye(cls: Any, rows: int, columns: int | None, dtype: Any, device: Any) -> Any:
    """Implement ``eye`` of `Tensor` and `IntTensor`."""
    target = Factory(cls, device, "eye")
    sizes = factory_shape((rows, rows if columns is None else columns), target.factory)
    return target.wrap(target.backend.eye(*sizes, target.dtype(dtype)))


def arange(cls: Any, start: Any, end: Any, step: Any, dtype: Any, device: Any) -> Any:
    """Implement ``arange`` of `Tensor` and `IntTensor`; with one argument, from 0 to that number."""
    target = Factory(cls, device, "arange")
    target_dtype = target.dtype(dtype)
    low, high = (0, start) if end is None else (start, end)
    low, high, by = (_any_size(x, target, target_dtype) for x in (low, high, step))
    length = (high - low) / by if by else math.nan
    if not math.isfinite(length) or length < 0 or not math.isfinite(by):
        raise ArgumentError(
            f"{target.factory}() cannot go from {low} to {high} by {by}, which never arrives; "
            "give a finite step, not 0, in the direction of the end"
        )
    exact = target.kind == "int"
    (count,) = factory_shape((-((low - high) // by) if exact else math.ceil(length),), target.factory)
    if exact:  # neither the end nor an unused step needs to fit the dtype
        least, most = int_limits(target_dtype)
        for x in (low, low + (count - 1) * by) if count else ():
            if not least <= x <= most:
                raise DTypeError(
                    f"{target.factory}() cannot go from {low} to {high} by {by} in {target_dtype}, which cannot "
                    f"hold {x}; give a wider dtype"
                )
        if count < 2:
            low, high, by = (low, low + 1, 1) if count else (0, 0, 1)
    return target.wrap(target.backend.arange(low, high, by, target_dtype))


def _any_size(x: Any, target: Factory, dtype: Any) -> Any:
    """Return ``x`` as a number of the factory's kind; an int may be too large for the dtype."""
    return (
        int(x)
        if target.kind == "int" and isinstance(x, (int, np.integer))
        else fitting(x, target.kind, dtype, target.factory)
    )


def lifted(cls: Any, x: Any, backend: Any) -> Any:
    """Implement ``from_inner`` of the three classes: the values of ``x`` one level up, in the same memory."""
    origin: type[Any] = getattr(cls, "__origin__", cls)
    if type(x) is not origin:
        raise KindError(f"{origin.__name__}.from_inner() takes {a(origin.__name__)}, not {describe(x)}")
    if cls is origin and backend is None:
        from burnpy.autodiff.autodiff import Autodiff

        device: Any = Autodiff(x.device)
    else:
        device = device_of(_backend_argument(origin, cls, "from_inner") if backend is None else backend)
        if not device.differentiates or device.inner is not x.device:
            raise DeviceError(
                f"{origin.__name__}[{device}].from_inner() got a tensor on {x.device}, which is not the inner "
                f"backend of {device}; write {origin.__name__}.from_inner(x) for Autodiff[{x.device}]"
            )
    return new_tensor(origin, device, device.lift(x._primitive) if origin.kind in INEXACT else x._primitive)


def factory_shape(shape: Size, factory: str, parameter: Any = None) -> Shape:
    """Return a shape argument, an int or a sequence of non-negative ints, as a tuple. Beside an int as the shape, a
    ``parameter`` that is an int, too, may be meant as another size, and is refused."""
    if shape.__class__ is int and parameter.__class__ is int:
        raise ArgumentError(
            f"{factory}() got two ints, the shape {shape} and the parameter {parameter}; write the shape as a tuple: "
            f"({shape}, {parameter}), or ({shape},) and then the parameter"
        )
    return dim_checks.addressable(dim_checks.shape_of(shape, factory), factory)


class Filling(TensorBase[B]):
    """Methods that create a tensor of the shape, dtype and device of another one."""

    __slots__ = ()

    def zeros_like(self, *, dtype: DTypeLike | None = None) -> Self:
        """Return a tensor of zeros (or False) with this tensor's shape and, by default, its dtype."""
        return self._filled_like(False if self.kind == "bool" else 0, dtype, "zeros_like")

    def ones_like(self, *, dtype: DTypeLike | None = None) -> Self:
        """Return a tensor of ones (or True) with this tensor's shape and, by default, its dtype."""
        return self._filled_like(True if self.kind == "bool" else 1, dtype, "ones_like")

    def full_like(self, value: float, *, dtype: DTypeLike | None = None) -> Self:
        """Return a tensor filled with ``value`` with this tensor's shape and, by default, its dtype.

        Raises:
            DTypeError: the value is of another kind, or does not fit the dtype.

        >>> IntTensor[NumPy].from_data([1, 2]).full_like(7).tolist()
        [7, 7]
        """
        return self._filled_like(value, dtype, "full_like")

    def _filled_like(self, value: Any, dtype: Any, operation: str) -> Self:
        target_dtype = self.dtype if dtype is None else dtype_of(dtype, self.kind)
        if is_number(value) and self.kind in INEXACT:
            ones: Any = self._filled_like(1, dtype, operation)
            return ones.mul(value)  # type: ignore[no-any-return]  # of this class
        return self._like(
            self._backend.full(self.shape, fitting(value, self.kind, target_dtype, operation), target_dtype)
        )
