"""Backends: the contract, devices and dtypes, and lazy doors to the backends that burnpy brings along.

``from burnpy.backend import NumPy`` imports the NumPy backend; ``CuPy`` needs an extra, and says so where it is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend import errors
from burnpy.backend.backend import Backend, operations
from burnpy.backend.devices import device_of
from burnpy.backend.schema import Algebra, Operation, derived, required

if TYPE_CHECKING:
    from burnpy_cupy import CuPy
    from burnpy_numpy import NumPy

__all__ = [
    "Algebra",
    "Backend",
    "CuPy",
    "NumPy",
    "Operation",
    "derived",
    "device_of",
    "errors",
    "operations",
    "required",
]


def __getattr__(name: str) -> Any:
    """A backend by the name of its entry point in the group ``burnpy.backends``, imported at first use."""
    if name.startswith("_"):
        raise AttributeError(name)
    from burnpy.backend.registry import load

    found = load(name)
    globals()[name] = found
    return found
