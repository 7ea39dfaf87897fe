"""The recipes of contributing.md: followed in a copy of the package, they work; a step that is left out is noticed."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import indent
from typing import Any, NamedTuple

import pytest

from burnpy.backend.dtypes import dtype_of
from burnpy.backend.errors import DeviceError
from burnpy.docs import reference
from burnpy.testing import conformance_suite
from burnpy.testing.conformance import value_cases

ROOT = Path(__file__).parents[2]
PAGE = reference.PAGE.with_name("contributing.md")
CHANGE = re.compile(r"^In `([^`]+)`, (after|in place of) `([^`]+)`:\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
GENERATED = ("burnpy.docs.methods", "burnpy.docs.reference", "burnpy.docs.migrating")


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

CHECK = """
import math
import burnpy
from pathlib import Path
assert Path(burnpy.__file__).is_relative_to(Path.cwd()), burnpy.__file__
from burnpy import Autodiff, Tensor, func
from burnpy.autodiff.rules import RULES
from burnpy.backend import Backend, CuPy, NumPy, operations
from burnpy.testing import gradcheck, gradgradcheck
from tests.backend.test_numpy_operations import test_every_operation_has_a_case
from tests.conformance.test_suite import test_every_operation_has_a_row
from tests.docs.test_pages import test_the_operations_page_is_what_the_schema_makes
from tests.hints.test_names import test_the_page_is_made_from_the_table, test_what_is_said_not_to_be_there_is_not
from tests.tensor.test_pointwise import FUNCTIONS

x = Tensor[Autodiff[NumPy]].from_data([-2.0, -1e-9, 0.0, 0.5, 3.0], dtype="float64").require_grad()
assert all(map(math.isclose, x.sinh().tolist(), map(math.sinh, x.tolist()))), "value"
assert all(map(math.isclose, x.grad(x.sinh().sum().backward()).tolist(), map(math.cosh, x.tolist()))), "gradient"
assert gradcheck(lambda x: x.sinh(), x), "first derivatives, in reverse and forward mode"
assert gradgradcheck(lambda x: x.sinh(), x), "second derivatives"
_, tangent = func.jvp(lambda x: x.sinh(), (x.inner(),), (x.inner() * 0.0 + 1.0,))
assert all(map(math.isclose, tangent.tolist(), map(math.cosh, x.tolist()))), "forward mode"
assert "sinh" in RULES, "no rule"
assert NumPy.sinh is not Backend.sinh, "no implementation for NumPy"
assert CuPy.sinh is not Backend.sinh, "no implementation for CuPy"
assert "sinh" in FUNCTIONS, "no row for the method"
test_every_operation_has_a_row()
test_every_operation_has_a_case()
test_what_is_said_not_to_be_there_is_not("sinh")
test_the_operations_page_is_what_the_schema_makes()
test_the_page_is_made_from_the_table()
"""


def copy_to(root: Path) -> None:
    """Put into a folder what the recipe changes and what checks it."""
    ignored = shutil.ignore_patterns("__pycache__", "fixtures", "cuda")
    for name in ("burnpy", "backends", "tests"):
        shutil.copytree(ROOT / name, root / name, ignore=ignored)
    for name in ("MIGRATING.md", "pyproject.toml"):
        shutil.copy(ROOT / name, root / name)


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a copy, whose packages come before all others."""
    path = os.pathsep.join([str(root), str(root / "backends")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=root, env=environment, capture_output=True, text=True, check=False
    )


def follow(root: Path, changes: list[Change], generated: tuple[str, ...] = GENERATED) -> str:
    """Follow the recipe in a new copy; what the checks then say, which is nothing if all is well."""
    copy_to(root)
    for change in changes:
        change.apply(root)
    for module in generated:
        run(root, "-m", module)  # where it fails, so do the checks
    return run(root, "-c", CHECK).stderr


def without(*positions: int) -> list[Change]:
    return [change for k, change in enumerate(CHANGES) if k not in positions]


def test_the_page_has_the_steps_that_are_left_out_below() -> None:
    assert [Path(change.path).parts[-2:] for change in CHANGES] == [
        ("operations", "pointwise.py"),
        ("burnpy_array", "pointwise.py"),
        ("burnpy_array", "pointwise.py"),
        ("rules", "pointwise.py"),
        ("rules", "pointwise.py"),
        ("methods", "elementary.py"),
        ("cases", "pointwise.py"),
        ("backend", "cases.py"),
        ("tensor", "test_pointwise.py"),
        ("hints", "computing.py"),
    ]
    assert all(f"python -m {module}\n" in section("An operation") for module in GENERATED)


def test_an_operation(tmp_path: Path) -> None:
    assert follow(tmp_path, CHANGES) == ""
    done = run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "sinh", "tests/backend", "tests/tensor")
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "generated", "said"),
    [
        (without(0), GENERATED, "autodiff/rules/pointwise.py"),
        (without(1), GENERATED, "KeyError: 'sinh'"),
        (without(1, 2), GENERATED, "no implementation for NumPy"),
        (without(3), GENERATED, "NameError: name 'cosh' is not defined"),
        (without(3, 4), GENERATED, "no rule"),
        (without(5), GENERATED, "Tensor has no sinh"),
        (without(6), GENERATED, "test_every_operation_has_a_row"),
        (without(7), GENERATED, "test_every_operation_has_a_case"),
        (without(8), GENERATED, "no row for the method"),
        (without(9), GENERATED, "the row of sinh says"),
        (CHANGES, GENERATED[1:], "Tensor has no sinh"),
        (CHANGES, (GENERATED[0], GENERATED[2]), "operations.md is out of date"),
        (CHANGES, GENERATED[:2], "MIGRATING.md is out of date"),
    ],
    ids=[
        *("declaration", "name", "implementation", "derivative", "rule", "method", "row", "case", "values", "hint"),
        *("methods", "operations.md", "MIGRATING.md"),
    ],
)
def test_a_step_that_is_left_out_is_noticed(
    changes: list[Change], generated: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    assert said in follow(tmp_path, changes, generated)


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("i.mul(i.add(i.exp(x), i.exp(i.neg(x))), 0.5)", "i.exp(x)", "AssertionError: gradient"),
        ("i.exp(x), i.exp(i.neg(x))", "i.exp(x), i.exp(i.neg(i.detach(x)))", "GradcheckError"),
    ],
    ids=["first derivative", "second derivative"],
)
def test_a_wrong_rule_is_noticed(right: str, wrong: str, said: str, tmp_path: Path) -> None:
    changed = [change._replace(code=change.code.replace(right, wrong)) for change in CHANGES]
    assert changed != CHANGES
    assert said in follow(tmp_path, changed)


