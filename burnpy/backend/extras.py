"""Packages of burnpy's extras, which are imported where they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from burnpy.backend.errors import MissingPackageError


def needed(module: str, owner: str, package: str, extra: str) -> Any:
    """Import a module.

    Args:
        module: its name.
        owner: the function or class that needs it, for the message.
        package: the package that has it.
        extra: burnpy's extra that has the package.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingPackageError(
            f"{owner} needs the package {package}, which cannot be imported ({error}); install it with: "
            f'pip install "burnpy[{extra}]"'
        ) from None
