"""The recipes of the pages: followed in a copy of the package, they work; a step that is left out is noticed."""

from __future__ import annotations

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from textwrap import indent
from typing import Any, NamedTuple

import numpy as np
import pytest

from burnpy.backend import operations
from burnpy.backend.dtypes import dtype_of
from burnpy.backend.errors import DeviceError
from burnpy.docs import generated
from burnpy.hints.missing_names import rows
from burnpy.testing import conformance_suite
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.samples import LAYOUTS
from burnpy.testing.checks import check_values
from burnpy.testing.conformance import every_case, value_cases
from burnpy.train import EpochEnd, Stop

ROOT = Path(__file__).parents[2]
DOCS = generated.OPERATIONS.parent
RECIPE_PAGES = [DOCS / "contributing.md", *sorted(DOCS.glob("book/writing_*.md"))]
"""The pages that have recipes."""
CHANGE = re.compile(r"^In `([^`]+)`, (after|in place of) `([^`]+)`:\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


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
            end = end_of_definition(text, at + 1) if self.anchor.startswith(("def ", "class ")) else at + 1
            lines[end:end] = new
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def end_of_definition(text: str, line: int) -> int:
    """The number of the last line of the function or class that begins in ``line``."""
    definitions = (ast.FunctionDef, ast.ClassDef)
    found = [n for n in ast.walk(ast.parse(text)) if isinstance(n, definitions) and n.lineno == line]
    assert found[0].end_lineno is not None
    return found[0].end_lineno


def section(title: str) -> str:
    """Return the text under a heading of the pages."""
    text = "\n## \n".join(page.read_text(encoding="utf-8") for page in RECIPE_PAGES)
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def changes_of(title: str) -> list[Change]:
    return [Change(*found) for found in CHANGE.findall(section(title))]


CHANGES = changes_of("An operation of the package")

OPTIONAL = (3, 4)
"""The changes without which the operation is complete: the function of an array library."""
COMPLETENESS = "tests/conformance/test_completeness.py"
COMPLETE = ["tests/conformance/test_declarations.py", COMPLETENESS]
"""Tests that tell which file lacks something."""
CBRT = [
    "tests/hints/test_missing_names.py::test_the_page_has_every_name",
    "tests/conformance/test_numpy.py::TestValues::test_values[cbrt]",
    "tests/conformance/test_numpy.py::TestNumPy::test_derivatives[cbrt]",
    "tests/tensor/test_pointwise.py::test_values[cbrt]",
    "tests/hints/test_missing_names.py::test_what_is_said_not_to_be_there_is_not",
    f"tests/hints/test_missing_names.py::test_code_of_the_table_runs[{rows()['cbrt'].section}]",
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
from burnpy.backend.dtypes import float64
from burnpy.testing.cases import ROWS
from burnpy.testing.checks import check_derivatives
for order in (1, 2):
    check_derivatives(NumPy(), ROWS["cbrt"], "matrix", float64, "contiguous", order)
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
    shutil.copy(ROOT / "pyproject.toml", root / "pyproject.toml")


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a copy, whose packages come before all others."""
    path = os.pathsep.join([str(root), str(root / "backends")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=root, env=environment, capture_output=True, text=True, check=False
    )


def change_copy(root: Path, changes: list[Change]) -> None:
    copy_to(root)
    for change in changes:
        change.apply(root)


def make_methods(root: Path) -> None:
    """Do as `make generated` does first: write the table of methods, made from sources alone, in this process."""
    runpy.run_path(str(root / "burnpy/docs/generated_code.py"), run_name="__main__")


def follow(root: Path, changes: list[Change]) -> None:
    """Follow the recipe in a new copy, but for the pages and stubs, which no test here needs."""
    change_copy(root, changes)
    make_methods(root)


def failures_of(root: Path, *tests: str) -> str:
    """Return the output of failing tests in a copy, "" if all pass. Assertions are plain: a diff of pages is slow."""
    options = ["-q", "--tb=short", "--assert=plain", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    done = run(root, "-m", "pytest", *options, *tests)
    return done.stdout if done.returncode else ""


def without(*positions: int) -> list[Change]:
    return [change for k, change in enumerate(CHANGES) if k not in positions]


def test_the_page_has_the_steps_that_are_left_out_below() -> None:
    assert [Path(change.path).parts[-2:] for change in CHANGES] == [
        ("operations", "pointwise.py"),
        ("operations", "pointwise.py"),
        ("cases", "elementwise.py"),
        ("burnpy_array", "pointwise.py"),
        ("burnpy_array", "pointwise.py"),
    ]
    assert "make generated\n" in section("An operation of the package")
    assert len({change.path for change in without(*OPTIONAL)}) == 2, "an operation takes two files"


@pytest.mark.slowest
@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        ((0, 1), ["names cbrt: declare it in burnpy/backend/operations"]),
        (
            (2,),
            [
                "cbrt has no examples: give it a row in burnpy/testing/cases/elementwise.py",
                "Tensor has no cbrt: declare it with method=True in burnpy/backend/operations/pointwise.py",
            ],
        ),
    ],
    ids=["declaration", "examples and method"],
)
def test_what_is_left_out_is_named(left_out: tuple[int, ...], said: list[str], tmp_path: Path) -> None:
    """A file, or the method of a declaration: each by a test of its own, which one process calls."""
    changes = without(*left_out, *OPTIONAL)
    follow(tmp_path, [change._replace(code=change.code.replace(" method=True,", "")) for change in changes])
    output = run(tmp_path, "-c", LEFT_OUT.format(files=COMPLETE)).stderr
    assert [words for words in said if words not in output] == []


@pytest.mark.slowest
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


class Step(NamedTuple):
    """A step of a recipe."""

    changes: tuple[int, ...]  #: the positions of its changes
    test: str  #: the one that fails where it is left out
    said: str  #: what that says


class Recipe(NamedTuple):
    """A recipe of several steps, apart from the operation's."""

    changes: list[Change]  #: its own first
    files: list[str]  #: the ends of the paths of its own
    tests: list[str]  #: those that come with the recipe
    steps: dict[str, Step]


EXPORTS, WIDTHS, ACTIVATIONS = "tests/docs/test_stubs.py", "tests/nn/test_widths.py", "tests/nn/test_activation.py"
KERNELS = "tests/programs/test_operations.py"
LISTED, DEFINED = f"{EXPORTS}::test_what_is_public_is_listed", f"{EXPORTS}::test_what_a_table_lists_is_defined"
AGREES = f"{KERNELS}::test_kernels_agree_with_numpy[logcosh-float32]"
FUNCTION, LAYER = changes_of("A function of the package"), changes_of("A layer of the package")
RECIPES = {
    "function": Recipe(
        FUNCTION,
        ["layers/activation.py", "functional/__init__.py", "nn/test_activation.py"],
        [EXPORTS, ACTIVATIONS],
        {
            "function": Step(
                (0,),
                DEFINED,
                "burnpy/nn/functional/__init__.py lists squareplus: define it in burnpy/nn/layers/activation.py",
            ),
            "table": Step(
                (1,),
                LISTED,
                "burnpy/nn/layers/activation.py defines squareplus: list it in burnpy/nn/functional/__init__.py",
            ),
            "examples": Step(
                (2,),
                f"{ACTIVATIONS}::test_every_activation_is_in_the_table",
                f"['squareplus'] have no example: give them rows in {ACTIVATIONS}",
            ),
        },
    ),
    "layer": Recipe(
        [*LAYER, *FUNCTION],
        ["layers/activation.py", "nn/__init__.py", "nn/every_layer.py"],
        [EXPORTS, WIDTHS, "tests/nn/test_repr.py"],
        {
            "layer": Step(
                (0,), DEFINED, "burnpy/nn/__init__.py lists Squareplus: define it in burnpy/nn/layers/activation.py"
            ),
            "table": Step(
                (1,), LISTED, "burnpy/nn/layers/activation.py defines Squareplus: list it in burnpy/nn/__init__.py"
            ),
            "examples": Step(
                (2,),
                f"{WIDTHS}::test_every_layer_is_known",
                "['Squareplus'] have no example: give them rows in tests/nn/every_layer.py",
            ),
        },
    ),
    "kernel": Recipe(
        changes_of("A kernel"),
        [
            "operations/activation.py",
            "cases/elementwise.py",
            "burnpy_numpy/activation.py",
            "programs/test_operations.py",
        ],
        [
            AGREES,
            "tests/conformance/test_numpy.py::TestValues::test_values[logcosh]",
            "tests/conformance/test_numpy.py::TestNumPy::test_derivatives[logcosh]",
            f"{COMPLETENESS}::test_every_operation_is_public",
        ],
        {
            "declaration": Step((0,), COMPLETE[0], "names logcosh: declare it in burnpy/backend/operations"),
            "examples": Step(
                (1,),
                f"{COMPLETENESS}::test_every_operation_has_examples",
                "logcosh has no examples: give it a row in burnpy/testing/cases/elementwise.py",
            ),
            "method": Step((2,), AGREES, "ask for them in backends/burnpy_numpy/activation.py"),
            "test": Step(
                (3,),
                f"{KERNELS}::test_every_elementwise_kernel_is_in_the_table",
                f"['logcosh'] have no example: give them rows in {KERNELS}",
            ),
        },
    ),
}
SHORT = [("layer", "table")]
"""The steps that are left out in the short tests as well: each copies the package, and imports it anew."""
STEPS = [
    pytest.param(name, step, marks=() if (name, step) in SHORT else pytest.mark.long)
    for name, recipe in RECIPES.items()
    for step in recipe.steps
]


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_has_the_steps_that_are_left_out_below(name: str) -> None:
    recipe = RECIPES[name]
    own = recipe.changes[: len(recipe.files)]
    assert ["/".join(Path(change.path).parts[-2:]) for change in own] == recipe.files
    assert sorted(k for step in recipe.steps.values() for k in step.changes) == list(range(len(own)))


@pytest.mark.slowest
def test_the_recipes_work(tmp_path: Path) -> None:
    """In one copy: an operation, a layer with its function, and a kernel. The files to make are made, and no others."""
    recipes = [RECIPES["layer"], *([RECIPES["kernel"]] if find_spec("llvmlite") else [])]
    changes = [*without(*OPTIONAL), *(change for recipe in recipes for change in recipe.changes)]
    follow(tmp_path, changes)
    made = run(tmp_path, "-m", "burnpy.docs.generated")
    assert made.stderr == ""
    assert {*made.stdout.split()} == {
        *("burnpy/nn/__init__.pyi", "burnpy/nn/functional/__init__.pyi", "burnpy/docs/public_api.txt"),
        *("burnpy/docs/operations.md", "burnpy/docs/from_pytorch/tensors.md"),
    }
    tests = [*COMPLETE, *CBRT, *(test for recipe in recipes for test in recipe.tests)]
    assert failures_of(tmp_path, *dict.fromkeys(tests)) == ""
    for k in OPTIONAL:
        CHANGES[k].apply(tmp_path)
    assert run(tmp_path, "-c", NATIVE).stderr == ""


@pytest.mark.slowest
@pytest.mark.parametrize(("name", "step"), STEPS)
def test_a_step_that_is_left_out_is_named(name: str, step: str, tmp_path: Path) -> None:
    recipe = RECIPES[name]
    if name == "kernel":
        pytest.importorskip("llvmlite")
    positions, test, said = recipe.steps[step]
    follow(tmp_path, [change for k, change in enumerate(recipe.changes) if k not in positions])
    assert said in failures_of(tmp_path, test)


@pytest.fixture(scope="module")
def programs() -> dict[str, Any]:
    """Run the programs of the pages, and return the names that they define."""
    names: dict[str, Any] = {}
    for page in RECIPE_PAGES:
        own: dict[str, Any] = {}
        for code in PROGRAM.findall(page.read_text(encoding="utf-8")):
            exec(compile(code, str(page), "exec"), own)
        names |= own
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


def test_the_callback_stops_after_epochs_in_a_row(programs: dict[str, Any]) -> None:
    callback = programs["StopOverfitting"](factor=2.0, epochs=2)
    states: list[int] = [callback.initial()]
    decisions: list[Any] = []
    model: Any = None
    for epoch, loss in enumerate((3.0, 1.0, 3.0, 3.0)):
        values = {"train/loss": 1.0, "valid/loss": loss}
        event = EpochEnd(model=model, epoch=epoch, step=epoch, metrics={}, values=values, seconds=1.0)
        state, decided = callback.on(event, states[-1])
        states, decisions = [*states, state], [*decisions, *decided]
    assert states == [0, 1, 0, 1, 2]
    assert decisions == [Stop("overfitting for 2 epochs")]


def test_the_source_has_samples_and_ends(programs: dict[str, Any]) -> None:
    waves = programs["Waves"](3)
    assert [float(sample["y"]) for sample in waves] == waves.columns(np.arange(3))["y"].tolist()
    first, rest = waves.split(1 / 3, seed=None)
    assert (len(first), len(rest)) == (1, 2)


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
