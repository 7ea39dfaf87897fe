"""Kernel caches. They are cleared when compilation is turned off."""

from __future__ import annotations

from typing import Any

_lookups: list[dict[Any, Any]] = []


def lookup() -> dict[Any, Any]:
    """Return a new dictionary that `forget` empties."""
    made: dict[Any, Any] = {}
    _lookups.append(made)
    return made


def forget() -> None:
    """Empty all dictionaries, so that kernels are looked for anew, as they were turned on or off."""
    for made in _lookups:
        made.clear()
