"""The engine without workers: a batch is made when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from burnpy.data.engines.base import Engine, Work


class SerialEngine(Engine[Any]):
    """Does the work in the thread that asks for it."""

    def __init__(self, work: Work, tasks: Iterator[Any]) -> None:
        self._work, self._tasks = work, tasks

    def next(self) -> Any:
        """The result of the next task, made now."""
        return self._work(next(self._tasks), _never)

    def close(self) -> None:
        """Forget the tasks."""
        self._tasks = iter(())


def _never() -> bool:
    return False
