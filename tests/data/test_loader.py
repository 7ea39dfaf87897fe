"""Loaders: the order is a function of (seed, epoch), random numbers of (seed, epoch, sample), whatever makes them."""

from __future__ import annotations

import gc
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.data import (
    ArrayDataset,
    Balanced,
    Batch,
    BatchRandom,
    BucketByLength,
    Loader,
    Transform,
    Weighted,
    collate,
    from_sequence,
)
from burnpy.data.collate import Collator
from burnpy.data.loader import checksum
from burnpy.data.transforms import Mixup
from burnpy.errors import ArgumentError, CallError, LoadingError, ShapeError
from tests.rows import every_row

N = 23
WRONG: Any = Loader  # untyped, for wrong calls
COLUMNS: Any = ArrayDataset
COLLATE: Any = collate


def noisy(columns: Mapping[str, Any], rng: BatchRandom) -> Mapping[str, Any]:
    n = columns["x"].shape[1:]
    return {**columns, "a": rng.normal(shape=n), "b": rng.uniform(2.0, 3.0), "c": rng.integers(0, 10**9, (2,))}


def jittered(sample: Mapping[str, Any], rng: np.random.Generator) -> Mapping[str, Any]:
    return {**sample, "j": rng.integers(0, 10**9)}


def loader(mapped: bool = False, **options: Any) -> Loader[Batch[NumPy]]:
    data: Any = ArrayDataset(x=np.random.default_rng(0).normal(size=(N, 3)).astype("f4"), i=np.arange(N))
    if mapped:
        data = data.map_random(jittered)
    settings = {"batch_size": 4, "shuffle": True, "seed": 5, **options}
    return Loader(data, collate(device=NumPy, transform=noisy), **settings)


def bits(batch: Batch[Any]) -> dict[str, bytes]:
    return {name: batch[name].to_numpy().tobytes() for name in {**batch}}


def by_sample(batches: list[Batch[Any]]) -> dict[int, dict[str, bytes]]:
    """The bits of each sample."""
    return {
        int(i): {name: batch[name].to_numpy()[j].tobytes() for name in {**batch}}
        for batch in batches
        for j, i in enumerate(batch.i.tolist())
    }


