"""The recipes of contributing.md: followed in a copy of the package, they work; a step that is left out is noticed."""

from __future__ import annotations

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from textwrap import indent
from typing import Any, NamedTuple

import pytest

from burnpy.backend import operations
from burnpy.backend.dtypes import dtype_of
from burnpy.backend.errors import DeviceError
from burnpy.docs import reference
from burnpy.hints.missing import rows
from burnpy.testing import conformance_suite
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.samples import LAYOUTS
from burnpy.testing.checks import check_values
from burnpy.testing.conformance import value_cases
from burnpy.testing.failures import every_case

ROOT = Path(__file__).parents[2]
PAGE = reference.PAGE.with_name("contributing.md")
CHANGE = re.compile(r"^In `([^`]+)`, (after|in place of) `([^`]+)`:\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
METHODS = "burnpy.docs.methods"
MADE = ("burnpy.docs.reference", "burnpy.docs.migrating")
GENERATED = (METHODS, *MADE)


class Change(NamedTuple):
    """One block of a recipe that changes a file."""

    path: str
    how: str
    anchor: str
    code: str

    def apply(self, root: Path) -> None:
        """Change the file under ``root`` as the page says."""
        path = root / self.path
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        (at,) = [k for k, line in enumerate(lines) if line.strip() == self.anchor]  # one line, and no other
        margin = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        new = indent(self.code, margin).splitlines()
        if self.how == "in place of":
            lines[at : at + 1] = new
        else:
            end = end_of_function(text, at + 1) if self.anchor.startswith("def ") else at + 1
            lines[end:end] = new
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def end_of_function(text: str, line: int) -> int:
    """The number of the last line of the function that begins in ``line``."""
    found = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef) and n.lineno == line]
    assert found[0].end_lineno is not None
    return found[0].end_lineno


def section(title: str) -> str:
    """What stands under a heading of the page."""
    text = PAGE.read_text(encoding="utf-8")
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


CHANGES = [Change(*found) for found in CHANGE.findall(section("An operation"))]

OPTIONAL = (3, 4)
"""The changes without which the operation is complete: the function of an array library."""
COMPLETE = ["tests/conformance/test_declarations.py", "tests/conformance/test_completeness.py"]
"""Tests that tell which file lacks something."""
MADE_BY_METHODS = [
    "tests/tensor/test_lazy_methods.py::test_the_methods_of_declared_operations_are_up_to_date",
    "tests/tensor/test_lazy_methods.py::test_the_table_of_methods_is_up_to_date",
]
PAGES = [
    "tests/docs/test_pages.py::test_the_operations_page_is_what_the_schema_makes",
    "tests/hints/test_missing.py::test_the_page_is_made_from_the_table",
]
CBRT = [
    *(f"tests/conformance/test_numpy.py::TestNumPy::test_{what}[cbrt]" for what in ("values", "derivatives")),
    "tests/tensor/test_pointwise.py::test_values[cbrt]",
    "tests/hints/test_missing.py::test_what_is_said_not_to_be_there_is_not",
    f"tests/hints/test_missing.py::test_code_of_the_table_runs[{rows()['cbrt'].section}]",
]
"""Tests that come with the operation."""


LEFT_OUT = """
import importlib, traceback
for file in {files!r}:
    try:
        tests = vars(importlib.import_module(file.removesuffix(".py").replace("/", ".")))
    except Exception:
        traceback.print_exc()
        continue
    for name, test in tests.items():
        if name.startswith("test_") and not test.__code__.co_argcount and "reached" not in name:
            try:
                test()
            except Exception:
                traceback.print_exc()
"""
"""Calls the tests that tell which file lacks something, but for those that fail wherever nothing is imported."""
DERIVATIVES = """
from burnpy.backend import NumPy
from burnpy.testing.cases import ROWS
from burnpy.testing.checks import check_derivatives
for order in (1, 2):
    check_derivatives(NumPy(), ROWS["cbrt"], "matrix", "contiguous", order)
"""
NATIVE = """
from burnpy.backend import Backend, CuPy, NumPy
from burnpy.backend import operations
from burnpy.backend.dtypes import dtype_of
from burnpy.testing.cases import ROWS
from burnpy.testing.checks import check_values
assert NumPy.cbrt is not Backend.cbrt, "no implementation for NumPy"
assert CuPy.cbrt is not Backend.cbrt, "no implementation for CuPy"
for example in ROWS["cbrt"].examples:
    check_values(NumPy(), "plain", ROWS["cbrt"], example, dtype_of("float32"), "strided", False)
"""


