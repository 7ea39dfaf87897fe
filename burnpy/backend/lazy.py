"""Lazy imports: names that a package imports on first use, for a faster import of the package."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any


def opened(package: str, later: Mapping[str, tuple[str, ...]], name: str) -> Any:
    """Import ``name`` for the ``__getattr__`` of ``package``, and set it as an attribute of the package.

    Args:
        package: the package's ``__name__``.
        later: the names that the package imports, by module.
        name: the attribute that was accessed.

    Raises:
        MissingNameError: the package has no such name.
    """
    for module, names in later.items():
        if name in names:
            value = getattr(import_module(module), name)
            setattr(sys.modules[package], name, value)
            return value
    from burnpy.hints.missing import from_package

    raise from_package(package, name)
