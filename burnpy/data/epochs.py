"""The work of making one batch, the same for all engines, and the iterators over the batches of an epoch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self

import numpy as np

from burnpy.backend.errors import ArgumentError, BurnpyError, LoadingError, counted
from burnpy.data.collate import Collator, Samples
from burnpy.data.dataset import Dataset
from burnpy.data.order_and_randomness import SAMPLES, BatchRandom, Mixing
from burnpy.data.workers import BatchEngine
from burnpy.tensor.call_errors import Explaining
from burnpy.tensor.dim_checks import checked_count
from burnpy.typevars import T

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Share:
    """The part of every batch that a loader returns: all of it, or one rank's part."""

    rank: int = 0
    size: int = 1
    empty: bool = False  #: whether ranks may have no samples of a batch

    def shared(self, rank: int, size: int, batch_size: int, empty: bool) -> Share:
        """Return one rank's part of several of the whole."""
        if self.size > 1:
            raise ArgumentError(f"shard() was called on rank {self.rank} of {self.size}; call it on the whole loader")
        if checked_count(rank, "rank", 0, "shard()") >= checked_count(size, "size", 1, "shard()"):
            raise ArgumentError(f"shard() got rank {rank} of {size}; ranks go from 0 to size - 1")
        if size > batch_size and not empty:
            raise ArgumentError(
                f"shard() got batches of {batch_size} for {size} ranks; expected a sample for each rank"
            )
        return Share(rank, size, empty)

    def of(self, low: int, high: int) -> slice:
        """Return the rank's part of the places from low to high - 1; where there are any, rank 0 has one."""
        count = high - low
        return slice(low - (-count * self.rank // self.size), low - (-count * (self.rank + 1) // self.size))

    def refuse_empty(self, samples: int, number: int | None, epoch: int) -> None:
        """Raise an error for a batch that leaves a rank without samples, unless that is allowed."""
        if samples < self.size and not self.empty:
            batch = "a batch" if number is None else f"batch {number}"
            raise ArgumentError(
                f"{batch} of epoch {epoch} has {counted(samples, 'sample')}, fewer than the {self.size} ranks that "
                "share it; choose another batch_size, drop_last=True, or shard(..., empty=True), which gives None to "
                "some"
            )


class BatchTask(NamedTuple):
    """A batch that is to be made."""

    epoch: int
    number: int  #: the number of the batch in the epoch
    indices: NDArray[np.int64]  #: of its samples, those of all ranks
    repeats: NDArray[np.int64] | None  #: for each sample, how often it occurred before in the epoch


@dataclass(frozen=True)
class MakeBatch:
    """Makes the arrays of a batch: takes the samples from the dataset, and gives them to the collator."""

    dataset: Dataset[Any]
    collator: Collator[Any]
    seed: int
    share: Share

    @property
    def parts(self) -> dict[str, Any]:
        """The objects of the user, by name."""
        return {"dataset": self.dataset, "collator": self.collator}

    def __call__(self, task: BatchTask, stopped: Callable[[], bool]) -> Any:
        """Return the result of the collator's ``arrays``; None if the rank has no samples, or ``stopped`` says that
        nobody waits any more."""
        number, (places, count, mixing) = task.number, chosen(self.share, self.collator, self.seed, task)
        if not count:
            return None
        indices = task.indices[places]
        repeats = None if task.repeats is None else task.repeats[places]
        try:
            columns = self.dataset.columns(indices)
        except Exception as error:  # the dataset is the user's code; its error is the cause of the LoadingError
            raise loading_error(f"samples {listed(indices)}", error, None, number, task.epoch) from error
        items: list[Any] = []
        if columns is None:
            generators: Any = [None] * len(indices)
            if self.dataset.is_random:
                generators = BatchRandom(self.seed, task.epoch, indices, repeats, purpose=SAMPLES).generators()
            for i, generator in zip(indices.tolist(), generators, strict=True):
                if stopped():
                    return None
                try:
                    items.append(self.dataset.draw(i, generator))
                except Exception as error:  # likewise
                    raise loading_error(f"sample {i}", error, i, number, task.epoch) from error
        rng = BatchRandom(self.seed, task.epoch, indices, repeats, mixing=mixing)
        return collated(self.collator, Samples(indices, items, columns, rng, count), number, task.epoch)


def chosen(share: Share, collator: Collator[Any], seed: int, task: Any) -> tuple[Any, int, Mixing | None]:
    """Return the places of the samples that a rank needs, how many of them are its own, and who is mixed with whom."""
    part = share.of(0, len(task.indices))
    count = part.stop - part.start
    if share.size == 1:
        return part, count, None
    mixing = Mixing(seed, task.epoch, task.indices, task.repeats)
    return mixing.needed(np.arange(part.start, part.stop), collator.mixes), count, mixing


def collated(collator: Collator[Any], samples: Samples, number: int, epoch: int) -> Any:
    """Return the result of the collator's ``arrays``."""
    try:
        return collator.arrays(samples)
    except BurnpyError:
        raise  # its message names the samples
    except Exception as error:  # the collator is the user's code
        what = f"the collation of samples {listed(samples.indices)}"
        raise loading_error(what, error, None, number, epoch) from error


def loading_error(what: str, error: Exception, index: int | None, number: int, epoch: int) -> LoadingError:
    """Return the error for an exception of the dataset or the collator."""
    said = f": {error}" if str(error) else ""
    return LoadingError(
        f"{what} of batch {number} of epoch {epoch} raised {type(error).__name__}{said}",
        index=index,
        batch=number,
        epoch=epoch,
    )


def listed(indices: NDArray[np.int64]) -> str:
    """Return indices for a message: all of a few, or the first ones."""
    shown = ", ".join(map(str, indices[:4].tolist()))
    return shown if len(indices) <= 4 else f"{shown}, … ({len(indices)} in all)"


class Batches(Iterator[T], Generic[T], metaclass=Explaining):
    """Batches in order, made in advance.

    On a GPU the next batch is copied to it while the present one is used. The threads or processes end and shared
    memory is released when the iterator is exhausted, closed, or dropped, when a batch raises an error, and on Ctrl-C.
    """

    def __init__(self, engine: BatchEngine[Any], collator: Collator[T], epoch: int) -> None:
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
        """Start to make the next batch; return the engine's handle, and a function that takes the batch."""
        result = self._engine.next()
        arrays = self._arrays(result)
        if arrays is None:  # where a rank has no samples
            return result, lambda: None  # type: ignore[return-value]  # a T, which then includes None
        return result, self._collator.started(arrays)

    def _started_ahead(self) -> tuple[Any, Callable[[], T]]:
        """Start to make the next batch. Exceptions, also at the end, are raised when the batch is needed."""
        try:
            return self._started()
        except Exception as error:  # of the user's dataset, collator or device; raised again by take()
            raised = error

        def take() -> T:
            raise raised

        return None, take

    @abstractmethod
    def _arrays(self, result: Any) -> Any:
        """Return the samples that the collator makes a batch of."""

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

    def __init__(self, engine: BatchEngine[Any], collator: Collator[T], epoch: int, start: int, count: int) -> None:
        super().__init__(engine, collator, epoch)
        self.position = start
        """The number of the next batch: ``loader.epoch(epoch.number, start=epoch.position)`` continues from here."""
        self._count = count

    def __len__(self) -> int:
        """Return the number of batches that are left."""
        return self._count - self.position

    def _arrays(self, result: Any) -> Any:
        return result

    def _taken(self, result: Any) -> None:
        self.position += 1


class StreamEpoch(Batches[T]):
    """The batches of an epoch of a `StreamLoader`."""

    def __init__(self, engine: BatchEngine[Any], collator: Collator[T], epoch: int, state: Any) -> None:
        super().__init__(engine, collator, epoch)
        self.state = state
        """The state after the last batch: ``loader.epoch(epoch.number, state=epoch.state)`` continues from here."""

    def _arrays(self, result: Any) -> Any:
        return result[0]

    def _taken(self, result: Any) -> None:
        self.state = result[1]
