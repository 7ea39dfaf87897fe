"""Lazy imports: names that a package imports on first use, for a faster import of the package."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def opened(package: str, later: Mapping[str, tuple[str, ...]], name: str) -> Any:
    """Import ``name`` for the ``__getattr__`` of ``package``, and set it as an attribute of the package.

    Args:
        package: the package's ``__name__``.
        later: the names that the package imports, by module; under its own name, its modules that are attributes.
        name: the attribute that was accessed.

    Raises:
        MissingNameError: the package has no such name.
    """
    for module, names in later.items():
        if name in names:
            value = import_module(f"{package}.{name}") if module == package else getattr(import_module(module), name)
            setattr(sys.modules[package], name, value)
            return value
    if name.startswith("__"):  # importing from a module asks it for `__path__`
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    from burnpy.hints.missing import from_package

    raise from_package(package, name)


def attached(
    package: str, later: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the ``__getattr__``, ``__dir__`` and ``__all__`` of a package that imports all of its names on first use.

    Type checkers read them in a stub, which ``python -m burnpy.docs.exports`` makes from ``later``: see `opened`.
    """
    names = sorted(name for group in later.values() for name in group)

    def get(name: str) -> Any:
        """Import a name on first use."""
        return opened(package, later, name)

    def listed() -> list[str]:
        """The names of the package, whether they have been imported or not."""
        return sorted({*vars(sys.modules[package]), *names})

    return get, listed, names
