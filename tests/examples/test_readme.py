"""What README.md says in Python is true: its blocks run, each on its own, and so does the code of its PyTorch table.

One block is not whole: it is a piece of an example, word for word. One is in the syntax of Python 3.12: it runs there.
That type checkers accept them is shown in ``tests/typing``.
"""

from __future__ import annotations

import re
import sys
import textwrap
from typing import Any

import pytest

from tests.examples.readme import BLOCKS, NEWER, PIECES, README, ROOT, WHOLE

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
