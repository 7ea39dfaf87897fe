"""The pages about PyTorch's names: the code in the column of burnpy runs, cell by cell, and a dash has a reason.

Of the tensor operations, which are made from a table, that is shown in ``tests/hints``.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from burnpy import Autodiff, Tensor, autodiff, docs, nn, optim, record
from burnpy.backend import NumPy
from burnpy.docs import names_elsewhere
from burnpy.nn import functional
from burnpy.testing.conformance import every_case

pytestmark = pytest.mark.slow

FOLDER = names_elsewhere.PAGE.parent
PAGES = {
    path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md")) if path != names_elsewhere.PAGE
}


def rows_of(text: str) -> list[list[str]]:
    lines = [
        line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| PyTorch", "| ---"))
    ]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


ROWS = [row for text in PAGES.values() for row in rows_of(text)]
CODE = [
    (page, code) for page, text in PAGES.items() for row in rows_of(text) for code in re.findall(r"`(.+?)`", row[1])
]
IN_FORWARD = ("save_for_backward", "mark_non_differentiable", "set_materialize_grads")


@cache
def setting(page: str) -> Any:
    """Return the code above the tables of a page, compiled."""
    return compile("\n".join(docs.blocks(FOLDER / page)), page, "exec", dont_inherit=True)


def test_the_pages_have_rows() -> None:
    assert len(ROWS) > 110
    assert len(CODE) > 90


@pytest.mark.parametrize("room", [nn, functional, optim, record], ids=lambda room: room.__name__)
def test_each_of_our_names_is_on_a_page(room: Any) -> None:
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


@pytest.mark.slowest
def test_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with every_case() as case:
        for page, code in dict.fromkeys(each for each in CODE if not each[1].startswith("ctx.")):
            with case(f"{page}: {code}"):
                monkeypatch.chdir(tmp_path)  # some of it writes files
                names: dict[str, Any] = {"__name__": "from_pytorch"}
                exec(setting(page), names)
                exec(code, names)


@pytest.mark.parametrize("code", sorted({code for _, code in CODE if code.startswith("ctx.")}))
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
