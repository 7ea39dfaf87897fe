"""Code type checkers must accept of `burnpy.data`: a batch has the type of its collator. Runs, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, TypeVar, assert_type

import numpy as np

from burnpy import Autodiff, IntTensor, Tensor, cross_entropy
from burnpy.backend import Backend, NumPy
from burnpy.data import (
    ArrayDataset,
    Batch,
    BatchRandom,
    Collator,
    Dataset,
    Loader,
    Stream,
    StreamLoader,
    collate,
    from_sequence,
    pad_collate,
)
from burnpy.data.transforms import Flip, Mixup, Shift
from burnpy.nn import Flatten, Linear, Sequential

B = TypeVar("B", bound=Backend)
Train: TypeAlias = Autodiff[NumPy]


class Digits(Batch[B]):
    x: Tensor[B]
    y: IntTensor[B]


def halved(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**sample, "x": sample["x"] / 2}


def jittered(sample: Mapping[str, Any], rng: np.random.Generator) -> Mapping[str, Any]:
    return {**sample, "x": sample["x"] + rng.normal()}


def noisy(columns: Mapping[str, Any], rng: BatchRandom) -> Mapping[str, Any]:
    return {**columns, "x": columns["x"] + rng.normal(shape=columns["x"].shape[1:])}


data = ArrayDataset(x=np.zeros((6, 1, 2, 2), np.float32), y=np.arange(6) % 2)
train, held = data.split(0.5, seed=0, stratify="y")
assert_type(train, Dataset[Mapping[str, Any]])
assert_type(data.map(lambda sample: len(sample)), Dataset[int])
assert_type(data.map(halved).subset([0, 1]).sample(1, seed=0), Dataset[Mapping[str, Any]])
assert_type(from_sequence(["a", "b"])[0], str)
assert_type(from_sequence(["a"]).concat(from_sequence([1])), Dataset[str | int])
assert_type(from_sequence([(1, 2)], names=("x", "y")), Dataset[Mapping[str, Any]])

plain = Loader(train, collate(device=Train), batch_size=2, shuffle=True)
assert_type(plain, Loader[Batch[Train]])
for batch in plain.epoch(0):
    assert_type(batch, Batch[Train])
    assert_type(batch.floats("x"), Tensor[Train])
    assert_type(batch.ints("y"), IntTensor[Train])
    assert_type(batch.inner(), Batch[NumPy])
    assert_type(batch.to_device(NumPy), Batch[NumPy])

model = Sequential(Flatten(), Linear(4, 2, device=Train))
typed = Loader(train.map_random(jittered), collate(Digits[Train], transform=[Shift(1), Flip(), noisy]), batch_size=2)
for digits in typed.shard(0, 1).epoch(0, start=1):
    assert_type(digits, Digits[Train])
    assert_type(digits.x, Tensor[Train])
    assert_type(digits.y, IntTensor[Train])
    loss = cross_entropy(model(digits.x), digits.y)
    assert_type(loss, Tensor[Train])

mixed = Loader(data, collate(device=NumPy, transform=Mixup(0.2, classes=2)), batch_size=3)
assert_type(next(iter(mixed)), Batch[NumPy])
assert_type(collate(Digits[NumPy], device=NumPy()), Collator[Digits[NumPy]])
padded = Loader(held, pad_collate(Digits[NumPy], pad={"x": 0}), batch_size=3)
assert_type(next(iter(padded)), Digits[NumPy])


def total(samples: list[int]) -> float:
    return float(sum(samples))


assert_type(next(Loader([1, 2, 3], total, batch_size=2).epoch(0)), float)


class Numbers(Stream[int]):
    def samples(self, epoch: int, state: Any) -> Iterator[tuple[int, Any]]:
        yield from ((k, k + 1) for k in range(state or 0, 3))


stream = StreamLoader(Numbers().shuffle(2, seed=0).map(float), lambda samples: max(samples), batch_size=2)
assert_type(next(stream.epoch(0)), float)
