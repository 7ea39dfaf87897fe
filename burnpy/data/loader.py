"""`Loader`: batches of a dataset, made ahead by threads or processes, in an order determined by (seed, epoch)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Literal, TypeAlias, TypeVar, overload
from zlib import crc32

import numpy as np

from burnpy.backend.errors import ArgumentError, CallError
from burnpy.data.batch import Batch, Indexable, SampleSource
from burnpy.data.child_processes import Kept
from burnpy.data.collate import Collator, FunctionCollator
from burnpy.data.dataset import Dataset, SequenceDataset, refuse_unindexable
from burnpy.data.epochs import BatchTask, Epoch, MakeBatch, Share
from burnpy.data.order_and_randomness import ORDER, InOrder, Plan, Sampler, Shuffled, batches_of, checked_seed, philox
from burnpy.data.workers import BatchEngine, ProcessEngine, SerialEngine, ThreadEngine, Work
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import checked_count
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import T

SAMPLES = 16
"""The number of samples that are read: enough to tell another set, or another order, and quick to read."""


def checksum(dataset: SampleSource[Any]) -> str | None:
    """Return a checksum of up to 16 samples at even distances, as hexadecimal digits.

    Only samples that come as columns are read, such as those of `burnpy.data.ArrayDataset` and parts of it: a function
    that makes samples one by one may draw random numbers of its own.

    Returns:
        Equal for equal samples, in every process; None where there are no columns or no samples.

    >>> from burnpy.data import ArrayDataset
    >>> data = ArrayDataset(x=np.arange(100.0))
    >>> checksum(data) == checksum(ArrayDataset(x=np.arange(100.0))), checksum(data) == checksum(data.subset(range(99)))
    (True, False)
    """
    size = len(dataset)
    if not size or dataset.is_random:
        return None
    rows = np.unique(np.linspace(0, size - 1, SAMPLES).round().astype(np.int64))
    columns = dataset.columns(rows)
    if columns is None:
        return None
    total = 0
    for name, column in sorted(columns.items()):
        if not column.dtype.hasobject:  # whose bytes are addresses
            total = crc32(f"{name} {column.dtype} {column.shape}".encode(), total)
            total = crc32(np.ascontiguousarray(column).tobytes(), total)
    return f"{total:08x}"


@dataclass(frozen=True)
class EngineChoice:
    """The settings of an engine: the number and kind of workers, and the number of batches made ahead."""

    workers: int
    engine: str
    prefetch: int

    @staticmethod
    def checked(workers: Any, engine: Any, prefetch: Any, owner: str) -> EngineChoice:
        """Return a checked choice.

        Raises:
            ArgumentError: a number is out of range, or there is no such engine.
        """
        workers = checked_count(workers, "workers", 0, owner)
        if engine not in ("threads", "processes"):
            raise ArgumentError(f"{owner} got engine={describe(engine)}; expected 'threads' or 'processes'")
        ahead = 2 * workers if prefetch is None else checked_count(prefetch, "prefetch", min(workers, 1), owner)
        return EngineChoice(workers, engine, ahead)

    def opened(self, work: Work, tasks: Iterator[Any], count: int | None, kept: Kept) -> BatchEngine[Any]:
        """Start an engine that does the work.

        Args:
            work: see `Work`.
            tasks: taken one by one, by one thread at a time.
            count: the number of tasks, where it is known.
            kept: keeps processes until the next epoch.
        """
        workers = self.workers if count is None else min(self.workers, count)
        if not workers:
            return SerialEngine(work, tasks)
        if self.engine == "processes":
            return ProcessEngine(work, tasks, workers, self.prefetch, kept)
        return ThreadEngine(work, tasks, workers, self.prefetch)


S = TypeVar("S")

EngineName: TypeAlias = Literal["threads", "processes"]


class SharedLoader:
    """The base class of loaders: batches that ranks share, made by processes that may wait for the next epoch."""

    batch_size: int
    share: Share
    _kept: Kept

    def _part(self, rank: int, size: int, empty: bool) -> Any:
        """Return a loader of one rank's part of every batch."""
        part = object.__new__(type(self))
        part.__dict__.update(self.__dict__)
        part.share = self.share.shared(rank, size, self.batch_size, empty)
        part._kept = Kept()
        return part

    def close(self) -> None:
        """End the processes that wait for the next epoch, which dropping the loader does too."""
        self._kept.close()


