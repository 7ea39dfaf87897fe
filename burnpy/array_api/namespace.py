"""The namespace for arrays of one device: ``x.__array_namespace__()``.

It has the functions of `burnpy.array_api`. Those that create arrays do so on the device of x: library code that
writes ``xp.zeros(shape)`` gets arrays that can be combined with x.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial, wraps
from types import ModuleType
from typing import Any

from burnpy import array_api
from burnpy.array_api import fft
from burnpy.array_api.creation_functions import default_device
from burnpy.array_api.inspection import Info
from burnpy.array_api.updates import asked_whether_writeable
from burnpy.backend.errors import ArgumentError

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
