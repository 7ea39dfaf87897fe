"""Convolution, pooling, attention, linear layers and operations that sort and scatter, beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.gpu.libraries import tensor, torch, torch_precision, torch_tensor, wait, why_no_torch
from benchmarks.gpu.timing import Effort, measured
from benchmarks.report import Line, Section
from burnpy import Autodiff
from burnpy.backend import CuPy
from burnpy.nn import functional as ours


class Case(NamedTuple):
    """A function of a library's functions and of arrays; gradients are those of the first array."""

    call: Callable[..., Any]
    shapes: Sequence[tuple[int, ...]]
    few: Sequence[tuple[int, ...]]  #: the shapes for a rehearsal
    precisions: Sequence[str] = ("float32",)
    has_index: bool = False  #: whether the last array is of ints below the first one's rows


_QUERIES, _FEW_QUERIES = [(8, 16, 1024, 64)] * 3, [(1, 2, 5, 4)] * 3
_ALL = ("float32", "TF32", "bfloat16")
_ROWS, _FEW_ROWS = [(1 << 16, 128), (1 << 16,)], [(6, 3), (6,)]

CASES: dict[str, Case] = {
    "conv2d, 3 × 3, 64 to 64 channels of 56 × 56, batch 32": Case(
        lambda f, x, w: f.conv2d(x, w, padding=1),
        [(32, 64, 56, 56), (64, 64, 3, 3)],
        [(2, 2, 6, 6), (2, 2, 3, 3)],
        _ALL,
    ),
    "conv2d, 1 × 1, 256 to 64 channels of 56 × 56, batch 32": Case(
        lambda f, x, w: f.conv2d(x, w),
        [(32, 256, 56, 56), (64, 256, 1, 1)],
        [(2, 2, 6, 6), (2, 2, 1, 1)],
        _ALL,
    ),
    "conv2d, 3 × 3, 256 to 256 channels of 28 × 28, batch 64": Case(
        lambda f, x, w: f.conv2d(x, w, padding=1),
        [(64, 256, 28, 28), (256, 256, 3, 3)],
        [(2, 2, 6, 6), (2, 2, 3, 3)],
        _ALL,
    ),
    "max_pool2d, 2 × 2, of 64 × 64 channels of 56 × 56": Case(
        lambda f, x: f.max_pool2d(x, 2),
        [(64, 64, 56, 56)],
        [(2, 2, 6, 6)],
    ),
    "avg_pool2d, 2 × 2, of 64 × 64 channels of 56 × 56": Case(
        lambda f, x: f.avg_pool2d(x, 2),
        [(64, 64, 56, 56)],
        [(2, 2, 6, 6)],
    ),
    "attention, causal, 8 × 16 heads of 1,024 × 64": Case(
        lambda f, q, k, v: f.scaled_dot_product_attention(q, k, v, **{"causal" if f is ours else "is_causal": True}),
        _QUERIES,
        _FEW_QUERIES,
        _ALL,
    ),
    "attention, causal, 16 heads of 8,192 × 64": Case(
        lambda f, q, k, v: f.scaled_dot_product_attention(q, k, v, **{"causal" if f is ours else "is_causal": True}),
        [(1, 16, 8192, 64)] * 3,
        _FEW_QUERIES,
        _ALL,
    ),
    "linear, 4,096 rows of 1,024 numbers to 1,024": Case(
        lambda f, x, w, b: f.linear(x, w, b),
        [(4096, 1024), (1024, 1024), (1024,)],
        [(3, 4), (4, 4), (4,)],
        _ALL,
    ),
    "index_add of 65,536 rows of 128": Case(lambda f, x, i: x.index_add(0, i, x), _ROWS, _FEW_ROWS, has_index=True),
    "cumsum along rows of 2,048": Case(lambda f, x: x.cumsum(1), [(16384, 2048)], [(3, 4)]),
    "sort of rows of 2,048": Case(lambda f, x: x.sort(1)[0], [(16384, 2048)], [(3, 4)]),
}


def sections(effort: Effort) -> list[Section]:
    """Measure forward passes, and forward and backward passes together."""
    lines = [
        line
        for name, case in CASES.items()
        for precision in case.precisions
        for line in _lines(name if len(case.precisions) == 1 else f"{name}, {precision}", case, precision, effort)
    ]
    columns = ["burnpy", *["torch"] * (torch() is not None)]
    how = f"float32 unless another precision is named; ratios are burnpy's time over PyTorch's. {why_no_torch()}"
    return [Section("Operations", how, "ms", columns, lines)]


def _lines(name: str, case: Case, precision: str, effort: Effort) -> list[Line]:
    call, shapes = case.call, case.few if effort.small else case.shapes
    rng = np.random.default_rng(0)
    arrays: list[Any] = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    if case.has_index:
        arrays[-1] = rng.integers(0, len(arrays[0]), arrays[-1].shape)
    is_half = precision == "bfloat16"  # the dtype of the tensors, not of operands that are rounded in each call
    plain, (leaf, *rest) = (
        [
            tensor(a, device).to_dtype("bfloat16") if is_half and a.dtype.kind == "f" else tensor(a, device)
            for a in arrays
        ]
        for device in (CuPy, Autodiff[CuPy])
    )
    leaf = leaf.require_grad()
    forward: dict[str, Any] = {"burnpy": (lambda: call(ours, *plain), wait)}
    both: dict[str, Any] = {"burnpy": (lambda: call(ours, leaf, *rest).sum().backward(), wait)}
    if torch() is not None:
        functions = torch().nn.functional
        theirs = [torch_tensor(a).bfloat16() if is_half else torch_tensor(a) for a in arrays]
        first = theirs[0].clone().requires_grad_()
        forward["torch"] = (lambda: call(functions, *theirs), wait)
        both["torch"] = (lambda: torch().autograd.grad(call(functions, first, *theirs[1:]).sum(), first), wait)
        torch_precision("TF32" if precision == "TF32" else "float32")
    with CuPy.tf32(precision == "TF32"):
        return [_line(name, forward, effort), _line(f"{name}, with gradient", both, effort)]


def _line(name: str, runs: dict[str, Any], effort: Effort) -> Line:
    times = measured(name, runs, effort)
    return Line(name, {column: times.cell(column, 1e3) for column in runs}, times.ratio("burnpy", "torch"), None)
