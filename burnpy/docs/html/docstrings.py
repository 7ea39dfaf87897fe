"""Docstrings for Sphinx: names become links, operations get examples, other libraries' names, gradients at kinks.

Docstrings are plain text with sections as of Google's style, which napoleon reads afterwards. An example that a
method's docstring lacks is a call from the table of PyTorch's names, computed for the book.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from burnpy.backend.backend import operations
from burnpy.docs import public_api
from burnpy.docs.html.api import tensor_methods
from burnpy.docs.names_elsewhere import PROLOGUE, Names, of_function, of_method
from burnpy.hints.missing import rows

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
_TENSORS = ("burnpy.Tensor", "burnpy.IntTensor", "burnpy.BoolTensor")
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
    names = [line.partition("(")[0] for line in public_api.PAGE.read_text(encoding="utf-8").splitlines()]
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
    is_method = package in _TENSORS
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
    if not any(line.lstrip().startswith(">>>") for line in lines) and name.rpartition(".")[0] in _TENSORS:
        session = example(name.rpartition(".")[2])
        lines += ["", ".. code-block:: pycon", "", *(f"   {line}" for line in session), ""] if session else []
    added = remarks(name)
    lines += ["", *added, ""] if added else []


def setup(app: Any) -> dict[str, bool]:
    """Work on docstrings before and after napoleon."""
    app.connect("autodoc-process-docstring", _process, priority=400)
    app.connect("autodoc-process-docstring", _complete, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
