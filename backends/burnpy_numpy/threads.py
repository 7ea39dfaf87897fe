"""A second thread, and more, for large arrays: NumPy leaves the interpreter's lock while it works on one.

As many threads take part as ``BURNPY_NUM_THREADS`` says, or ``OPENBLAS_NUM_THREADS``, or ``OMP_NUM_THREADS``, the first
of these that is set when burnpy is imported; else as many as the process has processors. More than 8, which would wait
for each other at the lock, only where the first says so. With 1, everything happens in the caller's thread and none is
started.

What is computed depends on how the work is divided, where sums are, and never on who does it: if the threads are busy
with the work of another of the user's, the caller does all the parts itself, one after the other.

The caller may be interrupted anywhere, by Ctrl-C or what the handler of another signal raises; workers are not. No
array may be handed out, or given back, that a worker still writes to, nor may the workers stay taken. So a job is known
by itself and not by its turn; it is finished by whoever leaves it, twice if the first time is interrupted; and all that
`_Job.finish` needs to know lies in the job and stays right wherever an exception falls.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from burnpy.backend.errors import StateError
from burnpy.backend.try_lock import TryLock
from burnpy_numpy.openblas import OneThread, limit, openblas, unlimit

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

_workers: list[_Worker] = []
_team: TryLock[_Job] = TryLock()
"""Held by the job that the workers are at."""


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
    if parts <= 1:
        with alone(products):
            work(0, size)
        return
    job = _Job(work, size, parts, products)
    try:
        job.run()
    except BaseException:
        job.finish()  # which it has done itself, if it was not interrupted there too
        job.forget()
        raise


def alone(wanted: bool) -> AbstractContextManager[None]:
    """A block in which OpenBLAS uses one thread, if ``wanted``, and where we have several.

    After a product on several threads, its own look out for the next at full speed, for some 20 ms, each on a processor
    that ours would need for what comes between products: with two threads that took longer than with one.
    """
    return OneThread() if wanted and COUNT > 1 else nullcontext()


@cache
def _processor() -> Callable[[], int]:
    """What tells the number of the processor that its caller runs on; always -1 where threads cannot be moved."""
    try:
        if hasattr(os, "sched_setaffinity"):
            return ctypes.CDLL(None).sched_getcpu
    except (AttributeError, OSError):
        pass
    return lambda: -1


_python = ctypes.CDLL(None, handle=ctypes.pythonapi._handle)  # of which calls leave the interpreter's lock to others
_allocate, _acquire, _release = [
    getattr(_python, f"PyThread_{name}_lock") for name in ("allocate", "acquire", "release")
]
_allocate.restype = ctypes.c_void_p


class _Bell:
    """What the caller waits for, again and again until it sees that all have left: rung by each who does.

    Python's locks would call the handlers of signals there, and raise what these raise. This one does not.
    """

    __slots__ = ("lock",)

    def __init__(self) -> None:
        self.lock = ctypes.c_void_p(_allocate())

    def ring(self) -> None:
        """Let the one go on who waits, or would."""
        _acquire(self.lock, False)  # does not wait, but takes it where it was rung already
        _release(self.lock)


_bell = _Bell()


class _Job:
    """Work in parts. Each is done by the thread that takes it first: the caller's, or that of a worker it has asked."""

    __slots__ = ("__weakref__", "_failures", "_inside", "_over", "_parts", "_products", "_work")

    def __init__(self, work: Work, size: int, count: int, products: bool) -> None:
        edges = [size * k // count for k in range(count + 1)]
        self._work, self._products = work, products
        self._parts = [*pairwise(edges)]
        """Those that nobody has taken."""
        self._over = False
        self._inside: list[_Worker] = []
        """Who may be at one."""
        self._failures: list[tuple[int, BaseException]] = []
        """What was raised, with the start of the part, or -1 where that was none."""

    def run(self) -> None:
        """Do all of it, with the workers if they are free.

        Raises:
            BaseException: what a part raised, or interrupted the caller; of several what is no Exception, such as
                Ctrl-C, else what interrupted, else that of the first part. No part is being worked on then.
        """
        try:
            if self._products:
                limit(self)
            if _team.acquire(self):
                _ask(len(self._parts) - 1, self)
            self._take()
        except BaseException as error:
            self._failures += [(-1, error)]  # as everywhere here no call, after which the next signal would be seen
        self.finish()
        if not self._failures:
            return
        failure = min(self._failures, key=lambda found: (isinstance(found[1], Exception), found[0]))[1]
        self.forget()
        try:
            raise failure
        finally:
            del failure

    def finish(self) -> None:
        """Call off the parts that nobody has taken, and wait for the others; to be called again if interrupted."""
        while not self._over:
            try:
                del self._parts[:]
                while self._inside:
                    _acquire(_bell.lock, True)
                self._over = True  # who comes now has come too late, and is not waited for
            except BaseException as error:
                self._failures += [(-1, error)]
        if self._products:
            unlimit(self)
        _team.release(self)

    def forget(self) -> None:
        """Drop what was raised, of which the tracebacks have the job: together they would stay for some time."""
        self._failures.clear()

    def help(self, worker: _Worker) -> None:
        """Do what is left, in the worker's thread."""
        self._inside.append(worker)  # first, so that a part is never taken unseen by the caller, who waits then
        try:
            self._take()
        finally:
            self._inside.remove(worker)
            _bell.ring()

    def lose(self) -> None:
        """In a forked child, in which those are not who were inside."""
        if self._inside:
            error = StateError(
                "this process was forked amid an operation, by the handler of a signal, and has none of the threads "
                "that worked on it; fork between operations"
            )
            self._failures.append((-1, error))
            self._inside.clear()
            _bell.ring()

    def _take(self) -> None:
        """Take parts until none is left. They are begun in their order, so that which failure is the first is no
        matter of time, though the rest is called off then."""
        parts = self._parts
        while parts:
            try:
                start, stop = parts.pop(0)
            except IndexError:  # another was faster
                return
            try:
                self._work(start, stop)
            except BaseException as error:
                self._failures += [(start, error)]
                del parts[:]


def _ask(count: int, job: _Job) -> None:
    """Let so many workers help with a job. Some may come when it is over, and find nothing to do."""
    here = _processor()()
    while len(_workers) < count:
        _workers.append(_Worker())
    for worker in _workers[:count]:
        worker.keep_off(here)
        worker.ask(job)


class _Worker:
    """A thread that waits for jobs until the process ends."""

    def __init__(self) -> None:
        from queue import SimpleQueue
        from threading import Thread

        self._asked: Any = SimpleQueue()
        self._off = -1
        self._thread = Thread(target=self._run, name="burnpy", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self._asked.put(None)  # it may run, and nobody would know of it
            raise

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

    def ask(self, job: _Job) -> None:
        self._asked.put(job)

    def _run(self) -> None:
        with np.errstate(all="ignore"):  # the quiet context is the caller's, and in use
            while self._helped(self._asked.get()):
                pass

    def _helped(self, job: _Job | None) -> bool:
        """Help with a job, of which nothing is held when this returns; False where there is to be no other."""
        if job is not None:
            job.help(self)
        return job is not None


def _forget() -> None:
    """In a forked child, which has none of its parent's threads."""
    global _bell, _team
    job, _team, _bell = _team.owner(), TryLock(), _Bell()
    _workers.clear()
    if job is not None:
        job.lose()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
