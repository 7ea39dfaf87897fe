"""Multithreading for large arrays: NumPy releases the interpreter's lock while it computes on one.

The number of threads is the first of ``BURNPY_NUM_THREADS``, ``OPENBLAS_NUM_THREADS`` and ``OMP_NUM_THREADS`` that is
set when burnpy is imported; otherwise the number of processors of the process. Processes that ``mpiexec`` started
together on a host share its processors, and OpenBLAS then has as many threads as burnpy. The number is limited to 8, as
more would wait for each other at the lock, unless ``BURNPY_NUM_THREADS`` sets it. With 1, everything runs in the
calling thread and no thread is started.

Results that involve sums depend on how the work is divided, but never on which thread does a part: if the workers are
busy with a job of another thread, the caller does all the parts itself, one after the other.

Kernels are divided by native code, which `pool_of` returns. All else is a Python function, which `shared` calls. Its
caller may be interrupted at any point, by Ctrl-C or by an exception in another signal handler; workers are not. No
array may be returned or freed while a worker still writes to it, and the workers must not remain acquired. So a job is
identified by the object itself and not by a counter; the caller finishes it on every exit, again if the first attempt
is interrupted; and all state that `_Job.finish` needs is stored in the job and is valid wherever an exception occurs.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from burnpy.backend.errors import StateError
from burnpy.backend.try_lock import TryLock
from burnpy_numpy.openblas import OneThread, limit, openblas, unlimit

if TYPE_CHECKING:
    from burnpy_numpy.kernels.compiler.entry import Entry

Work: TypeAlias = Callable[[int, int], None]

_MAX_DEFAULT_THREADS = 8
"""The most threads unless BURNPY_NUM_THREADS asks for more."""
_VARIABLES = ("BURNPY_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
_RANKS = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
"""The variables in which Open MPI and MPICH tell the number of processes that they started on this host."""


def asked_for(environment: Mapping[str, str]) -> int:
    """Return the number of threads that the environment variables request, or else the number of processors."""
    for name in _VARIABLES:
        first = environment.get(name, "").split(",")[0].strip()  # OpenMP takes one number for each level
        if first.isdecimal() and int(first):
            return int(first) if name == _VARIABLES[0] else min(int(first), _MAX_DEFAULT_THREADS)
    processors = os.cpu_count() or 1
    share = max(1, processors // ranks_here(environment))
    try:
        return min(len(os.sched_getaffinity(0)), share, _MAX_DEFAULT_THREADS)
    except AttributeError:  # macOS, Windows
        return min(share, _MAX_DEFAULT_THREADS)


def ranks_here(environment: Mapping[str, str]) -> int:
    """Return the number of processes that a launcher of MPI programs started on this host; 1 without a launcher.

    >>> ranks_here({"OMPI_COMM_WORLD_LOCAL_SIZE": "4"}), ranks_here({})
    (4, 1)
    """
    given = (environment.get(name, "") for name in _RANKS)
    return max(1, next((int(text) for text in given if text.isdecimal()), 1))


def _share_processors(environment: Mapping[str, str]) -> None:
    """Give OpenBLAS as many threads as burnpy, where this process shares the host with others and no variable says
    how many it has; it would have one for each processor."""
    blas = openblas() if ranks_here(environment) > 1 and not any(map(environment.get, _VARIABLES)) else None
    if blas is not None:
        blas.set(min(blas.get(), COUNT))


COUNT = asked_for(os.environ)
"""The number of threads, including the caller's."""
_share_processors(os.environ)
BLOCK = 1 << 16 if COUNT == 1 else 1 << 17
"""The number of elements to compute with at a time, so that intermediate results stay in the cache. Threads contend for
the interpreter's lock between calls of NumPy, so several threads need longer calls, and larger blocks, to gain."""

_MAX_THREADS = 1 << 10
"""The maximum number of threads."""
LEAST = 1 << 17
"""The minimum number of elements of a part."""

