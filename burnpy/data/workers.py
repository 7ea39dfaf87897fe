"""Engines, which make batches in the calling thread, in other threads, or in other processes.

Processes have interpreters of their own and give results in shared memory. There is no thread for messages. The thread
that takes a batch reads the workers' messages, and sends the next tasks; each worker has some waiting in its
connection. Workers that have done an epoch wait for the next one.
"""

from __future__ import annotations

import os
import signal
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import Finalize
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from burnpy.backend.errors import WorkerError
from burnpy.data import child_processes as program
from burnpy.data.child_processes import (
    Idle,
    Kept,
    Packed,
    anonymous_file,
    context_for,
    ended,
    ending,
    mapped,
    packed_for_processes,
    refuse_unable,
    unguarded,
    unpacked,
)

R_co = TypeVar("R_co", covariant=True)

Work: TypeAlias = Callable[[Any, Callable[[], bool]], Any]
"""A function of a task, and of a function that returns True once the result is no longer needed."""


class BatchEngine(ABC, Generic[R_co]):
    """Computes the results of tasks in advance, and returns them in the order of the tasks."""

    @abstractmethod
    def next(self) -> R_co:
        """Return the result of the next task."""

    @abstractmethod
    def close(self) -> None:
        """End all workers; may be called again."""


class SerialEngine(BatchEngine[Any]):
    """Does the work in the thread that asks for it."""

    def __init__(self, work: Work, tasks: Iterator[Any]) -> None:
        self._work, self._tasks = work, tasks

    def next(self) -> Any:
        """Return the result of the next task, made now."""
        return self._work(next(self._tasks), _never)

    def close(self) -> None:
        """Forget the tasks."""
        self._tasks = iter(())


def _never() -> bool:
    return False


class _Failure:
    """An exception instead of a result."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Shared:
    """The state shared by the workers and the consumer of the results. It does not refer to the engine, so that an
    engine without references is closed."""

    def __init__(self, work: Work, tasks: Iterator[Any], prefetch: int) -> None:
        self.work, self.tasks, self.prefetch = work, tasks, prefetch
        self.taking = threading.Lock()  # held by the one thread that takes a task, which may read from a file
        self.changed = threading.Condition()
        self.results: dict[int, Any] = {}
        self.taken = 0  # tasks that threads have taken
        self.given = 0  # results that the consumer has requested
        self.ended: int | None = None  # the number of tasks, once it is known
        self.stopped = False

    def is_stopped(self) -> bool:
        return self.stopped

    def run(self) -> None:
        """Take tasks and do them until there are no more: the program of a thread."""
        while (found := self._take()) is not None:
            number, task = found
            result: Any
            try:
                result = task if isinstance(task, _Failure) else self.work(task, self.is_stopped)
            except BaseException as error:  # whatever it is, the thread that takes the results raises it
                result = _Failure(error)
            with self.changed:
                self.results[number] = result
                self.changed.notify_all()
            del task, result, found

    def _take(self) -> tuple[int, Any] | None:
        """Return the next task and its number, once there is room for its result; None at the end."""
        with self.taking:
            with self.changed:
                while not self.stopped and self.ended is None and self.taken >= self.given + self.prefetch:
                    self.changed.wait()
                if self.stopped or self.ended is not None:
                    return None
                number = self.taken
            try:
                task = next(self.tasks)
            except BaseException as error:  # of the iterator of tasks, likewise
                with self.changed:
                    last = isinstance(error, StopIteration)
                    self.ended = number + (not last)
                    self.taken = self.ended
                    self.changed.notify_all()
                return None if last else (number, _Failure(error))
            with self.changed:
                self.taken = number + 1
            return number, task

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.results.clear()
            self.changed.notify_all()


class ThreadEngine(BatchEngine[Any]):
    """An engine that works in daemon threads, at most ``prefetch`` tasks ahead of the consumer."""

    def __init__(self, work: Work, tasks: Iterator[Any], workers: int, prefetch: int) -> None:
        self._shared = _Shared(work, tasks, prefetch)
        self._threads = [
            threading.Thread(target=self._shared.run, name=f"burnpy.data {k}", daemon=True) for k in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def next(self) -> Any:
        """Return the result of the next task."""
        shared = self._shared
        with shared.changed:
            if shared.stopped:
                raise StopIteration
            number = shared.given
            shared.given += 1
            shared.changed.notify_all()
            while number not in shared.results:
                if shared.ended is not None and number >= shared.ended:
                    raise StopIteration
                shared.changed.wait()
            result = shared.results.pop(number)
        if isinstance(result, _Failure):
            raise result.error
        return result

    def close(self) -> None:
        """Let the threads end, each after the sample that it is at."""
        self._shared.stop()


_HELD = 4
"""The number of batches for which a worker's memory may be in use by the program; those beyond it are copied."""


