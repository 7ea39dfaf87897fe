"""Backends: the `Backend` interface, devices, dtypes, and lazy imports of the backends that ship with burnpy.

``from burnpy.backend import NumPy`` imports the NumPy backend; ``CuPy`` needs an extra, which the error names if it is
not installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from burnpy.backend import errors
from burnpy.backend.lazy import lazy_attributes

if TYPE_CHECKING:
    from burnpy.backend.backend import Backend
    from burnpy.backend.decorators import Checked, Decorator, Mixed, Profiled
    from burnpy.backend.devices import device_of
    from burnpy.backend.entries import Operation
    from burnpy.backend.programs.explain import explain
    from burnpy.backend.schema import Algebra, derived, required
    from burnpy_cupy import CuPy
    from burnpy_numpy import NumPy

__all__ = [
    "Algebra",
    "Backend",
    "Checked",
    "CuPy",
    "Decorator",
    "Mixed",
    "NumPy",
    "Operation",
    "Profiled",
    "derived",
    "device_of",
    "errors",
    "explain",
    "operations",
    "required",
]

_NAMES = {
    "burnpy.backend.backend": "Backend",
    "burnpy.backend.devices": "device_of",
    "burnpy.backend.schema": "Algebra derived required",
    "burnpy.backend.decorators": "Checked Decorator Mixed Profiled",
    "burnpy.backend.entries": "Operation",
    "burnpy.backend.programs.explain": "explain",
}
"""The names that are imported at first use, by module; backends are as well, by entry point."""


import_module("burnpy.backend.operations")  # whose first import makes it an attribute, in place of this function


def operations() -> Mapping[str, Operation]:
    """Return the schema: every operation by name, in the order of declaration.

    >>> operations()["exp"].required
    True
    """
    from burnpy.backend.backend import operations

    return operations()


def _backend(name: str) -> type[Backend]:
    """Return a backend that is registered as an entry point in ``burnpy.backends``."""
    from burnpy.backend.devices import load

    return load(name)


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # any name may be a registered backend's

else:
    __getattr__, __dir__ = lazy_attributes(__name__, _NAMES, _backend)
