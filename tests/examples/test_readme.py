"""What README.md says in Python is true: its blocks run, each on its own, and so does the code of its PyTorch table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
SECTION = README.partition("## Coming from PyTorch")[2].partition("\n## ")[0]
CODE = [span for line in SECTION.splitlines() for cell in line.split("|")[2:3] for span in re.findall(r"`(.+?)`", cell)]

PROLOGUE = """
import burnpy
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.backend import NumPy

Train = Autodiff[NumPy]
w = Tensor[Train].from_data([1.0, 2.0]).require_grad()
x = Tensor[Train].from_data([[1.0, 2.0], [3.0, 4.0]])
y = (x * w).relu()
loss = y.sum()
grads = loss.backward(retain_graph=True)
"""


def test_the_readme_has_code() -> None:
    assert len(BLOCKS) >= 5
    assert len(CODE) >= 15


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_block(block: str) -> None:
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})


@pytest.mark.parametrize("code", CODE)
def test_table(code: str) -> None:
    namespace: dict[str, Any] = {}
    exec(PROLOGUE, namespace)
    exec(code, namespace)
