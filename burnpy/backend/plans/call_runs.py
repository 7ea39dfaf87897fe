"""`CallRun`: launches that follow each other in a replay, as one call of compiled code.

While a run is open, statements that prepare memory and arguments are written before it, and those that drop values wait
for its end. Any other statement ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnpy.backend.plans.executor import Launch, Number
from burnpy.backend.plans.source import Source
from burnpy.backend.plans.storage import Storage


class CallRun:
    """The open run of a replay.

    Args:
        source: the replay.
        storage: the memory of the plan.
    """

    def __init__(self, source: Source, storage: Storage) -> None:
        self._source, self._storage = source, storage
        self._calls: list[Any] = []
        self._launches: list[tuple[Launch, Sequence[str], Sequence[Number], Sequence[str]]] = []
        self._names: dict[str, None] = {}  # of all arrays that the calls use
        self._written: set[str] = set()
        self._later: list[str] = []

    def add(
        self,
        launch: Launch,
        arrays: Sequence[str],
        results: Sequence[str],
        numbers: Sequence[Number] = (),
        scratch: Sequence[str] = (),
    ) -> None:
        """Add a launch, which ends the run if Python has to make it."""
        given = [*arrays, *results]
        calls = launch.calls(given, numbers, scratch)
        if calls is None:
            self.end()
            launch.write(self._source, given, numbers, scratch)
            return
        self._calls += calls
        self._launches.append((launch, given, numbers, scratch))
        self._written.update(results)
        self._names.update(dict.fromkeys([*given, *[number.name for number in numbers], *scratch]))

    def writes(self, name: str) -> bool:
        """Return whether the run has yet to write an array."""
        return name in self._written

    def drop(self, names: Sequence[str]) -> None:
        """Write that values are needed no longer, after the run."""
        line = " = ".join(names) + " = None"
        if self._calls:
            self._later.append(line)
        else:
            self._source.write(line)

    def end(self) -> None:
        """Write the run as one statement."""
        if not self._calls:
            return
        kept, bound = self._storage.models, self._source.objects
        given = [name for name in self._names if name not in kept and name not in bound]
        joined = self._storage.executor.joined(self._calls, given)
        if joined is not None:
            self._source.write(f"{self._storage.join(joined)}({', '.join(given)})")
        else:
            for launch, arrays, numbers, scratch in self._launches:
                launch.write(self._source, arrays, numbers, scratch)
        for line in self._later:
            self._source.write(line)
        self._calls, self._launches, self._names, self._written, self._later = [], [], {}, set(), []
