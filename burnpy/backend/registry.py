"""Lookup of backends by name: those that ship with burnpy, and those that packages register as entry points."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from burnpy.backend.backend import Backend

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

GROUP = "burnpy.backends"
_OWN = {"NumPy": "burnpy_numpy", "CuPy": "burnpy_cupy"}


def load(name: str) -> type[Backend]:
    """Return the backend class registered under ``name``.

    Raises:
        AttributeError: no installed package registers it; the message lists the registered names.
    """
    if name in _OWN:
        return getattr(import_module(_OWN[name]), name)  # type: ignore[no-any-return]  # a backend class
    for entry in _entries():
        if entry.name == name:
            return entry.load()  # type: ignore[no-any-return]  # as above
    raise AttributeError(f"no backend {name!r} is installed; there are: {', '.join(available())}")


def available() -> list[str]:
    """Return the names of the registered backends, whether or not their extras are installed."""
    return sorted({*_OWN, *(entry.name for entry in _entries())})


def _entries() -> EntryPoints:
    from importlib.metadata import entry_points  # at the top, it would double burnpy's import time

    return entry_points(group=GROUP)
