"""Examples of methods whose docstring has none: a call from the table of PyTorch's names, computed for the book."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Any

from burnpy.backend.backend import operations
from burnpy.docs.migrating import PROLOGUE
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
