"""A loader's processes between two epochs. The next epoch uses them again if its work is the same."""

from __future__ import annotations

import os
import weakref
from typing import Any, NamedTuple

from burnpy.data.engines.layout import Packed


class Idle(NamedTuple):
    """Processes that wait for tasks, and the memory with their work."""

    workers: list[Any]
    memory: Any
    sizes: list[int]


class Kept:
    """Holds processes that have done their tasks; ends them when it is closed or dropped, and when the program ends."""

    def __init__(self) -> None:
        self._idle: list[Idle] = []  # at most one
        self._owner = os.getpid()
        weakref.finalize(self, _end, self._idle, self._owner)

    def take(self, work: Packed, count: int) -> Idle | None:
        """Return the processes if they have the same work and number at least ``count``; otherwise end them.

        The work is packed anew and compared, so that a dataset that was changed reaches the processes.
        """
        if not self._idle or os.getpid() != self._owner:  # in a fork of the program, whose processes these are not
            return None
        idle = self._idle[0]
        alive = all(worker.process.is_alive() for worker in idle.workers)
        if alive and len(idle.workers) >= count and work.is_in(idle.memory, idle.sizes):
            return self._idle.pop()
        self.close()
        return None

    def give(self, idle: Idle) -> bool:
        """Keep processes, unless there are some already; return whether they are kept."""
        if not self._idle:
            self._idle.append(idle)
            return True
        return False

    def close(self) -> None:
        """End the processes."""
        _end(self._idle, self._owner)

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, ()


def ended(workers: list[Any]) -> None:
    """End processes, all at the same time."""
    for worker in workers:
        worker.end()
    for worker in workers:
        worker.join()


def _end(idle: list[Idle], owner: int) -> None:
    while idle:
        workers = idle.pop().workers
        if os.getpid() == owner:
            ended(workers)
