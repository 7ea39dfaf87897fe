"""Lookup of backends by name: those that ship with burnpy, and those that packages register as entry points."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

from burnpy.backend.backend import Backend
from burnpy.backend.errors import MissingNameError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

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
