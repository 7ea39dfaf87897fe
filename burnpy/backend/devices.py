"""Backends by name, and generic aliases that keep their type arguments: ``Autodiff[NumPy].device()``.

Backends ship with burnpy, or packages register them as entry points. An alias of `typing` forwards attributes to its
origin and loses its arguments. `BoundAlias` rebinds every classmethod to the alias, so that the method finds the
backend in ``cls.__args__``. No class is created at run time.
"""

from __future__ import annotations

import os
import sys
from abc import ABCMeta
from functools import cache, lru_cache
from importlib import import_module
from types import GenericAlias, MethodType
from typing import TYPE_CHECKING, Any, ClassVar

from burnpy.backend.errors import DeviceError, MissingNameError, a
from burnpy.backend.functions import signature
from burnpy.backend.schema import declarations, missing
from burnpy.typevars import B

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

    from burnpy.backend.backend import Backend


_attribute = GenericAlias.__getattribute__


class BoundAlias(GenericAlias):
    """``Origin[arguments]`` whose classmethods receive the alias, not the bare origin, as ``cls``."""

    def __getattribute__(self, name: str) -> Any:
        attribute = _attribute(self, name)
        if type(attribute) is MethodType and attribute.__self__ is _attribute(self, "__origin__"):
            return MethodType(attribute.__func__, self)
        return attribute

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Create an instance of the origin, by default from the alias's own arguments: ``Autodiff[NumPy]()``."""
        origin: Any = self.__origin__
        return origin(*(args or self.__args__), **kwargs)

    def __getitem__(self, item: Any) -> BoundAlias:
        origin: Any = self.__origin__
        return BoundAlias(origin, super().__getitem__(item).__args__)

    def __reduce__(self) -> tuple[Any, ...]:
        return BoundAlias, (self.__origin__, self.__args__)


class Itself:
    """A descriptor whose value is the instance, without a reference that only the garbage collector could free."""

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else instance


class Subscriptable:
    """A base class that makes ``Class[argument]`` a `BoundAlias`. List it before `typing.Generic` among the bases."""

    __slots__ = ()

    def __class_getitem__(cls, item: Any) -> Any:
        return BoundAlias(cls, item if type(item) is tuple else (item,))


def innermost(device: Any) -> Any:
    """Return the device beneath all that a device wraps: a plain one, or the one that records a compiled function."""
    while device.inner is not None and not device.records:
        device = device.inner
    return device


class DeviceMeta(ABCMeta):
    """The metaclass of backends, which makes devices singletons: ``NumPy() is NumPy()``, ``CuPy() is CuPy(0)``."""

    _devices: ClassVar[dict[tuple[Any, ...], Any]] = {}

    if not TYPE_CHECKING:  # to type checkers a backend class is called as its __init__ says

        def __call__(cls, *args, **kwargs):
            """Return the device for these arguments, which is created by the first call."""
            try:
                device = None if kwargs else DeviceMeta._devices.get((cls, *args))
            except TypeError:  # unhashable arguments, which are refused below
                device = None
            if device is not None:
                return device
            try:
                bound = signature(cls.__init__).bind(None, *args, **kwargs)
            except TypeError as error:
                raise DeviceError(
                    f"no device {cls.__name__}(...) can be made of these arguments: {error}; "
                    "of a backend that wraps another, name both, as in Autodiff[NumPy]"
                ) from None
            bound.apply_defaults()
            arguments = cls.canonical(*bound.args[1:])
            device = DeviceMeta._devices.get((cls, *arguments))
            if device is None:  # setdefault: two threads that get here both return the same device
                device = DeviceMeta._devices.setdefault((cls, *arguments), cls.unregistered(*arguments))
            if not kwargs:
                DeviceMeta._devices[(cls, *args)] = device
            return device

    def canonical(cls, *args: Any) -> tuple[Any, ...]:
        """Return the arguments that identify the device; a class may override this to accept several spellings."""
        return args

    def unregistered(cls, *args: Any) -> Any:
        """Create a device that is not a singleton: equal to no other, and returned by no later call."""
        _refuse_incomplete(cls)
        return super().__call__(*args)


