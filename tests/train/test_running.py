"""The metrics of an epoch so far: weighted by size, and the same bits wherever they are added up."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from burnpy import Autodiff, Tensor
from burnpy.backend import NumPy
from burnpy.metrics import Mean, Metric
from burnpy.nn import Linear
from burnpy.optim import Sgd
from burnpy.train import Learner, Step
from burnpy.train.train_step import Measured, Running

Train: TypeAlias = Autodiff[NumPy]


def bits(metrics: dict[str, Metric]) -> dict[str, list[bytes]]:
    return {
        name: [metric.sum.to_numpy().tobytes(), metric.weight.to_numpy().tobytes()]
        for name, metric in metrics.items()
        if isinstance(metric, Mean)
    }


def test_losses_are_added_up_to_the_same_bits_as_numbers_and_on_the_device() -> None:
    rng = np.random.default_rng(0)
    numbers, device, mixed, again = Running(), Running(), Running(), Running()
    for k in range(40):
        loss = Tensor[Train].from_data(np.float32(rng.normal()))
        step, size = Step(loss, error=Mean.of(loss, weight=2.0)), float(rng.integers(1, 9))
        numbers.add(Measured(step, size, loss.item()), {})
        device.add(Measured(step, size, None), {})
        mixed.add(Measured(step, size, loss.item() if k % 3 else None), {})
        again = Running(again.metrics)  # as after a checkpoint
        again.add(Measured(step, size, loss.item()), {})
    assert bits(numbers.metrics).keys() == {"loss", "error"}
    assert bits(numbers.metrics) == bits(device.metrics) == bits(mixed.metrics) == bits(again.metrics)
    assert Running().metrics == {}


def test_the_loss_of_an_epoch_is_weighted_by_the_sizes_of_its_batches() -> None:
    def square(model: Linear[Train], x: Tensor[Train]) -> Step[Train]:
        return Step(model(x).square().mean())

    x = Tensor[Train].from_data(np.random.default_rng(0).normal(size=(10, 2)).astype(np.float32))
    model = Linear(2, 1, device=Train)
    result = Learner(square, optim=Sgd(), lr=0.0).fit(model, [x[:7], x[7:]], epochs=1)
    assert abs(result.history[0]["train/loss"] - model(x).square().mean().item()) < 1e-6
