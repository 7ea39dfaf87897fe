"""The table of the methods that are loaded at first use: ``python -m burnpy.docs.methods`` writes it anew.

It is ``burnpy/tensor/methods/__init__.py``, made from the classes in that folder, which are read and not imported.
"""

from __future__ import annotations

import ast
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "tensor" / "methods"
TABLE = FOLDER / "__init__.py"
_WIDTH = 120

_PAGE = '''\
"""Methods of tensors that are loaded at first use: a file for each family, with a class for each set of kinds.

This file is made from the others by ``python -m burnpy.docs.methods``. To add a method, write it in one of them and run
that; a class that is new is listed among the bases of the tensor classes that have its methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.tensor.tensor_base import lazy_classes

if TYPE_CHECKING:
{imports}

{exported}

METHODS = {{
{table}
}}
"""The names of the methods by class, as ``"module.Class"``."""

if not TYPE_CHECKING:
    globals().update(lazy_classes(__name__, METHODS))
'''


def table() -> str:
    """Return the text of the file."""
    methods: dict[str, list[str]] = {}
    for path in sorted(FOLDER.glob("*.py")):
        if path != TABLE:
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and _has_methods(node):
                    methods[f"{path.stem}.{node.name}"] = sorted(_names(node))
    classes: dict[str, list[str]] = {}
    for module, _, name in (path.partition(".") for path in methods):
        classes.setdefault(module, []).append(name)
    return _PAGE.format(
        imports="\n".join(_import(module, sorted(names)) for module, names in classes.items()),
        exported=_exported(sorted(name for names in classes.values() for name in names)),
        table="\n".join(f'    "{path}": {_tuple(names)},' for path, names in methods.items()),
    )


def _has_methods(node: ast.ClassDef) -> bool:
    """Return whether a class has methods of tensors: all but the named tuples that methods return."""
    return all(ast.unparse(base) != "NamedTuple" for base in node.bases)


def _import(module: str, names: list[str]) -> str:
    """Return the import of the classes of a module."""
    return f"    from burnpy.tensor.methods.{module} import {', '.join(names)}"


def _tuple(names: list[str]) -> str:
    """Return the text of a tuple, as ruff lays it out: one name on the line, several below each other."""
    if len(names) == 1:
        return f'("{names[0]}",)'
    return "\n".join(["(", *(f'        "{name}",' for name in names), "    )"])


def _exported(names: list[str]) -> str:
    """Return the list of the exported names, laid out as ruff does it."""
    line = "__all__ = [" + ", ".join(f'"{name}"' for name in names) + "]"
    return line if len(line) <= _WIDTH else "\n".join(["__all__ = [", *(f'    "{name}",' for name in names), "]"])


def _names(node: ast.ClassDef) -> set[str]:
    """Return the names of the functions of a class; ``__add__ = add`` is one of them too."""
    names = {child.name for child in node.body if isinstance(child, ast.FunctionDef)}
    for child in node.body:
        if isinstance(child, ast.Assign):
            names |= {target.id for target in child.targets if isinstance(target, ast.Name)}
    return names - {"__slots__"}


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