@cache
def _refuse_incomplete(cls: type[Backend]) -> None:
    absent = missing(cls, declarations(cls))
    if absent:
        raise DeviceError(
            f"backend {cls.__name__} does not write the required operations {', '.join(absent)}; "
            "define each as burnpy.backend.Backend declares it"
        )


def device_of(backend: B | type[B]) -> B:
    """Return the device for a backend: a device itself, a backend class, an alias, or a ``type X = ...``.

    Args:
        backend: ``NumPy()``, ``NumPy``, ``Autodiff[NumPy]``, or a type alias of one of them.

    Raises:
        DeviceError: ``backend`` is none of these.

    >>> device_of(NumPy) is NumPy()
    True
    """
    value: Any = backend
    while type(value).__name__ == "TypeAliasType":  # typing's or typing_extensions', which differ on 3.12 and 3.13
        value = value.__value__
    if isinstance(type(value), DeviceMeta):
        return value  # type: ignore[no-any-return]  # an instance of a backend class
    if isinstance(value, DeviceMeta) or (isinstance(value, BoundAlias) and isinstance(value.__origin__, DeviceMeta)):
        return value()  # type: ignore[no-any-return]  # a backend class, or an alias that applies its arguments
    named = isinstance(value, (int, list, tuple)) or hasattr(value, "dtype")
    what = a(type(value).__name__) if named else " ".join(repr(backend).split())[:80]
    if isinstance(value, type):
        what = f"the class {value.__name__}"
    raise DeviceError(f"{what} is not a backend; {_way_out(value)}")


def _way_out(device: object) -> str:
    """Return what to write for a value that is not a device, such as "cuda:1" or ``torch.device("cuda", 1)``."""
    kind: Any = getattr(device, "type", device)
    if isinstance(kind, str):
        number: Any
        kind, _, number = kind.lower().partition(":")
        if not isinstance(device, str):
            number = getattr(device, "index", None)
        if kind in ("cuda", "gpu"):
            return (
                f"for a GPU write device=CuPy{f'({number})' if number else ''}, after from burnpy.backend import CuPy"
            )
        if kind == "cpu":
            return "for the CPU write device=NumPy, after from burnpy.backend import NumPy"
    return "pass a backend class such as NumPy, an alias such as Autodiff[NumPy], or a device"


GROUP = "burnpy.backends"
_OWN = {"NumPy": "burnpy_numpy", "CuPy": "burnpy_cupy"}


def load(name: str) -> type[Backend]:
    """Return the backend class registered under ``name``.

    Raises:
        MissingNameError: no installed package registers it; the message lists the registered names.
    """
    if name in _OWN:
        return getattr(import_module(_OWN[name]), name)  # type: ignore[no-any-return]  # a backend class
    for entry in _entries():
        if entry.name == name:
            return entry.load()  # type: ignore[no-any-return]  # as above
    raise MissingNameError(lambda: f"no backend {name!r} is installed; there are: {', '.join(available())}")


def available() -> list[str]:
    """Return the names of the registered backends, whether or not their extras are installed."""
    return sorted({*_OWN, *(entry.name for entry in _entries())})


def _entries() -> EntryPoints:
    return _entries_in(tuple([(path, _modified(path)) for path in sys.path]))


@lru_cache(maxsize=1)  # reading the metadata of all packages takes milliseconds, which `hasattr` should not
def _entries_in(folders: tuple[tuple[str, int], ...]) -> EntryPoints:
    from importlib.metadata import entry_points  # at the top, it would double burnpy's import time

    return entry_points(group=GROUP)


def _modified(folder: str) -> int:
    """Return the time of the last change of a folder of packages, such as an installation; 0 if there is no folder."""
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0
