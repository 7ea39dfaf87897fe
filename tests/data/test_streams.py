"""Streams: continued exactly from an explicit state, mapped and shuffled."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy.data import BatchRandom, Stream, StreamLoader, collate
from burnpy.data.transforms import Mixup
from burnpy.errors import ArgumentError, CallError, LoadingError
from tests.rows import every_row

N = 17


class Numbers(Stream[Any]):
    """Samples with their epoch; the state is the number of the next one."""

    def samples(self, epoch: int, state: Any) -> Iterator[Any]:
        for k in range(state or 0, N):
            yield {"i": k, "e": epoch}, k + 1


def noisy(columns: Any, rng: BatchRandom) -> Any:
    return {**columns, "r": rng.normal(shape=(3,))}


def twice(sample: Any) -> Any:
    return {**sample, "t": sample["i"] * 2}


def loader(stream: Any = None, **options: Any) -> StreamLoader[Any]:
    stream = Numbers().shuffle(5, seed=1).map(twice).map(dict) if stream is None else stream
    return StreamLoader(stream, collate(device=NumPy, transform=noisy), **{"batch_size": 3, "seed": 4, **options})


def bits(batch: Any) -> list[bytes]:
    names = batch.keys()
    return [batch[name].to_numpy().tobytes() for name in names]


def test_all_samples_in_order() -> None:
    batches = [*loader(Numbers()).epoch(2)]
    assert [i for batch in batches for i in batch.i.tolist()] == list(range(N))
    assert {e for batch in batches for e in batch.e.tolist()} == {2}
    assert [len(batch) for batch in batches] == [3] * 5 + [2]
    assert [len(batch) for batch in loader(drop_last=True).epoch(0)] == [3] * 5


@pytest.mark.parametrize("workers", [1, 3])
def test_any_number_of_threads_gives_the_same_bits(workers: int) -> None:
    assert [bits(b) for b in loader(workers=workers).epoch(1)] == [bits(b) for b in loader().epoch(1)]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_is_continued_exactly(workers: int) -> None:
    whole = [bits(batch) for batch in loader().epoch(1)]
    for k in range(len(whole) + 1):
        epoch = loader(workers=workers).epoch(1)
        for _ in range(k):
            next(epoch)
        state = json.loads(json.dumps(epoch.state))
        epoch.close()
        assert [bits(batch) for batch in loader(workers=workers).epoch(1, state=state)] == whole[k:]


def test_an_epoch_begins_at_any_batch() -> None:
    whole = [bits(batch) for batch in loader().epoch(1)]
    for start in range(len(whole) + 2):
        assert [bits(batch) for batch in loader(workers=start % 3).epoch(1, start=start)] == whole[start:]
    state = next_state(loader().epoch(1, start=2))
    assert [bits(batch) for batch in loader().epoch(1, state=state)] == whole[3:]


def next_state(epoch: Any) -> Any:
    next(epoch)
    return epoch.state


def test_random_numbers_depend_on_the_epoch_and_the_sample() -> None:
    rows = [tuple(row) for epoch in range(2) for batch in loader().epoch(epoch) for row in batch.r.tolist()]
    assert len(set(rows)) == 2 * N
    other = [tuple(row) for batch in loader(batch_size=5).epoch(0) for row in batch.r.tolist()]
    assert other == rows[:N]


def test_shuffled_within_blocks() -> None:
    def order(epoch: int) -> list[int]:
        return [sample["i"] for sample, _ in Numbers().shuffle(5, seed=1).samples(epoch, None)]

    assert order(0) == order(0) != order(1)
    blocks = [order(0)[k : k + 5] for k in range(0, N, 5)]
    assert [sorted(block) for block in blocks] == [[*range(k, min(k + 5, N))] for k in range(0, N, 5)]
    assert len({tuple(np.subtract(block, min(block))) for block in blocks[:3]}) > 1  # another order in each


def test_shards_make_up_the_batches() -> None:
    whole = [bits(batch)[0] for batch in loader().epoch(0)]
    parts = [[bits(batch)[0] for batch in loader(workers=rank).shard(rank, 2).epoch(0)] for rank in range(2)]
    assert [a + b for a, b in zip(*parts, strict=True)] == whole
    with pytest.raises(ArgumentError, match="batch 5 of epoch 0 has 2 samples, fewer than the 3 ranks"):
        list(loader().shard(0, 3).epoch(0))


def test_shards_of_mixed_samples_make_up_the_batches() -> None:
    made = collate(device=NumPy, transform=[noisy, Mixup(0.5)])
    stream = Numbers().map(lambda sample: {"x": float(sample["i"]), "y": [1.0, float(sample["e"])]})
    whole = StreamLoader(stream, made, batch_size=6, seed=4)
    parts = [[bits(batch) for batch in whole.shard(rank, 2).epoch(1)] for rank in range(2)]
    joined = [[b"".join(columns) for columns in zip(*ranks, strict=True)] for ranks in zip(*parts, strict=True)]
    assert joined == [bits(batch) for batch in whole.epoch(1)]


class Failing(Stream[int]):
    def samples(self, epoch: int, state: Any) -> Iterator[Any]:
        yield from ((k, k + 1) for k in range(5))
        raise OSError("the disk is gone")


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_of_the_stream_and_of_maps(workers: int) -> None:
    epoch = StreamLoader(Failing(), list, batch_size=2, workers=workers).epoch(0)
    assert [next(epoch), next(epoch)] == [[0, 1], [2, 3]]
    with pytest.raises(LoadingError, match="reading sample 5 of batch 2 of epoch 0 raised OSError: the disk") as caught:
        next(epoch)
    assert isinstance(caught.value.__cause__, OSError)
    inverse = StreamLoader(Failing().map(lambda k: 1 // (3 - k)), list, batch_size=2, workers=workers).epoch(0)
    with pytest.raises(LoadingError, match="sample 3 of batch 1 of epoch 0 raised ZeroDivisionError") as caught:
        list(inverse)
    assert caught.value.index == 3


def test_threads_end() -> None:
    epoch = loader(workers=2).epoch(0)
    next(epoch)
    epoch.close()
    limit = time.monotonic() + 60
    while any(t.name.startswith("burnpy.data") for t in threading.enumerate()) and time.monotonic() < limit:
        time.sleep(0.005)
    assert not any(t.name.startswith("burnpy.data") for t in threading.enumerate())
    assert list(epoch) == []


@every_row(
    "call, error, said",
    [
        (lambda: loader(iter([1])), CallError, r"expected a burnpy\.data\.Stream"),
        (lambda: loader(batch_size=0), ArgumentError, "batch_size"),
        (lambda: loader().epoch(0, state={"a": 1}), ArgumentError, "a state that no"),
        (lambda: loader().epoch(0, start=1, state=next_state(loader().epoch(0))), ArgumentError, "a start and a state"),
        (lambda: loader().epoch(0, start=-1), ArgumentError, "start=-1"),
        (lambda: Numbers().shuffle(0, seed=0), ArgumentError, "size="),
        (lambda: Numbers().shuffle(3, seed=-1), ArgumentError, "seed="),
        (lambda: loader().shard(2, 2), ArgumentError, "rank 2 of 2"),
    ],
)
def test_refused(call: Callable[[], Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        call()
