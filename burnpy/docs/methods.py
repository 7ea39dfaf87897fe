"""The methods that are loaded at first use: ``make generated`` writes two files of them anew.

``burnpy/tensor/pointwise_declared.py`` has the methods of the operations that are declared with ``method=True``. The
table in ``burnpy/tensor/lazy_methods.py`` lists the methods of the classes that ``tensor.py`` and ``factories.py``
inherit through it. Sources are read and not imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import wrap

PACKAGE = Path(__file__).parents[1]
OPERATIONS = PACKAGE / "backend" / "operations"
FOLDER = PACKAGE / "tensor"
DECLARED = FOLDER / "pointwise_declared.py"
TABLE = FOLDER / "lazy_methods.py"
_WIDTH = 120

_DECLARED_PAGE = '''\
"""Methods that are one operation each, by the kind of their operands.

This file is made by ``make generated`` from the operations of ``burnpy/backend/operations`` that are
declared with ``method=True``, and from their docstrings. A body of ``...`` is not what runs: the decorator copies a
function of `burnpy.tensor.template`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Self

from burnpy.tensor.template import S, {templates}
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import BoolTensor
{classes}'''
_CLASSES = {
    "Float": '''class FloatFunctions(TensorBase[B]):
    """Elementwise functions of floats, of one tensor or two, which broadcast; nothing warns, as in IEEE 754.

    Special functions are exact to a few roundings, and 16-bit floats are computed in float32.
    """''',
    "Inexact": '''class AnalyticFunctions(TensorBase[B]):
    """Elementwise functions of floats or complex numbers; nothing warns, as in IEEE 754.

    Of complex numbers they are the principal values.
    """''',
    "Real": '''class NumberFunctions(TensorBase[B], Generic[B, S]):
    """Elementwise functions of floats or ints, of one tensor or two, which broadcast and promote."""''',
    "Int": '''class IntFunctions(TensorBase[B]):
    """Elementwise functions of ints, which broadcast, promote and may be Python ints."""''',
}
"""The head of the class for each kind that an operation may take."""
_SCALARS = {"Float": "float", "Real": "S", "Int": "int"}
"""The numbers that a second operand of a kind may be."""

_PAGE = '''\
"""Stand-ins for the classes whose methods are loaded at first use, with the table of these methods.

This file is made by ``make generated`` from the classes in this folder that ``tensor.py`` imports from
here. To add a method, write it in the file of its family, or declare its operation with ``method=True``, and run that;
a class that is new is listed among the bases of the tensor classes that have its methods.
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
"""The names of the methods, with spaces between them, by class, as ``"module.Class"``."""

if not TYPE_CHECKING:
    globals().update(lazy_classes(METHODS))
'''


def declared() -> str:
    """Return the text of the file of the methods that are one operation each."""
    methods: dict[str, list[str]] = {kind: [] for kind in _CLASSES}
    templates = set()
    for path in sorted(OPERATIONS.glob("*.py")):
        for node in _declarations(path):
            kind, template, text = _method(node)
            methods[kind].append(text)
            templates.add(template)
    classes = [f"\n\n{head}\n\n    __slots__ = ()\n{''.join(methods[kind])}" for kind, head in _CLASSES.items()]
    return _DECLARED_PAGE.format(templates=", ".join(sorted(templates)), classes="".join(classes))


def _declarations(path: Path) -> Iterator[ast.FunctionDef]:
    """Yield the operations of a file that are declared with ``method=True``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            calls = [call for call in node.decorator_list if isinstance(call, ast.Call)]
            if any(ast.unparse(keyword) == "method=True" for call in calls for keyword in call.keywords):
                yield node


def _method(node: ast.FunctionDef) -> tuple[str, str, str]:
    """Return an operation's kind, the name of the template of its method, and the text of the method."""
    kinds = [ast.unparse(argument.annotation) for argument in node.args.args[1:] if argument.annotation is not None]
    kind, result = kinds[0], ast.unparse(node.returns) if node.returns is not None else ""
    binary = len(kinds) == 2
    if kind not in _CLASSES or kinds[1:] not in ([], [f"{kind} | Scalar"]) or result not in (kind, "Bool"):
        raise TypeError(
            f"{node.name} is declared with method=True and takes ({', '.join(kinds)}); expected a primitive of kind "
            f"{', '.join(_CLASSES)}, and perhaps a second one or a scalar: write a method in burnpy/tensor"
        )
    template = ("comparison" if binary else "predicate") if result == "Bool" else ("binary" if binary else "unary")
    parameters = f"self, other: Self | {_SCALARS[kind]}" if binary else "self"
    returned = "BoolTensor[B]" if result == "Bool" else "Self"
    documentation = ast.get_docstring(node, clean=False) or ""
    if binary:  # methods call the second operand ``other``
        prose, example, code = documentation.partition(">>>")
        documentation = re.sub(rf"\b{node.args.args[2].arg}\b", "other", prose) + example + code
    lines = f"@{template}", f"def {node.name}({parameters}) -> {returned}:", f'    """{documentation}"""', "    ..."
    return kind, template, "".join(["\n", *(f"    {line}\n" for line in lines)])


def table() -> str:
    """Return the text of the file that lists the methods."""
    methods: dict[str, list[str]] = {}
    lazy = _lazy_classes()
    for path in sorted(FOLDER.glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name in lazy:
                methods[f"{path.stem}.{node.name}"] = sorted(_names(node))
    classes: dict[str, list[str]] = {}
    for module, _, name in (path.partition(".") for path in methods):
        classes.setdefault(module, []).append(name)
    return _PAGE.format(
        imports="\n".join(_import(module, sorted(names, key=str.lower)) for module, names in classes.items()),
        exported=exported(sorted(name for names in classes.values() for name in names)),
        table="\n".join(_entry(path, names) for path, names in methods.items()),
    )


def _lazy_classes() -> set[str]:
    """Return the names of the classes that the tensor classes and their factories inherit through the table."""
    return {
        alias.name
        for path in (FOLDER / "tensor.py", FOLDER / "factories.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom) and node.module == "burnpy.tensor.lazy_methods"
        for alias in node.names
    }


def _import(module: str, names: list[str]) -> str:
    """Return the import of the classes of a module."""
    return f"    from burnpy.tensor.{module} import {', '.join(names)}"


def _entry(path: str, names: list[str]) -> str:
    """Return the entry of a class: the names on one line, or on several in parentheses."""
    line = f'    "{path}": "{" ".join(names)}",'
    if len(line) <= _WIDTH:
        return line
    *lines, last = wrap(" ".join(names), _WIDTH - len('        " "'))
    rows = [*(f'        "{row} "' for row in lines), f'        "{last}"']
    return "\n".join([f'    "{path}": (', *rows, "    ),"])


def exported(names: Iterable[str]) -> str:
    """Return the list of exported names, in rows."""
    rows = wrap(", ".join(f'"{name}"' for name in names), _WIDTH - 4)
    return "\n".join(["__all__ = [", *(f"    {row}" for row in rows)]) + ",\n]  # fmt: skip"


def _names(node: ast.ClassDef) -> set[str]:
    """Return the names of the functions of a class; ``__add__ = add`` is one of them too."""
    names = {child.name for child in node.body if isinstance(child, ast.FunctionDef)}
    for child in node.body:
        if isinstance(child, ast.Assign):
            names |= {target.id for target in child.targets if isinstance(target, ast.Name)}
    return names - {"__slots__"}


if __name__ == "__main__":
    DECLARED.write_text(declared(), encoding="utf-8")
    TABLE.write_text(table(), encoding="utf-8")
