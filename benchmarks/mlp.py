"""A step of training of an MLP, 784-512-512-10 with ReLU and cross entropy, batch 128, float32.

The same data and first weights for each peer; the losses are compared step by step. PyTorch uses its own optimizers,
which work in place; burnpy's are written by hand as arithmetic of immutable tensors. Each peer and optimizer has its
own process, with memory as users have it (burnpy's NumPy backend tells glibc to keep what is freed), and the other way.
Peak memory is the peak resident set during the steps, less the resident set after the import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.measure import ONE_THREAD, THREADS, TWO_THREADS, Effort, Figures, Job, Notebook, collect
from benchmarks.peers import Peer
from benchmarks.report import Line, Section

SIZES, BATCH, BATCHES = (784, 512, 512, 10), 128, 8
PHASES = ("forward", "backward", "update", "step")
OPTIMIZERS = ("SGD", "Adam")
GLIBC = {"BURNPY_MALLOPT": "0"}
KEEP = {
    "GLIBC_TUNABLES": ":".join(
        f"glibc.malloc.{name}={value}"
        for name, value in {"mmap_threshold": 256 << 20, "trim_threshold": 512 << 20, "arena_max": 1}.items()
    )
}
"""What `burnpy_numpy.allocator` sets, for a peer that does not."""

COLUMNS = {
    "burnpy": ("burnpy", {}),
    "burnpy, default malloc": ("burnpy", GLIBC),
    "torch": ("torch", {}),
    "torch, burnpy's malloc": ("torch", KEEP),
}


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure a peer, in its own process."""
    imported = resident("VmRSS")
    forget_peak()
    rng = np.random.default_rng(0)
    weights = []
    for inputs, outputs in pairwise(SIZES):
        weights.append(rng.normal(0.0, (2 / inputs) ** 0.5, (inputs, outputs)).astype(np.float32))
        weights.append(np.zeros(outputs, np.float32))
    images = rng.uniform(0.0, 1.0, (BATCHES, BATCH, SIZES[0])).astype(np.float32)
    labels = rng.integers(0, SIZES[-1], (BATCHES, BATCH))
    training = peer.training(weights, images, labels, options["optimizer"])
    clock = process_time if options["threads"] == 1 else perf_counter
    found: dict[str, list[float]] = {phase: [] for phase in PHASES}
    for step in range(effort.steps):
        start = clock()
        training.forward(step % BATCHES)
        forward = clock()
        training.backward()
        backward = clock()
        training.update()
        end = clock()
        for name, seconds in zip(
            PHASES, (forward - start, backward - forward, end - backward, end - start), strict=True
        ):
            found[name].append(seconds)
        notebook.values[f"loss/{step}"] = training.loss()
    for name, values in found.items():
        notebook.values[name] = median(values[len(values) // 4 :])  # the first steps warm up
    notebook.enter("memory", lambda: resident("VmHWM") - imported)


def resident(what: str) -> float:
    """The resident set in bytes: VmRSS now, or VmHWM at its peak. Linux only."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what):
            return float(line.split()[1]) * 1024
    raise LookupError(what)


def forget_peak() -> None:
    """Let VmHWM begin anew, where the kernel permits it; otherwise the import's own peak is in it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure all peers."""
    found = {}
    for threads, environment in ((1, ONE_THREAD), (THREADS, TWO_THREADS)):
        for optimizer in OPTIMIZERS:
            jobs = {
                column: Job("mlp", peer, {**environment, **more}, {"optimizer": optimizer, "threads": threads})
                for column, (peer, more) in COLUMNS.items()
            }
            found[optimizer, threads] = collect(jobs, effort, said)
    last = {optimizer: found[optimizer, THREADS] for optimizer in OPTIMIZERS}
    times = [_times(figures, optimizer, threads) for (optimizer, threads), figures in found.items()]
    return [*times, _memory(last), _losses(last, effort)]


def _times(figures: Figures, optimizer: str, threads: int) -> Section:
    lines = [_line(figures, phase, phase, 1e3, 1.5 if phase == "step" else None) for phase in PHASES]
    lines += _same_allocator(figures, "step", "step")
    clock = "one thread, processor time" if threads == 1 else f"{threads} threads bound to cores, by the clock"
    how = f"784-512-512-10, batch 128, {clock}; torch.optim.{optimizer}, ours written by hand."
    return Section(
        f"MLP, {optimizer}, {threads} {'thread' if threads == 1 else 'threads'}", how, "ms", list(COLUMNS), lines
    )


def _line(figures: Figures, work: str, key: str, factor: float, budget: float | None) -> Line:
    """Each as its users run it."""
    ratio = figures.ratio(("burnpy", key), ("torch", key))
    return Line.of(work, figures, dict.fromkeys(COLUMNS, key), factor, ratio, budget)


def _same_allocator(figures: Figures, work: str, key: str) -> list[Line]:
    """The ratios with both under one allocator's settings."""
    pairs = {
        "both with burnpy's malloc": ("burnpy", "torch, burnpy's malloc"),
        "both with the default malloc": ("burnpy, default malloc", "torch"),
    }
    ratios = {how: figures.ratio((ours, key), (theirs, key)) for how, (ours, theirs) in pairs.items()}
    return [Line(f"{work}, {how}", {}, ratio, None) for how, ratio in ratios.items()]


def _memory(found: Mapping[str, Figures]) -> Section:
    lines = []
    for optimizer, figures in found.items():
        lines.append(_line(figures, optimizer, "memory", 2.0**-20, 1.0))
        lines += _same_allocator(figures, optimizer, "memory")
    how = (
        f"Peak resident set during the steps less the resident set after the import; {THREADS} threads; glibc's malloc."
    )
    return Section("MLP, peak memory", how, "MiB", list(COLUMNS), lines)


def _losses(found: Mapping[str, Figures], effort: Effort) -> Section:
    shown = sorted({0, 1, effort.steps // 2, effort.steps - 1})
    lines = []
    for optimizer, figures in found.items():
        columns = {name: name for name in ("burnpy", "torch")}
        for step in shown:
            keys = dict.fromkeys(columns, f"loss/{step}")
            lines.append(Line.of(f"{optimizer}, step {step + 1}", figures, keys, 1.0, None, None))
    apart = [
        abs(a[f"loss/{step}"] / b[f"loss/{step}"] - 1)
        for figures in found.values()
        for a, b in zip(figures.turns.get("burnpy", []), figures.turns.get("torch", []), strict=False)
        for step in range(effort.steps)
        if f"loss/{step}" in a and f"loss/{step}" in b
    ]
    how = f"Furthest apart in any step: {max(apart):.1e}, relative." if apart else "Not both were measured."
    return Section("MLP, losses", how, "", list(columns), lines, digits=6)
