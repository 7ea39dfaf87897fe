"""The iterators over the batches of an epoch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Generic, Self

from burnpy.data.collate import Collator
from burnpy.data.engines.base import Engine
from burnpy.typevars import T


class Batches(Iterator[T], Generic[T]):
    """Batches in order, made in advance.

    On a GPU the next batch is copied to it while the present one is used. The threads or processes end and shared
    memory is released when the iterator is exhausted, closed, or dropped, when a batch raises an error, and on Ctrl-C.
    """

    def __init__(self, engine: Engine[Any], collator: Collator[T], epoch: int) -> None:
        self._engine, self._collator = engine, collator
        self._next: tuple[Any, Callable[[], T]] | None = None
        self.number = epoch  #: the number of the epoch

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            result, take = self._next or self._started()
            self._next = self._started_ahead() if self._collator.copies_ahead else None
            batch = take()
        except BaseException:  # the end, an error of a worker, or Ctrl-C
            self.close()
            raise
        self._taken(result)
        return batch

    def _started(self) -> tuple[Any, Callable[[], T]]:
        """Start to make the next batch; return what the engine gave, and a function that takes the batch."""
        result = self._engine.next()
        arrays = self._arrays(result)
        if arrays is None:  # where a rank has no samples
            return result, lambda: None  # type: ignore[return-value]  # a T, which then includes None
        return result, self._collator.started(arrays)

    def _started_ahead(self) -> tuple[Any, Callable[[], T]]:
        """Start to make the next batch. Exceptions, at the end for one, are raised when the batch is taken."""
        try:
            return self._started()
        except Exception as error:  # of the user's dataset, collator or device; raised again by take()
            raised = error

        def take() -> T:
            raise raised

        return None, take

    @abstractmethod
    def _arrays(self, result: Any) -> Any:
        """Return what the collator makes a batch of."""

    @abstractmethod
    def _taken(self, result: Any) -> None:
        """Count a batch that is given out."""

    def close(self) -> None:
        """End the threads or processes, and release shared memory."""
        self._next = None
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        engine = getattr(self, "_engine", None)
        if engine is not None:
            engine.close()


class Epoch(Batches[T]):
    """The batches of an epoch of a `Loader`."""

    def __init__(self, engine: Engine[Any], collator: Collator[T], epoch: int, start: int, count: int) -> None:
        super().__init__(engine, collator, epoch)
        self.position = start
        """The number of the next batch: ``loader.epoch(epoch.number, start=epoch.position)`` continues from here."""
        self._count = count

    def __len__(self) -> int:
        """The number of batches that are left."""
        return self._count - self.position

    def _arrays(self, result: Any) -> Any:
        return result

    def _taken(self, result: Any) -> None:
        self.position += 1


class StreamEpoch(Batches[T]):
    """The batches of an epoch of a `StreamLoader`."""

    def __init__(self, engine: Engine[Any], collator: Collator[T], epoch: int, state: Any) -> None:
        super().__init__(engine, collator, epoch)
        self.state = state
        """The state after the last batch: ``loader.epoch(epoch.number, state=epoch.state)`` continues from here."""

    def _arrays(self, result: Any) -> Any:
        return result[0]

    def _taken(self, result: Any) -> None:
        self.state = result[1]
