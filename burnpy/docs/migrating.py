"""The page ``from_pytorch/tensors.md``, made from the table of PyTorch's names: ``make generated``."""

from __future__ import annotations

import re
from pathlib import Path

from burnpy.hints import other_names, torch_names
from burnpy.hints.missing import IN_PLACE, NOTHING, Row, parsed, rows

PAGE = Path(__file__).with_name("from_pytorch") / "tensors.md"
BY_HAND = ("Autograd", "Burn's names")
"""Sections that other pages have in more words."""

PROLOGUE = """\
import math

import numpy as np

import burnpy
from burnpy import Autodiff, BoolTensor, ComplexTensor, IntTensor, Tensor
from burnpy.backend import NumPy

Train = Autodiff[NumPy]
device = Train
x = Tensor[Train].from_data([[0.5, -1.0, 2.0], [3.0, 0.25, -0.5]]).require_grad()
y = Tensor[Train].from_data([[2.0, 1.0, 0.5], [1.0, 4.0, 2.0]])
v, m = x[0], Tensor[Train].eye(3)              # a vector and a matrix
p = x.sigmoid()                                # probabilities
z = x.complex()                                # complex numbers
i = IntTensor[Train].from_data([[0, 1, 0], [1, 0, 1]])
j = i + 1
b, c = x > 0.0, y > 1.0                        # truth values
rows = IntTensor[Train].from_data([1, 0])
array = np.ones((2, 3))
low, high, value, shape = 0.0, 1.0, 0.5, (2, 3)
"""
"""The names that the code in the second column uses, as Python code."""

_HEAD = """\
# Tensor operations

Made from the tables in `burnpy/hints` by `make generated`.

A row for each method of PyTorch's tensors and each of its functions of tensors, with the code to write here, or the
reason why there is none. `x.add_` stands for the form in place, which never is there: tensors do not change.
[autograd.md](autograd.md) has the methods that mark tensors and differentiate.

In the code, `x` and `y` are float tensors of shape (2, 3), `v` is a vector, `m` a matrix, `p` holds probabilities, `i`
and `j` ints, `b` and `c` truth values, `rows` indices:

```python
{prologue}```
"""


def page() -> str:
    """Return the text of the page."""
    table = rows()
    parts = [_HEAD.format(prologue=PROLOGUE)]
    for title in dict.fromkeys(row.section for row in table.values()):
        if title not in BY_HAND:
            own = {name: row for name, row in table.items() if row.section == title}
            parts.append(f"## {title}\n\n| PyTorch | burnpy | where it differs |\n| --- | --- | --- |")
            parts += [line(name, row) for name, row in own.items()]
            parts[-1] += "\n"
    return "\n".join(parts)


def line(name: str, row: Row) -> str:
    """Return a row of a table."""
    ours = f"`{row.ours}`" if row.ours else NOTHING
    why = row.why or _by_itself(name, row.ours)
    if name.endswith("_"):
        why = f"{IN_PLACE}{f'; {why}' if row.why else ''}"
    cells = (", ".join(f"`{each}`" for each in theirs(name)), ours, _sentence(why))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def theirs(name: str) -> list[str]:
    """Return the forms in which PyTorch has a name: method, in-place method, function; NumPy's names unchanged."""
    if name.startswith("torch."):
        return [name]
    of_tensors, of_torch = torch_names.TENSOR.split(), torch_names.TORCH.split()
    both = (name,) if f"{name}_" in rows() else (name, f"{name}_")
    names = [f"x.{each}" for each in both if each in of_tensors]
    if name in of_torch and f"torch.{name}" not in rows():
        names.append(f"torch.{name}")
    return names or [f"np.{name}" if name in parsed(other_names.NUMPY) else name]


def _by_itself(name: str, ours: str) -> str:
    """Return the remark for code that works as in PyTorch."""
    if re.fullmatch(rf"(?:\w+\.)+{name}\b(\(.*\))?", ours):
        return "the same"
    return "another name" if re.fullmatch(r"(?:\w+\.)+\w+(\([^()]*\))?", ours) else "made of other operations"


def _sentence(text: str) -> str:
    return f"{text[0].upper() if text[0].islower() else text[0]}{text[1:]}."
