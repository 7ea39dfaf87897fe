"""Ranks that are threads of one process, for tests of a learner on several ranks; and a model, data and steps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np

import burnpy
from burnpy import Autodiff
from burnpy.backend import NumPy
from burnpy.data import ArrayDataset, Loader, collate
from burnpy.metrics import Accuracy
from burnpy.nn import Linear, Relu, Sequential
from burnpy.optim import AdamW, CosineLr, GradientsAccumulator, GradientsParams
from burnpy.train import Learner, Step

T = TypeVar("T")
Train = Autodiff[NumPy]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 4))
DATA = ArrayDataset(x=X, y=(X[:, 0] + X[:, 1] > 0).astype(np.int64))


class ThreadGroup:
    """One of several ranks, each of them a thread."""

    def __init__(self, rank: int, slots: list[Any], barrier: threading.Barrier) -> None:
        self.rank, self.size, self.slots, self.barrier = rank, len(slots), slots, barrier

    def gather(self, value: Any) -> list[Any]:
        self.slots[self.rank] = value
        self.barrier.wait(60)
        values = list(self.slots)
        self.barrier.wait(60)
        return values

    def broadcast(self, value: Any) -> Any:
        return self.gather(value)[0]

    def mean(self, grads: GradientsParams[Any] | None, *, weight: float) -> GradientsParams[Any]:
        total = GradientsAccumulator[Any]()
        for each, its in self.gather((grads, weight)):
            if its:
                total = total.add(each, weight=its)
        return total.mean()

    def backward(self, loss: Any, model: Any, *, weight: float) -> GradientsParams[Any]:
        return self.mean(None if loss is None else GradientsParams.from_grads(loss.backward(), model), weight=weight)


class OnThreads:
    """A strategy of such ranks."""

    def __init__(self, group: Any) -> None:
        self.group = group

    def run(self, step: Callable[[Any], T]) -> T:
        return step(self.group)


class Lost(Exception):
    """A rank has ended."""


class Broken(ThreadGroup):
    """A group with a rank that has ended."""

    def gather(self, value: Any) -> list[Any]:
        raise Lost


class Shrinking(OnThreads):
    """A strategy of three ranks. The first ends amid the call number ``when``, and the others repeat it."""

    def __init__(self, group: Any, left: tuple[list[Any], threading.Barrier], when: int) -> None:
        super().__init__(group)
        self.left, self.when, self.calls = left, when, 0

    def run(self, step: Callable[[Any], T]) -> T:
        self.calls += 1
        if self.calls == self.when:
            if self.group.rank == 0:
                raise Lost
            with suppress(Lost):
                step(Broken(self.group.rank, self.group.slots, self.group.barrier))
            self.group = ThreadGroup(self.group.rank - 1, *self.left)
        return super().run(step)


def on_ranks(size: int, program: Callable[[OnThreads], T]) -> list[T]:
    """Return the results of a program on each rank; the first exception is raised, and ends all."""
    barrier, slots = threading.Barrier(size), [None] * size
    results: list[Any] = [None] * size
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            results[rank] = program(OnThreads(ThreadGroup(rank, slots, barrier)))
        except BaseException as error:
            if not isinstance(error, threading.BrokenBarrierError):
                errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def net() -> Any:
    """A model in float64, in which nothing depends on the other samples of a batch."""
    return Sequential(Linear(4, 8, device=Train), Relu(), Linear(8, 2, device=Train)).astype("float64")


def loaders(batch_size: int = 16) -> tuple[Any, Any]:
    """Batches to train on, the last with two samples, and batches to validate on."""
    train = Loader(DATA, collate(device=Train), batch_size=batch_size, shuffle=True, seed=1)
    return train, Loader(DATA, collate(device=NumPy), batch_size=24)


def a_step(model: Any, batch: Any) -> Step[Any]:
    logits = model(batch.x)
    return Step(burnpy.cross_entropy(logits, batch.y), accuracy=Accuracy.of(logits, batch.y))


def learner(strategy: Any = None, **settings: Any) -> Learner[Any, Any, Any, Any]:
    given = {"optim": AdamW(), "lr": CosineLr(1e-2, 100), **settings}
    return Learner(a_step, a_step, strategy=strategy, **given)


def difference(first: Any, second: Any) -> float:
    """The largest difference of the weights of two models and of the values of their histories."""
    a, b = (sorted(result.model.into_record().items()) for result in (first, second))
    weights = [abs(x.value - y.value).max() for (_, x), (_, y) in zip(a, b, strict=True)]
    rows = zip(first.history, second.history, strict=True)
    return float(max([*weights, *(abs(x[name] - y[name]) for x, y in rows for name in x | y)]))
