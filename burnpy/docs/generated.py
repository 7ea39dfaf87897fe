"""The generated files: ``make generated``, or ``python -m burnpy.docs.generated``, writes those that are out of date.

A test compares each with the result of its function, and names the file that is out of date.

The page ``operations.md`` is made from the schema. A change of the public API shows in the diff of ``public_api.txt``.
There a parameter with a default ends with "=", and what a class inherits from another public class is listed with that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import EnumMeta
from functools import partial
from importlib import import_module
from inspect import Parameter, isclass, isroutine, signature
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any

from burnpy import docs
from burnpy.autodiff.rule_table import RULES
from burnpy.backend.backend import Backend, operations
from burnpy.backend.entries import EMPTY, Argument, Operation
from burnpy.backend.schema import Algebra, declarations
from burnpy.docs import generated_code as code
from burnpy.docs import names_elsewhere
from burnpy.docs.names_elsewhere import in_burn, in_numpy, in_pytorch
from burnpy.tensor.tensor_base import Missing
from burnpy.testing.cases.table import ROWS

PACKAGE = Path(__file__).parents[1]
KINDS = PACKAGE.parent / "tests/func/compiled/captured_kinds.py"
"""The table of tests that a page lists, which only the repository has."""
OPERATIONS = Path(__file__).with_name("operations.md")

_HEAD = """\
# Operations

Made from the declarations in `burnpy/backend/operations` by `make generated`.

There are {total} operations, {required} of them **required**: a backend must write those, and has a default for every
other one, made of required ones. *Gradient* says what `Autodiff` and `Forward` know: **rule**, a rule of its own;
**default**, the rules of the operations its default calls; –, none, since the result carries no gradient. The numbers
behind it are the derivatives that the conformance suite compares with differences, at the examples of
`burnpy.testing.cases`: 1, the first, in reverse and in forward mode (`Autodiff`, `Forward`); 2, the second, in
reverse over reverse and forward over reverse. The kinds of arguments and results are *Float*, *Int*, *Bool*, *Number*
(Float or Int), *Discrete* (Int or Bool) and *Value* (any). The last column has the names of PyTorch (`F` is
`torch.nn.functional`, `x` a tensor), NumPy and Burn for the same, if they have one; arguments may differ.
"""

_COLUMNS = ("operation", "algebra", "gradient", "elsewhere")
PUBLIC_API = Path(__file__).with_name("public_api.txt")
PACKAGES = (
    "",
    ".array_api",
    ".autodiff",
    ".backend",
    ".data",
    ".distributed",
    ".distributions",
    ".distributions.bijections",
    ".einops",
    ".errors",
    ".fft",
    ".func",
    ".interop.onnx",
    ".linalg",
    ".metrics",
    ".models",
    ".nn",
    ".nn.functional",
    ".nn.init",
    ".optim",
    ".record",
    ".special",
    ".testing",
    ".train",
)


def operations_page() -> str:
    """Return the text of the page of operations."""
    table = operations()
    parts = [_HEAD.format(total=len(table), required=sum(op.required for op in table.values()))]
    for family in (*Backend.__bases__, Backend):
        own = [table[name] for name in vars(family) if name in table and name in declarations(family)]
        if own:
            parts.append(f"\n## {family.__name__}\n\n{(family.__doc__ or '').strip().splitlines()[0]}\n")
            parts.append(f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}")
            parts += [_row(op) for op in own]
    return "\n".join(parts) + "\n"


def _row(op: Operation) -> str:
    arguments = ", ".join(_argument(a) for a in op.arguments)
    results = ", ".join(f"{'list of ' if op.lists else ''}{kind or 'value'}" for kind in op.results)
    signature = f"`{op.name}({arguments}) -> {results}`".replace("|", "\\|")
    algebra = op.algebra.value + ", **required**" * op.required
    names = (in_pytorch(op.name), in_numpy(op.name), in_burn(op.name))
    elsewhere = [f"{library}`{name}`" for library, name in zip(("", "", "Burn: "), names, strict=True) if name]
    return f"| {signature}<br>{op.summary} | {algebra} | {_gradient(op)} | {'<br>'.join(elsewhere)} |"


def _gradient(op: Operation) -> str:
    """Return where the gradient comes from, and the orders of the derivatives that the conformance suite checks."""
    if op.algebra is Algebra.NONDIFFERENTIABLE:
        return "–"
    row = ROWS.get(op.name)
    smooth = row is not None and any(row.smooth(example) for example in row.examples.values())
    return f"{'rule' if op.name in RULES else 'default'}{': 1, 2' if smooth else ''}"


def _argument(a: Argument) -> str:
    kind = f": {'list of ' if a.sequence else ''}{a.kind}{' or number' if a.scalar else ''}" if a.kind else ""
    return f"{a.name}{kind}{'' if a.default is EMPTY else f' = {a.default}'}"


def public_api() -> str:
    """Return the text of the list of public names."""
    names = {name: value for package in PACKAGES for name, value in names_of(f"burnpy{package}")}
    classes = {value for value in names.values() if isclass(value)}
    lines: list[str] = []
    for name, value in names.items():
        lines.append(f"{name}{_signature(value)}")
        if isclass(value) and is_ours(value):
            lines += sorted(set(members_of(name, value, classes - {value})))
    return "\n".join(lines) + "\n"


def names_of(package: str) -> Iterator[tuple[str, Any]]:
    """Yield the full names of a package's public objects, and the objects."""
    module = import_module(package)
    for name in sorted(getattr(module, "__all__", None) or _defined(module)):
        yield f"{package}.{name}", getattr(module, name)