_workers: list[_Worker] = []
_workers_lock: TryLock[_Job] = TryLock()
"""The lock on the workers, owned by the job that they work on."""


def shared(work: Work, size: int, each: float = 1, *, products: bool = False) -> None:
    """Call ``work(start, stop)`` for parts that cover range(size): one per thread, or fewer if the work is small.

    Args:
        work: a function that computes a part, and writes nothing that another part reads or writes.
        size: the length of the range to divide.
        each: the number of array elements per element of the range; fewer for operations limited by memory bandwidth.
        products: whether ``work`` multiplies matrices. OpenBLAS then uses one thread in each of ours: its own threads
            wait for each other, and may not be used from several threads at once. If its number of threads cannot be
            set, there is one part.
    """
    parts = 1 if products and openblas() is None else part_count(size, each)
    if parts <= 1:
        if products and COUNT > 1:  # `alone`, without a context where it does nothing
            with OneThread():
                work(0, size)
        else:
            work(0, size)
        return
    job = _Job(work, size, parts, products)
    try:
        job.run()
    except BaseException:
        job.finish()  # run() has done this already, unless it was interrupted there too
        job.forget()
        raise


def part_count(size: int, each: float) -> int:
    """Return the number of parts that threads divide a range into, see `shared`; 1 or less if one thread does it."""
    return min(COUNT, size, int(size * each) // LEAST, _MAX_THREADS)


def alone(wanted: bool) -> AbstractContextManager[None]:
    """Return a context manager in which OpenBLAS uses one thread, if ``wanted`` and if burnpy uses several. After a
    product on several threads, OpenBLAS's threads busy-wait for the next for some 20 ms, each on a processor that
    burnpy's threads need for the work between products: two threads were then slower than one."""
    return OneThread() if wanted and COUNT > 1 else nullcontext()


@cache
def _processor() -> Callable[[], int]:
    """Return a function that returns the number of the caller's processor, or always -1 if threads cannot be moved."""
    try:
        if hasattr(os, "sched_setaffinity"):
            return ctypes.CDLL(None).sched_getcpu
    except (AttributeError, OSError):
        pass
    return lambda: -1


# Calls through CDLL release the interpreter's lock. Windows needs a name, though it is not looked up.
_python = ctypes.CDLL(ctypes.pythonapi._name, handle=ctypes.pythonapi._handle)
_allocate, _acquire, _release = [
    getattr(_python, f"PyThread_{name}_lock") for name in ("allocate", "acquire", "release")
]
_allocate.restype = ctypes.c_void_p


class _Event:
    """A lock on which the caller waits until all workers have left its job; each worker that leaves sets it. Waiting on
    one of Python's locks would run signal handlers, which may raise. Waiting on this one does not."""

    __slots__ = ("lock",)

    def __init__(self) -> None:
        self.lock = ctypes.c_void_p(_allocate())

    @property
    def address(self) -> int:
        """The lock's address, for native code."""
        return self.lock.value or 0

    def set(self) -> None:
        """Wake the thread that waits, or let the next wait return at once."""
        _acquire(self.lock, False)  # without waiting, so that the lock is held even if the event was set already
        _release(self.lock)


_event = _Event()


class _Job:
    """Work divided into parts, each done by the first thread that takes it: the caller's or a worker's."""

    __slots__ = ("__weakref__", "_failures", "_inside", "_over", "_parts", "_products", "_work")

    def __init__(self, work: Work, size: int, count: int, products: bool) -> None:
        edges = [size * k // count for k in range(count + 1)]
        self._work, self._products = work, products
        self._parts = [*pairwise(edges)]
        """The parts that no thread has taken."""
        self._over = False
        self._inside: list[_Worker] = []
        """The workers that may be working on a part."""
        self._failures: list[tuple[int, BaseException]] = []
        """The exceptions raised, each with the start of its part, or -1 if it was raised outside of one."""

    def run(self) -> None:
        """Do all parts, with the workers if they are free."""
        try:
            if self._products:
                limit(self)
            if _workers_lock.acquire(self):
                _ask(len(self._parts) - 1, self)
            self._take()
        except BaseException as error:
            self._failures += [(-1, error)]  # not a method call: after a call, a pending signal would be handled
        self.finish()
        if not self._failures:
            return
        failure = min(self._failures, key=lambda entry: (isinstance(entry[1], Exception), entry[0]))[1]
        self.forget()
        try:
            raise failure
        finally:
            del failure

    def finish(self) -> None:
        """Cancel the parts that no thread has taken, and wait for the others; call it again if it is interrupted."""
        while not self._over:
            try:
                del self._parts[:]
                while self._inside:
                    _acquire(_event.lock, True)
                self._work = _nothing  # a worker that arrives later keeps the job, but not the arrays
                self._over = True  # it finds no parts, and is not waited for
            except BaseException as error:
                self._failures += [(-1, error)]
        if self._products:
            unlimit(self)
        _workers_lock.release(self)

    def forget(self) -> None:
        """Drop the exceptions: their tracebacks refer to the job, a cycle that would stay until garbage collection."""
        self._failures.clear()

    def help(self, worker: _Worker) -> None:
        """Do the remaining parts, in the worker's thread."""
        self._inside.append(worker)  # before taking a part, so that the caller knows to wait
        try:
            self._take()
        finally:
            self._inside.remove(worker)
            _event.set()

    def lose(self) -> None:
        """Fail the job in a forked child, in which the workers that were working on it do not exist."""
        if self._inside:
            error = StateError(
                "this process was forked amid an operation, by the handler of a signal, and has none of the threads "
                "that worked on it; fork between operations"
            )
            self._failures.append((-1, error))
            self._inside.clear()
            _event.set()

    def _take(self) -> None:
        """Take parts until none is left. They are started in order, so that the first failure does not depend on
        timing, although a failure cancels the remaining parts."""
        parts = self._parts
        while parts:
            try:
                start, stop = parts.pop(0)
            except IndexError:  # another thread took the last
                return
            try:
                self._work(start, stop)
            except BaseException as error:
                self._failures += [(start, error)]
                del parts[:]


def _nothing(start: int, stop: int) -> None:
    """Do nothing: the work of a job that is over."""


def _ask(count: int, job: _Job) -> None:
    """Let ``count`` workers help with a job. Some may arrive when it is over, and find nothing to do."""
    for worker in _ready(count):
        worker.ask(job)


def _ready(count: int) -> Sequence[_Worker]:
    """Return ``count`` workers, on other processors than the caller's."""
    here = _processor()()
    while len(_workers) < count:
        _workers.append(_Worker())
    for worker in _workers[:count]:
        worker.keep_off(here)
    return _workers[:count]


GATE, EVENT, FIRST_EVENT = 1, 3, 4
RANGES, RANGE_WORDS = FIRST_EVENT + _MAX_THREADS, 8
"""Places among the words of a thread pool; a range has a line of the cache for itself."""


class ThreadPool:
    """The workers as native code calls them, see `burnpy_numpy.kernels.compiler.entry.SHARE`. Python hands a job to a
    worker in some 50 µs, as both threads need the interpreter's lock for it, and native code in some 15. No signal
    handler runs amid the call, so that nothing has to be cleared up."""

    def __init__(self, share: Entry, serve: Entry) -> None:
        self.share, self._serve = share, serve
        self.words = np.zeros(RANGES + RANGE_WORDS * _MAX_THREADS, np.int64)
        self._event = _Event()
        self.words[GATE], self.words[EVENT] = 1, self._event.address

    def enlist(self, place: int, worker: _Worker) -> None:
        """Have a worker serve here from now on, if it does not yet."""
        if not self.words[FIRST_EVENT + place]:
            worker.join(self, place + 1)
            self.words[FIRST_EVENT + place] = worker.event.address  # last, in case this is interrupted

    def serve(self, number: int, event: _Event, called: Any) -> None:
        """Take parts of jobs in native code whenever the event is set, until ``called`` is not 0. ``number`` is the
        worker's among the threads of a job, whose first one is the caller."""
        self._serve(0, 0, 4, self.words, number, event.address, called)


_pool: list[ThreadPool] = []
"""The pool, once kernels have work for it."""


def pool_of(size: int, each: float) -> tuple[ThreadPool | None, int]:
    """Return the pool for a job of native code, and the number of threads that it gets, with the caller's.

    There is no pool, and one thread, if the work is small or the pool's code could not be compiled.

    Args:
        size: the length of the range to divide.
        each: the number of array elements per element of the range, see `shared`.
    """
    team = part_count(size, each)
    if team <= 1 or not (_pool or compile_pool()):
        return None, 1
    pool = _pool[0]
    for place, worker in enumerate(_ready(team - 1)):
        pool.enlist(place, worker)
    return pool, team


def compile_pool() -> bool:
    """Compile the pool's code; return whether that was possible."""
    from burnpy_numpy.kernels.compiler.entry import SERVE, SHARE, TABLE
    from burnpy_numpy.kernels.kernel import loaded

    share, serve = loaded("share", SHARE, lambda: SHARE, TABLE), loaded("serve", SERVE, lambda: SERVE, TABLE)
    if share is not None and serve is not None:
        _pool.append(ThreadPool(share, serve))  # of two threads that come here at once, the first one's counts
    return bool(_pool)


class _Worker:
    """A thread that waits for jobs until the process ends."""

    def __init__(self) -> None:
        from queue import SimpleQueue
        from threading import Thread

        self._asked: Any = SimpleQueue()
        self._pool: ThreadPool | None = None
        self._number = 0
        self.event, self._called = _Event(), np.zeros(1, np.int64)
        self._off = -1
        self._thread = Thread(target=self._run, name="burnpy", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self._asked.put(None)  # the thread may be running without a reference to it: let it end
            raise

    def keep_off(self, here: int) -> None:
        """Restrict the thread to processors other than ``here``, the caller's. Linux tends to wake a thread on the
        processor of its waker, and takes milliseconds to move it to an idle one."""
        if here == self._off:
            return
        self._off = here
        others = os.sched_getaffinity(0) - {here}
        if others and self._thread.native_id:
            with suppress(OSError):  # if that is not permitted, the thread stays where it is
                os.sched_setaffinity(self._thread.native_id, others)

    def ask(self, job: _Job) -> None:
        self._asked.put(job)
        if self._pool is not None:
            self._called[0] = 1
            self.event.set()

    def join(self, pool: ThreadPool, number: int) -> None:
        """Wait in the native code of a pool from now on, as the thread of a number."""
        self._number, self._pool = number, pool
        self.ask(_Job(_nothing, 0, 1, False))

    def _run(self) -> None:
        with np.errstate(all="ignore"):  # the context of `numpy_calls.run` is in use by the caller
            while self._helped(self._next()):
                pass

    def _next(self) -> _Job | None:
        """Wait for the next job, and serve the pool until it comes."""
        while self._pool is not None and self._asked.empty():
            self._pool.serve(self._number, self.event, self._called)
        job: _Job | None = self._asked.get()
        return job

    def _helped(self, job: _Job | None) -> bool:
        """Help with a job, without keeping a reference to it; return False if the thread is to end."""
        if job is not None:
            job.help(self)
        return job is not None


def _forget() -> None:
    """Reset the workers in a forked child, which has none of its parent's threads."""
    global _event, _workers_lock
    job, _workers_lock, _event = _workers_lock.owner(), TryLock(), _Event()
    _workers.clear()
    _pool.clear()
    if job is not None:
        job.lose()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
