"""Importing the packages that sources need, with one sentence where one is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from burnpy.backend.errors import MissingPackageError


def needed(module: str, owner: str, package: str) -> Any:
    """Import a module.

    Raises:
        MissingPackageError: it cannot be imported.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingPackageError(
            f"{owner} needs the package {package}, which cannot be imported ({error}); install it with: "
            f'pip install "burnpy[data]"'
        ) from None
