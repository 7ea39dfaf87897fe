"""Samples that can only be read one after another: `Stream`, which has an explicit state, and its loader."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np

from burnpy.backend.errors import ArgumentError, CallError, a
from burnpy.data.child_processes import Kept
from burnpy.data.collate import Collator, Samples
from burnpy.data.epochs import Share, StreamEpoch, chosen, collated, loading_error
from burnpy.data.loader import EngineChoice, EngineName, SharedLoader, checked_collator
from burnpy.data.order_and_randomness import ORDER, BatchRandom, checked_seed, philox
from burnpy.tensor.call_errors import Explaining, explained
from burnpy.tensor.dim_checks import checked_count
from burnpy.typevars import T, T_co, U

if TYPE_CHECKING:
    from numpy.typing import NDArray

S = TypeVar("S")

State: TypeAlias = Any
"""A place in a stream: a value that the stream defines, such as an int or a tuple, best one that JSON can hold."""


class Stream(Generic[T_co], metaclass=Explaining):
    """Samples that are read one after another. A subclass defines `samples`.

    >>> class Lines(Stream[str]):
    ...     def samples(self, epoch, state):
    ...         for k in range(state or 0, 3):
    ...             yield f"line {k}", k + 1
    >>> [line for line, state in Lines().samples(0, None)]
    ['line 0', 'line 1', 'line 2']
    >>> next(Lines().samples(0, 2))
    ('line 2', 3)
    """

    @abstractmethod
    def samples(self, epoch: int, state: State | None) -> Iterator[tuple[T_co, State]]:
        """Return the samples of an epoch that come after a state, None for all; each with the state after it."""

    @explained
    def map(self, f: Callable[[T_co], U]) -> Stream[U]:
        """Return the samples ``f(sample)``. In a loader f runs in the workers."""
        return MappedStream(self, f)

    @explained
    def shuffle(self, size: int, *, seed: int) -> Stream[T_co]:
        """Return a stream of the samples in random order within blocks of ``size``; the order changes with each epoch.

        The state is the stream's state at the beginning of the block, and the place in the block.

        Raises:
            ArgumentError: the size is not positive, or the seed is no seed.
        """
        return ShuffledStream(self, checked_count(size, "size", 1, "shuffle()"), checked_seed(seed, "shuffle()"))


class MappedStream(Stream[T_co]):
    """The samples ``f(sample)``."""

    def __init__(self, inner: Stream[U], function: Callable[[U], T_co]) -> None:
        self.inner: Stream[Any] = inner
        self.function = function

    def samples(self, epoch: int, state: State | None) -> Iterator[tuple[T_co, State]]:
        """Yield the samples of the stream, mapped."""
        for sample, after in self.inner.samples(epoch, state):
            yield self.function(sample), after


class ShuffledStream(Stream[T_co]):
    """The samples in random order within blocks."""

    def __init__(self, inner: Stream[T_co], size: int, seed: int) -> None:
        self.inner, self.size, self.seed = inner, size, seed

    def samples(self, epoch: int, state: State | None) -> Iterator[tuple[T_co, State]]:
        """Yield the samples of each block, from the place in the first one that the state says."""
        number, place, start = (0, 0, None) if state is None else state
        source = self.inner.samples(epoch, start)
        while block := list(islice(source, self.size)):
            rng = philox(self.seed, epoch, ORDER)
            rng.bit_generator.advance(number << 128)  # type: ignore[attr-defined]  # Philox has it
            order = rng.permutation(len(block)).tolist()
            for k in range(place, len(block)):
                last = k + 1 == len(block)
                yield block[order[k]][0], (number + 1, 0, block[-1][1]) if last else (number, k + 1, start)
            number, place, start = number + 1, 0, block[-1][1]


class _Task(NamedTuple):
    epoch: int
    number: int
    first: int  # the number of the first sample in the epoch
    items: list[Any]
    state: dict[str, Any]  # after the batch

    @property
    def indices(self) -> NDArray[np.int64]:
        return np.arange(self.first, self.first + len(self.items))

    @property
    def repeats(self) -> None:
        """No sample is read twice."""


class StreamLoader(SharedLoader, Generic[T]):
    """Batches of a stream. One thread at a time reads; all of them map, collate and transform.

    The random numbers of a sample are a function of the seed, the epoch, and the number of samples before it.

    Args:
        stream: a `Stream`.
        collate: see `Loader`.
        batch_size: the number of samples in a batch; the last one of an epoch can be smaller.
        seed: an int from 0 to 2**64 - 1.
        drop_last: whether to leave out a last batch that is smaller.
        workers: the number of threads or processes.
        engine: "threads" or "processes". With processes, the thread that takes the batches reads the stream, and
            sends them the samples by pickle; see `Loader`.
        prefetch: the number of batches made ahead; by default two for each worker.

    Raises:
        ArgumentError: a number is out of range.
        CallError: ``stream`` is no `Stream`, or ``collate`` cannot be called.

    >>> class Numbers(Stream[int]):
    ...     def samples(self, epoch, state):
    ...         return ((k, k + 1) for k in range(state or 0, 7))
    >>> loader = StreamLoader(Numbers().map(lambda k: k * k), list, batch_size=3, workers=1)
    >>> epoch = loader.epoch(0)
    >>> next(epoch), epoch.state
    ([0, 1, 4], {'samples': 3, 'batches': 1, 'stream': 3})
    >>> [*loader.epoch(0, state=epoch.state)]
    [[9, 16, 25], [36]]
    """

    @explained
    def __init__(
        self,
        stream: Stream[S],
        collate: Collator[T] | Callable[[list[S]], T],
        *,
        batch_size: int,
        seed: int = 0,
        drop_last: bool = False,
        workers: int = 0,
        engine: EngineName = "threads",
        prefetch: int | None = None,
    ) -> None:
        argument: object = stream
        if not isinstance(argument, Stream):
            raise CallError(
                f"StreamLoader() got {a(type(argument).__name__)}; expected a burnpy.data.Stream, whose "
                "samples() gives each sample with the state after it"
            )
        self.stream: Stream[Any] = stream
        self.collator: Collator[T] = checked_collator(collate, "StreamLoader()")
        self.batch_size = checked_count(batch_size, "batch_size", 1, "StreamLoader()")
        self.seed = checked_seed(seed, "StreamLoader()")
        self.drop_last = drop_last
        self._engine = EngineChoice.checked(workers, engine, prefetch, "StreamLoader()")
        self.share = Share()
        self._kept = Kept()

    def epoch(self, epoch: int, *, start: int = 0, state: dict[str, Any] | None = None) -> StreamEpoch[T]:
        """Return the batches of an epoch, or those after a state, as an iterator; see `Loader.epoch`.

        Args:
            epoch: the number of the epoch, from 0.
            start: the number of the first batch. The samples of those before it are read, and not mapped; with a state
                nothing is read twice.
            state: the attribute ``state`` of an iterator that this returned, to continue after its last batch.

        Raises:
            ArgumentError: a number is negative, the state is none, or there are a start and a state.
        """
        checked_count(epoch, "epoch", 0, "epoch()")
        checked_count(start, "start", 0, "epoch()")
        if start and state is not None:
            raise ArgumentError("epoch() got a start and a state, which both set the beginning; pass one of them")
        before: Any = {"samples": 0, "batches": 0, "stream": None} if state is None else state
        if not isinstance(before, dict) or before.keys() != {"samples", "batches", "stream"}:
            raise ArgumentError("epoch() got a state that no epoch(...).state gave; give that attribute, or None")
        functions: list[Callable[[Any], Any]] = []
        stream = self.stream
        while isinstance(stream, MappedStream):
            functions.insert(0, stream.function)
            stream = stream.inner
        make = _MakeStreamBatch(tuple(functions), self.collator, self.seed, self.share)
        engine = self._engine.opened(make, islice(self._tasks(stream, epoch, before), start, None), None, self._kept)
        return StreamEpoch(engine, self.collator, epoch, before)

    def _tasks(self, stream: Stream[Any], epoch: int, before: dict[str, Any]) -> Iterator[_Task]:
        first, number, place = before["samples"], before["batches"], before["stream"]
        source = stream.samples(epoch, place)
        while True:
            items: list[Any] = []
            try:
                for sample, place in islice(source, self.batch_size):  # noqa: B007  # the last place is used
                    items.append(sample)
            except Exception as error:  # the source is the user's code; the error is the cause of the LoadingError
                what = f"reading sample {first + len(items)}"
                raise loading_error(what, error, first + len(items), number, epoch) from error
            if not items or (self.drop_last and len(items) < self.batch_size):
                return
            self.share.refuse_empty(len(items), number, epoch)
            state = {"samples": first + len(items), "batches": number + 1, "stream": place}
            yield _Task(epoch, number, first, items, state)
            first, number = first + len(items), number + 1

    def settings(self) -> dict[str, Any]:
        """Return the settings that determine the batches, as plain values; a resumed run must have the same ones."""
        return {
            "stream": type(self.stream).__name__,
            "batch_size": self.batch_size,
            "seed": self.seed,
            "drop_last": self.drop_last,
            "ranks": self.share.size,
        }

    @overload
    def shard(self, rank: int, size: int, *, empty: Literal[False] = False) -> StreamLoader[T]: ...
    @overload
    def shard(self, rank: int, size: int, *, empty: bool) -> StreamLoader[T | None]: ...
    @explained
    def shard(self, rank: int, size: int, *, empty: bool = False) -> StreamLoader[Any]:
        """Return a loader of one rank's part of every batch. Each rank reads the whole stream; see `Loader.shard`.

        Raises:
            ArgumentError: the rank is not from 0 to size - 1, there are more ranks than samples in a batch, or the
                loader is such a part already.
        """
        return self._part(rank, size, empty)  # type: ignore[no-any-return]  # a StreamLoader


@dataclass(frozen=True)
class _MakeStreamBatch:
    """Makes the arrays of a batch of samples that were read."""

    functions: tuple[Callable[[Any], Any], ...]
    collator: Collator[Any]
    seed: int
    share: Share

    @property
    def parts(self) -> dict[str, Any]:
        """The objects of the user, by name."""
        return {"stream.map": self.functions, "collator": self.collator}

    def __call__(self, task: _Task, stopped: Callable[[], bool]) -> Any:
        places, count, mixing = chosen(self.share, self.collator, self.seed, task)
        if not count:
            return None, task.state
        indices = task.indices[places]
        items = []
        for i in indices.tolist():
            if stopped():
                return None
            item = task.items[i - task.first]
            try:
                for function in self.functions:
                    item = function(item)
            except Exception as error:  # of the user's functions, likewise
                raise loading_error(f"sample {i}", error, i, task.number, task.epoch) from error
            items.append(item)
        rng = BatchRandom(self.seed, task.epoch, indices, mixing=mixing)
        samples = Samples(indices, items, None, rng, count)
        return collated(self.collator, samples, task.number, task.epoch), task.state
