"""The rates that the GPU reaches: of copying memory, and of multiplying large matrices, by CuPy, burnpy and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.gpu.libraries import PRECISIONS, cupy, tensor, torch, torch_precision, torch_tensor, wait, why_no_torch
from benchmarks.gpu.timing import Effort, Times, measured
from benchmarks.measure import Spread
from benchmarks.report import Cell, Line, Section

COPIED = 1 << 28
"""The elements of float32 that are copied, 1 GiB."""
SIDE = 8192
"""The rows and columns of the matrices."""
BUDGET = 1.05
"""The budget of a large product, as a ratio to PyTorch's time."""


def copy_seconds(effort: Effort) -> float:
    """Return the seconds that copying takes for each byte that is read or written, at best."""
    count = 1 << 10 if effort.small else COPIED
    module = cupy()
    source, target = module.zeros(count, "float32"), module.empty(count, "float32")
    times = measured("copy", {"copy": (lambda: module.copyto(target, source), wait)}, effort)
    return min(times.rounds["copy"]) / (8 * count)


def sections(effort: Effort) -> list[Section]:
    """Measure both rates."""
    columns = ["CuPy", "burnpy", *["torch"] * (torch() is not None)]
    each = copy_seconds(effort)
    bandwidth = Section(
        "Copying memory",
        f"{4 * (1 << 10 if effort.small else COPIED) >> 20:,} MiB of float32, read and written, by CuPy.",
        "GB/s",
        ["CuPy"],
        [Line("copy", {"CuPy": Spread(1e-9 / each, 1e-9 / each, 1e-9 / each)}, None, None)],
    )
    side = 8 if effort.small else SIDE
    how = f"{side:,} × {side:,} matrices of float32; ratios are burnpy's time over PyTorch's. {why_no_torch()}"
    lines = [_product(precision, side, columns, effort) for precision in PRECISIONS]
    return [bandwidth, Section("Large products", how, "TFLOP/s", columns, lines)]


def _product(precision: str, side: int, columns: list[str], effort: Effort) -> Line:
    array = np.random.default_rng(0).standard_normal((side, side)).astype(np.float32)
    device, context = PRECISIONS[precision]
    x = tensor(array, device.device().inner)
    runs: dict[str, Any] = {"burnpy": (lambda: x @ x, wait)}
    if precision == "float32":
        plain = cupy().asarray(array)
        runs["CuPy"] = (lambda: plain @ plain, wait)
    if torch() is not None:
        theirs = torch_tensor(array)
        theirs = theirs.bfloat16() if precision == "bfloat16" else theirs
        torch_precision(precision)
        runs["torch"] = (lambda: theirs @ theirs, wait)
    with context():
        times = measured(precision, runs, effort)
    cells: dict[str, Cell] = {column: _rate(times, column, 2 * side**3) for column in columns}
    return Line(precision, cells, times.ratio("burnpy", "torch"), BUDGET)


def _rate(times: Times, column: str, operations: float) -> Cell:
    """Return the operations per second of a column, in units of 10¹², from its spread of seconds."""
    cell = times.cell(column, 1.0)
    if not isinstance(cell, Spread):
        return cell
    return Spread(*(operations / seconds / 1e12 for seconds in (cell.middle, cell.high, cell.low)))
