"""Backends: the contract, devices and dtypes, and lazy doors to the backends that burnpy brings along.

``from burnpy.backend import NumPy`` imports the NumPy backend; ``CuPy`` needs an extra, and says where it is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend import errors
from burnpy.backend.backend import Backend, operations
from burnpy.backend.devices import device_of
from burnpy.backend.schema import Algebra, Operation, derived, required

if TYPE_CHECKING:
    from burnpy.backend.decorators import Checked, Profiled
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


_DECORATORS = ("Checked", "Profiled")


def __getattr__(name: str) -> Any:
    """A decorator, or a backend by its entry point's name in the group ``burnpy.backends``; imported when asked for."""
    if name.startswith("_"):
        raise AttributeError(name)
    if name in _DECORATORS:
        from burnpy.backend import decorators

        found = getattr(decorators, name)
    else:
        from burnpy.backend.registry import load

        found = load(name)
    globals()[name] = found
    return found
