"""Measuring work on a GPU: libraries take turns, and each queues a number of runs and then waits for the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any, TypeAlias

from benchmarks.measure import Spread

Run: TypeAlias = Callable[[], Any]


@dataclass(frozen=True)
class Effort:
    """The amount of measuring."""

    seconds: float  #: of a library's turn
    rounds: int  #: turns of each library
    small: bool  #: whether the sizes are tiny, to see that everything runs


FULL = Effort(seconds=0.05, rounds=5, small=False)
REHEARSAL = Effort(seconds=0.0, rounds=1, small=True)


@dataclass(frozen=True)
class Times:
    """The seconds that a run takes, by round, for each column; a sentence for one that failed."""

    rounds: Mapping[str, list[float]]
    errors: Mapping[str, str]

    def cell(self, column: str, factor: float) -> Spread | str | None:
        """Return the spread of a column, or the reason why there is none."""
        if column in self.errors:
            return f"fails: {self.errors[column]}"
        spread = Spread.of(self.rounds.get(column, []))
        return spread.times(factor) if spread else None

    def ratio(self, ours: str, theirs: str) -> Spread | None:
        """Return the spread of the ratio of two columns within each round."""
        pairs = zip(self.rounds.get(ours, []), self.rounds.get(theirs, []), strict=False)
        return Spread.of(a / b for a, b in pairs)

    def over(self, column: str, seconds: float) -> Spread | None:
        """Return the spread of a column's times divided by a number of seconds."""
        return Spread.of(a / seconds for a in self.rounds.get(column, []))


def measured(work: str, runs: Mapping[str, tuple[Run, Run]], effort: Effort) -> Times:
    """Measure runs in turns, and print the times at once, so that they are known if the process is ended.

    Args:
        work: what runs.
        runs: for each column what runs, and what waits for the device.
        effort: the amount of measuring.
    """
    counts: dict[str, int] = {}
    errors: dict[str, str] = {}
    rounds: dict[str, list[float]] = {column: [] for column in runs}
    for column, (run, wait) in runs.items():
        try:
            _timed(run, wait, 1)  # compiles kernels
            probes = 1 if effort.small else 3
            once = _timed(run, wait, probes) / probes
        except Exception as error:  # of any library; the report shows it in place of the figure
            errors[column] = f"{type(error).__name__}: {error}".split("\n")[0][:160]
            continue
        counts[column] = min(max(int(effort.seconds / once), 1), 2000)
    for _ in range(effort.rounds):
        for column, count in counts.items():
            run, wait = runs[column]
            rounds[column].append(_timed(run, wait, count) / count)
    told = [f"{column} {1e3 * median(times):.4g} ms" for column, times in rounds.items() if times]
    print(
        f"{work}: {', '.join([*told, *[f'{column} fails: {error}' for column, error in errors.items()]])}", flush=True
    )
    return Times(rounds, errors)


def _timed(run: Run, wait: Run, count: int) -> float:
    wait()
    begin = perf_counter()
    for _ in range(count):
        run()
    wait()
    return perf_counter() - begin