class _Slot:
    """A piece of shared memory that a worker writes results to."""

    def __init__(self, number: int, memory: Any) -> None:
        self.number, self.memory = number, memory


class _Worker:
    """A process, its connection, its tasks and its slots."""

    def __init__(self, name: str, context: Any) -> None:
        self.connection, other = context.Pipe()
        self.process = context.Process(target=program.run, args=(other,), name=name, daemon=True)
        try:
            self.process.start()
        except BaseException:  # Ctrl-C too: the pipe is closed in any case
            self.connection.close()
            raise
        finally:
            other.close()
        # Before multiprocessing ends its processes by SIGTERM, which this one ignores, and waits for them.
        self._at_exit: Any = Finalize(self, self.process.kill, exitpriority=0)
        self.ready = False
        self.tasks: deque[int] = deque()  # numbers of tasks that it was sent and has not answered
        self.slots: dict[int, _Slot] = {}  # those that a task will be written to
        self.free: deque[_Slot] = deque()
        self.made = 0  # slots so far
        self.held: set[int] = set()  # numbers of slots that batches are using

    def end(self) -> None:
        self._at_exit.cancel()
        self.connection.close()
        self.process.kill()

    def join(self) -> None:
        """Wait for its end, and forget its memory."""
        self.process.join()
        self.process.close()
        self.slots.clear()
        self.free.clear()


