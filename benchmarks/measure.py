"""Measuring in one process, and combining the figures of several processes: medians with their spread."""

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
"""A function that shows the current measurement."""

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
THREADS = min(2, os.cpu_count() or 1)
TWO_THREADS = dict.fromkeys(ONE_THREAD, str(THREADS)) | {"OMP_PROC_BIND": "true", "OMP_PLACES": "cores"}


@dataclass(frozen=True)
class Effort:
    """The amount of measuring."""

    processes: int  #: fresh processes for each peer
    seconds: float  #: time for each tiny operation and each short chain, in each process
    nodes: tuple[int, ...]  #: lengths of chains
    steps: int  #: training steps
    compilers: bool = True  #: whether to measure peers that compile, which takes them longer than the measurements


FULL = Effort(processes=5, seconds=0.05, nodes=(1_000, 10_000, 100_000, 1_000_000), steps=60)
QUICK = Effort(processes=3, seconds=0.02, nodes=(1_000, 10_000, 100_000), steps=20, compilers=False)
SMOKE = Effort(processes=1, seconds=0.0, nodes=(10, 20), steps=3)


@dataclass(frozen=True)
class Spread:
    """A median over processes, with the smallest and the largest value."""

    middle: float
    low: float
    high: float

    @staticmethod
    def of(values: Iterable[float]) -> Spread | None:
        """Return the spread of some values; None if there are no values."""
        numbers = list(values)
        return Spread(median(numbers), min(numbers), max(numbers)) if numbers else None

    def times(self, factor: float) -> Spread:
        """Return the spread multiplied by a factor, to convert units."""
        return Spread(self.middle * factor, self.low * factor, self.high * factor)


@dataclass
class Figures:
    """The results of the processes: for each column, a mapping from key to value for each turn."""

    turns: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    errors: dict[str, dict[str, str]] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)

    def of(self, column: str, key: Key) -> Spread | None:
        """Return the spread of one figure over all turns."""
        return Spread.of(turn[key] for turn in self.turns.get(column, []) if key in turn)

    def ratio(self, ours: tuple[str, Key], theirs: tuple[str, Key]) -> Spread | None:
        """Return the spread of the ratio of two figures, computed within each turn."""
        turns = zip(self.turns.get(ours[0], []), self.turns.get(theirs[0], []), strict=False)
        return Spread.of(a[ours[1]] / b[theirs[1]] for a, b in turns if ours[1] in a and theirs[1] in b)


class Notebook:
    """The record of a process's measurements. A failed measurement is recorded as an error, and the others continue.

    Args:
        turn: a function called with the key of the next measurement, which returns when it is this process's turn.
    """

    def __init__(self, turn: Callable[[Key], None] = lambda key: None) -> None:
        self.turn = turn
        self.values: dict[str, float] = {}
        self.errors: dict[str, str] = {}

    def enter(self, key: Key, measured: Callable[[], float]) -> None:
        """Measure and record a figure when it is this process's turn; of several for one key the minimum counts."""
        self.turn(key)
        try:
            self.values[key] = min(measured(), self.values.get(key, inf))
        except Exception as error:  # of any peer; the report shows it in place of the figure
            self.errors[key] = f"{type(error).__name__}: {error}".split("\n")[0][:160]


def seconds_each(statement: str, names: dict[str, Any], seconds: float) -> float:
    """Return the processor time of a statement in seconds, from a loop that takes about ``seconds``."""
    timer = Timer(statement, "gc.enable()", process_time, {**names, "gc": gc})  # timeit disables the collector
    timer.timeit(1)
    once = timer.timeit(20) / 20
    loops = max(1, int(seconds / once))
    return timer.timeit(loops) / loops


def resident(what: str) -> float:
    """Return the resident set in bytes: "VmRSS" for the current one, "VmHWM" for the peak. Linux only."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what):
            return float(line.split()[1]) * 1024
    raise LookupError(what)


def forget_peak() -> None:
    """Reset VmHWM, if the kernel permits it; otherwise it includes the peak of the imports."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
