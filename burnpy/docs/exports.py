"""Stubs of the packages whose names are imported on first use: ``python -m burnpy.docs.exports`` writes them anew.

Such a package has a table of its names by module (`burnpy.backend.lazy.attached`), which type checkers cannot follow.
Its stub, ``__init__.pyi``, imports the same names.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

PACKAGES = ("burnpy.autodiff", "burnpy.func", "burnpy.linalg", "burnpy.nn", "burnpy.nn.functional")

_HEAD = '"""The names of `{package}`, made from its table by ``python -m burnpy.docs.exports``."""\n\n'
_WIDTH = 120


def path_of(package: str) -> Path:
    """Return the path of a package's stub."""
    return Path(import_module(package).__path__[0], "__init__.pyi")


def stub(package: str) -> str:
    """Return the text of a package's stub, laid out as ruff does it."""
    table: dict[str, tuple[str, ...]] = vars(import_module(package))["_LATER"]
    imports = "".join(_import(module, _in_order(table[module])) for module in sorted(table))
    names = "".join(f'    "{name}",\n' for name in _in_order(name for names in table.values() for name in names))
    return f"{_HEAD.format(package=package)}{imports}\n__all__ = [\n{names}]\n"


def _in_order(names: Iterable[str]) -> list[str]:
    """Return names as ruff sorts them: constants, classes, functions."""
    return sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))


def _import(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}\n"
    if len(line) <= _WIDTH + 1:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")\n"


if __name__ == "__main__":
    for each in PACKAGES:
        path_of(each).write_text(stub(each), encoding="utf-8")
