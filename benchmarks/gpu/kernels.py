"""Operations that move memory and compute little, beside the rate of copying and beside PyTorch.

The least time of an operation is the time to read its arguments and write its results once, at the rate of a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.gpu.libraries import tensor, torch, torch_tensor, wait, why_no_torch
from benchmarks.gpu.roofline import copy_seconds
from benchmarks.gpu.timing import Effort, measured
from benchmarks.measure import Spread
from benchmarks.report import Line, Section
from burnpy import Autodiff
from burnpy.backend import CuPy
from burnpy.nn import functional as ours

BUDGET = 1.25
"""The time of a kernel over the least: 80 % of the rate of copying."""
ROWS, COLUMNS = 16384, 2048


@dataclass(frozen=True)
class Case:
    """An operation on a matrix x, a vector of weights and ints, written once for both libraries."""

    call: Callable[[Any, Any, Any, Any], Any]  #: of the library's functions, x, the weights, and an int for each row
    forward: float  #: how many matrices of x's size the forward pass reads and writes at least
    backward: float | None  #: how many the backward pass does; None if it is not measured


CASES = {
    "add": Case(lambda f, x, w, i: x + x, 2, None),
    "x · 2 + 1": Case(lambda f, x, w, i: x * 2.0 + 1.0, 4, None),
    "exp": Case(lambda f, x, w, i: x.exp(), 2, 3),
    "relu": Case(lambda f, x, w, i: x.relu(), 2, 3),
    "gelu": Case(lambda f, x, w, i: _method(f, x, "gelu"), 2, 3),
    "silu": Case(lambda f, x, w, i: _method(f, x, "silu"), 2, 3),
    "sum of rows": Case(lambda f, x, w, i: x.sum(-1), 1, 1),
    "sum of columns": Case(lambda f, x, w, i: x.sum(0), 1, 1),
    "softmax": Case(lambda f, x, w, i: x.softmax(-1), 2, 3),
    "log_softmax": Case(lambda f, x, w, i: x.log_softmax(-1), 2, 3),
    "cross_entropy": Case(lambda f, x, w, i: f.cross_entropy(x, i), 1, 2),
    "layer_norm": Case(lambda f, x, w, i: f.layer_norm(x, x.shape[1:]), 2, 3),
    "rms_norm": Case(lambda f, x, w, i: f.rms_norm(x, tuple(x.shape[1:])), 2, 3),
    "rows by index": Case(lambda f, x, w, i: x.index_select(0, i), 2, 3),
    "transposed · 2": Case(lambda f, x, w, i: x.T * 2.0, 2, None),
    "+ bias": Case(lambda f, x, w, i: x + w, 2, 2),
}


def sections(effort: Effort) -> list[Section]:
    """Measure forward passes, and forward and backward passes together."""
    rows, columns = (8, 16) if effort.small else (ROWS, COLUMNS)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, columns), (columns,)))
    index = rng.integers(0, min(rows, columns), rows)
    each = copy_seconds(effort)
    has_torch = torch() is not None
    shown = ["burnpy", *["torch"] * has_torch]
    plain = [tensor(a) for a in (x, w, index)]
    leaf, *rest = (tensor(a, Autodiff[CuPy]) for a in (x, w, index))
    leaf = leaf.require_grad()
    theirs = [torch_tensor(a) for a in (x, w, index)] if has_torch else []
    lines = []
    for name, case in CASES.items():
        runs: dict[str, Any] = {"burnpy": (lambda f=case.call: f(ours, *plain), wait)}
        if has_torch:
            runs["torch"] = (lambda f=case.call: f(torch().nn.functional, *theirs), wait)
        lines.append(_line(name, runs, case.forward * x.nbytes * each, effort))
        if case.backward is None:
            continue
        runs = {"burnpy": (lambda f=case.call: _total(f(ours, leaf, *rest)).backward(), wait)}
        if has_torch:
            runs["torch"] = (lambda f=case.call: _torch_gradient(f, theirs), wait)
        both = (case.forward + case.backward) * x.nbytes * each
        lines.append(_line(f"{name}, with gradient", runs, both, effort))
    how = (
        f"{rows:,} × {columns:,} float32. Ratios are burnpy's time over the least: reading the arguments and writing "
        "the results once at the rate of a copy, and in the backward pass what it needs of them. Of a gradient the sum "
        f"of the result is part. {why_no_torch()}"
    )
    return [Section("Kernels", how, "ms", shown, lines)]


def _line(name: str, runs: dict[str, Any], least: float, effort: Effort) -> Line:
    times = measured(name, runs, effort)
    over = times.over("burnpy", least)
    share = None if over is None else Spread(1 / over.middle, 1 / over.high, 1 / over.low)
    cells = {column: times.cell(column, 1e3) for column in runs}
    budget = None if name.endswith("gradient") else BUDGET
    return Line(name, cells, over, budget, roofline=share)


def _method(functions: Any, x: Any, name: str) -> Any:
    """Return an activation, which is a method of burnpy's tensors and a function of PyTorch."""
    return getattr(x, name)() if functions is ours else getattr(functions, name)(x)


def _total(x: Any) -> Any:
    return x.sum() if x.ndim else x


def _torch_gradient(f: Callable[..., Any], arguments: list[Any]) -> None:
    x, *rest = arguments
    leaf = x.detach().requires_grad_()
    torch().autograd.grad(_total(f(torch().nn.functional, leaf, *rest)), leaf)
