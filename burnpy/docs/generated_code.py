"""The Python files and stubs that are made from the code: ``make generated`` writes them anew.

``burnpy/tensor/pointwise_declared.py`` has the methods of the operations that are declared with ``method=True``. The
table in ``burnpy/tensor/lazy_methods.py`` lists the methods of the classes that ``tensor.py`` and ``factories.py``
inherit through it. For these two, sources are read and not imported.

A package whose names are imported at first use has a table of them by module (`burnpy.backend.lazy.attached`), which
type checkers cannot follow. Its stub, ``__init__.pyi``, imports the same names.

A factory of tensors is written once, with ``device: Any = None``, and has two overloads in ``factories.pyi``: without
``device``, it creates a tensor on the backend of the class that it is called on; with it, on that device; and where a
parameter of a distribution is a tensor, on its device. Python's types have no way to say so in one signature.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

PACKAGE = Path(__file__).parents[1]
OPERATIONS = PACKAGE / "backend" / "operations"
TENSOR = PACKAGE / "tensor"
DECLARED = TENSOR / "pointwise_declared.py"
TABLE = TENSOR / "lazy_methods.py"
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
    for path in sorted(TENSOR.glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name in lazy:
                methods[f"{path.stem}.{node.name}"] = sorted(_names(node))
    classes: dict[str, list[str]] = {}
    for module, _, name in (path.partition(".") for path in methods):
        classes.setdefault(module, []).append(name)
    return _PAGE.format(
        imports="\n".join(
            f"    from burnpy.tensor.{module} import {', '.join(sorted(names, key=str.lower))}"
            for module, names in classes.items()
        ),
        exported=exported(sorted(name for names in classes.values() for name in names)),
        table="\n".join(_entry(path, names) for path, names in methods.items()),
    )


def _lazy_classes() -> set[str]:
    """Return the names of the classes that the tensor classes and their factories inherit through the table."""
    return {
        alias.name
        for path in (TENSOR / "tensor.py", TENSOR / "factories.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom) and node.module == "burnpy.tensor.lazy_methods"
        for alias in node.names
    }


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


PACKAGES = (
    "burnpy",
    "burnpy.array_api",
    "burnpy.autodiff",
    "burnpy.data",
    "burnpy.distributed",
    "burnpy.distributions",
    "burnpy.fft",
    "burnpy.func",
    "burnpy.interop.onnx",
    "burnpy.linalg",
    "burnpy.metrics",
    "burnpy.models",
    "burnpy.nn",
    "burnpy.nn.functional",
    "burnpy.optim",
    "burnpy.record",
    "burnpy.tensor",
    "burnpy.testing",
    "burnpy.train",
)

_EXPORTS_HEAD = '"""The names of `{package}`, made from its table by ``make generated``."""\n\n'


def path_of(package: str) -> Path:
    """Return the path of a package's stub."""
    return Path(import_module(package).__path__[0], "__init__.pyi")


_FURTHER = {"burnpy": "\n__version__: str\nbfloat16 = float16  # a dtype too\n"}
"""Further lines of stubs, for names that no table has."""


def exports_stub(package: str) -> str:
    """Return the text of a package's stub."""
    module = import_module(package)
    table = {name: names.split() for name, names in vars(module)["_NAMES"].items()}
    rooms = sorted(name.rpartition(".")[2] for name, names in table.items() if not names)
    table = {name: names for name, names in table.items() if names}
    imports = "".join(f"from {package} import {room} as {room}\n" for room in rooms)
    imports += "".join(_import_line(name, _in_order(table[name], cased=False)) for name in sorted(table))
    further = _FURTHER.get(package, "")
    return f"{_EXPORTS_HEAD.format(package=package)}{imports}{further}\n{exported(_in_order(module.__all__))}\n"


def _in_order(names: Iterable[str], cased: bool = True) -> list[str]:
    """Return names as ruff sorts them: constants, classes, functions; int8 before int16. Case counts in ``__all__``."""

    def key(name: str) -> tuple[bool, bool, str]:
        spelled = name if cased else name.lower()
        return not name.isupper(), not name[0].isupper(), re.sub(r"\d+", lambda digits: digits[0].zfill(9), spelled)

    return sorted(names, key=key)


def _import_line(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}\n"
    if len(line) <= _WIDTH + 1:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")\n"


FACTORIES = (TENSOR / "random.py", TENSOR / "sampling.py", TENSOR / "factories.py")
FACTORIES_STUB = TENSOR / "factories.pyi"

_FACTORIES_HEAD = '''\
"""The signatures of the factories, made from the factories' source by ``make generated``."""

from typing import Any, Self, overload

from numpy.typing import ArrayLike

from burnpy.autodiff.autodiff import Autodiff
from burnpy.tensor.creation import Size
from burnpy.tensor.generator import Generator
from burnpy.tensor.host_data import DTypeLike
from burnpy.tensor.tensor import BoolTensor, ComplexTensor, IntTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import B2, B, I
'''

