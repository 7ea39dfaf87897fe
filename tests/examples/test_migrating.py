"""What MIGRATING.md says one writes in burnpy runs, cell by cell, and each cell that has none says why.

Of the tensor operations, which are made from a table, that is shown in ``tests/hints``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from burnpy import Autodiff, Tensor, autodiff, nn, optim, record
from burnpy.backend import NumPy
from burnpy.docs import migrating
from burnpy.nn import functional
from burnpy.testing.conformance import every_case

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "MIGRATING.md").read_text(encoding="utf-8")
BY_HAND = PAGE.partition(migrating.BEGIN)[0] + PAGE.partition(migrating.END)[2]
PROLOGUE = "\n".join(re.findall(r"^```python\n(.*?)^```", BY_HAND, re.MULTILINE | re.DOTALL))
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in BY_HAND.splitlines()
    if line.startswith("| ") and not line.startswith(("| PyTorch", "| ---"))
]
CODE = [code for row in ROWS for code in re.findall(r"`(.+?)`", row[1])]
IN_FORWARD = ("save_for_backward", "mark_non_differentiable", "set_materialize_grads")
PROFILED = "profile: Tensor.ones((2,), device=Autodiff[Profiled[NumPy]]).require_grad().exp().sum().backward()"


SETTING = compile(f"{PROLOGUE}\nwith Profiled.record() as {PROFILED}\n", "the setting", "exec", dont_inherit=True)


def namespace() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "migrating"}
    exec(SETTING, names)
    return names


def test_the_page_has_rows() -> None:
    assert len(ROWS) > 110
    assert len(CODE) > 90


@pytest.mark.parametrize("room", [nn, functional, optim, record], ids=lambda room: room.__name__)
def test_each_of_our_names_is_on_the_page(room: Any) -> None:
    shown = {
        part for row in ROWS for code in re.findall(r"`(.+?)`", f"{row[1]} {row[2]}") for part in re.split(r"\W", code)
    }
    assert {*room.__all__} - shown - {"functional", "init"} == set()


def test_a_row_has_three_cells_and_says_something() -> None:
    with every_case() as case:
        for row in ROWS:
            with case(row[0]):
                theirs, ours, why = row
                assert theirs
                assert ours == "–" or "`" in ours, "code, or a dash"
                assert why.endswith("."), "a sentence, or several"


def test_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with every_case() as case:
        for code in dict.fromkeys(c for c in CODE if not c.startswith("ctx.")):
            with case(code):
                monkeypatch.chdir(tmp_path)  # some of it writes files
                exec(code, namespace())


@pytest.mark.parametrize("code", sorted({c for c in CODE if c.startswith("ctx.")}))
def test_code_inside_of_a_function_runs(code: str) -> None:
    """In forward(), or in backward(), where it belongs."""
    ran: list[str] = []

    class Doubled(autodiff.Function):
        @staticmethod
        def forward(ctx: autodiff.Context, x: Any) -> Any:
            out = x * 2.0
            if any(name in code for name in IN_FORWARD):
                exec(code, {"ctx": ctx, "x": x, "out": out})
                ran.append(code)
            return x * 2.0, out

        @staticmethod
        def backward(ctx: autodiff.Context, grad: Any, other: Any) -> Any:
            if not any(name in code for name in IN_FORWARD):
                exec(code, {"ctx": ctx})
                ran.append(code)
            return grad * 2.0

    Doubled.apply(Tensor[Autodiff[NumPy]].ones((2,)).require_grad())[0].sum().backward()
    assert ran
