"""Benchmark of matrix products of the sizes of training steps: x @ w, x @ w.T and x.T @ w, and of their memory.

Then products of bfloat16, and of int8 with results of int32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import matmul
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.measure import ONE_THREAD, THREADS, TWO_THREADS, Effort, Figures, Notebook, forget_peak, resident
from benchmarks.networks import best
from benchmarks.peers import Peer
from benchmarks.processes import Job, collect
from benchmarks.report import Line, Section

PEERS = ("burnpy", "torch")
BUDGET, SHARED = 1.05, 1.1
"""The budgets on one thread, and on two."""
MEMORY, PAGE = "peak memory", 4096
KINDS, WARM, TINY = ("x @ w", "x @ w.T", "x.T @ w"), (128, 128, 128), (8, 8, 8)
"""The kinds of products; the sizes of those before the measurements, and of those that only show that all runs."""
ROUNDS, REPEATED = 5, 10
"""The number of measurements of each case in a process, whose best one counts, and of products in each run."""

CASES: dict[str, tuple[str, int, int, int]] = {
    "forward, 1024 × 64 × 192": ("x @ w", 1024, 64, 192),
    "forward, 1024 × 256 × 64": ("x @ w", 1024, 256, 64),
    "forward, 128 × 784 × 512": ("x @ w", 128, 784, 512),
    "forward, 128 × 768 × 768": ("x @ w", 128, 768, 768),
    "forward, 128 × 3072 × 768": ("x @ w", 128, 3072, 768),
    "forward, 512 × 512 × 512": ("x @ w", 512, 512, 512),
    "by input, 1024 × 192 × 64": ("x @ w.T", 1024, 192, 64),
    "by input, 128 × 512 × 512": ("x @ w.T", 128, 512, 512),
    "by weight, 64 × 1024 × 256": ("x.T @ w", 64, 1024, 256),
    "by weight, 784 × 128 × 512": ("x.T @ w", 784, 128, 512),
    "8 rows, 8 × 768 × 3072": ("x @ w", 8, 768, 3072),
    "8 rows, weight transposed": ("x @ w.T", 8, 768, 3072),
}
"""The kind of each product of float32, its rows, inner dimension and columns."""
NARROW: dict[str, dict[str, tuple[str, int, int, int]]] = {
    "bfloat16": {
        "forward, 1024 × 256 × 64": ("x @ w", 1024, 256, 64),
        "forward, 128 × 784 × 512": ("x @ w", 128, 784, 512),
        "forward, 128 × 3072 × 768": ("x @ w", 128, 3072, 768),
        "forward, 1024 × 1024 × 1024": ("x @ w", 1024, 1024, 1024),
        "by input, 128 × 512 × 512": ("x @ w.T", 128, 512, 512),
        "by weight, 784 × 128 × 512": ("x.T @ w", 784, 128, 512),
        "8 rows, 8 × 768 × 3072": ("x @ w", 8, 768, 3072),
    },
    "int8": {
        "128 × 768 × 3072": ("x @ w", 128, 768, 3072),
        "128 × 3072 × 768": ("x @ w", 128, 3072, 768),
        "400 × 384 × 1536": ("x @ w", 400, 384, 1536),
        "8 × 768 × 3072": ("x @ w", 8, 768, 3072),
    },
}
"""The same of other dtypes. Those of bfloat16 are rounded to bfloat16, those of int8 are int32."""


def _operands(kind: str, m: int, k: int, n: int, dtype: str = "float32") -> tuple[Any, Any]:
    """Return the matrices as they are stored; those of bfloat16 as float32."""
    rng = np.random.default_rng(0)
    shapes = (k, m) if kind == "x.T @ w" else (m, k), (n, k) if kind == "x @ w.T" else (k, n)
    if dtype == "int8":
        return rng.integers(-128, 128, shapes[0], np.int8), rng.integers(-128, 128, shapes[1], np.int8)
    return rng.standard_normal(shapes[0]).astype(np.float32), rng.standard_normal(shapes[1]).astype(np.float32)


def _product(kind: str, x: Any, w: Any, multiplied: Callable[[Any, Any], Any] = matmul) -> Callable[[], None]:
    """Return a function that computes a product several times."""
    if kind == "x.T @ w":
        x = x.T
    if kind == "x @ w.T":
        w = w.T

    def run() -> None:
        for _ in range(REPEATED):
            multiplied(x, w)

    return run


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure a peer, in its own process."""
    clock = process_time if options["threads"] == 1 else perf_counter
    for kind in KINDS:  # what is loaded and compiled once is not the memory of products
        x, w = _operands(kind, *(WARM if effort.seconds else TINY))
        tensors = peer.untracked({"x": x, "w": w})
        _product(kind, tensors["x"], tensors["w"])()
    before = resident("VmRSS")
    forget_peak()
    runs: dict[str, Callable[[], None]] = {}
    for name, (kind, *sizes) in CASES.items():
        x, w = _operands(kind, *(sizes if effort.seconds else TINY))
        tensors = peer.untracked({"x": x, "w": w})
        runs[name] = _product(kind, tensors["x"], tensors["w"])
    _measure(runs, effort, notebook, clock)
    notebook.enter(MEMORY, lambda: max(resident("VmHWM") - before, PAGE))
    runs = {}
    for dtype, cases in NARROW.items():
        for name, (kind, *case) in cases.items():
            m, k, n = case if effort.seconds else TINY
            x, w = (peer.narrow(dtype, array) for array in _operands(kind, m, k, n, dtype))
            runs[f"{dtype}: {name}"] = _product(kind, x, w, peer.integer_product if dtype == "int8" else matmul)
    _measure(runs, effort, notebook, clock)


