"""What makes batches: the interface of engines, and the choice of one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from burnpy.backend.errors import ArgumentError
from burnpy.tensor.base import describe

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Work: TypeAlias = Callable[[Any, Callable[[], bool]], Any]
"""A function of a task, and of a function that says whether nobody waits for the result any more."""


class Engine(ABC, Generic[R_co]):
    """Makes the results of tasks ahead, and gives them in the order of the tasks."""

    @abstractmethod
    def next(self) -> R_co:
        """The result of the next task.

        Raises:
            StopIteration: there is none.
            Exception: what the work raised.
        """

    @abstractmethod
    def close(self) -> None:
        """End all workers; may be called again."""


@dataclass(frozen=True)
class Settings:
    """How many workers make batches, of which kind, and how far ahead."""

    workers: int
    engine: str
    prefetch: int

    @staticmethod
    def checked(workers: Any, engine: Any, prefetch: Any, owner: str) -> Settings:
        """Return checked settings.

        Raises:
            ArgumentError: a number is out of range, or there is no such engine.
        """
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < 0:
            raise ArgumentError(f"{owner} was given workers={describe(workers)}; it takes an int of at least 0")
        if engine not in ("threads", "processes"):
            raise ArgumentError(f"{owner} was given engine={describe(engine)}; there are 'threads' and 'processes'")
        ahead = 2 * workers if prefetch is None else prefetch
        if isinstance(ahead, bool) or not isinstance(ahead, int) or ahead < (1 if workers else 0):
            raise ArgumentError(f"{owner} was given prefetch={describe(prefetch)}; it takes an int of at least 1")
        return Settings(workers, engine, ahead)

    def opened(self, work: Work, tasks: Iterator[Any], count: int | None) -> Engine[Any]:
        """Start an engine that does the work.

        Args:
            work: see `Work`.
            tasks: taken one by one, by one thread at a time.
            count: the number of tasks, where it is known.
        """
        workers = self.workers if count is None else min(self.workers, count)
        if not workers:
            from burnpy.data.engines.serial import SerialEngine

            return SerialEngine(work, tasks)
        if self.engine == "processes":
            from burnpy.data.engines.processes import ProcessEngine

            return ProcessEngine(work, tasks, workers, self.prefetch)
        from burnpy.data.engines.threads import ThreadEngine

        return ThreadEngine(work, tasks, workers, self.prefetch)
