"""Code type checkers must reject of `burnpy.train`: every line marked ``# E``, and no other. At run time each raises a
TypeError, too.

Each function holds one mistake; `tests/typing/test_typing.py` calls it and wants the words of its docstring in the
error.
"""

from __future__ import annotations

from typing import TypeAlias, TypeVar

from burnpy import Autodiff, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.nn import Linear, Module, rebound
from burnpy.optim import AdamW
from burnpy.train import Learner, Step

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend
Train: TypeAlias = Autodiff[NumPy]


class Net(Module[B]):
    def __init__(self, device: B | type[B]) -> None:
        self.out = Linear(2, 1, device=device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        return self.out(x)

    def valid(self: Net[Autodiff[I]]) -> Net[I]:
        return rebound(self)


def train_step(model: Net[Train], x: Tensor[Train]) -> Step[Train]:
    return Step(model(x).square().mean())


def valid_step(model: Net[NumPy], x: Tensor[NumPy]) -> Step[NumPy]:
    return Step(model(x).square().mean())


x = Tensor[Train].ones((3, 2))
learner = Learner(train_step, valid_step, optim=AdamW(), lr=0.1)


def a_validation_that_records() -> None:
    """NumPy"""

    def recording(model: Net[NumPy], x: Tensor[NumPy]) -> Step[NumPy]:
        loss = model(x).square().mean()
        loss.backward()  # E
        return Step(loss)

    Learner(train_step, recording, optim=AdamW(), lr=0.1).fit(Net(Train), [x], [x.inner()], epochs=1)


def a_validation_of_the_model_that_trains() -> None:
    """validation batches on Autodiff[NumPy]"""
    Learner(train_step, train_step, optim=AdamW(), lr=0.1).fit(Net(Train), [x], [x], epochs=1)  # E


def a_validation_on_training_batches() -> None:
    """validation batches on Autodiff[NumPy]"""
    learner.fit(Net(Train), [x], [x], epochs=1)  # E


def training_a_plain_model() -> None:
    """fit() got a Net on NumPy"""
    learner.fit(Net(NumPy), [x], [x.inner()], epochs=1)  # E


def training_another_model() -> None:
    """training batches on NumPy"""
    learner.fit(Linear(2, 1, device=Train), [x.inner()], [x.inner()], epochs=1)  # E


def a_step_that_returns_the_loss() -> None:
    """return burnpy.train.Step(loss, ...)"""

    def bare(model: Net[Train], x: Tensor[Train]) -> Tensor[Train]:
        return model(x).square().mean()

    Learner(bare, optim=AdamW(), lr=0.1).fit(Net(Train), [x], epochs=1)  # E


def a_metric_that_is_a_number() -> None:
    """give a metric"""
    Step(x.sum(), accuracy=0.5)  # E