def _measure(
    runs: Mapping[str, Callable[[], None]], effort: Effort, notebook: Notebook, clock: Callable[[], float]
) -> None:
    """Measure functions in turns."""
    for _ in range(ROUNDS if effort.seconds else 1):
        for name, run in runs.items():
            notebook.enter(name, partial(best, run, effort.seconds / 4, clock))


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure both peers, on one thread and on two."""
    tables = []
    for threads, environment in ((1, ONE_THREAD), (THREADS, TWO_THREADS)):
        jobs = {name: Job("products", name, environment, {"threads": threads}) for name in PEERS}
        figures = collect(jobs, effort, said)
        clock = "one thread, processor time" if threads == 1 else f"{threads} threads bound to cores, by the clock"
        how = f"Float32 unless named, {clock} of {REPEATED} products, the best of several runs."
        budget = BUDGET if threads == 1 else SHARED
        lines = [_line(figures, f"{kind}, {name}", name, 1e3, budget) for name, (kind, *_) in CASES.items()]
        narrow = [(dtype, *case) for dtype, cases in NARROW.items() for case in cases.items()]
        lines += [
            _line(figures, f"{dtype}, {kind}, {name}", f"{dtype}: {name}", 1e3, None)
            for dtype, name, (kind, *_) in narrow
        ]
        title = "Matrix products" if threads == 1 else f"Matrix products, {threads} threads"
        tables.append(Section(title, how, "ms", list(PEERS), lines))
        if threads == 1:
            how = "Peak resident set less the resident set before the matrices are made, one thread."
            lines = [_line(figures, "all products", MEMORY, 2.0**-20, 1.0)]
            memory = Section("Matrix products, peak memory", how, "MiB", list(PEERS), lines)
    return [*tables, memory]


def _line(figures: Figures, work: str, key: str, factor: float, budget: float | None) -> Line:
    """Return the line of a figure of both peers."""
    ratio = figures.ratio(("burnpy", key), ("torch", key))
    return Line.of(work, figures, dict.fromkeys(PEERS, key), factor, ratio, budget)
