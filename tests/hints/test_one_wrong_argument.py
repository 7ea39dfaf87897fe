"""Calls in docstrings with one wrong argument, all others as they are: the error is one of burnpy, or there is none."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from doctest import DocTest, DocTestFinder
from importlib import import_module
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy.backend.errors import BurnpyError
from tests.doctests import NAMES, ROOT, module_of
from tests.hints.test_wrong_calls import PACKAGES_WALKED

pytestmark = pytest.mark.slow

FOLDERS = "autodiff/tools distributions fft func linalg metrics models nn nn/layers optim record tensor"
PUBLIC = {name for room in PACKAGES_WALKED for name in room.__all__} | {"IntTensor", "Tensor"}
WRONG = [
    ast.parse(wrong, mode="eval").body
    for wrong in ("None", "'text'", "[1, [2, 3]]", "np.ones((2, 3))", "np.int64(3)", "type('Strange', (), {})()")
]
CALLER = "<docstring>"


def calls_of(tree: ast.AST) -> list[ast.Call]:
    """Return the calls of burnpy; the state of an optimizer is a mapping, and has a KeyError."""
    others = ("np.", "pytest.", "Path", "TypeVar", "state.step")
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call for call in calls if not ast.unparse(call.func).startswith(others)]


def with_wrong_arguments(source: str) -> Iterator[ast.Module]:
    """Yield a statement with each argument of each call replaced by each wrong one: one tree, changed in place, as to
    parse and to write it thousands of times would take most of the time."""
    tree = ast.parse(source)
    for call in calls_of(tree):
        right = call.args
        for k, wrong in product(range(len(right)), WRONG):
            call.args = [*right[:k], wrong, *right[k + 1 :]]
            yield tree
        call.args = right
        for keyword in call.keywords:
            value = keyword.value
            for wrong in WRONG if keyword.arg else ():
                keyword.value = wrong
                yield tree
            keyword.value = value


def raw_errors(test: DocTest) -> Iterator[str]:
    """Yield the errors of other classes that statements with a wrong argument raise inside of burnpy."""
    names: dict[str, Any] = dict(test.globs)
    statements: list[tuple[str, dict[str, Any]]] = []
    for example in test.examples:
        statements.append((example.source, dict(names)))
        if example.exc_msg is None:
            try:
                exec(compile(example.source, CALLER, "single"), names)
            except ModuleNotFoundError:
                break  # the rest needs a package that is heavy to install
    for source, before in statements:
        for statement in with_wrong_arguments(source):
            try:
                exec(compile(statement, CALLER, "exec"), dict(before))
            except BurnpyError:
                pass
            except Exception as error:
                trace = error.__traceback__
                while trace is not None and trace.tb_next is not None:
                    trace = trace.tb_next
                if trace is not None and trace.tb_frame.f_code.co_filename != CALLER:
                    yield f"{test.name}: {ast.unparse(statement)} raises {error!r}"


@pytest.mark.parametrize("folder", FOLDERS.split())
@pytest.mark.filterwarnings("ignore")
def test_one_wrong_argument_is_refused_by_a_sentence(folder: str, tmp_path: Path) -> None:
    found: list[str] = []
    with chdir(tmp_path), redirect_stdout(StringIO()), np.errstate(all="ignore"):
        for path in sorted((ROOT / "burnpy" / folder).glob("*.py")):
            module = import_module(module_of(path))
            for test in DocTestFinder().find(module, module.__name__, extraglobs=NAMES):
                if test.name.removeprefix(module.__name__).strip(".").partition(".")[0] in PUBLIC:
                    found += raw_errors(test)
    assert not found, "\n".join(["", *found])
