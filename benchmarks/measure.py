"""Measuring in fresh processes that take turns, and what is made of their figures: medians with their spread."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from time import process_time
from timeit import Timer
from typing import Any

from benchmarks.peers import Key, installed

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
THREADS = min(2, os.cpu_count() or 1)
TWO_THREADS = dict.fromkeys(ONE_THREAD, str(THREADS)) | {"OMP_PROC_BIND": "true", "OMP_PLACES": "cores"}


@dataclass(frozen=True)
class Effort:
    """How much to measure."""

    processes: int  #: fresh processes for each peer
    seconds: float  #: for each tiny operation and each short chain, in each process
    nodes: tuple[int, ...]  #: lengths of chains
    steps: int  #: of training


FULL = Effort(processes=5, seconds=0.05, nodes=(1_000, 10_000, 100_000, 1_000_000), steps=60)
QUICK = Effort(processes=3, seconds=0.02, nodes=(1_000, 10_000, 100_000), steps=20)
SMOKE = Effort(processes=1, seconds=0.0, nodes=(10, 20), steps=3)


@dataclass(frozen=True)
class Spread:
    """A median over processes, with the smallest and the largest value."""

    middle: float
    low: float
    high: float

    @staticmethod
    def of(values: Iterable[float]) -> Spread | None:
        """Of some values; None of none."""
        found = list(values)
        return Spread(median(found), min(found), max(found)) if found else None

    def times(self, factor: float) -> Spread:
        """In another unit."""
        return Spread(self.middle * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True)
class Job:
    """What one process measures: the name of a module here, the peer, and how."""

    module: str
    peer: str
    environment: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Figures:
    """What the processes found: for each column, one mapping from key to value for each turn."""

    turns: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    errors: dict[str, dict[str, str]] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)

    def of(self, column: str, key: Key) -> Spread | None:
        """One figure, over all turns."""
        return Spread.of(turn[key] for turn in self.turns.get(column, []) if key in turn)

    def ratio(self, ours: tuple[str, Key], theirs: tuple[str, Key]) -> Spread | None:
        """One figure over another, formed within each turn."""
        turns = zip(self.turns.get(ours[0], []), self.turns.get(theirs[0], []), strict=False)
        return Spread.of(a[ours[1]] / b[theirs[1]] for a, b in turns if ours[1] in a and theirs[1] in b)


def collect(jobs: Mapping[str, Job], effort: Effort, said: Callable[[str], None]) -> Figures:
    """Run every job in ``effort.processes`` fresh processes, taking turns, each turn begun by another job."""
    figures = Figures(missing={column for column, job in jobs.items() if not installed(job.peer)})
    present = [column for column in jobs if column not in figures.missing]
    for turn in range(effort.processes):
        first = turn % max(len(present), 1)
        for column in present[first:] + present[:first]:
            said(f"{jobs[column].module}: {column}, process {turn + 1} of {effort.processes}")
            values, errors = in_a_process(jobs[column], effort)
            figures.turns.setdefault(column, []).append(values)
            figures.errors.setdefault(column, {}).update(errors)
    return figures


def in_a_process(job: Job, effort: Effort) -> tuple[dict[str, float], dict[str, str]]:
    """The figures that a fresh process found, and what it could not measure, and why."""
    request = json.dumps({"module": job.module, "peer": job.peer, "options": job.options, "effort": asdict(effort)})
    command = [sys.executable, "-m", "benchmarks.worker", request]
    done = subprocess.run(command, env={**os.environ, **job.environment}, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return {}, {"": lines[-1] if lines else f"ended with status {done.returncode}"}
    answer = json.loads(done.stdout.splitlines()[-1])
    return answer["values"], answer["errors"]


class Notebook:
    """Where a process enters what it measures. What fails is entered as an error, and the rest goes on."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.errors: dict[str, str] = {}

    def enter(self, key: Key, measured: Callable[[], float]) -> None:
        """Measure one thing."""
        try:
            self.values[key] = measured()
        except Exception as error:
            self.errors[key] = f"{type(error).__name__}: {error}".split("\n")[0][:160]


def seconds_each(statement: str, names: dict[str, Any], seconds: float) -> float:
    """The processor's seconds that a statement takes: the best of five loops, which together take about ``seconds``."""
    timer = Timer(statement, "gc.enable()", process_time, {**names, "gc": gc})  # timeit would switch it off
    timer.timeit(1)
    once = timer.timeit(20) / 20
    loops = max(1, int(seconds / 5 / once))
    return min(timer.repeat(5 if seconds else 1, loops)) / loops


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
