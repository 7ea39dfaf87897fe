"""The reference of all public names: pages for Sphinx's autodoc, written to ``burnpy/docs/api`` when the book is built.

A package has a page, or several if it is large. The methods of tensors are divided into families.

In docstrings names become links, and operations get examples, other libraries' names, and gradients at kinks.
Docstrings are plain text with sections in Google's style, which napoleon reads afterwards. An example that a
method's docstring lacks is a call from the table of PyTorch's names, computed for the book.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from inspect import isclass, isdatadescriptor, ismodule, isroutine
from pathlib import Path
from typing import Any

from burnpy import BoolTensor, IntTensor, Tensor, nn
from burnpy.backend import Backend
from burnpy.backend.backend import operations
from burnpy.docs import generated
from burnpy.docs.names_elsewhere import PROLOGUE, Names, of_function, of_method
from burnpy.hints.missing_names import rows
from burnpy.tensor.lazy_methods import METHODS
from burnpy.tensor.tensor_base import Missing

_SETTING = re.sub(r"\bTrain\b(?! =)|\.require_grad\(\)|  +#.*", lambda found: "NumPy" * (found[0] == "Train"), PROLOGUE)
"""The variables of the calls in the table, without gradients."""


def example(name: str) -> list[str]:
    """Return an interactive session that calls a method of tensors; empty if the table has no such call.

    >>> example("mv")[-2:]
    ['>>> x.mv(v)', 'Tensor([5.25, 0.25], shape=(2,), dtype=float32, device=NumPy)']
    """
    call = _calls().get(name)
    if call is None:
        return []
    results: dict[str, str] = {}
    for own in (call, re.sub(r"^x\.", "p.", call), re.sub(r"^x\.", "y.", call)):  # where x is outside of the domain
        names: dict[str, Any] = {}
        exec(_SETTING, names)
        if not _names(ast.parse(own)) <= names.keys():
            return []
        results[own] = repr(eval(own, names))
    shown = next((own for own, result in results.items() if "nan" not in result), call)
    return [*(f">>> {line}" for line in (*_needed(shown), shown)), *results[shown].splitlines()]


@cache
def _calls() -> dict[str, str]:
    """Return a call of each method in the table, and of each elementwise operation."""
    calls: dict[str, str] = {}
    for row in rows().values():
        if found := re.fullmatch(r"(?:[a-z]|Tensor|IntTensor)\.(\w+)\(.*\)", row.ours):
            calls.setdefault(found[1], row.ours)
    return {op.name: f"x.{op.name}()" for op in operations().values() if op.elementwise} | calls


def _needed(code: str) -> list[str]:
    """Return the lines of the setting that assign what code uses."""
    names, lines = _names(ast.parse(code)), list[str]()
    for statement in reversed(ast.parse(_SETTING).body):
        if isinstance(statement, ast.Assign) and names & _names(statement.targets[0]):
            names |= _names(statement.value)
            lines.insert(0, ast.unparse(statement))
    return lines


def _names(code: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(code) if isinstance(node, ast.Name)}


_CODE = re.compile(r"(``.*?``|`[^`]+`)")
_NAME = re.compile(r"`([A-Za-z_][\w.]*)`")
_IN_TENSORS = ("burnpy.Tensor", "burnpy.IntTensor", "burnpy.BoolTensor")
_GRADIENTS = Path(__file__).parents[1] / "gradients.md"


def as_rst(lines: list[str], owner: str) -> list[str]:
    r"""Return a docstring with links, and with characters escaped that mean something in reStructuredText.

    Args:
        lines: the docstring.
        owner: the full name of the documented object, beside which names are looked up.

    >>> as_rst(["See `burnpy.Tensor` for |x|, `dim` and ``x``.", ">>> a | b"], "burnpy.func.grad")
    ['See :py:obj:`~burnpy.Tensor` for \\|x\\|, ``dim`` and ``x``.', '>>> a | b']
    """
    out, in_example = [], False
    for line in lines:
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        out.append(line if in_example else "".join(_part(part, owner) for part in _CODE.split(line)))
    return out


def _part(text: str, owner: str) -> str:
    if text.startswith("``"):
        return text
    if text.startswith("`"):
        name = _NAME.fullmatch(text)
        found = _found(name[1], owner) if name else None
        return f":py:obj:`~{found}`" if found else f"`{text}`"
    return re.sub(r"[|*]", r"\\\g<0>", text)


def _found(name: str, owner: str) -> str | None:
    """Return the full name of a public name: beside ``owner``, in its package, or elsewhere."""
    known, place = _public(), owner
    if name in known:
        return name
    while place:
        place = place.rpartition(".")[0]
        if f"{place}.{name}" in known:
            return f"{place}.{name}"
    return next((full for full in known if full.endswith(f".{name}")), None) if name[:1].isupper() else None


@cache
def _public() -> dict[str, None]:
    """Return the full names of all that the reference documents, in order."""
    names = [line.partition("(")[0] for line in generated.PUBLIC_API.read_text(encoding="utf-8").splitlines()]
    return dict.fromkeys(names)


@cache
def kinks() -> dict[str, list[str]]:
    """Return the rows of the table in ``gradients.md`` by the operations that they name.

    >>> kinks()["sqrt"]
    ['`sqrt`, `log` at 0; `asin`, `acosh`, `erfinv`, `logit` at the ends of their range: inf; -inf for `acos`']
    """
    table: dict[str, list[str]] = {}
    text = _GRADIENTS.read_text(encoding="utf-8").partition("\n## ")[0]
    for case, gradient in re.findall(r"^\| (.*?) \| (.*?) \|$", text, re.MULTILINE)[1:]:
        for name in dict.fromkeys(_operations(case)):
            table.setdefault(name, []).append(f"{case}: {gradient}")
    return table


_OPERATORS = {"x ** y": "pow", "x // y": "floor_divide"}


def _operations(case: str) -> Iterator[str]:
    """Yield the names of operations in a cell of the table."""
    for code in re.findall(r"`([^`]*)`", case):
        name = re.fullmatch(r"(?:\w+\.)*(\w+)(?:\(.*\))?", code)
        yield _OPERATORS.get(code, name[1] if name else code)


def remarks(full_name: str) -> list[str]:
    """Return the fields below the docstring of an operation: its names elsewhere, and its gradients at kinks."""
    package, _, name = full_name.rpartition(".")
    is_method = package in _IN_TENSORS
    if is_method and name not in tensor_methods():
        return []
    names: Names = of_method(name) if is_method else of_function(package, name)
    fields = [("PyTorch", names.pytorch), ("NumPy", names.numpy)]
    lines = [f":{library}: {', '.join(f'``{each}``' for each in found)}" for library, found in fields if found]
    if is_method or package in ("burnpy", "burnpy.linalg", "burnpy.special", "burnpy.nn.functional"):
        rows = kinks().get(name, [])
        lines += [f":Gradient at kinks: {_rst_code('; '.join(rows))}"] if rows else []
    return lines


def _rst_code(text: str) -> str:
    """Return Markdown with its code as reStructuredText writes it."""
    return re.sub(r"`([^`]*)`", r"``\1``", re.sub(r"[|*]", r"\\\g<0>", text))


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    first = ["..", ""] if what in ("attribute", "data", "property") else []  # or napoleon takes "a: b" for a type
    lines[:] = [*first, *as_rst(lines, name)]


def _complete(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    if not any(line.lstrip().startswith(">>>") for line in lines) and name.rpartition(".")[0] in _IN_TENSORS:
        session = example(name.rpartition(".")[2])
        lines += ["", ".. code-block:: pycon", "", *(f"   {line}" for line in session), ""] if session else []
    added = remarks(name)
    lines += ["", *added, ""] if added else []


FOLDER = "api"
LARGE = 60
"""A package with more names has a page for each of its modules."""

FAMILIES = {
    "Creation": "factories creation random sampling",
    "Conversion and attributes": "tensor_base conversion protocols",
    "Gradients": "backward",
    "Shape": "shape shape_lazy diagonals",
    "Indexing and updates": "indexing gathering scattering at",
    "Arithmetic, comparison and logic": "arithmetic comparison",
    "Elementwise functions": "pointwise pointwise_lazy pointwise_declared",
    "Reductions and statistics": "reduction statistics histograms distances calculus",
    "Ordering": "ordering unique",
    "Linear algebra": "linalg",
}
"""The modules in ``burnpy/tensor`` whose methods a page of the reference has."""


def pages() -> dict[str, str]:
    """Return the text of each page by its name, as reStructuredText."""
    texts = {"tensor": _heading("Tensors", "=") + _TENSORS, **_tensor_pages()}
    families = [f"tensor_{_slug(title)}" for title in FAMILIES]
    texts["tensor"] += "".join(f"- :doc:`{page}`\n" for page in families) + "\n" + _toctree(families)
    documented: dict[int, str] = {}
    for package in generated.PACKAGES:
        texts |= _package_pages(f"burnpy{package}", documented)
    return texts


def contents() -> list[str]:
    """Return the names of the pages that the table of contents lists."""
    return ["tensor", *(f"burnpy{package}" for package in generated.PACKAGES)]


_TENSOR_CLASSES = (Tensor, IntTensor, BoolTensor)
_TENSORS = """
The classes `burnpy.Tensor`, `burnpy.IntTensor` and `burnpy.BoolTensor` share most of their methods.

