"""Discarding the result of a step is detected; other ways to use one model twice are allowed."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from burnpy import Autodiff, Tensor
from burnpy.backend import NumPy, errors
from burnpy.nn import Linear, Module
from burnpy.optim import Adam, GradientsAccumulator, GradientsParams, Sgd
from burnpy.optim.optimizer_states import Memory
from tests.optim.models import Mlp, Train, batch, of_two, two, values

NOTICED = (
    r"^Sgd.step\(\) got a, b of this Two, which it has updated already: .*; "
    r"write model = optim.step\(...\), or .* copy.copy\(optim\)"
)


def test_a_dropped_step_is_noticed() -> None:
    model, optim = two(), Sgd()
    optim.step(0.1, model, of_two(model))
    for _ in range(2):
        with pytest.raises(errors.StateError, match=NOTICED):
            optim.step(0.1, model, of_two(model))
    with pytest.raises(errors.StateError, match="which it has updated"):
        optim.step(0.1, model, of_two(model).without("b"))
    with pytest.raises(errors.StateError, match="which it has updated"):
        optim.step(0.1, model, model().backward())


def test_however_often_others_took_steps_since() -> None:
    model, other, optim = two(), two(), Sgd(momentum=0.5)
    optim.step(0.1, model, of_two(model))
    for _ in range(3):
        other = optim.step(0.1, other, of_two(other))
    before = optim.state()
    with pytest.raises(errors.StateError, match="which it has updated"):
        optim.step(0.1, model, of_two(model))
    assert optim.state() == before


def test_leaves_that_are_gone_are_forgotten_and_not_held() -> None:
    model, optim = two(), Sgd()
    gone = weakref.ref(model.a.value)
    gc.disable()
    try:
        for _ in range(50):
            model = optim.step(0.1, model, of_two(model))
        assert gone() is None
        assert len(optim._memory.replaced) == 2
    finally:
        gc.enable()


def test_a_leaf_where_another_was_is_not_taken_for_it() -> None:
    memory = Memory({}, False)
    leaf = Tensor[NumPy].zeros(())
    memory.replaced = memory.with_replaced([leaf])

    def refuse(leaf: Tensor[NumPy]) -> None:
        item: Any = SimpleNamespace(path="a", param=SimpleNamespace(_value=leaf))
        memory.refuse_replaced("Sgd", "Net", [item])

    with pytest.raises(errors.StateError, match=r"Sgd.step\(\) got a of this Net, which it has updated already"):
        refuse(leaf)
    (freed,) = memory.replaced.values()
    del leaf
    gc.collect()  # the exception above may still refer to it
    assert freed() is None
    other = Tensor[NumPy].zeros(())
    memory.replaced = {id(other): freed}  # as if the other had the first one's place in memory
    refuse(other)
    assert not memory.with_replaced([])


def test_forks_and_accumulation() -> None:
    model, optim = Mlp(Train), Adam()
    for step in range(3):
        accumulator = GradientsAccumulator[NumPy]()
        for fork in (model.fork(), model.fork(), model):
            loss = (fork(batch(4, step)) ** 2).mean()
            accumulator = accumulator.add(GradientsParams.from_grads(loss.backward(), fork))
        model = optim.step(0.1, model, accumulator.mean())
    forks = [model.fork() for _ in range(2)]  # trained on by one optimizer, each by itself
    for _ in range(2):
        forks = [optim.step(0.1, fork, (fork(batch(4)) ** 2).mean().backward()) for fork in forks]


def test_averages_of_models() -> None:
    model, optim = two(), Adam()
    average = model
    for _ in range(3):
        model = optim.step(0.1, model, of_two(model))
        average = average.with_values(
            {
                p.id: (0.9 * p.value + 0.1 * q.value).detach().inner()
                for p, q in zip(average.params(), model.params(), strict=True)
            }
        )
    optim.step(0.1, average, of_two(average))


def test_another_attempt_after_an_exception() -> None:
    class Failing(Sgd):
        def update(self, *args: Any) -> Any:
            if fails:
                fails.pop()
                raise KeyboardInterrupt
            return super().update(*args)

    fails: list[bool] = []
    model, optim = two(), Failing()
    model = optim.step(0.1, model, of_two(model))
    for count in (1, 2):
        fails.extend([True] * count)
        for _ in range(count):
            with pytest.raises(KeyboardInterrupt):
                optim.step(0.1, model, of_two(model))
        model = optim.step(0.1, model, of_two(model))


def test_two_models_that_share_a_trunk() -> None:
    trunk, optim = Linear(3, 4, device=Train), Adam()

    class Headed(Module[Autodiff[NumPy]]):
        def __init__(self) -> None:
            self.trunk, self.head = trunk, Linear(4, 1, device=Train)

        def forward(self, x: Tensor[Autodiff[NumPy]]) -> Tensor[Autodiff[NumPy]]:
            return self.head(self.trunk(x).tanh())

    one, other = Headed(), Headed()
    one = optim.step(0.1, one, one(batch(4)).sum().backward())
    other = optim.step(0.1, other, other(batch(4)).sum().backward())
    assert optim.state()[trunk.weight.id].step == 2


def test_frozen_parts_in_turn() -> None:
    model, optim = two(), Adam()
    first, second = model.no_grad("b"), model.no_grad("a")
    of_first = optim.step(0.1, first, first().backward())
    of_second = optim.step(0.1, second, second().backward())
    optim.step(0.1, of_first.require_grad(), of_two(of_first.require_grad()))
    optim.step(0.1, of_second.require_grad(), of_two(of_second.require_grad()))


def test_what_has_no_gradient_was_not_replaced() -> None:
    model, optim = two(), Adam()
    new = optim.step(0.1, model, of_two(model).without("b"))
    optim.step(0.1, model, of_two(model).without("a"))
    assert new.b is model.b
    optim.step(0.1, new, of_two(new))


def test_trials_with_copies_made_before() -> None:
    model, optim = two(), Adam()
    model = optim.step(0.1, model, of_two(model))
    grads, losses = of_two(model), []
    for rate in (0.1, 0.2, 0.3):
        trial = copy.copy(optim)
        losses.append(trial.step(rate, model, grads)().item())
        with pytest.raises(errors.StateError, match="which it has updated"):
            trial.step(rate, model, grads)
    assert len({*losses}) == 3
    assert optim.state()[model.a.id].step == 1
    optim.step(0.1, model, grads)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda optim: pickle.loads(pickle.dumps(optim))])
def test_copies_and_pickles_know_of_none(duplicate: Any) -> None:
    model, optim = two(), Adam()
    optim.step(0.1, model, of_two(model))
    duplicate(optim).step(0.1, model, of_two(model))


def test_load_record_forgets() -> None:
    model, optim = two(), Adam()
    model = optim.step(0.1, model, of_two(model))
    record, grads = optim.into_record(), of_two(model)
    first = optim.step(0.1, model, grads)
    optim.load_record(record)
    assert values(optim.step(0.1, model, grads)) == values(first)


def test_another_optimizer_of_the_same_model() -> None:
    model = two()
    for optim in (Sgd(), Sgd()):
        optim.step(0.1, model, of_two(model))
