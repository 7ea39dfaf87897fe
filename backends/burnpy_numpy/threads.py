"""A second thread, and more, for large arrays: NumPy leaves the interpreter's lock while it works on one.

As many threads take part as ``BURNPY_NUM_THREADS`` says, or ``OPENBLAS_NUM_THREADS``, or ``OMP_NUM_THREADS``, the first
of these that is set when burnpy is imported; else as many as the process has processors. More than 8, which would wait
for each other at the lock, only where the first says so. With 1, everything happens in the caller's thread and none is
started.

What is computed depends on how the work is divided, where sums are, and never on who does it: if the threads are busy
with the work of another of the user's, the caller does all the parts itself, one after the other.
"""

from __future__ import annotations

import ctypes
import os
from _thread import allocate_lock
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from burnpy_numpy.openblas import one_thread, openblas

Work: TypeAlias = Callable[[int, int], None]

_MANY = 8
_VARIABLES = ("BURNPY_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def asked_for(environment: Mapping[str, str]) -> int:
    """How many threads the user wants."""
    for name in _VARIABLES:
        first = environment.get(name, "").split(",")[0].strip()  # OpenMP takes one number for each level
        if first.isdecimal() and int(first):
            return int(first) if name == _VARIABLES[0] else min(int(first), _MANY)
    try:
        return min(len(os.sched_getaffinity(0)), _MANY)
    except AttributeError:  # macOS, Windows
        return min(os.cpu_count() or 1, _MANY)


COUNT = asked_for(os.environ)
"""How many threads take part, with the caller's."""
BLOCK = 1 << 16 if COUNT == 1 else 1 << 17
"""How many elements to compute with at a time, so that what is computed on the way stays in the cache. Threads meet at
the interpreter's lock between one call of NumPy and the next, and lose what they gain where calls are short."""

_LEAST = 1 << 17
"""How many elements a part has at the least."""

_busy = allocate_lock()
_workers: list[_Worker] = []


def shared(work: Work, size: int, each: float = 1, *, products: bool = False) -> None:
    """Call ``work(start, stop)`` for parts of range(size) that cover it: one for each thread, as far as that pays.

    Args:
        work: computes a part, and writes nothing that another part reads or writes.
        size: of the whole.
        each: how many elements of arrays stand for one of range(size); fewer, where so little is done with them that
            memory sets the pace.
        products: whether matrices are multiplied. OpenBLAS then uses one thread in each of ours: its own wait for each
            other, and may not be called from several threads at once. Where it cannot be told, there is one part.

    Raises:
        BaseException: what ``work`` raised; all parts have ended then.
    """
    parts = 1 if products and openblas() is None else min(COUNT, size, int(size * each) // _LEAST)
    edges = [size * k // parts for k in range(parts + 1)] if parts > 1 else []
    with alone(products):
        if not edges:
            work(0, size)
            return
        if not _busy.acquire(False):
            for k in range(parts):
                work(edges[k], edges[k + 1])
            return
        try:
            while len(_workers) < parts - 1:
                _workers.append(_Worker())
            _together(work, edges, _workers[: parts - 1])
        finally:
            _busy.release()


def alone(wanted: bool) -> AbstractContextManager[None]:
    """A block in which OpenBLAS uses one thread, if ``wanted``, and where we have several.

    After a product on several threads, its own look out for the next at full speed, for some 20 ms, each on a processor
    that ours would need for what comes between products: with two threads that took longer than with one.
    """
    return one_thread() if wanted and COUNT > 1 else nullcontext()


@cache
def _processor() -> Callable[[], int]:
    """What tells the number of the processor that its caller runs on; always -1 where threads cannot be moved."""
    try:
        if hasattr(os, "sched_setaffinity"):
            return ctypes.CDLL(None).sched_getcpu
    except (AttributeError, OSError):
        pass
    return lambda: -1


def _together(work: Work, edges: Sequence[int], workers: Sequence[_Worker]) -> None:
    here = _processor()()
    for k, worker in enumerate(workers, 1):
        worker.keep_off(here)
        worker.begin(work, edges[k], edges[k + 1])
    failures: list[BaseException | None] = []
    try:
        work(edges[0], edges[1])
    except BaseException as error:
        failures.append(error)
    for worker in workers:
        failures.append(worker.ended())
    for failure in failures:
        if failure is not None:
            raise failure


class _Worker:
    """A thread that waits for work until the process ends."""

    def __init__(self) -> None:
        from queue import SimpleQueue
        from threading import Thread

        self._todo: Any = SimpleQueue()
        self._done: Any = SimpleQueue()
        self._off = -1
        self._thread = Thread(target=self._run, name="burnpy", daemon=True)
        self._thread.start()

    def keep_off(self, here: int) -> None:
        """Run on another processor than the caller.

        Linux likes to wake a thread where its waker runs, and takes milliseconds to find that another is idle.
        """
        if here == self._off:
            return
        self._off = here
        others = os.sched_getaffinity(0) - {here}
        if others and self._thread.native_id:
            with suppress(OSError):  # where that is not allowed, it runs wherever it is
                os.sched_setaffinity(self._thread.native_id, others)

    def begin(self, work: Work, start: int, stop: int) -> None:
        self._todo.put((work, start, stop))

    def ended(self) -> BaseException | None:
        """Wait until the work is done, also where an interruption comes between; what it raised."""
        interruption = None
        while True:
            try:
                return self._done.get() or interruption
            except KeyboardInterrupt as error:
                interruption = error

    def _run(self) -> None:
        with np.errstate(all="ignore"):  # the quiet context is the caller's, and in use
            while True:
                self._done.put(_outcome(*self._todo.get()))


def _outcome(work: Work, start: int, stop: int) -> BaseException | None:
    """What ``work`` raised. Nothing of it is held when this returns."""
    try:
        work(start, stop)
    except BaseException as error:
        return error
    return None


def _forget() -> None:
    """In a forked child, which has none of its parent's threads."""
    global _busy
    _busy = allocate_lock()
    _workers.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
