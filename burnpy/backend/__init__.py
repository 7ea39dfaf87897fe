"""Backends: the contract, devices and dtypes, and lazy doors to the backends that burnpy brings along.

``from burnpy.backend import NumPy`` imports the NumPy backend; ``CuPy`` needs an extra, and says where it is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend import errors
from burnpy.backend.backend import Backend, operations
from burnpy.backend.devices import device_of
from burnpy.backend.schema import Algebra, derived, required

if TYPE_CHECKING:
    from burnpy.backend.decorators import Checked, Profiled
    from burnpy.backend.entries import Operation
    from burnpy_cupy import CuPy
    from burnpy_numpy import NumPy

__all__ = [
    "Algebra",
    "Backend",
    "Checked",
    "CuPy",
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
    "burnpy.backend.decorators": ("Checked", "Profiled"),
    "burnpy.backend.entries": ("Operation",),
}
"""What is imported at first use, besides backends."""


def __getattr__(name: str) -> Any:
    """What is imported at first use, or a backend by its entry point's name in the group ``burnpy.backends``."""
    if name.startswith("_"):
        raise AttributeError(name)
    if any(name in names for names in _LATER.values()):
        from burnpy.backend.lazy import opened

        return opened(__name__, _LATER, name)
    from burnpy.backend.registry import load

    found = globals()[name] = load(name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
