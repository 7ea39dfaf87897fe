"""The namespace for arrays of one device, ``x.__array_namespace__()``: `Info`, constants, dtypes and the functions."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import cache, partial, wraps
from types import ModuleType
from typing import Any

from burnpy import array_api
from burnpy.array_api import fft
from burnpy.array_api.creation_and_manipulation import default_device
from burnpy.array_api.data_types import asked_whether_writeable, names_of, standard
from burnpy.backend.dtypes import (
    DEFAULT,
    HALVES,
    bool_,
    complex64,
    complex128,
    dtype_of,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from burnpy.backend.errors import ArgumentError
from burnpy.backend.primitives import DType
from burnpy.tensor.dim_checks import MOST_DIMS

__all__ = [
    "bool",
    "complex64",
    "complex128",
    "e",
    "float32",
    "float64",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "nan",
    "newaxis",
    "pi",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

_OUTSIDE = HALVES
"""Dtypes of burnpy that the standard does not have."""


class Info:
    """A description of the namespace: the result of ``__array_namespace_info__()``.

    Args:
        device: the default device of the namespace.

    >>> from burnpy import array_api as xp
    >>> xp.__array_namespace_info__().default_dtypes()["real floating"]
    dtype('float32')
    """

    def __init__(self, device: Any = None) -> None:
        self._device = default_device() if device is None else device

    def capabilities(self) -> dict[str, Any]:
        """Return what is supported: boolean masks, results whose shape depends on values, and how many axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": MOST_DIMS}

    def default_device(self) -> Any:
        """Return the device of arrays that are created without one."""
        return self._device

    def devices(self) -> tuple[Any, ...]:
        """Return the devices that are known to be there: the one of the namespace."""
        return (self._device,)

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """Return the default dtypes."""
        floating = {"real floating": DEFAULT["float"], "complex floating": DEFAULT["complex"]}
        return {**floating, "integral": DEFAULT["int"], "indexing": DEFAULT["int"]}

    @standard
    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """Return the standard's dtypes by name, all or those of some kinds."""
        kinds = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
        names = [name for each in kinds for name in names_of(each) if name not in _OUTSIDE]
        return {name: dtype_of(name) for name in names}


__array_namespace_info__ = Info
bool = bool_
e = math.e
inf = math.inf
nan = math.nan
newaxis = None
pi = math.pi

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
"""The versions of the standard; the functions of one are in the next."""

_CREATING = ("arange", "asarray", "empty", "eye", "from_dlpack", "full", "linspace", "ones", "zeros")
_CREATING_FREQUENCIES = ("fftfreq", "rfftfreq")


def method_of(x: Any) -> Callable[..., ModuleType]:
    """Return the method ``x.__array_namespace__``."""
    if asked_whether_writeable(x, sys._getframe(2)):
        raise AttributeError("tensors are not writeable")
    return partial(namespace_of, x.device)


def namespace_of(device: Any, api_version: str | None = None) -> ModuleType:
    """Return the namespace whose new arrays are on a device; on a level, on the device beneath it."""
    if api_version is not None and api_version not in VERSIONS:
        raise ArgumentError(
            f"__array_namespace__() got api_version={api_version!r}; burnpy has {VERSIONS[0]} to {VERSIONS[-1]}"
        )
    while device.level or device.stands_for is not None:  # its arrays combine with those of the device beneath
        device = device.inner if device.level else device.stands_for
    return array_api if device is default_device() else _namespace(device)


@cache
def _namespace(device: Any) -> ModuleType:
    namespace = _copy(array_api, f"{array_api.__name__} on {device}", _CREATING, device)
    vars(namespace)["fft"] = _copy(fft, f"{fft.__name__} on {device}", _CREATING_FREQUENCIES, device)
    vars(namespace)["__array_namespace_info__"] = lambda: Info(device)
    return namespace


def _copy(module: ModuleType, name: str, creating: tuple[str, ...], device: Any) -> ModuleType:
    """Return a copy of a module, in which some functions are called with a device if they are called without."""
    copy = ModuleType(name, module.__doc__)
    vars(copy).update({key: value for key, value in vars(module).items() if key not in ("__name__", "__spec__")})
    vars(copy).update({key: _on(device, getattr(module, key)) for key in creating})
    return copy


def _on(own: Any, function: Any) -> Any:
    @wraps(function)
    def wrapper(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None and not (args and hasattr(args[0], "_device")):  # a tensor keeps its device
            device = own
        return function(*args, device=device, **kwargs)

    return wrapper
