"""Training resumed from records continues bit for bit as if it had not stopped."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from burnpy import Generator, Tensor
from burnpy.backend import errors
from burnpy.optim import (
    AdaGrad,
    Adam,
    AdamW,
    CosineLr,
    Group,
    LBfgs,
    Optimizer,
    OptimizerRecord,
    RmsProp,
    Sgd,
    WarmUpLr,
    clip_by_global_norm,
)
from tests.optim.models import Mlp, Train, of_two, two, values

SCHEDULE = WarmUpLr(3, CosineLr(0.1, 20))
OPTIMIZERS = {
    "sgd": lambda: Sgd(momentum=0.9, nesterov=True),
    "plain sgd": lambda: Sgd(),
    "adam": lambda: Adam(amsgrad=True),
    "adamw": lambda: AdamW(groups=[Group("*.bias", weight_decay=0.0)]),
    "rmsprop": lambda: RmsProp(centered=True, momentum=0.5),
    "adagrad": lambda: AdaGrad(lr_decay=0.01),
    "lbfgs": lambda: LBfgs(history_size=3),
}


def trained(model: Any, optim: Optimizer, generator: Generator, steps: range) -> Any:
    for step in steps:
        x = Tensor[Train].normal((5, 3), 0.0, 1.0, generator=generator)
        grads = clip_by_global_norm((model(x) ** 2).mean().backward(), 0.5)
        model = optim.step(SCHEDULE(step), model, grads)
    return model


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_as_if_it_had_not_stopped(make: Any) -> None:
    first = Mlp(Train)
    whole = trained(first, make(), Generator(0), range(12))

    optim, generator = make(), Generator(0)
    model = trained(first, optim, generator, range(7))
    saved = pickle.dumps((model.into_record(), optim.into_record(), 7, generator.get_state()))
    model, optim = None, None

    weights, record, step, state = pickle.loads(saved)
    generator = Generator()
    generator.set_state(state)
    resumed = trained(Mlp(Train).load_record(weights), make().load_record(record), generator, range(step, 12))
    assert values(resumed) == values(whole)

    generator.set_state(state)
    bare = Mlp(Train).load_record({path: entry.value for path, entry in weights.items()})  # which has ids of its own
    resumed = trained(bare, make().load_record(record, bare), generator, range(step, 12))
    assert values(resumed) == values(whole)


def test_an_optimizer_can_be_pickled() -> None:
    model, optim = two(), Adam()
    model = optim.step(0.1, model, of_two(model))
    other = pickle.loads(pickle.dumps(optim))
    assert values(other.step(0.1, model, of_two(model))) == values(optim.step(0.1, model, of_two(model)))
    assert repr(other) == repr(optim)


def test_a_record_has_plain_arrays_by_id_with_paths() -> None:
    model, optim = two(), Adam()
    optim.step(0.1, model, of_two(model))
    record = optim.into_record()
    assert record.optimizer == "Adam"
    state = record.states[model.a.id]
    assert (state.path, state.step, set(state.values)) == ("a", 1, {"m", "v"})
    assert all(type(x) is np.ndarray and not x.flags.writeable for x in state.values.values())
    again = Adam().load_record(record).into_record()
    assert pickle.dumps(again) == pickle.dumps(Adam().load_record(again).into_record())


def test_records_that_do_not_fit() -> None:
    model, optim = two(), Adam()
    optim.step(0.1, model, of_two(model))
    before, record = optim.state(), optim.into_record()
    ident = model.a.id
    state = record.states[ident]

    def with_state(**changed: Any) -> OptimizerRecord:
        return OptimizerRecord("Adam", {ident: state._replace(**changed)})

    with pytest.raises(errors.StateError, match="of the optimizer Adam, not of Sgd"):
        Sgd(momentum=0.9).load_record(record)
    with pytest.raises(errors.StateError, match="of the optimizer Adam, not of AdamW"):
        AdamW().load_record(record)
    with pytest.raises(errors.StateError, match="holds m, v, and this optimizer remembers m, v, vmax"):
        Adam(amsgrad=True).load_record(record)
    for wrong, message in (
        (None, "not None"),
        ({}, "not a dict"),
        (model.into_record(), "not a dict"),
        (OptimizerRecord("Adam", {ident: 3}), "no state for"),  # type: ignore[dict-item]
        (with_state(step=-1), "the state of a in this record has the step -1"),
        (with_state(step=1.5), "has the step 1.5"),
        (with_state(values={"m": 1.0, "v": 2.0}), "has a float for m"),
        (with_state(values={**state.values, "v": np.array([1, 2])}), "has dtype int64 for v"),
    ):
        with pytest.raises(errors.StateError, match=message):
            optim.load_record(wrong)  # type: ignore[arg-type]
    with pytest.raises(errors.StateError, match=r"m for a has shape \(3,\), but the parameter has \(2,\)"):
        optim.load_record(with_state(values={"m": np.zeros(3), "v": np.zeros(3)}), model)
    with pytest.raises(errors.StateError, match="has states of a, b, which this Mlp does not have"):
        optim.load_record(record, Mlp(Train))
    assert optim.state() == before
    other = two()
    loaded = Adam().load_record(record)
    with pytest.raises(errors.StateError, match=r"knows no parameter of this Two .*load_record\(record, model\)"):
        loaded.step(0.1, other, of_two(other))
    loaded.step(0.1, model, of_two(model))
    assert loaded.state()[ident].step == 2
