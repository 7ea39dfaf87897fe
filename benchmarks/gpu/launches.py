"""The cost of a tiny operation, which is the cost of queueing it: in burnpy, in CuPy itself and in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.gpu.libraries import cupy, tensor, torch, torch_tensor, wait, why_no_torch
from benchmarks.gpu.timing import Effort, measured
from benchmarks.report import Line, Section
from burnpy import Autodiff
from burnpy.backend import CuPy

BUDGET = 1.2
"""The budget of a tiny operation, as a ratio to PyTorch's time."""

EXPRESSIONS = {
    "add": (lambda x, m: x + x, lambda x, m: x + x),
    "× 2.0": (lambda x, m: x * 2.0, lambda x, m: x * 2.0),
    "exp": (lambda x, m: x.exp(), lambda x, m: cupy().exp(x)),
    "sum": (lambda x, m: x.sum(), lambda x, m: x.sum()),
    "matmul 8×8": (lambda x, m: m @ m, lambda x, m: m @ m),
    "x[3]": (lambda x, m: x[3], lambda x, m: x[3]),
    "softmax": (lambda x, m: m.softmax(-1), None),
}
"""Operations on 8 and on 8 × 8 elements, as burnpy and PyTorch write them, and as CuPy does, if it has them."""


def sections(effort: Effort) -> list[Section]:
    """Measure plain and tracked operations, and a small backward pass."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((8,), (8, 8))]
    plain = [tensor(a) for a in arrays]
    tracked = [tensor(a, Autodiff[CuPy]).require_grad() for a in arrays]
    bare = [cupy().asarray(a) for a in arrays]
    has_torch = torch() is not None
    theirs = [torch_tensor(a) for a in arrays] if has_torch else []
    leaves = [t.clone().requires_grad_() for t in theirs]
    lines = []
    for name, (f, g) in EXPRESSIONS.items():
        runs: dict[str, Any] = {"burnpy": (lambda f=f: f(*plain), wait)}
        if g is not None:
            runs["CuPy"] = (lambda g=g: g(*bare), wait)
        if has_torch:
            runs["torch"] = (lambda f=f: f(*theirs), wait)
        lines.append(_line(name, runs, effort))
    both: dict[str, Any] = {"burnpy": (lambda: tracked[0].exp(), wait)}
    backward: dict[str, Any] = {"burnpy": (lambda: (tracked[0] * tracked[0]).sum().backward(), wait)}
    if has_torch:
        both["torch"] = (lambda: leaves[0].exp(), wait)
        backward["torch"] = (lambda: torch().autograd.grad((leaves[0] * leaves[0]).sum(), leaves[0]), wait)
    lines += [_line("exp, tracked", both, effort), _line("x · x, sum, backward", backward, effort)]
    how = (
        "8 elements and 8 × 8 matrices of float32, many operations queued, then waited for; ratios are burnpy's time "
        f"over PyTorch's. {why_no_torch()}"
    )
    columns = ["burnpy", "CuPy", *["torch"] * has_torch]
    return [Section("Tiny operations", how, "µs", columns, lines)]


def _line(name: str, runs: dict[str, Any], effort: Effort) -> Line:
    times = measured(name, runs, effort)
    cells = {column: times.cell(column, 1e6) for column in runs}
    return Line(name, cells, times.ratio("burnpy", "torch"), BUDGET)