The examples in the reference begin after these lines::

    import numpy as np
    from burnpy import Autodiff, BoolTensor, Generator, IntTensor, Tensor
    from burnpy.backend import NumPy

"""


def _tensor_pages() -> dict[str, str]:
    family = {module: title for title, modules in FAMILIES.items() for module in modules.split()}
    found: dict[str, list[str]] = {title: [] for title in FAMILIES}
    for name, (owner, module) in sorted(tensor_methods().items()):
        kind = "property" if isdatadescriptor(getattr(owner, name)) else "method"
        found[family[module]].append(_entry(f"auto{kind}", f"burnpy.{owner.__name__}.{name}"))
    return {f"tensor_{_slug(title)}": _heading(title, "=") + "".join(found[title]) for title in FAMILIES}


def tensor_methods() -> dict[str, tuple[Any, str]]:
    """Return the public methods and properties of tensors: the first class that has each, and the module it is from."""
    lazy = {path.rpartition(".")[2]: path.partition(".")[0] for path in METHODS}
    table: dict[str, tuple[Any, str]] = {}
    for owner in _TENSOR_CLASSES:
        inherited = [base for base in owner.__mro__[1:] if base.__module__.startswith("burnpy.tensor")]
        for base in reversed(inherited):
            module = lazy.get(base.__name__, base.__module__.rpartition(".")[2])
            for name, value in vars(base).items():
                if not name.startswith("_") and not isinstance(value, Missing) and hasattr(owner, name):
                    table.setdefault(name, (owner, module))
    return {name: found for name, found in table.items() if _is_documented(getattr(found[0], name))}


def _is_documented(value: Any) -> bool:
    return (isroutine(value) or isdatadescriptor(value)) and bool(value.__doc__)


def _package_pages(package: str, documented: dict[int, str]) -> dict[str, str]:
    """Return the pages of a package; ``documented`` has the names of objects, by id, that other pages document."""
    names = {name: value for name, value in generated.names_of(package) if not ismodule(value)}
    sections: dict[str, list[str]] = {}
    for name, value in names.items():
        first = documented.setdefault(id(value), name) if isclass(value) or isroutine(value) else name
        entry = _documented(name, value) if first == name else f".. py:attribute:: {name}\n\n   :py:obj:`{first}`\n\n"
        sections.setdefault(_section(package, value), []).append(entry)
    summary = (import_module(package).__doc__ or "").strip().partition("\n\n")[0]
    head = _heading(package, "=") + f".. currentmodule:: {package}\n\n{summary}\n\n"
    if len(names) > LARGE:
        texts = {
            f"{package}.{_slug(title)}": f"{_heading(title, '=')}.. currentmodule:: {package}\n\n{''.join(entries)}"
            for title, entries in sorted(sections.items())
        }
        names_of = {
            title: ", ".join(f":py:obj:`~{entry.split()[2]}`" for entry in entries)
            for title, entries in sections.items()
        }
        overview = "".join(f"- :doc:`{package}.{_slug(title)}`: {names_of[title]}\n" for title in sorted(sections))
        return {package: f"{head}{overview}\n{_toctree(texts)}", **texts}
    body = "".join(_heading(title, "-") + "".join(entries) for title, entries in sorted(sections.items()))
    return {package: head + (body if len(sections) > 1 else "".join(*sections.values()))}


def _section(package: str, value: Any) -> str:
    """Return the heading above a name, made from the name of its module."""
    module = str(getattr(value, "__module__", ""))
    if not module.startswith("burnpy") or package == "burnpy.errors":
        return "Other names"
    return module.rpartition(".")[2].replace("_", " ").capitalize()


def _documented(name: str, value: Any) -> str:
    if not isclass(value):
        return _entry("autofunction" if isroutine(value) else "autodata", name)
    members = _members(name, value) if generated.is_ours(value) and value not in _TENSOR_CLASSES else []
    kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
    return _entry(kind, name, f"   :members: {', '.join(members)}\n" if members else "")


def _members(name: str, value: type) -> list[str]:
    """Return the members of a class that are documented there: those that `Module` has as well are documented once."""
    others = {nn.Module, Backend, *_public_classes()} - {value}
    lines = generated.members_of(name, value, others)
    names = sorted({line.partition("(")[0].rpartition(".")[2] for line in lines})
    return [each for each in names if value is nn.Module or not _same_docstring(value, each)]


def _same_docstring(value: Any, name: str) -> bool:
    documentation = getattr(getattr(nn.Module, name, None), "__doc__", None)
    return documentation is not None and getattr(getattr(value, name), "__doc__", None) == documentation


@cache
def _public_classes() -> frozenset[type]:
    return frozenset(
        value for package in generated.PACKAGES for _, value in generated.names_of(f"burnpy{package}") if isclass(value)
    )


def _entry(directive: str, name: str, options: str = "") -> str:
    return f".. {directive}:: {name}\n{options}\n"


def _heading(title: str, line: str) -> str:
    return f"{title}\n{line * len(title)}\n\n"


def _toctree(names: Iterable[str]) -> str:
    return ".. toctree::\n   :hidden:\n\n" + "".join(f"   {name}\n" for name in names)


def _slug(title: str) -> str:
    return title.lower().replace(",", "").replace(" ", "_")


def _write(app: Any) -> None:
    folder = Path(app.srcdir, FOLDER)
    folder.mkdir(exist_ok=True)
    texts = {f"{name}.rst": text for name, text in pages().items()}
    for path in set(folder.iterdir()) - {folder / name for name in texts}:
        path.unlink()
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # what is unchanged is not read again
            path.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Write the pages when a build begins; work on docstrings before and after napoleon."""
    app.connect("builder-inited", _write)
    app.connect("autodoc-process-docstring", _process, priority=400)
    app.connect("autodoc-process-docstring", _complete, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