def test_each_sample_once() -> None:
    seen = [i for batch in loader().epoch(0) for i in batch.i.tolist()]
    assert sorted(seen) == list(range(N))
    assert seen != sorted(seen)


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        return [i for batch in loader(seed=seed).epoch(epoch) for i in batch.i.tolist()]

    assert order(1, 2) == order(1, 2)
    assert len({tuple(order(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9


@every_row("mapped", [False, True])
@every_row("options", [{"workers": 1}, {"workers": 3, "prefetch": 1}, {"workers": 2, "prefetch": 9}])
def test_any_number_of_threads_gives_the_same_bits(mapped: bool, options: dict[str, Any]) -> None:
    alone = [bits(batch) for batch in loader(mapped).epoch(1)]
    assert [bits(batch) for batch in loader(mapped, **options).epoch(1)] == alone


@every_row("start", [0, 1, 5, 6])
@every_row("workers", [0, 2])
def test_an_epoch_is_continued_exactly(start: int, workers: int) -> None:
    whole = [bits(batch) for batch in loader(True).epoch(2)]
    assert len(whole) == 6
    continued = loader(True, workers=workers).epoch(2, start=start)
    assert len(continued) == 6 - start
    assert [bits(batch) for batch in continued] == whole[start:]


def test_the_position_is_where_to_continue() -> None:
    epoch = loader(workers=2).epoch(3)
    next(epoch), next(epoch)
    assert (epoch.number, epoch.position, len(epoch)) == (3, 2, 4)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_shards_make_up_the_batches(size: int) -> None:
    whole = [*loader(True).epoch(1)]
    parts = [[*loader(True, workers=rank).shard(rank, size).epoch(1)] for rank in range(size)]
    assert {len(part) for part in parts} == {len(whole)}
    for k, batch in enumerate(whole):
        assert [i for part in parts for i in part[k].i.tolist()] == batch.i.tolist()
    assert by_sample([batch for part in parts for batch in part]) == by_sample(whole)


@pytest.mark.parametrize("workers", [0, 2])
def test_ranks_without_samples_are_given_none_if_that_is_asked_for(workers: int) -> None:
    whole = [*loader(True).epoch(1)]
    parts = [[*loader(True, workers=workers).shard(rank, 7, empty=True).epoch(1)] for rank in range(7)]
    for k, batch in enumerate(whole):
        shared = [[] if (own := part[k]) is None else own.i.tolist() for part in parts]
        assert [i for part in shared for i in part] == batch.i.tolist()
        assert shared[0], "rank 0 has samples of every batch"
    assert any(batch is None for part in parts for batch in part)


def test_random_numbers_do_not_depend_on_the_batch() -> None:
    assert by_sample([*loader(True).epoch(1)]) == by_sample([*loader(True, batch_size=7, shuffle=False).epoch(1)])


def test_random_numbers_depend_on_seed_epoch_and_sample() -> None:
    numbers = [
        sample["b"]
        for seed in range(2)
        for epoch in range(2)
        for sample in by_sample([*loader(seed=seed).epoch(epoch)]).values()
    ]
    assert len(set(numbers)) == 4 * N


def test_samples_that_are_drawn_twice_differ() -> None:
    drawn = Weighted(np.ones(N), n=40)
    assert any(
        len({batch.b.tolist()[j] for batch in batches for j in range(len(batch)) if batch.i.tolist()[j] == i}) > 1
        for batches in [[*loader(shuffle=False, sampler=drawn).epoch(0)]]
        for i in range(N)
    )
    alone = [bits(batch) for batch in loader(True, shuffle=False, sampler=drawn).epoch(0)]
    assert [bits(batch) for batch in loader(True, shuffle=False, sampler=drawn, workers=2).epoch(0)] == alone


def test_drop_last_and_len() -> None:
    assert len(loader()) == 6
    assert len(loader(drop_last=True)) == 5
    assert [len(batch) for batch in loader(drop_last=True).epoch(0)] == [4] * 5
    assert [len(batch) for batch in loader().epoch(0)] == [4] * 5 + [3]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_empty_dataset_has_no_batches(workers: int) -> None:
    empty = Loader(ArrayDataset(x=np.zeros((0, 2))), collate(device=NumPy), batch_size=3, shuffle=True, workers=workers)
    assert len(empty) == 0
    assert [*empty.epoch(0)] == []


def test_iterating_a_loader() -> None:
    assert [batch.i.tolist()[0] for batch in loader(shuffle=False)] == [0, 4, 8, 12, 16, 20]
    with pytest.raises(CallError, match=r"loader\.epoch\(0\)"):
        iter(loader())
    with pytest.raises(CallError, match="random samples in each epoch"):
        iter(loader(True, shuffle=False))


@pytest.mark.slow
def test_weighted_and_balanced() -> None:
    weights = np.r_[np.zeros(N - 2), 1.0, 3.0]
    seen = Counter(i for b in loader(shuffle=False, sampler=Weighted(weights, n=4000)).epoch(0) for i in b.i.tolist())
    assert set(seen) == {N - 2, N - 1}
    assert 0.7 < seen[N - 1] / 4000 < 0.8
    labels = np.r_[0, np.ones(N - 1)]
    seen = Counter(i for b in loader(shuffle=False, sampler=Balanced(labels, n=2000)).epoch(0) for i in b.i.tolist())
    assert 900 < seen[0] < 1100
    without = Weighted(np.arange(N), n=N - 1, replacement=False)
    drawn = [i for b in loader(shuffle=False, sampler=without).epoch(0) for i in b.i.tolist()]
    assert sorted(drawn) == list(range(1, N))


@pytest.mark.parametrize("drop_last", [False, True])
def test_buckets_by_length(drop_last: bool) -> None:
    lengths = np.random.default_rng(1).integers(1, 100, N)
    pooled = loader(shuffle=False, sampler=BucketByLength(lengths, pool=100), drop_last=drop_last)
    batches = [batch.i.tolist() for batch in pooled.epoch(0)]
    assert len(batches) == len(pooled)
    assert sorted(map(len, batches)) == [4] * 5 if drop_last else [3] + [4] * 5
    spans = sorted((min(lengths[batch]), max(lengths[batch])) for batch in batches)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))  # lengths do not interleave
    assert [batch.i.tolist() for batch in pooled.epoch(1)] != batches


@every_row(
    "call, said",
    [
        (lambda: loader(batch_size=0), "batch_size=0|batch_size="),
        (lambda: loader(seed=-1), "seed="),
        (lambda: loader(workers=-1), "workers="),
        (lambda: loader(workers=2, prefetch=0), "prefetch="),
        (lambda: loader(engine="greenlets"), "'threads' or 'processes'"),
        (lambda: loader(sampler=Weighted([1.0])), "leave one of them out"),
        (lambda: loader(shuffle=False, sampler="random"), "expected a burnpy.data.Sampler"),
        (lambda: loader().epoch(-1), "epoch="),
        (lambda: loader().epoch(0, start=7), "start at batch 7: an epoch has 6"),
        (lambda: loader().shard(2, 2), "rank 2 of 2"),
        (lambda: loader().shard(0, 5), "for 5 ranks"),
        (lambda: loader().shard(0, 2).shard(0, 2), "rank 0 of 2"),
        (lambda: loader().shard(0, 4).epoch(0), "has 3 samples, fewer than the 4 ranks"),
        (lambda: loader(shuffle=False, sampler=Weighted([1.0])).epoch(0), "1 weights for 23"),
        (lambda: loader(shuffle=False, sampler=BucketByLength([1])).epoch(0), "1 lengths"),
        (lambda: Weighted([-1.0, 2.0]), "at least 0"),
        (lambda: Weighted([0.0, 1.0], n=2, replacement=False), "1 have a weight above 0"),
        (lambda: Balanced([[1]]), "one for each sample"),
        (lambda: BucketByLength([1], pool=0), "pool=0"),
        (lambda: BucketByLength([1], pool=2.5), "pool=2.5; expected an int"),  # type: ignore[arg-type]
        (lambda: Weighted([1.0], n=-1), r"Weighted\(\) got n=-1; expected an int of at least 0"),
        (lambda: Weighted(["a"]), "a number for each sample"),
        (lambda: Balanced([1], n=2.5), r"Balanced\(\) got n=2.5"),  # type: ignore[arg-type]
        (lambda: loader().epoch(2**56), r"a number below 2\*\*56"),
        (lambda: BatchRandom(-1, 0, [1]), r"BatchRandom\(\) got seed=-1; a seed is an int"),
        (lambda: BatchRandom(0, -1, [1]), r"BatchRandom\(\) got epoch=-1"),
        (lambda: BatchRandom(0, 0, [1, -1]), r"samples=\[1, -1\]; expected an int of at least 0 for each"),
        (lambda: BatchRandom(0, 0, [1.5]), r"samples=\[1.5\]"),  # type: ignore[list-item]
        (lambda: BatchRandom(0, 0, [1], [2, 3]), "2 repeats for 1 samples"),  # type: ignore[arg-type]
        (lambda: BatchRandom(True, 0, [1]), r"BatchRandom\(\) got seed=True; a seed is an int"),
        (lambda: BucketByLength(["10", "9"]), r"lengths=\['10', '9'\]; expected a number for each sample"),
        (lambda: loader().shard(0.5, 2), r"shard\(\) got rank=0.5; expected an int"),  # type: ignore[call-overload]
        (lambda: loader().shard(False, 2), r"shard\(\) got rank=False; expected an int"),
        (lambda: ArrayDataset(x=np.ones(3)).window(True), r"window\(\) got size=True; expected an int of at least 1"),
        (
            lambda: ArrayDataset(x=np.ones(3)).split(True, seed=0),
            r"split\(\) got fraction=True; expected a number from 0 to 1",
        ),
    ],
)
def test_refused_arguments(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        call()


def test_weights_whose_sum_overflows_are_probabilities() -> None:
    assert Weighted([1e308, 1e308, 0.0]).probabilities.tolist() == [0.5, 0.5, 0.0]


def test_refused_datasets_and_collators() -> None:
    data: Any = 3
    with pytest.raises(CallError, match="a dataset has len"):
        Loader(data, collate(device=NumPy), batch_size=1)
    collator: Any = Batch
    with pytest.raises(CallError, match="collate"):
        Loader([1], collator, batch_size=1)


def test_a_function_collates() -> None:
    assert [*Loader([1, 2, 3], sum, batch_size=2, workers=1)] == [3, 3]
    rows = Loader(ArrayDataset(x=np.arange(3)), lambda samples: [int(s["x"]) for s in samples], batch_size=2)
    assert [*rows] == [[0, 1], [2]]


def fails_at(k: int, error: BaseException) -> Callable[[Any], Any]:
    def function(sample: Any) -> Any:
        if sample["i"] == k:
            raise error
        return sample

    return function


@pytest.mark.parametrize("workers", [0, 2])
def test_an_exception_arrives_with_its_index_and_traceback(workers: int) -> None:
    data = ArrayDataset(i=np.arange(10)).map(fails_at(5, KeyError("label")))
    epoch = Loader(data, collate(device=NumPy), batch_size=2, workers=workers).epoch(0)
    assert [next(epoch).i.tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(LoadingError, match="sample 5 of batch 2 of epoch 0 raised KeyError: 'label'") as caught:
        next(epoch)
    assert (caught.value.index, caught.value.batch, caught.value.epoch) == (5, 2, 0)
    cause = caught.value.__cause__
    assert isinstance(cause, KeyError)
    names = []
    traceback = cause.__traceback__
    while traceback is not None:
        names.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    assert names[-1] == "function"
    assert [*epoch] == []  # it is closed


@pytest.mark.parametrize("workers", [0, 2])
def test_a_transform_that_raises(workers: int) -> None:
    def wrong(columns: Any, rng: Any) -> Any:
        raise ZeroDivisionError

    data = ArrayDataset(i=np.arange(10))
    epoch = Loader(data, collate(device=NumPy, transform=wrong), batch_size=6, workers=workers).epoch(4)
    with pytest.raises(LoadingError, match=r"samples 0, 1, 2, 3, … \(6 in all\) of batch 0 of epoch 4 raised Zero"):
        next(epoch)


def threads() -> int:
    return sum(thread.name.startswith("burnpy.data") for thread in threading.enumerate())


def ended() -> bool:
    limit = time.monotonic() + 60.0
    while threads() and time.monotonic() < limit:
        time.sleep(0.005)
    return not threads()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["exhaust", "close", "with", "drop", "break", "error", "interrupt"])
def test_threads_end(how: str) -> None:
    assert ended()  # those of the tests before
    many = loader(workers=2, batch_size=1)
    epoch: Any = many.epoch(0)
    next(epoch)
    assert threads() == 2
    if how == "exhaust":
        list(epoch)
    elif how == "close":
        epoch.close()
        epoch.close()
        assert list(epoch) == []
    elif how == "with":
        with epoch:
            pass
    elif how == "break":
        for _ in epoch:
            break
    elif how == "error":
        epoch._collator = None
        with pytest.raises(AttributeError):
            next(epoch)
    elif how == "interrupt":

        class Interrupting(Collator[Any]):
            def arrays(self, samples: Any) -> Any:
                return None

            def batch(self, arrays: Any) -> Any:
                raise KeyboardInterrupt

        epoch._collator = Interrupting()
        with pytest.raises(KeyboardInterrupt):
            next(epoch)
    if how in ("drop", "break"):
        del epoch
        gc.collect()
    assert ended()


def test_threads_make_at_most_prefetch_batches_ahead() -> None:
    made: list[int] = []

    def count(columns: Any, rng: Any) -> Any:
        made.append(1)
        return columns

    data = ArrayDataset(i=np.arange(100))
    epoch = Loader(data, collate(device=NumPy, transform=count), batch_size=1, workers=3, prefetch=4).epoch(0)
    next(epoch)
    limit = time.monotonic() + 60
    while len(made) < 5 and time.monotonic() < limit:
        time.sleep(0.005)
    time.sleep(0.05)  # a fifth one ahead would be made now
    assert len(made) == 5
    epoch.close()


def test_two_epochs_at_once() -> None:
    both = loader(workers=2)
    first, second = both.epoch(0), both.epoch(1)
    mixed = [(bits(a), bits(b)) for a, b in zip(first, second, strict=True)]
    assert [a for a, _ in mixed] == [bits(batch) for batch in loader().epoch(0)]
    assert [b for _, b in mixed] == [bits(batch) for batch in loader().epoch(1)]


def test_batches_on_an_autodiff_device() -> None:
    data = ArrayDataset(x=np.ones((4, 2), np.float32), y=np.arange(4))
    (batch,) = Loader(data, collate(device=Autodiff[NumPy]), batch_size=4)
    assert type(batch.x) is Tensor
    assert type(batch.y) is IntTensor
    assert batch.x.device is Autodiff(NumPy())
    assert batch.inner().x.device is NumPy()


def test_settings_tell_what_a_resumed_run_needs() -> None:
    assert loader().settings() == {
        "samples": N,
        "checksum of samples": checksum(loader().dataset),
        "batch_size": 4,
        "sampler": "Shuffled",
        "checksum of order": None,
        "seed": 5,
        "drop_last": False,
        "ranks": 1,
    }
    assert loader().shard(0, 2).settings() != loader().settings() == loader(workers=3).settings()
    one, same, other = (weighted(weights).settings() for weights in ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]))
    assert one == same != other


def weighted(weights: list[float]) -> Any:
    return Loader(ArrayDataset(x=np.arange(3)), collate(device=NumPy), batch_size=2, sampler=Weighted(weights))


def test_checksums_of_samples() -> None:
    x, y = np.arange(300.0), np.arange(300) % 7
    data = ArrayDataset(x=x, y=y)
    same = [
        ArrayDataset(y=y.copy(), x=x.copy()),
        ArrayDataset(x=x[:100], y=y[:100]) + ArrayDataset(x=x[100:], y=y[100:]),
    ]
    same += [ArrayDataset(x=x).zip(ArrayDataset(y=y)), data.subset(range(300)), data.subset(np.ones(300, bool))]
    assert {checksum(other) for other in same} == {checksum(data)}
    assert len(checksum(data) or "") == 8
    others = [ArrayDataset(x=x, z=y), ArrayDataset(x=x + 1, y=y), ArrayDataset(x=x.astype("f4"), y=y), data.window(2)]
    others += [data.subset(np.arange(300)[::-1]), data.subset(range(299)), ArrayDataset(x=x)]
    assert len({checksum(data), *(checksum(other) for other in others)}) == len(others) + 1
    unread = [data.map(dict), data.map_random(jittered), data.subset([]), from_sequence([1, 2])]
    assert [checksum(other) for other in unread] == [None] * 4


def test_shards_of_mixed_samples_make_up_the_batches() -> None:
    def halves(columns: Any, rng: BatchRandom) -> Any:
        x = columns["x"]
        return {**columns, "x": np.where(rng.bernoulli(0.5)[:, None], x, x[rng.partners()])}

    halves.mixes = True  # type: ignore[attr-defined]  # which functions may have
    source = ArrayDataset(x=np.random.default_rng(0).normal(size=(23, 3)), y=np.arange(23) % 4)
    chains: list[list[Transform]] = [[Mixup(0.5, classes=4)], [Mixup(0.5, classes=4), noisy_x, halves, Mixup(1.0)]]
    for transforms in chains:
        for options in ({"shuffle": True}, {"sampler": Weighted(np.arange(23), n=30)}):
            made = collate(device=NumPy, transform=transforms)
            settings: Any = {"batch_size": 8, "drop_last": True, "seed": 5, **options}
            all_of_it = Loader(source, made, **settings)
            whole = [bits(batch) for batch in all_of_it.epoch(2)]
            parts = [[bits(batch) for batch in all_of_it.shard(rank, 3).epoch(2)] for rank in range(3)]
            batches = zip(*parts, strict=True)
            assert [{name: b"".join(part[name] for part in ranks) for name in "xy"} for ranks in batches] == whole


def noisy_x(columns: Any, rng: BatchRandom) -> Any:
    return {**columns, "x": columns["x"] + rng.normal(shape=(3,))}


def test_a_transform_that_does_not_say_that_it_mixes() -> None:
    def silent(columns: Any, rng: BatchRandom) -> Any:
        return {**columns, "x": columns["x"][rng.partners()]}

    mixed = Loader(ArrayDataset(x=np.arange(8.0)), collate(device=NumPy, transform=silent), batch_size=8)
    assert sorted(next(iter(mixed)).x.tolist()) == [*range(8)]
    with pytest.raises(ArgumentError, match=r"give each that calls it an attribute mixes = True"):
        next(iter(mixed.shard(0, 2)))


@every_row(
    "call, said",
    [
        (lambda: loader(num_workers=2), "Loader() does not take num_workers; it is called workers here"),
        (lambda: loader(generator=1), "Loader() does not take generator; seed= and the epoch decide"),
        (
            lambda: WRONG(ArrayDataset(x=[1.0]), batch_size=1),
            "Loader() is missing the argument collate; collate(device=NumPy)",
        ),
        (lambda: WRONG(COLUMNS(x=[1.0]), device=1), "does not take device; collate(device=...) makes batches"),
        (lambda: WRONG.epoch(loader()), "epoch() is missing the argument epoch"),
        (
            lambda: COLUMNS([1.0], [2.0]),
            "ArrayDataset() takes frame by position, but got 2 values; columns have",
        ),
        (lambda: COLUMNS(x=[1.0]).split(0.5), "split() is missing the argument seed"),
        (lambda: COLLATE(devise=NumPy), "collate() does not take devise; did you mean device?"),
    ],
)
def test_wrong_arguments_are_explained(call: Callable[[], object], said: str) -> None:
    with pytest.raises(CallError) as caught:
        call()
    assert said in str(caught.value)
    with pytest.raises(ArgumentError, match=r"fraction=\[1, 0\]; expected a number from 0 to 1"):
        COLUMNS(x=[1.0]).split([1, 0], seed=0)


@every_row(
    ("call", "said"),
    [
        (lambda ragged: ArrayDataset(x=ragged), r"ArrayDataset\(\) got x as \[1, \[2, 3\]\]"),
        (lambda ragged: Weighted(ragged), r"Weighted\(\) got weights as \[1, \[2, 3\]\]"),
        (lambda ragged: Balanced(ragged), r"Balanced\(\) got labels as \[1, \[2, 3\]\]"),
        (lambda ragged: BucketByLength(ragged), r"BucketByLength\(\) got lengths as \[1, \[2, 3\]\]"),
        (lambda ragged: BatchRandom(0, 0, ragged), r"BatchRandom\(\) got samples as \[1, \[2, 3\]\]"),
        (lambda ragged: ArrayDataset(x=np.ones(2)).subset(ragged), r"subset\(\) got \[1, \[2, 3\]\]"),
        (lambda ragged: ArrayDataset(x=np.ones(2)).split(0.5, seed=0, stratify=ragged), r"split\(\) got stratify as"),
    ],
)
def test_ragged_lists_are_refused(call: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(ShapeError, match=f"{said}.*parts differ in length"):
        call([1, [2, 3]])
