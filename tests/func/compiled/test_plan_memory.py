"""The memory of plans: places that are used again, and what recording and replaying take beside arguments."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, Tensor
from burnpy.backend import NumPy
from burnpy.backend.decorators.recorded import Recorded
from burnpy.backend.plans import memory
from burnpy.backend.plans.memory import ALIGNMENT, Arena, Place
from burnpy.backend.plans.plan import Plan
from burnpy.nn import Conv2d, Linear, Lstm, Module, Param
from burnpy.optim import Adam, GradientsParams, Sgd
from tests.kernels import needs_kernels
from tests.rows import every_row

Train = Autodiff[NumPy]
BYTES = np.dtype("uint8")


@pytest.mark.parametrize("by_size", [0, 20, 512])
def test_places_overlap_in_memory_or_in_time_and_not_in_both(by_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_BY_SIZE", by_size)
    rng, arena = random.Random(0), Arena()
    places: list[Place] = []
    alive: list[Place] = []
    for _ in range(200):
        alive.append(arena.take((rng.randrange(1000),), BYTES))
        places.append(alive[-1])
        if rng.random() < 0.7:
            arena.free(alive.pop(rng.randrange(len(alive))))
    arena.assign()
    assert all(place.start % ALIGNMENT == 0 and place.start + place.size <= arena.size for place in places)
    for k, one in enumerate(places):
        for two in places[:k]:
            apart = one.start + one.size <= two.start or two.start + two.size <= one.start
            assert apart or not one.meets(two)
    assert arena.size < arena.total / 2


def test_small_values_that_are_needed_for_long_split_no_gap() -> None:
    arena = Arena()
    for size in (1000, 2000, 4000):  # of layers, each followed by the gradient of a bias
        large = arena.take((size * ALIGNMENT,), BYTES)
        arena.take((1,), BYTES)
        arena.free(large)
    arena.assign()
    assert arena.size == 4003 * ALIGNMENT


def test_a_position_of_a_list_is_not_overwritten_before_another_one_reads_it() -> None:
    recorder = Recorded.unregistered(NumPy())
    one = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    x = recorder.input(one)
    for k, shape in enumerate([(2, 2), (4,)]):
        y = recorder.matmul(x, recorder.add(x, float(k)))
        left, right = recorder.foreach_mul([recorder.reshape(y, shape), y], 0.5)
        recorder.recording.outputs.append(recorder.matmul(recorder.reshape(left, (2, 2)), right).ref)
    for k, got in enumerate(Plan(recorder.recording, NumPy())([one])):
        y = one @ (one + k)
        np.testing.assert_allclose(got, y @ y / 4)


@needs_kernels
def test_a_step_takes_no_second_model_and_state() -> None:
    optim = Adam()

    @burnpy.compiled(donate=("model", "state"))
    def step(model: Any, state: Any, x: Any) -> Any:
        grads = GradientsParams.from_grads(model(x).sum().backward(), model)
        return optim.pure_step(0.1, model, grads, state)

    for features in (1023, 1024):  # the first one imports and compiles
        model = Linear(features, features, device=Train)
        state, x = optim.init(model), Tensor[Train].ones((64, features))
        size = model.weight.value.numel() * 4
        for _ in range(2):  # records and replays, and replays
            tracemalloc.start()
            try:
                model, state = step(model, state, x)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert features == 1023 or peak < 2 * size  # the gradient, and what is smaller


def test_plans_keep_no_copies_of_the_transpose_of_a_large_weight() -> None:
    class Transposed(Module[Any]):
        def __init__(self) -> None:
            self.weight = Param(Tensor[NumPy].normal((1024, 600)))

        def forward(self, x: Any) -> Any:
            return (x @ self.weight.value.T).relu()

    model = Transposed()
    run = burnpy.compiled(model)
    run(Tensor[NumPy].normal((33, 600)))  # which imports modules
    tracemalloc.start()
    try:
        for rows in (40, 64, 96):
            x = Tensor[NumPy].normal((rows, 600))
            np.testing.assert_allclose(run(x).to_numpy(), model(x).to_numpy(), rtol=1e-3, atol=1e-3)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 2 * 1024 * 600 * 4


@needs_kernels
@every_row(
    ("layer", "shape"),
    [
        (lambda: Conv2d(40, 40, 3, padding=1, device=Train), (2, 40, 5, 5)),
        (lambda: Linear(1024, 1024, bias=False, device=Train), (4, 1024)),
        (lambda: Lstm(32, 32, device=Train), (2, 3, 32)),
    ],
    ids=["convolution", "product", "recurrence"],
)
def test_no_packed_form_is_kept_of_a_weight_that_is_overwritten(layer: Any, shape: tuple[int, ...]) -> None:
    optim, x = Sgd(), Tensor[Train].uniform(shape)

    def step(model: Any, state: Any) -> Any:
        y = model(x)
        loss = (y[0] if isinstance(y, tuple) else y).square().mean()
        return *optim.pure_step(0.5, model, GradientsParams.from_grads(loss.backward(), model), state), loss.detach()

    first = layer()
    losses: list[list[float]] = []
    for donate in ((), ("model",)):
        model, run = first.map(lambda weight: weight * 1.0), burnpy.compiled(step, donate=donate)
        state = optim.init(model)
        losses.append([])
        for _ in range(6):
            model, state, loss = run(model, state)
            losses[-1].append(loss.item())
    assert losses[0] == losses[1]
