"""Lazy doors: what a package offers and imports at first use, since not everybody needs it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any


def opened(package: str, later: Mapping[str, tuple[str, ...]], name: str) -> Any:
    """What ``package`` calls ``name``, for its ``__getattr__``; from now on it is an attribute as any other.

    Args:
        package: the package's ``__name__``.
        later: for each module the names that the package takes from it.
        name: the attribute that was asked for.

    Raises:
        MissingNameError: the package offers no such name.
    """
    for module, names in later.items():
        if name in names:
            found = getattr(import_module(module), name)
            setattr(sys.modules[package], name, found)
            return found
    from burnpy.hints.missing import from_package

    raise from_package(package, name)
