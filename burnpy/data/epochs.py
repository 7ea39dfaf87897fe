"""`Epoch`: the iterator over the batches of an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from burnpy.data.collate import Collator
from burnpy.data.engines.base import Engine

T = TypeVar("T")


class Epoch(Iterator[T], Generic[T]):
    """The batches of an epoch, in order.

    It ends its threads or processes and releases shared memory when it is exhausted, closed, or dropped, when a batch
    raises an error, and on Ctrl-C.
    """

    def __init__(self, engine: Engine[Any], collator: Collator[T], epoch: int, start: int, count: int) -> None:
        self._engine, self._collator = engine, collator
        self.number = epoch  #: the number of the epoch
        self.position = start
        """The number of the next batch: ``loader.epoch(epoch.number, start=epoch.position)`` continues from here."""
        self._count = count

    def __len__(self) -> int:
        """The number of batches that are left."""
        return self._count - self.position

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            batch = self._collator.batch(self._engine.next())
        except BaseException:  # the end, an error of a worker, or Ctrl-C
            self.close()
            raise
        self.position += 1
        return batch

    def close(self) -> None:
        """End the threads or processes, and release shared memory."""
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