_NUMBERS = {"Tensor": "float", "ComplexTensor": "complex", "IntTensor": "int", "BoolTensor": "bool"}
"""The Python numbers of each tensor class, which annotations call ``Number``."""


_DEVICE = "device: B2 | type[B2]"
_OVERLAP = "  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone"


class _Overload(NamedTuple):
    """The meaning of a factory's annotations in one of its overloads."""

    meanings: dict[str, str]
    result: str
    device: str  #: the parameter ``device``; empty if there is none
    note: str = ""  #: a comment


def factories_stub() -> str:
    """Return the text of the stub."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in FACTORIES]
    classes = {node.name: node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}
    return _FACTORIES_HEAD + "".join(_class_of(kind, classes[f"{kind}Factories"], classes) for kind in _NUMBERS)


def _class_of(kind: str, node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> str:
    """Return the class with the factories of one tensor class, inherited ones included."""
    factories = "".join(_factory(kind, factory) for factory in _factories(node, classes))
    return f"\nclass {node.name}(TensorBase[B]):\n{factories}"


def _factories(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> Iterator[ast.FunctionDef]:
    for base in node.bases:
        name = ast.unparse(base).partition("[")[0]
        if name in classes:
            yield from _factories(classes[name], classes)
    yield from (f for f in node.body if isinstance(f, ast.FunctionDef))


def _factory(kind: str, function: ast.FunctionDef) -> str:
    """Return the overloads of one factory. Editors read the docstring in the source."""
    meanings = {"Number": _NUMBERS[kind], "Parameter": "float", "Count": "float"}
    here, there = _Overload(meanings, "Self", ""), _Overload(meanings, f"{kind}[B2]", _DEVICE)
    arguments = function.args.args
    if any(a.annotation and ast.unparse(a.annotation) == "Parameter" for a in arguments):
        parameter = "float | Tensor[B2]"
        tensors = {"Parameter": parameter, "Count": f"{parameter} | IntTensor[B2]"}
        required = len(arguments) - len(function.args.defaults) > 2  # beside cls and shape: mypy overlooks the others
        note = ("  # type: ignore[overload-overlap]" if required else "") + _OVERLAP
        here = here._replace(note=note)
        there = _Overload(tensors, f"{kind}[B2]", f"{_DEVICE} = ...")
    if any(a.annotation and ast.unparse(a.annotation) == "OnInner" for a in function.args.args):
        here = _Overload({"OnInner": f"{kind}[I]"}, f"{kind}[Autodiff[I]]", "")
        there = _Overload({"OnInner": f"{kind}[Any]"}, f"{kind}[B2]", _DEVICE)
    return f"{_signature(function, here)}\n{_signature(function, there)}\n"


def _signature(function: ast.FunctionDef, overload: _Overload) -> str:
    """Return the lines of an overload's signature, laid out as ruff does it."""
    parameters = _parameters(function.args, overload)
    start, end = f"    def {function.name}(", f") -> {overload.result}: ..."
    line = f"{start}{', '.join(parameters)}{end}"
    if len(line) > _WIDTH or overload.note:
        indent = " " * 8
        inner = indent + ", ".join(parameters)
        if len(inner) > _WIDTH:
            inner = "\n".join(f"{indent}{p}," for p in parameters)
        line = f"{start}{overload.note}\n{inner}\n    {end}"
    return f"    @overload\n    @classmethod\n{line}"


def _parameters(arguments: ast.arguments, overload: _Overload) -> list[str]:
    arguments = deepcopy(arguments)
    by_name = list(zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))
    parameters = [ast.arg(a.arg, a.annotation) for a in arguments.args]
    defaults = [None] * (len(parameters) - len(arguments.defaults)) + arguments.defaults
    lines = [_parameter(a, default, overload) for a, default in zip(parameters, defaults, strict=True)]
    names = [_parameter(a, default, overload) for a, default in by_name if a.arg != "device"]
    if overload.device:
        names.append(overload.device)
    return [*lines, *(["*", *names] if names else [])]


def _parameter(argument: ast.arg, default: ast.expr | None, overload: _Overload) -> str:
    """Return one parameter as source text."""
    if argument.annotation is None:
        return argument.arg
    for node in ast.walk(argument.annotation):
        if isinstance(node, ast.Name):
            node.id = overload.meanings.get(node.id, node.id)
    text = f"{argument.arg}: {ast.unparse(argument.annotation)}"
    return text if default is None else f"{text} = {ast.unparse(default)}"


if __name__ == "__main__":
    DECLARED.write_text(declared(), encoding="utf-8")
    TABLE.write_text(table(), encoding="utf-8")