def is_ours(value: Any) -> bool:
    """Return whether a module of burnpy defines an object."""
    return str(getattr(value, "__module__", "")).startswith("burnpy")


def _defined(module: Any) -> list[str]:
    """Return the public names of a module without ``__all__`` that come from burnpy."""
    return [name for name, value in vars(module).items() if not name.startswith("_") and is_ours(value)]


def members_of(owner: str, cls: type, others: set[type]) -> Iterator[str]:
    """Yield the lines of a class's members that it does not inherit from other public classes."""
    listed = operations() if Backend in cls.__mro__ else {}
    inherited = {base for other in others.intersection(cls.__mro__) for base in other.__mro__}
    for base in cls.__mro__:
        if is_ours(base) and base not in inherited:
            for name, value in vars(base).items():
                if not name.startswith("_") and name not in listed and not isinstance(value, Missing):
                    yield f"{owner}.{name}{_signature(getattr(cls, name, None))}"


def _signature(value: Any) -> str:
    """Return the parameters of a function or class, without annotations; nothing for other values. Functions of NumPy
    have signatures in some of its versions alone."""
    if not (isroutine(value) or isclass(value)) or isinstance(value, (BuiltinFunctionType, EnumMeta)):
        return ""
    try:
        parameters = signature(value).parameters.values()
    except (TypeError, ValueError):  # classes of C, and aliases
        return ""
    return f"({', '.join(_parameters(list(parameters)))})"


def _parameters(parameters: list[Parameter]) -> Iterator[str]:
    starred = False
    for k, p in enumerate(parameters):
        if p.kind is Parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        starred = starred or p.kind is Parameter.VAR_POSITIONAL
        prefix = "*" if p.kind is Parameter.VAR_POSITIONAL else "**" if p.kind is Parameter.VAR_KEYWORD else ""
        yield f"{prefix}{p.name}{'' if p.default is Parameter.empty else '='}"
        last = k + 1 == len(parameters) or parameters[k + 1].kind is not Parameter.POSITIONAL_ONLY
        if p.kind is Parameter.POSITIONAL_ONLY and last:
            yield "/"


def _captured_page() -> str:
    """Return the page of the kinds of state that compiled functions read."""
    page: str = import_module("tests.func.compiled.captured_kinds").page()
    return page


READ_FROM_SOURCES: dict[Path, Callable[[], str]] = {
    code.DECLARED: code.declared,
    code.TABLE: code.table,
    code.FACTORIES_STUB: code.factories_stub,
}
"""The functions that make the files of the package itself, which the other functions import."""
FILES: dict[Path, Callable[[], str]] = {
    **READ_FROM_SOURCES,
    **{code.path_of(package): partial(code.exports_stub, package) for package in code.PACKAGES},
    OPERATIONS: operations_page,
    names_elsewhere.PAGE: names_elsewhere.page,
    PUBLIC_API: public_api,
    **({PACKAGE / "docs/captured.md": _captured_page} if KINDS.exists() else {}),
    **{path: partial(docs.picture, page, name) for page in docs.BOOK for path, name in docs.pictures(page)},
}
"""The functions that make the text of each generated file."""


def written(files: Iterable[Path]) -> list[str]:
    """Write those of the files that are out of date, and return their names."""
    names = []
    for path in files:
        text = FILES[path]()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            names.append(name_of(path))
    return names


def name_of(path: Path) -> str:
    """Return the name of a generated file from the root of the repository."""
    return path.relative_to(PACKAGE.parent).as_posix()


def main() -> None:
    """Write the files of the package, start anew if it has changed, and write the others."""
    names = written(READ_FROM_SOURCES)
    if names:
        sys.stdout.write("".join(f"{name}\n" for name in names))
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-m", "burnpy.docs.generated"])
    sys.stdout.write("".join(f"{name}\n" for name in written(FILES)))


if __name__ == "__main__":
    main()
