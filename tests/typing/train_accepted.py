"""Code type checkers must accept of `burnpy.train`: validation steps get the inner model. Runs, too."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar, assert_type

import numpy as np

from burnpy import Autodiff, IntTensor, Tensor, cross_entropy
from burnpy.backend import Backend, NumPy
from burnpy.data import ArrayDataset, Batch, Loader, collate
from burnpy.metrics import Accuracy, ConfusionMatrix, Mean
from burnpy.nn import Flatten, Linear, Module, Sequential, rebound
from burnpy.optim import AdamW, CosineLr, Sgd
from burnpy.train import (
    BatchEnd,
    ByGlobalNorm,
    Callback,
    Classifier,
    EpochEnd,
    Learner,
    Regressor,
    Result,
    Step,
    Steps,
    Stop,
    find_lr,
)

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend
Infer: TypeAlias = NumPy
Train: TypeAlias = Autodiff[Infer]


class Digits(Batch[B]):
    x: Tensor[B]
    y: IntTensor[B]


class Net(Module[B]):
    def __init__(self, device: B | type[B]) -> None:
        self.logits = Linear(4, 2, device=device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        return self.logits(x)

    def valid(self: Net[Autodiff[I]]) -> Net[I]:
        return rebound(self)


def train_step(model: Net[Train], batch: Digits[Train]) -> Step[Train]:
    logits = model(batch.x)
    assert_type(logits, Tensor[Train])
    return Step(cross_entropy(logits, batch.y), accuracy=Accuracy.of(logits, batch.y))


def valid_step(model: Net[Infer], batch: Digits[Infer]) -> Step[Infer]:
    logits = model(batch.x)
    assert_type(logits, Tensor[Infer])
    assert_type(Accuracy.of(logits, batch.y) + Accuracy.of(logits, batch.y), Accuracy)
    return Step(cross_entropy(logits, batch.y), confusion=ConfusionMatrix.of(logits, batch.y), weight=float(len(batch)))


def stop(event: object) -> Stop | None:
    return Stop("enough") if isinstance(event, BatchEnd) and event.step == 2 else None


class Watching(Callback):
    def on(self, event: Any, state: Any) -> tuple[Any, list[Stop]]:
        return state, []


data = ArrayDataset(x=np.ones((6, 4), np.float32), y=np.arange(6) % 2)
train = Loader(data, collate(Digits[Train]), batch_size=2, shuffle=True)
valid = Loader(data, collate(Digits[Infer]), batch_size=2)
settings = {"a": 1}
learner = Learner(
    train_step,
    valid_step,
    optim=AdamW(),
    lr=CosineLr(1e-2, 9),
    clip=ByGlobalNorm(1.0),
    callbacks=[stop, Watching()],
    valid_every=Steps(2),
)
assert_type(learner, Learner[Net[Train], Digits[Train], Net[Infer], Digits[Infer]])
result = learner.fit(Net(Train), train, valid, epochs=1)
assert_type(result, Result[Net[Train]])
assert_type(result.model.valid(), Net[Infer])
for event in learner.events(Net(Train), list(train.epoch(0)), [next(iter(valid))], epochs=1):
    if isinstance(event, EpochEnd):
        assert_type(event.model, Net[Train])
assert find_lr(learner, Net(Train), train, start=0.1, end=1.0, steps=3).suggestion > 0


def alone(model: Sequential[Train], batch: tuple[Tensor[Train], Tensor[Train]]) -> Step[Train]:
    x, y = batch
    error = (model(x) - y).square()
    return Step(error.mean(), error=Mean.of(error))


x = Tensor[Train].ones((3, 4))
plain = Learner(alone, optim=AdamW(), lr=0.1).fit(
    Sequential(Flatten(), Linear(4, 1, device=Train)), [(x, x[:, :1])], epochs=2
)
assert_type(plain, Result[Sequential[Train]])

samples = np.eye(4)
classifier = Classifier(Linear, optim=Sgd(), lr=CosineLr(0.1, 4), device=Train, epochs=1).fit(samples, [*"abab"])
assert_type(classifier, Classifier)
assert_type(classifier.score(samples, [*"abab"]), float)
assert_type(Regressor(epochs=1).set_params(lr=0.1).fit(samples, samples[:, 0]), Regressor)
