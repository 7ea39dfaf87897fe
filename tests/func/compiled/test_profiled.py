"""Compiled functions on `Profiled` devices: kernels and products by their names, with their costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, IntTensor, Tensor, compiled, func
from burnpy.backend import Checked, NumPy, Profiled
from burnpy.nn import Conv2d, LayerNorm, Linear, Relu, Sequential
from burnpy.optim import Adam, GradientsParams
from burnpy_numpy.kernels.kernel import kernels_enabled

Device = Profiled[NumPy]
rng = np.random.default_rng(0)
joins = pytest.mark.skipif(not kernels_enabled(), reason="there are no kernels to time")


def model_of(device: Any) -> Any:
    layers: list[Any] = [Conv2d(3, 8, 3, padding=1, device=device), Relu(), LayerNorm((9, 9), device=device)]
    return Sequential(*layers)


def data(*shape: int, device: Any = Device) -> Any:
    return Tensor.from_data(rng.standard_normal(shape), dtype="float32", device=device)


@joins
def test_kernels_and_products_have_rows_of_their_own() -> None:
    linear = Linear(16, 32, device=Device)
    plan: Any = compiled(lambda x: (linear(x).relu() * 2.0 + 1.0).softmax(-1))
    x = data(8, 16)
    plan(x)
    with Profiled.record() as profile:
        for _ in range(3):
            plan(x)
    rows = {row.operation: row for row in profile.by_operation()}
    assert rows.keys() == {"linear", "relu+mul+add+softmax"}
    assert [row.calls for row in rows.values()] == [3, 3]
    assert rows["linear"].flops == 3 * (2 * 8 * 16 * 32 + 8 * 32)
    assert rows["linear"].bytes == 3 * 4 * (8 * 16 + 16 * 32 + 32 + 8 * 32)
    assert rows["relu+mul+add+softmax"].bytes == 3 * 4 * 2 * 8 * 32
    assert rows["relu+mul+add+softmax"].flops > 3 * 3 * 8 * 32
    assert all(row.line is not None and row.line.file == __file__ for row in profile.by_line())


@joins
def test_a_convolution_is_named_with_what_follows() -> None:
    model = model_of(Device)
    plan: Any = compiled(lambda x: model[1](model[0](x)))
    x = data(4, 3, 9, 9)
    plan(x)
    with Profiled.record() as profile:
        plan(x)
    (row,) = profile.by_operation()
    assert row.operation == "conv2d_bias+relu"
    assert row.flops == 2 * 4 * 8 * 9 * 9 * 27 + 2 * 4 * 8 * 9 * 9


@pytest.mark.parametrize("recording", [False, True])
def test_results_are_those_of_plans_on_the_plain_device(recording: bool) -> None:
    train, plain = Autodiff[Profiled[NumPy]], Autodiff[NumPy]
    optim: Any = Adam()

    def step(model: Any, state: Any, x: Any, labels: Any) -> Any:
        loss = burnpy.cross_entropy(model(x).flatten(1), labels)
        grads = GradientsParams.from_grads(loss.backward(), model)
        model, state = optim.pure_step(0.1, model, grads, state)
        return model, state, loss.detach()

    losses: list[Any] = []
    first = model_of(plain)
    values = [p.value.to_numpy() for p in first.params()]
    given = rng.standard_normal((4, 3, 9, 9)).astype(np.float32)
    device: Any
    for device in (train, plain):
        ready = iter(values)
        model = model_of(device).map(lambda x, ready=ready, device=device: Tensor.from_data(next(ready), device=device))
        run = compiled(step, donate=("model", "state"))
        state, x = optim.init(model), Tensor.from_data(given, device=device)
        labels = IntTensor.from_data([1, 2, 3, 4], device=device)
        with Profiled.record() if recording else Profiled.record(lines=False):
            for _ in range(3):
                model, state, loss = run(model, state, x, labels)
                losses.append(loss.to_numpy())
    assert losses[:3] == losses[3:]


def test_loops_run_step_by_step() -> None:
    plan: Any = compiled(lambda c, xs: func.scan(lambda c, x: ((c * 0.5 + x).tanh(), c), c, xs))
    c, xs = data(4, 3), data(5, 4, 3)
    with Profiled.record():
        last, stack = plan(c, xs)
    expected, others = func.scan(lambda c, x: ((c * 0.5 + x).tanh(), c), c, xs)
    np.testing.assert_allclose(last.to_numpy(), expected.to_numpy(), rtol=1e-6)
    np.testing.assert_allclose(stack.to_numpy(), others.to_numpy(), rtol=1e-6)


def test_checked_devices_run_operation_by_operation() -> None:
    x = data(4, 3, device=Profiled[Checked[NumPy]])
    plan: Any = compiled(lambda x: (x * 2.0).tanh())
    plan(x)
    with Profiled.record() as profile:
        plan(x)
    assert {row.operation for row in profile.by_operation()} == {"mul", "tanh"}
