"""The start and the end of a loader's processes, which the next epoch uses again if its work is the same.

Forking a program with threads can deadlock; where there is no fork server, processes are spawned.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import weakref
from importlib import import_module
from typing import Any, NamedTuple

from burnpy.backend.errors import ArgumentError, WorkerError
from burnpy.data.engines.shared_memory import Packed

_UNGUARDED = 79  # the exit status of a process that would start processes while it imports the program


def context_for(*programs: str) -> Any:
    """Return the context that starts processes: a fork server with the modules of ``programs``, or else spawning.

    Each process is then a fork of the server, and imports nothing but the main program. All share one server. It
    imports the modules requested before it started; a list of imports that the main program has chosen is left as it
    is.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    server = import_module("multiprocessing.forkserver")
    chosen = getattr(getattr(server, "_forkserver", None), "_preload_modules", None)
    if chosen is not None and all(name == "__main__" or name.startswith("burnpy.") for name in chosen):
        context.set_forkserver_preload([*dict.fromkeys([*chosen, *programs])])
    return context


def refuse_unable(otherwise: str) -> None:
    """Refuse to start processes where there is no way to, or while a process imports the program that started it.

    Args:
        otherwise: what to do instead, such as "use engine='threads'", for the message.
    """
    current: Any = multiprocessing.current_process()
    if getattr(current, "_inheriting", False):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_UNGUARDED)  # an exception would only be printed, and its status be lost
    if not hasattr(socket, "send_fds"):
        raise ArgumentError(f"engine='processes' needs a system that passes files to processes; {otherwise}")
    if current.daemon:
        raise WorkerError(f"a daemon process may start no processes; {otherwise} in it")


def unguarded(process: Any) -> bool:
    """Return whether a process ended because the program that it imported starts processes."""
    return bool(process.exitcode == _UNGUARDED)


def ending(process: Any) -> str:
    """Return how a process ended: "was killed by SIGKILL", "ended with status 1"; it is waited for briefly."""
    process.join(5)
    status = process.exitcode
    if status is None:
        return "stopped answering"
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"ended with status {status}"


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
