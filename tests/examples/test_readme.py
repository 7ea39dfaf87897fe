"""What README.md says in Python is true: its blocks run, each on its own, and so does the code of its PyTorch table.

One block is not whole: it is a piece of an example, word for word. One is in the syntax of Python 3.12: it runs there,
and is type-checked everywhere.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
PIECES = [block for block in BLOCKS if "for rows in IntTensor.permutation(" in block]
"""What it shows of examples/digits.py."""
WHOLE = [block for block in BLOCKS if block not in PIECES]
NEWER = [block for block in WHOLE if re.search(r"^class \w+\[", block, re.MULTILINE)]
"""Those in the syntax of Python 3.12."""
needs_312 = pytest.mark.skipif(sys.version_info < (3, 12), reason="class Cnn[B: Backend] is syntax of Python 3.12")
TABLE = README.partition("## Coming from PyTorch")[2].partition("\n## ")[0]
CODE = [span for line in TABLE.splitlines() for cell in line.split("|")[2:3] for span in re.findall(r"`(.+?)`", cell)]

PROLOGUE = """
import numpy as np
import burnpy
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.backend import NumPy

Train = Autodiff[NumPy]
a = np.ones(3)
w = Tensor[Train].from_data([1.0, 2.0]).require_grad()
x = Tensor[Train].from_data([[1.0, 2.0], [3.0, 4.0]])
y = (x * w).relu()
loss = y.sum()
grads = loss.backward(retain_graph=True)
"""
MODEL = """
from burnpy.nn import Linear
from burnpy.optim import Adam, CosineLr, clip_by_global_norm

model, optim, step = Linear(2, 1, device=Train), Adam(), 0
grads = model(x).sum().backward()
"""

MISTAKES = {
    "loss = (x @ x).relu().sum()": "x.inner().sum().backward()",
    "def accuracy(": "accuracy(logits, wanted)",
}
"""What the README says checkers refuse, by a line of the block that it is a continuation of."""


def test_the_readme_has_code() -> None:
    assert len(BLOCKS) >= 5
    assert len(CODE) >= 15
    assert len(PIECES) == len(NEWER) == 1


def test_the_training_loop_is_that_of_the_example() -> None:
    (loop,) = PIECES
    assert textwrap.indent(loop, "    ") in (ROOT / "examples" / "digits.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "block",
    [pytest.param(block, marks=needs_312 if block in NEWER else ()) for block in WHOLE],
    ids=range(len(WHOLE)),
)
def test_block_runs(block: str) -> None:
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})


@pytest.mark.parametrize("code", CODE)
def test_code_of_the_table_runs(code: str) -> None:
    namespace: dict[str, Any] = {}
    exec(PROLOGUE, namespace)
    if any(word in code for word in ("model", "Lr(", "clip_by")):
        exec(MODEL, namespace)
    exec(code, namespace)


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "basedpyright"])
def test_checkers_accept_the_blocks_and_refuse_what_they_should(checker: str, tmp_path: Path) -> None:
    wrong = set()
    for number, block in enumerate(WHOLE):
        if block in NEWER:
            continue
        (tmp_path / f"block_{number}.py").write_text(block, encoding="utf-8")
        for line, mistake in MISTAKES.items():
            if line in block:
                (tmp_path / f"wrong_{number}.py").write_text(f"{block}\n{mistake}\n", encoding="utf-8")
                wrong.add((f"wrong_{number}.py", block.count("\n") + 2))
    assert len(wrong) == len(MISTAKES)
    output = checked(checker, *sorted(tmp_path.glob("*.py")))
    found = {(name, int(line)) for name, line in re.findall(r"(\w+\.py):(\d+).* error", output)}
    assert found == wrong, output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("checker", "option"), [("mypy", "--python-version=3.12"), ("basedpyright", "--pythonversion=3.12")]
)
def test_checkers_know_the_syntax_of_python_3_12(checker: str, option: str, tmp_path: Path) -> None:
    (block,) = NEWER
    mistake = 'model: "Cnn[NumPy]" = Cnn(Autodiff[NumPy])'
    (tmp_path / "newer.py").write_text(f"{block}\n{mistake}\n", encoding="utf-8")
    output = checked(checker, option, tmp_path / "newer.py")
    assert {int(line) for line in re.findall(r"newer\.py:(\d+).* error", output)} == {block.count("\n") + 2}, output


def checked(checker: str, *arguments: str | Path) -> str:
    command = [sys.executable, "-m", checker, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
