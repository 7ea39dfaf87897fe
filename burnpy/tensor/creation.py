"""What the factories of the three classes share: finding the device, reading shapes, and filling.

A factory is a classmethod of the class or of an alias of it: ``Tensor[NumPy].zeros((2, 3))`` arrives here with the
alias as ``cls``, ``Tensor.zeros((2, 3), device=NumPy)`` with the class itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from burnpy.backend.devices import device_of
from burnpy.backend.dtypes import DEFAULT, dtype_of
from burnpy.backend.errors import ArgumentError, DeviceError, DTypeError, KindError, a
from burnpy.backend.primitives import KindName, Shape
from burnpy.tensor import dims
from burnpy.tensor.base import describe, new_tensor
from burnpy.tensor.data import array_of, fitting, frozen
from burnpy.tensor.readonly import writer

Size: TypeAlias = int | Sequence[int]
"""A shape: ``(2, 3)``, ``[2, 3]`` or, of one dimension, ``2``."""


class Factory:
    """The class that a factory makes an instance of, and where."""

    __slots__ = ("backend", "cls", "device", "factory", "kind")

    def __init__(self, cls: Any, device: Any, factory: str) -> None:
        self.cls: type[Any] = getattr(cls, "__origin__", cls)
        self.kind: KindName = self.cls.kind
        self.factory = f"{self.cls.__name__}.{factory}"
        self.device: Any = device_of(_named(self.cls, cls, factory) if device is None else device)
        self.backend: Any = self.device if self.kind == "float" else self.device.discrete

    def made(self, primitive: Any) -> Any:
        """The tensor."""
        return new_tensor(self.cls, self.device, primitive)

    def dtype(self, asked: Any) -> Any:
        """The dtype asked for, or the kind's own for None."""
        return DEFAULT[self.kind] if asked is None else dtype_of(asked, self.kind)


def _named(cls: type[Any], alias: Any, factory: str) -> Any:
    """The backend in ``cls[backend]``."""
    name = cls.__name__
    arguments = getattr(alias, "__args__", None)
    if arguments is None:
        raise DeviceError(
            f"{name}.{factory}() does not know its backend; write {name}[NumPy].{factory}(...), "
            f"or {name}.{factory}(..., device=NumPy)"
        )
    if len(arguments) > 1:
        raise DeviceError(f"{name}[...] was given {len(arguments)} backends, and a tensor is on one: {name}[NumPy]")
    if isinstance(arguments[0], TypeVar):
        raise DeviceError(
            f"{name}[{arguments[0].__name__}].{factory}() names a type variable, which is no backend when the program "
            f"runs; generic code takes device: B | type[B] and writes {name}.{factory}(..., device=device)"
        )
    return arguments[0]


def from_data(cls: Any, data: Any, dtype: Any, device: Any, copy: bool) -> Any:
    """``Tensor.from_data`` and its kin."""
    place = Factory(cls, device, "from_data")
    if copy:
        return place.made(place.backend.from_numpy(array_of(data, place.kind, dtype)))
    return place.made(place.backend.adopt_numpy(frozen(data, place.kind, dtype)))


def from_dlpack(cls: Any, array: Any, device: Any) -> Any:
    """``Tensor.from_dlpack`` and its kin, of what `imported` made of the source."""
    return from_data(cls, array, None, device, bool(writer(array)))


def full(cls: Any, shape: Size, value: Any, dtype: Any, device: Any, factory: str = "full") -> Any:
    """``Tensor.full``, ``zeros``, ``ones`` and their kin."""
    place = Factory(cls, device, factory)
    found = place.dtype(dtype)
    return place.made(
        place.backend.full(shape_of(shape, place.factory), fitting(value, place.kind, found, place.factory), found)
    )


def linspace(cls: Any, start: float, end: float, steps: int, dtype: Any, device: Any) -> Any:
    """``Tensor.linspace``."""
    place = Factory(cls, device, "linspace")
    found = place.dtype(dtype)
    low, high = (fitting(x, place.kind, found, place.factory) for x in (start, end))
    (count,) = shape_of((steps,), place.factory)
    return place.made(place.backend.linspace(low, high, count, found))


def eye(cls: Any, rows: int, columns: int | None, dtype: Any, device: Any) -> Any:
    """``Tensor.eye`` and its kin."""
    place = Factory(cls, device, "eye")
    sizes = shape_of((rows, rows if columns is None else columns), place.factory)
    return place.made(place.backend.eye(*sizes, place.dtype(dtype)))


def arange(cls: Any, start: Any, end: Any, step: Any, dtype: Any, device: Any) -> Any:
    """``Tensor.arange`` and its kin; with one argument, from 0 to it."""
    place = Factory(cls, device, "arange")
    found = place.dtype(dtype)
    low, high = (0, start) if end is None else (start, end)
    low, high, by = (_any_size(x, place, found) for x in (low, high, step))
    length = (high - low) / by if by else math.nan
    if not math.isfinite(length) or length < 0 or not math.isfinite(by):
        raise ArgumentError(
            f"{place.factory}() was asked to go from {low} to {high} by {by}, which never arrives; "
            "give a finite step, not 0, in the direction of the end"
        )
    exact = place.kind == "int"
    (count,) = shape_of((-((low - high) // by) if exact else math.ceil(length),), place.factory)
    if exact:  # the end, and a step that is not taken, need not fit the dtype
        limits = np.iinfo(found)
        for x in (low, low + (count - 1) * by) if count else ():
            if not limits.min <= x <= limits.max:
                raise DTypeError(
                    f"{place.factory}() was asked to go from {low} to {high} by {by} in {found}, which cannot "
                    f"hold {x}; give a wider dtype"
                )
        if count < 2:
            low, high, by = (low, low + 1, 1) if count else (0, 0, 1)
    return place.made(place.backend.arange(low, high, by, found))


def _any_size(x: Any, place: Factory, dtype: Any) -> Any:
    """A number of the place's kind, which an int dtype may be too narrow for."""
    return (
        int(x)
        if place.kind == "int" and isinstance(x, (int, np.integer))
        else fitting(x, place.kind, dtype, place.factory)
    )


def lifted(cls: Any, x: Any, named: Any) -> Any:
    """``Tensor.from_inner`` and its kin: the values of ``x`` one level up, in the same memory."""
    origin: type[Any] = getattr(cls, "__origin__", cls)
    if type(x) is not origin:
        raise KindError(f"{origin.__name__}.from_inner() takes {a(origin.__name__)}, not {describe(x)}")
    if cls is origin and named is None:
        from burnpy.autodiff.autodiff import Autodiff

        device: Any = Autodiff(x.device)
    else:
        device = device_of(_named(origin, cls, "from_inner") if named is None else named)
        if not hasattr(device, "lift") or device.inner is not x.device:
            raise DeviceError(
                f"{origin.__name__}[{device}].from_inner() was given a tensor on {x.device}, which is not the inner "
                f"backend of {device}; write {origin.__name__}.from_inner(x) for Autodiff[{x.device}]"
            )
    return new_tensor(origin, device, device.lift(x._primitive) if origin.kind == "float" else x._primitive)


def shape_of(asked: Size, factory: str) -> Shape:
    """The shape that the user asked for: an int, or a sequence of ints, none of them negative.

    Raises:
        ShapeError: a size is negative, or there are more elements than can be addressed.
        ArgumentError: it is something else.
    """
    return dims.addressable(dims.shape_of(asked, factory), factory)
