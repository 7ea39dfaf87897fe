"""Claims about `Group.backward`, which `claims.py` checks on several ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import burnpy
from burnpy import IntTensor, Tensor
from burnpy.distributed import Group, ZeroRedundancy
from burnpy.nn import Linear, Relu, Sequential
from burnpy.optim import AdamW, GradientsParams
from tests.distributed.ranks import Train, batches, gradients, network, same, shares

CLAIMS: dict[str, Callable[[Group], None]] = {}


def claim(check: Callable[[Group], None]) -> Callable[[Group], None]:
    CLAIMS[check.__name__] = check
    return check


def loss_of(model: Any, x: Any, y: Any) -> Any:
    return burnpy.cross_entropy(model(Tensor.from_data(x, device=Train)), IntTensor.from_data(y, device=Train))


@claim
def it_trains_as_one_on_one_big_batch(group: Group) -> None:
    model = whole = group.broadcast(network(norm=False))
    mine, alone, rows = AdamW(), AdamW(), shares(group.size)[group.rank]
    for x, y in batches(10):
        model = mine.step(1e-2, model, group.backward(loss_of(model, x[rows], y[rows]), model, weight=len(rows)))
        whole = alone.step(1e-2, whole, gradients(whole, x, y))
    for p, q in zip(model.params(), whole.params(), strict=True):
        assert (p.value.inner() - q.value.inner()).abs().max().item() < 1e-13  # the rounding of ten steps
    assert same(group, model)


@claim
def two_runs_and_a_resumed_one_have_the_same_bits(group: Group) -> None:
    """Although the first pass of a run, which does not overlap, is another one in the resumed run."""
    first, rows = group.broadcast(network(norm=True)), shares(group.size)[group.rank]

    def steps(group: Group, model: Any, optim: Any, chosen: Any) -> Any:
        for x, y in chosen:
            model = optim.step(1e-2, model, group.backward(loss_of(model, x[rows], y[rows]), model, weight=len(rows)))
        return model

    every, optim = list(batches(6)), AdamW()
    once = steps(Group.world(timeout=60), first, AdamW(), every)
    half = steps(Group.world(timeout=60), first, optim, every[:3])
    resumed = steps(Group.world(timeout=60), half, optim, every[3:])
    for p, q in zip(once.params(), resumed.params(), strict=True):
        assert np.array_equal(p.value.to_numpy(), q.value.to_numpy())


@claim
def several_buckets_amid_the_pass_are_summed_as_afterwards(group: Group) -> None:
    """To the bit on two ranks; on more, the library may add in another order."""
    parts: list[Any] = []
    for inputs, outputs in ((16, 1200), (1200, 1200), (1200, 900), (900, 10)):
        parts += [Linear(inputs, outputs, device=Train), Relu()]
    model = group.broadcast(Sequential(*parts[:-1]))
    rng = np.random.default_rng(group.rank)
    for _ in range(3):
        x, y = rng.normal(size=(4, 16)).astype("float32"), rng.integers(0, 10, 4)
        one = group.backward(loss_of(model, x, y), model, weight=4 + group.rank)
        two = group.mean(GradientsParams.from_grads(loss_of(model, x, y).backward(), model), weight=4 + group.rank)
        assert len(one.flatten()[0]) == 3
        for key in two:
            a, b = one[key].to_numpy(), two[key].to_numpy()
            if group.size == 2:
                assert np.array_equal(a, b), key
            else:
                np.testing.assert_allclose(a, b, rtol=0, atol=2e-7 * np.abs(b).max(), err_msg=key)


@claim
def zero_redundancy_trains_as_the_optimizer_itself(group: Group) -> None:
    """To the bit with the gradients of `Group.mean`; with its own part of them, to the bit on two ranks."""
    first, rows = group.broadcast(network(norm=True)), shares(group.size)[group.rank]
    models = [first, first, first]
    plain, optims = AdamW(), [ZeroRedundancy(AdamW(), group) for _ in range(2)]
    for x, y in batches(4):
        given = [gradients(model, x[rows], y[rows]) for model in models]
        means = [group.mean(grads, weight=len(rows)) for grads in given[:2]]
        part = optims[1].mean(given[2], models[2], weight=len(rows))
        assert not part.keys() - optims[1].state().keys() or not optims[1].state()
        models = [
            plain.step(1e-2, models[0], means[0]),
            optims[0].step(1e-2, models[1], means[1]),
            optims[1].step(1e-2, models[2], part),
        ]
    for path in models[0]._variables():
        one, two, three = (model._variables()[path].value.to_numpy() for model in models)
        assert np.array_equal(one, two), path
        if group.size == 2:
            assert np.array_equal(one, three), path
        else:
            np.testing.assert_allclose(one, three, rtol=0, atol=1e-14, err_msg=path)
    assert all(same(group, model) for model in models)
    whole, mine = plain.into_record(), optims[0].into_record()
    assert whole.states.keys() == mine.states.keys()
    for ident, state in whole.states.items():
        assert state.step == mine.states[ident].step
        assert all(np.array_equal(x, mine.states[ident].values[name]) for name, x in state.values.items())
    assert sum(group.gather(len(optims[0].state()))) == len(whole.states)
