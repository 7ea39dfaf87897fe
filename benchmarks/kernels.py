"""Benchmark of large softmax, layer norm and cross entropy, which PyTorch has fused kernels for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measure import ONE_THREAD, Effort, Figures, Notebook
from benchmarks.networks import best, functional
from benchmarks.peers import Peer
from benchmarks.processes import Job, collect
from benchmarks.report import Line, Section
from benchmarks.roofline import MACHINE, Amount
from benchmarks.roofline import job as machine_job

PEERS = ("burnpy", "torch")
ROWS, COLUMNS = 4096, 1024
BUDGET = 1.0
ROUNDS = 5
"""The number of measurements of each case in a process; the best one counts."""

CASES: dict[str, tuple[Callable[[Any, Any, Any], Any], int, int]] = {
    "softmax": (lambda functions, x, labels: x.softmax(-1), 2, 3),
    "layer_norm": (lambda functions, x, labels: functions.layer_norm(x, x.shape[1:]), 2, 3),
    "cross_entropy": (lambda functions, x, labels: functions.cross_entropy(x, labels), 1, 2),
}
"""Functions of a library's functions, a matrix and labels; how many matrices the forward pass reads and writes at
least, and how many the backward pass."""


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure a peer, in its own process."""
    rows, columns = (ROWS, COLUMNS) if effort.seconds else (8, 8)
    rng = np.random.default_rng(0)
    array = rng.standard_normal((rows, columns)).astype(np.float32)
    index = rng.integers(0, columns, rows)
    functions, total = functional(peer), peer.total
    plain, labels = peer.untracked({"x": array})["x"], peer.ints(index, tracked=False)
    forward = {name: partial(f, functions, plain, labels) for name, (f, *_) in CASES.items()}
    _enter(notebook, forward, "forward", effort)
    leaf, labels = peer.tracked({"x": array})["x"], peer.ints(index, tracked=True)
    both = {
        name: partial(peer.gradients, lambda x, f=f: total(f(functions, x, labels)), [leaf])
        for name, (f, *_) in CASES.items()
    }
    _enter(notebook, both, "both", effort)


def _enter(notebook: Notebook, runs: Mapping[str, Callable[[], Any]], what: str, effort: Effort) -> None:
    for _ in range(ROUNDS if effort.seconds else 1):
        for name, run in runs.items():
            notebook.enter(f"{name}/{what}", partial(best, run, effort.seconds))


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure both peers."""
    jobs = {name: Job("kernels", name, ONE_THREAD, {}) for name in PEERS} | {MACHINE: machine_job(ONE_THREAD)}
    figures = collect(jobs, effort, said)
    lines = [_line(figures, name, what) for name in CASES for what in ("forward", "both")]
    how = f"{ROWS:,} × {COLUMNS:,} float32, one thread, processor time, the best of several runs."
    return [Section("Large rows", how, "ms", list(PEERS), lines)]


def _line(figures: Figures, name: str, what: str) -> Line:
    key = f"{name}/{what}"
    _, forward, backward = CASES[name]
    moved = Amount(bytes=4.0 * ROWS * COLUMNS * (forward if what == "forward" else forward + backward))
    ratio = figures.ratio(("burnpy", key), ("torch", key))
    work = name if what == "forward" else f"{name}, with gradients"
    line = Line.of(work, figures, dict.fromkeys(PEERS, key), 1e3, ratio, BUDGET)
    return replace(line, roofline=moved.share(figures, "burnpy", key))