def copy_to(root: Path) -> None:
    """Put into a folder what the recipe changes and what checks it, and the bytecode of both."""
    ignored = shutil.ignore_patterns("fixtures", "cuda")
    for name in ("burnpy", "backends", "tests"):
        shutil.copytree(ROOT / name, root / name, ignore=ignored)
    for name in ("MIGRATING.md", "pyproject.toml"):
        shutil.copy(ROOT / name, root / name)


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a copy, whose packages come before all others."""
    path = os.pathsep.join([str(root), str(root / "backends")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=root, env=environment, capture_output=True, text=True, check=False
    )


def follow(root: Path, changes: list[Change], *made: str) -> None:
    """Follow the recipe in a new copy. The table of methods is made from sources alone, and so in this process."""
    copy_to(root)
    for change in changes:
        change.apply(root)
    runpy.run_path(str(root / f"{METHODS.replace('.', '/')}.py"), run_name="__main__")
    if made:  # where it fails, so do the tests
        run(root, "-c", f"import runpy\nfor name in {made}: runpy.run_module(name, run_name='__main__')")


def failures_of(root: Path, *tests: str) -> str:
    """What failing tests say in a copy; nothing where all pass."""
    options = ["-q", "--tb=short", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    done = run(root, "-m", "pytest", *options, *tests)
    return done.stdout if done.returncode else ""


def without(*positions: int) -> list[Change]:
    return [change for k, change in enumerate(CHANGES) if k not in positions]


def test_the_page_has_the_steps_that_are_left_out_below() -> None:
    assert [Path(change.path).parts[-2:] for change in CHANGES] == [
        ("operations", "pointwise.py"),
        ("operations", "pointwise.py"),
        ("cases", "pointwise.py"),
        ("burnpy_array", "pointwise.py"),
        ("burnpy_array", "pointwise.py"),
    ]
    assert all(f"python -m {module}\n" in section("An operation") for module in GENERATED)


@pytest.mark.slow
def test_an_operation_takes_two_files(tmp_path: Path) -> None:
    two = without(*OPTIONAL)
    assert len({change.path for change in two}) == 2
    follow(tmp_path, two, *MADE)
    assert failures_of(tmp_path, *COMPLETE, *MADE_BY_METHODS, *PAGES, *CBRT) == ""
    for k in OPTIONAL:
        CHANGES[k].apply(tmp_path)
    assert run(tmp_path, "-c", NATIVE).stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        ((0, 1), "declare it in burnpy/backend/operations/pointwise.py"),
        ((2,), "cbrt has no examples: give it a row in burnpy/testing/cases/pointwise.py"),
    ],
    ids=["declaration", "examples"],
)
def test_a_file_that_is_left_out_is_named(left_out: tuple[int, ...], said: str, tmp_path: Path) -> None:
    follow(tmp_path, without(*left_out, *OPTIONAL))
    assert said in run(tmp_path, "-c", LEFT_OUT.format(files=COMPLETE)).stderr


@pytest.mark.slow
def test_a_declaration_without_a_method_is_named(tmp_path: Path) -> None:
    changed = [change._replace(code=change.code.replace(" method=True,", "")) for change in without(*OPTIONAL)]
    follow(tmp_path, changed)
    assert (
        "Tensor has no cbrt: declare it with method=True in burnpy/backend/operations/pointwise.py"
        in run(tmp_path, "-c", LEFT_OUT.format(files=COMPLETE)).stderr
    )


@pytest.mark.slow
def test_methods_that_are_out_of_date_are_named(tmp_path: Path) -> None:
    copy_to(tmp_path)
    for change in without(*OPTIONAL):
        change.apply(tmp_path)
    output = failures_of(tmp_path, *MADE_BY_METHODS)
    assert "burnpy/tensor/methods/declared.py is out of date: run python -m burnpy.docs.methods" in output


@pytest.mark.slow
def test_pages_that_are_out_of_date_are_named(tmp_path: Path) -> None:
    follow(tmp_path, CHANGES)
    output = failures_of(tmp_path, *PAGES)
    assert "operations.md is out of date" in output
    assert "MIGRATING.md is out of date" in output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "order"),
    [
        ("i.mul(i.reciprocal(i.mul(out, out)), 1 / 3)", "i.reciprocal(i.mul(out, out))", 1),
        ("i.mul(out, out)", "i.mul(out, i.detach(out))", 2),
    ],
    ids=["first derivative", "second derivative"],
)
def test_a_wrong_rule_is_noticed(right: str, wrong: str, order: int, tmp_path: Path) -> None:
    changed = [change._replace(code=change.code.replace(right, wrong)) for change in CHANGES]
    assert changed != CHANGES
    follow(tmp_path, changed)
    assert (
        f"cbrt (matrix), float64, contiguous, derivatives of order {order}" in run(tmp_path, "-c", DERIVATIVES).stderr
    )


@pytest.fixture(scope="module")
def programs() -> dict[str, Any]:
    """What the other recipes define; their own assertions hold."""
    names: dict[str, Any] = {}
    for code in PROGRAM.findall(PAGE.read_text(encoding="utf-8")):
        exec(compile(code, str(PAGE), "exec"), names)
    return names


def test_the_layer_and_the_optimizer_train(programs: dict[str, Any]) -> None:
    tensor, train = programs["Tensor"], programs["Autodiff"][programs["NumPy"]]
    model, optim = programs["RmsNorm"](2, device=train), programs["Signum"](weight_decay=0.1)
    x, y = tensor[train].from_data([[1.0, 2.0], [3.0, -1.0]]), tensor[train].from_data([[0.0, 0.5], [0.0, -0.2]])
    losses = []
    for _ in range(40):
        loss = (model(x) - y).square().mean()
        losses.append(loss.item())
        model = optim.step(0.03, model, loss.backward())
    assert losses[-1] < losses[0] / 10


def test_the_decorator_goes_inside(programs: dict[str, Any]) -> None:
    with pytest.raises(DeviceError, match="Counted counts the operations"):
        programs["Counted"](programs["Autodiff"][programs["NumPy"]])


@pytest.mark.slow
@pytest.mark.parametrize("all_layouts_in", ["float32", pytest.param("every dtype", marks=pytest.mark.long)])
def test_the_backend_computes_what_it_should(all_layouts_in: str, programs: dict[str, Any]) -> None:
    """The operations that it writes: the others follow from them, as ``tests/third_party`` shows of a similar one."""
    suite: Any = programs["TestPlain"]
    suite.setup_class()
    plain = {dtype: dtype_of(dtype) for dtype in ("float32", "float64", "int32", "bool")}
    with every_case() as case:
        for name, dtype, level in value_cases(plain):
            if level == "plain" and operations()[name].required:
                layouts = LAYOUTS if all_layouts_in in (dtype, "every dtype") else LAYOUTS[:1]
                for layout, example in product(layouts, ROWS[name].examples):
                    with case(f"{name}, {dtype}"):
                        check_values(suite.device, level, ROWS[name], example, plain[dtype], layout, False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["conv2d", "softmax", "logsumexp", "index_select", "prod"])
def test_the_backend_can_be_differentiated(name: str, programs: dict[str, Any]) -> None:
    suite: Any = programs["TestPlain"]
    suite.setup_class()
    suite().test_derivatives(name=name)


def test_a_backend_that_errs_is_noticed(programs: dict[str, Any]) -> None:
    plain = programs["Plain"]
    Erring = type("Erring", (plain,), {"exp": plain.expm1})  # noqa: N806  # a class
    suite: Any = conformance_suite(Erring, dtypes=plain.dtypes)
    suite.setup_class()
    with pytest.raises(AssertionError, match="exp"):
        suite().test_values(name="exp")
