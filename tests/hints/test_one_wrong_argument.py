"""Calls in docstrings with one wrong argument, all others as they are: the error is one of burnpy, or there is none."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from doctest import DocTest, DocTestFinder
from importlib import import_module
from io import StringIO
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
WRONG = ("None", "'text'", "[1, [2, 3]]", "np.ones((2, 3))", "np.int64(3)", "type('Strange', (), {})()")
CALLER = "<docstring>"


def calls_of(tree: ast.AST) -> list[ast.Call]:
    """Return the calls of burnpy; the state of an optimizer is a mapping, and has a KeyError."""
    others = ("np.", "pytest.", "Path", "TypeVar", "state.step")
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call for call in calls if not ast.unparse(call.func).startswith(others)]


def with_wrong_arguments(source: str) -> Iterator[str]:
    """Yield a statement with each argument of each call replaced by each wrong one."""
    for k, call in enumerate(calls_of(ast.parse(source))):
        for place in (*range(len(call.args)), *[keyword.arg for keyword in call.keywords if keyword.arg]):
            for wrong in WRONG:
                tree = ast.parse(source)
                changed, value = calls_of(tree)[k], ast.parse(wrong, mode="eval").body
                if isinstance(place, int):
                    changed.args[place] = value
                else:
                    next(each for each in changed.keywords if each.arg == place).value = value
                yield ast.unparse(tree)


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
                    yield f"{test.name}: {statement} raises {error!r}"


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