class Loader(SharedLoader, Generic[T]):
    """Batches of a dataset.

    The order of an epoch is a function of the seed and the epoch, and the random numbers of a sample of the seed, the
    epoch and the sample. So the batches are the same, to the bit, for any number of workers, threads or processes, and
    an epoch can be continued at any batch: ``loader.epoch(3, start=517)``. A loader has no state.

    Args:
        dataset: a `Dataset`, or anything with ``len`` and ``[i]``.
        collate: makes a batch of samples: the result of `collate` or `pad_collate`, or a function of a list of samples.
        batch_size: the number of samples in a batch; the last one of an epoch can be smaller.
        shuffle: whether each epoch has an order of its own.
        sampler: another order, instead of ``shuffle``: `Weighted`, `Balanced`, `BucketByLength`.
        seed: an int from 0 to 2**64 - 1.
        drop_last: whether to leave out a last batch that is smaller.
        workers: the number of threads or processes that make batches ahead; 0 to make each when it is needed.
        engine: "threads", which share all memory and wait for each other where a dataset computes in Python;
            or "processes", which have interpreters of their own. A process gets the dataset and the collator by pickle;
            arrays are shared, not copied for each. Processes that have done an epoch go on in the next, as long as the
            loader is there and the dataset and the collator have not changed.
        prefetch: the number of batches made ahead; by default two for each worker.

    Raises:
        ArgumentError: a number is out of range, or both ``shuffle`` and ``sampler`` are given.
        CallError: the dataset has no ``len`` or no ``[i]``, or ``collate`` cannot be called.

    >>> from burnpy.data import ArrayDataset, collate
    >>> data = ArrayDataset(x=np.arange(5.0), y=np.arange(5))
    >>> loader = Loader(data, collate(device=NumPy), batch_size=2, shuffle=True, seed=1, workers=2)
    >>> whole = [batch.y.tolist() for batch in loader.epoch(3)]
    >>> [batch.y.tolist() for batch in loader.epoch(3, start=1)] == whole[1:], len(loader)
    (True, 3)
    """

    @explained
    def __init__(
        self,
        dataset: Indexable[S],
        collate: Collator[T] | Callable[[list[S]], T],
        *,
        batch_size: int,
        shuffle: bool = False,
        sampler: Sampler | None = None,
        seed: int = 0,
        drop_last: bool = False,
        workers: int = 0,
        engine: EngineName = "threads",
        prefetch: int | None = None,
    ) -> None:
        refuse_unindexable(dataset, "Loader()")
        self.dataset: Dataset[Any] = dataset if isinstance(dataset, Dataset) else SequenceDataset(dataset)
        self.collator: Collator[T] = checked_collator(collate, "Loader()")
        self.batch_size = checked_count(batch_size, "batch_size", 1, "Loader()")
        order: object = sampler
        if order is not None and not isinstance(order, Sampler):
            raise ArgumentError(f"Loader() got sampler={describe(order)}; expected a burnpy.data.Sampler")
        if order is not None and shuffle:
            raise ArgumentError(
                "Loader() got shuffle=True and a sampler, which decides the order; leave one of them out"
            )
        self.sampler: Sampler = sampler or (Shuffled() if shuffle else InOrder())
        self.seed = checked_seed(seed, "Loader()")
        self.drop_last = drop_last
        self._engine = EngineChoice.checked(workers, engine, prefetch, "Loader()")
        self.share = Share()
        self._kept = Kept()

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        return batches_of(self.sampler.length(len(self.dataset)), self.batch_size, self.drop_last)

    @explained
    def epoch(self, epoch: int, *, start: int = 0) -> Epoch[T]:
        """Return the batches of an epoch from number ``start`` on, as an iterator.

        The iterator can be closed, and is when it is dropped, or when an error leaves a ``with`` block; its threads or
        processes then end, and its shared memory is released.

        Args:
            epoch: the number of the epoch, from 0.
            start: the number of the first batch, to continue an epoch that was interrupted after this many batches.

        Raises:
            ArgumentError: a number is negative, or ``start`` is beyond the last batch.
        """
        checked_count(epoch, "epoch", 0, "epoch()")
        plan = self.plan(epoch)
        count = len(plan.starts) - 1
        if not 0 <= start <= count:
            raise ArgumentError(f"epoch() cannot start at batch {start}: an epoch has {count} batches")
        make = MakeBatch(self.dataset, self.collator, self.seed, self.share)
        engine = self._engine.opened(make, _tasks(plan, epoch, range(start, count)), count - start, self._kept)
        return Epoch(engine, self.collator, epoch, start, count)

    @cached_property
    def _checksum(self) -> str | None:
        """The checksum of the dataset, which is read when a run is saved."""
        return checksum(self.dataset)

    @cached_property
    def _checksum_of_order(self) -> str | None:
        """Return a checksum of the order of epoch 0, for samplers with settings of their own, such as weights."""
        if isinstance(self.sampler, (InOrder, Shuffled)):
            return None
        plan = self.sampler.plan(len(self.dataset), self.batch_size, self.drop_last, philox(self.seed, 0, ORDER))
        return f"{crc32(plan.starts.tobytes(), crc32(plan.indices.tobytes())):08x}"

    def settings(self) -> dict[str, Any]:
        """Return the settings that determine the batches, as plain values; a resumed run must have the same ones.

        The content of the dataset is among them as a checksum of some samples, where they are rows of arrays: see
        `burnpy.data.loader.checksum`. So is the order of a sampler's first epoch.
        """
        return {
            "samples": len(self.dataset),
            "checksum of samples": self._checksum,
            "batch_size": self.batch_size,
            "sampler": type(self.sampler).__name__,
            "checksum of order": self._checksum_of_order,
            "seed": self.seed,
            "drop_last": self.drop_last,
            "ranks": self.share.size,
        }

    @explained
    def plan(self, epoch: int) -> Plan:
        """Return the indices of the samples of all batches of an epoch, before they are shared among ranks.

        Raises:
            ArgumentError: the epoch is negative, or there are fewer samples in a batch than ranks that share it.
        """
        checked_count(epoch, "epoch", 0, "plan()")
        rng = philox(self.seed, epoch, ORDER)
        plan = self.sampler.plan(len(self.dataset), self.batch_size, self.drop_last, rng)
        smallest = int(np.diff(plan.starts).min(initial=self.share.size))
        self.share.refuse_empty(smallest, None, epoch)
        return plan

    @overload
    def shard(self, rank: int, size: int, *, empty: Literal[False] = False) -> Loader[T]: ...
    @overload
    def shard(self, rank: int, size: int, *, empty: bool) -> Loader[T | None]: ...
    @explained
    def shard(self, rank: int, size: int, *, empty: bool = False) -> Loader[Any]:
        """Return a loader of one rank's part of every batch; the parts of all ranks make up this loader's batch.

        ``batch_size`` still counts the samples of all ranks together. All ranks have the same number of batches, and
        the parts differ by one sample at most.

        Args:
            rank: the number of the rank.
            size: the number of ranks.
            empty: whether a batch may have fewer samples than there are ranks. Ranks without samples get None.

        Raises:
            ArgumentError: the rank is not from 0 to size - 1, there are more ranks than samples in a batch, or the
                loader is such a part already.

        >>> from burnpy.data import ArrayDataset, collate
        >>> loader = Loader(ArrayDataset(y=np.arange(4)), collate(device=NumPy), batch_size=4)
        >>> [[batch.y.tolist() for batch in loader.shard(rank, 2)] for rank in range(2)]
        [[[0, 1]], [[2, 3]]]
        """
        return self._part(rank, size, empty)  # type: ignore[no-any-return]  # a Loader

    def __iter__(self) -> Iterator[T]:
        """Return the batches of epoch 0, for loaders whose epochs are all alike.

        Raises:
            CallError: epochs differ, by their order or by `Dataset.map_random`, and one is to be chosen.
        """
        if not self.sampler.is_fixed or self.dataset.is_random:
            what = "random samples" if self.sampler.is_fixed else "another order"
            raise CallError(
                f"this loader has {what} in each epoch, and was iterated without one; write loader.epoch(0), "
                "loader.epoch(1), ..."
            )
        return self.epoch(0)

    def __repr__(self) -> str:
        share = f", rank {self.share.rank} of {self.share.size}" if self.share.size > 1 else ""
        return (
            f"Loader({len(self)} batches of {self.batch_size}, {type(self.sampler).__name__}, seed={self.seed}{share})"
        )


def _tasks(plan: Plan, epoch: int, numbers: range) -> Iterator[BatchTask]:
    for number in numbers:
        places = slice(int(plan.starts[number]), int(plan.starts[number + 1]))
        repeats = None if plan.repeats is None else plan.repeats[places]
        yield BatchTask(epoch, number, plan.indices[places], repeats)


def checked_collator(collate: Any, owner: str) -> Collator[Any]:
    """Return a collator or a function as a collator."""
    if isinstance(collate, Collator):
        return collate
    cls = getattr(collate, "__origin__", collate)
    if not callable(collate) or (isinstance(cls, type) and issubclass(cls, Batch)):
        raise CallError(
            f"{owner} got {describe(collate)} as collate; write burnpy.data.collate(device=NumPy), or give a "
            "function of a list of samples"
        )
    return FunctionCollator(collate)
