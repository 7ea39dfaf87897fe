"""The packages that the examples need beside burnpy: without one, an example ends with the command that installs it."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PACKAGES = {"sklearn": "scikit-learn"}
"""Packages whose name differs from the module's."""


def require(*modules: str, extra: str = "demo") -> None:
    """End the program, before anything that takes long, if a module is missing; ``extra`` is burnpy's with it, or none:
    "".
    """
    for module in modules:
        root = module.partition(".")[0]
        if find_spec(root) is None:
            program, package = Path(sys.argv[0]).name, PACKAGES.get(root, root)
            installed = f'".[{extra}]"' if extra else package
            sys.exit(f"{program} needs {package}; install it with: pip install {installed}")


def imported(module: str, extra: str = "demo") -> Any:
    """Return a module, which may have no types."""
    require(module, extra=extra)
    return import_module(module)
