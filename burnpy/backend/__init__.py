"""Backends: the `Backend` interface, devices, dtypes, and lazy imports of the backends that ship with burnpy.

``from burnpy.backend import NumPy`` imports the NumPy backend; ``CuPy`` needs an extra, which the error names if it is
not installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend import errors
from burnpy.backend.backend import Backend, operations
from burnpy.backend.devices import device_of
from burnpy.backend.schema import Algebra, derived, required

if TYPE_CHECKING:
    from burnpy.backend.decorators import Checked, Decorator, Profiled
    from burnpy.backend.entries import Operation
    from burnpy_cupy import CuPy
    from burnpy_numpy import NumPy

__all__ = [
    "Algebra",
    "Backend",
    "Checked",
    "CuPy",
    "Decorator",
    "NumPy",
    "Operation",
    "Profiled",
    "derived",
    "device_of",
    "errors",
    "operations",
    "required",
]


_LATER = {
    "burnpy.backend.decorators": ("Checked", "Decorator", "Profiled"),
    "burnpy.backend.entries": ("Operation",),
}
"""The names imported on first use, by module; backends are as well, by entry point."""


def __getattr__(name: str) -> Any:
    """Import a name on first use: one of `_LATER`, or a backend registered as an entry point in ``burnpy.backends``."""
    if name.startswith("_"):
        raise AttributeError(name)
    if any(name in names for names in _LATER.values()):
        from burnpy.backend.lazy import opened

        return opened(__name__, _LATER, name)
    from burnpy.backend.registry import load

    backend = globals()[name] = load(name)
    return backend


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
