"""Stubs for type checkers: ``make generated`` writes them anew.

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
from typing import NamedTuple

from burnpy.docs.methods import exported

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
_WIDTH = 120


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


_TENSOR = Path(__file__).parents[1] / "tensor"
FACTORIES = (
    _TENSOR / "random.py",
    _TENSOR / "sampling.py",
    _TENSOR / "factories.py",
)
FACTORIES_STUB = _TENSOR / "factories.pyi"

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
    """Return the parameters as source text."""
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
