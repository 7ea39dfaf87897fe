"""The choice of an engine by the number and kind of workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from burnpy.backend.errors import ArgumentError
from burnpy.data.engines.base import Engine, Work
from burnpy.data.engines.kept import Kept
from burnpy.tensor.tensor_base import describe


@dataclass(frozen=True)
class EngineChoice:
    """The settings of an engine: the number and kind of workers, and the number of batches made ahead."""

    workers: int
    engine: str
    prefetch: int

    @staticmethod
    def checked(workers: Any, engine: Any, prefetch: Any, owner: str) -> EngineChoice:
        """Return a checked choice.

        Raises:
            ArgumentError: a number is out of range, or there is no such engine.
        """
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < 0:
            raise ArgumentError(f"{owner} got workers={describe(workers)}; expected an int of at least 0")
        if engine not in ("threads", "processes"):
            raise ArgumentError(f"{owner} got engine={describe(engine)}; expected 'threads' or 'processes'")
        ahead = 2 * workers if prefetch is None else prefetch
        if isinstance(ahead, bool) or not isinstance(ahead, int) or ahead < (1 if workers else 0):
            raise ArgumentError(f"{owner} got prefetch={describe(prefetch)}; expected an int of at least 1")
        return EngineChoice(workers, engine, ahead)

    def opened(self, work: Work, tasks: Iterator[Any], count: int | None, kept: Kept) -> Engine[Any]:
        """Start an engine that does the work.

        Args:
            work: see `Work`.
            tasks: taken one by one, by one thread at a time.
            count: the number of tasks, where it is known.
            kept: what keeps processes until the next epoch.
        """
        workers = self.workers if count is None else min(self.workers, count)
        if not workers:
            from burnpy.data.engines.serial import SerialEngine

            return SerialEngine(work, tasks)
        if self.engine == "processes":
            from burnpy.data.engines.processes import ProcessEngine

            return ProcessEngine(work, tasks, workers, self.prefetch, kept)
        from burnpy.data.engines.threads import ThreadEngine

        return ThreadEngine(work, tasks, workers, self.prefetch)