@pytest.fixture(scope="module")
def programs() -> dict[str, Any]:
    """What the other recipes define; their own assertions hold."""
    names: dict[str, Any] = {}
    for code in PROGRAM.findall(PAGE.read_text(encoding="utf-8")):
        exec(compile(code, str(PAGE), "exec"), names)
    return names


def test_the_layer_and_the_optimizer_train(programs: dict[str, Any]) -> None:
    tensor, train = programs["Tensor"], programs["Autodiff"][programs["NumPy"]]
    model, optim = programs["RmsNorm"](2, device=train), programs["Lion"](weight_decay=0.1)
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


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
def test_the_backend_computes_what_it_should(dtype: str, programs: dict[str, Any]) -> None:
    """All operations; the other levels of the suite are for backends that are in use."""
    suite: Any = programs["TestPlain"]
    suite.setup_class()
    for name, _, level in value_cases({dtype: dtype_of(dtype)}):
        if level == "plain":
            suite().test_values(name=name, dtype=dtype, level=level)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", ["conv2d", "softmax", "logsumexp", "index_select", "prod"])
def test_the_backend_can_be_differentiated(name: str, order: int, programs: dict[str, Any]) -> None:
    suite: Any = programs["TestPlain"]
    suite.setup_class()
    suite().test_derivatives(name=name, order=order)


def test_a_backend_that_errs_is_noticed(programs: dict[str, Any]) -> None:
    plain = programs["Plain"]
    Erring = type("Erring", (plain,), {"exp": plain.expm1})  # noqa: N806  # a class
    suite: Any = conformance_suite(Erring, dtypes=plain.dtypes)
    suite.setup_class()
    with pytest.raises(AssertionError, match="exp"):
        suite().test_values(name="exp", dtype="float64", level="plain")
