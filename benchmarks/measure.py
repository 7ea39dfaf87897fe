"""What is measured in one process, and what is made of the figures of several: medians with their spread."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from statistics import median
from time import process_time
from timeit import Timer
from typing import Any, TypeAlias

from benchmarks.peers import Key

Said: TypeAlias = Callable[[str], None]
"""Shows what is being measured."""

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


class Notebook:
    """Where a process enters what it measures. What fails is entered as an error, and the rest goes on.

    Args:
        turn: called with the key of what is measured next; returns when it is this process's turn.
    """

    def __init__(self, turn: Callable[[Key], None] = lambda key: None) -> None:
        self.turn = turn
        self.values: dict[str, float] = {}
        self.errors: dict[str, str] = {}

    def enter(self, key: Key, measured: Callable[[], float]) -> None:
        """Measure one thing, when it is this process's turn; the least of what was measured under one key counts."""
        self.turn(key)
        try:
            self.values[key] = min(measured(), self.values.get(key, inf))
        except Exception as error:
            self.errors[key] = f"{type(error).__name__}: {error}".split("\n")[0][:160]


def seconds_each(statement: str, names: dict[str, Any], seconds: float) -> float:
    """The processor's seconds that a statement takes, in a loop that takes about ``seconds``."""
    timer = Timer(statement, "gc.enable()", process_time, {**names, "gc": gc})  # timeit would switch it off
    timer.timeit(1)
    once = timer.timeit(20) / 20
    loops = max(1, int(seconds / once))
    return timer.timeit(loops) / loops


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
