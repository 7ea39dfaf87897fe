"""Backends: the `Backend` interface, devices, dtypes, and lazy imports of the backends that ship with burnpy.

``from burnpy.backend import NumPy`` imports the NumPy backend; ``CuPy`` needs an extra, which the error names if it is
not installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend import errors
from burnpy.backend.backend import Backend, operations
from burnpy.backend.devices import device_of
from burnpy.backend.lazy import lazy_attributes
from burnpy.backend.schema import Algebra, derived, required

if TYPE_CHECKING:
    from burnpy.backend.decorators import Checked, Decorator, Mixed, Profiled
    from burnpy.backend.entries import Operation
    from burnpy.backend.programs.explain import explain
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

_LATER = {
    "burnpy.backend.decorators": ("Checked", "Decorator", "Mixed", "Profiled"),
    "burnpy.backend.entries": ("Operation",),
    "burnpy.backend.programs.explain": ("explain",),
}
"""The names that are imported at first use, by module; backends are as well, by entry point."""


def _backend(name: str) -> type[Backend]:
    """Return a backend that is registered as an entry point in ``burnpy.backends``."""
    from burnpy.backend.registry import load

    return load(name)


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # any name may be a registered backend's

else:
    __getattr__, __dir__ = lazy_attributes(__name__, _LATER, _backend)
