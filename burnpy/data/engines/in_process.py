"""`BatchEngine`, the interface of engines that make batches, and those of this process: serial, and in threads."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeAlias, TypeVar

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
    """An exception in the place of a result."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Shared:
    """The state shared by the workers and the consumer of the results.

    It does not refer to the engine, so that an engine without references is closed.
    """

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