class ProcessEngine(BatchEngine[Any]):
    """An engine that works in processes, at most ``prefetch`` tasks ahead of the consumer."""

    def __init__(self, work: Work, tasks: Iterator[Any], workers: int, prefetch: int, kept: Kept) -> None:
        self._workers: list[_Worker] = []
        self._kept = weakref.ref(kept)  # an iterator of a loader that is gone keeps nothing
        self._owner = os.getpid()
        self._results: dict[int, Any] = {}
        self._sent = self._given = 0
        self._size = 0  # of the largest result so far
        self._tasks, self._prefetch = tasks, prefetch
        refuse_unable("use engine='threads'")
        packed = packed_for_processes(work, getattr(work, "parts", {}))
        idle = kept.take(packed, workers)
        try:
            if idle is None:
                self._start(packed, workers)
            else:
                self._workers, self._memory = idle.workers, idle.memory
            self._sizes = packed.sizes
            self._send()
        except BaseException:
            self.close()
            raise

    def _start(self, packed: Packed, workers: int) -> None:
        """Start processes, which share the memory with the work."""
        descriptor = anonymous_file(max(packed.size, 1), "the dataset, which all workers share,")
        try:
            self._memory = mapped(os.dup(descriptor))
            packed.write(self._memory)
            context = context_for(program.__name__)
            for k in range(workers):
                worker = _Worker(f"burnpy.data {k}", context)
                self._workers.append(worker)
                worker.connection.send(packed.sizes)
                program.send_file(worker.connection, descriptor)
        finally:
            os.close(descriptor)

    def next(self) -> Any:
        """Return the result of the next task."""
        number = self._given
        self._given += 1
        self._send()
        if number >= self._sent:
            self._done()
            raise StopIteration
        while number not in self._results:
            self._receive()
        self._send()
        result = self._results.pop(number)
        if isinstance(result, Exception):
            raise result
        return self._opened(*result)

    def _done(self) -> None:
        """Let the processes, which have no tasks left, wait for the next epoch."""
        kept = self._kept()
        if self._workers and kept is not None and kept.give(Idle(self._workers, self._memory, self._sizes)):
            self._workers = []

    def _send(self) -> None:
        """Send tasks to the workers with the fewest, as far ahead as is wanted."""
        while self._workers and self._sent < self._given + self._prefetch:
            try:
                task = next(self._tasks, None)
            except Exception as error:  # of a stream: it is raised when its turn comes
                self._tasks = iter(())
                self._results[self._sent] = error
                self._sent += 1
                return
            if task is None:
                return
            worker = min(self._workers, key=lambda worker: len(worker.tasks))
            slot = worker.free.popleft() if worker.free else None
            if slot is not None:
                worker.slots[slot.number] = slot
            worker.tasks.append(self._sent)
            self._tell(worker, ("task", self._sent, task, None if slot is None else slot.number))
            self._sent += 1

    def _tell(self, worker: _Worker, message: Any, descriptor: int | None = None) -> None:
        try:
            data = ForkingPickler.dumps(message)
        except Exception as error:  # pickling runs code of the user's classes
            raise WorkerError(
                "engine='processes' sends the samples of a stream to other processes by pickle, and one cannot be sent "
                f"({error}); make what cannot in a map() of the stream, which the processes do, or use engine='threads'"
            ) from error
        try:
            worker.connection.send_bytes(data)
            if descriptor is not None:
                program.send_file(worker.connection, descriptor)
        except OSError:  # the process has ended, perhaps with a reason that waits to be read
            self._read_reason(worker)
            raise self._dead(worker) from None

    def _read_reason(self, worker: _Worker) -> None:
        """Raise the error that an ended process sent before it ended, if there is one."""
        try:
            while worker.connection.poll():
                what, *rest = worker.connection.recv()
                if what == "unreadable":
                    raise _unreadable(rest[0])
        except (EOFError, OSError):
            return

    def _receive(self) -> None:
        """Wait for messages, and read one of each worker that sent some."""
        from multiprocessing.connection import wait  # which loaders without processes do not load

        connections: dict[Any, _Worker] = {worker.connection: worker for worker in self._workers}
        for connection in wait([*connections]):
            worker = connections[connection]
            try:
                what, *rest = worker.connection.recv()
            except (EOFError, OSError):
                raise self._dead(worker) from None
            if what == "ready":
                worker.ready = True
            elif what == "unreadable":
                raise _unreadable(rest[0])
            else:
                self._answered(worker, what, *rest)

    def _answered(self, worker: _Worker, what: str, number: int, slot: int | None, answer: Any) -> None:
        held = None if slot is None else worker.slots.pop(slot)
        if what == "small":
            if answer > self._size:  # where batches grow, the next ones may be larger still
                self._size = answer + answer // 4 if self._size else answer
            descriptor = anonymous_file(self._size, "a batch")
            try:
                fresh = _Slot(worker.made, mapped(os.dup(descriptor)))
                worker.made += 1
                worker.slots[fresh.number] = fresh
                self._tell(worker, ("slot", number, None, fresh.number), descriptor)
            finally:
                os.close(descriptor)
            return
        worker.tasks.remove(number)
        if what == "failed":
            if held is not None:
                worker.free.append(held)
            self._results[number] = program.failed(answer)
        else:
            self._results[number] = (worker, held, answer)

    def _opened(self, worker: _Worker, slot: _Slot, sizes: list[int]) -> Any:
        """Return a result. Its arrays use the slot, which is free again when they are gone; or a copy of it."""
        memory = np.frombuffer(slot.memory, np.uint8)
        if len(worker.held) >= _HELD:
            memory = memory.copy()
            worker.free.append(slot)
        else:
            worker.held.add(slot.number)
            weakref.finalize(memory, _release, worker.held, worker.free, slot).atexit = False
        return unpacked(memory, sizes)

    def _dead(self, worker: _Worker) -> WorkerError:
        """Return the error for a process that has ended."""
        how = ending(worker.process)
        if unguarded(worker.process):
            return WorkerError(
                "a process that makes batches imports the program again, and the program starts processes when it is "
                "imported; put its code under: if __name__ == '__main__':"
            )
        if not worker.ready:
            return WorkerError(
                f"a process that makes batches {how} before it was ready; its output is on standard error"
            )
        hint = "; perhaps memory ran out" if worker.process.exitcode == -signal.SIGKILL else ""
        at = f" at batch {worker.tasks[0]} of this epoch" if worker.tasks else ""
        return WorkerError(f"process {worker.process.pid}, which makes batches, {how}{at}{hint}")

    def close(self) -> None:
        """End the processes, and release the shared memory that no batch uses."""
        workers, self._workers = self._workers, []
        self._tasks = iter(())
        self._results.clear()
        self._sent = self._given = 0
        if os.getpid() == self._owner:  # not in a fork of this program, whose processes these are not
            ended(workers)


def _release(held: set[int], free: deque[_Slot], slot: _Slot) -> None:
    held.discard(slot.number)
    free.append(slot)


def _unreadable(reason: str) -> WorkerError:
    """Return the error for functions or classes that a process does not know."""
    return WorkerError(
        f"a worker could not read its input: {reason}; functions and classes of an interactive session are unknown to "
        "other processes, so define them in a module, or use engine='threads'"
    )
