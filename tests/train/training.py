"""A small model with running statistics and dropout, data for it, and its steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

import burnpy
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.metrics import Accuracy
from burnpy.nn import BatchNorm, Dropout, Linear, Module, Relu, Sequential, rebound
from burnpy.optim import AdamW, CosineLr
from burnpy.train import Learner, Step

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend

Train = Autodiff[NumPy]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 4)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] > 0).astype(np.int64)


class Net(Module[B]):
    def __init__(self, device: B | type[B]) -> None:
        self.body = Sequential(Linear(4, 8, device=device), BatchNorm(8, device=device), Relu(), Dropout(0.2))
        self.head = Linear(8, 2, device=device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        return self.head(self.body(x))

    def valid(self: Net[Autodiff[I]]) -> Net[I]:
        return rebound(self)


Batch = tuple[Tensor[B], IntTensor[B]]


class Batches:
    """A loader: the order is a function of the epoch."""

    def __init__(self, size: int = 16, device: Any = Train) -> None:
        self.size, self.device = size, device

    def __len__(self) -> int:
        return -(-len(X) // self.size)

    def settings(self) -> dict[str, Any]:
        return {"batch_size": self.size, "samples": len(X)}

    def epoch(self, epoch: int, *, start: int = 0) -> Iterator[Any]:
        order = np.random.default_rng((7, epoch)).permutation(len(X))
        for n in range(start, len(self)):
            rows = order[n * self.size : (n + 1) * self.size]
            yield Tensor.from_data(X[rows], device=self.device), IntTensor.from_data(Y[rows], device=self.device)


def valid_batches() -> list[Batch[NumPy]]:
    return [(Tensor[NumPy].from_data(X[a:b]), IntTensor[NumPy].from_data(Y[a:b])) for a, b in ((0, 30), (30, 50))]


def train_step(model: Net[Autodiff[NumPy]], batch: Batch[Autodiff[NumPy]]) -> Step[Autodiff[NumPy]]:
    x, y = batch
    logits = model(x)
    return Step(burnpy.cross_entropy(logits, y), accuracy=Accuracy.of(logits, y))


def valid_step(model: Net[NumPy], batch: Batch[NumPy]) -> Step[NumPy]:
    x, y = batch
    logits = model(x)
    return Step(burnpy.cross_entropy(logits, y), accuracy=Accuracy.of(logits, y))


def net() -> Net[Autodiff[NumPy]]:
    burnpy.manual_seed(3)
    return Net(Train)


def learner(**settings: Any) -> Learner[Any, Any, Any, Any]:
    return Learner(train_step, valid_step, **{"optim": AdamW(), "lr": CosineLr(1e-2, 100), **settings})


def weights(model: Module[Any]) -> bytes:
    return b"".join(entry.value.tobytes() for _, entry in sorted(model.into_record().items()))
