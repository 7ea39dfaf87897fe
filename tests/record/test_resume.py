"""Training that goes on from a file continues bit for bit as if it had not stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import Generator, Tensor
from burnpy.backend import errors
from burnpy.nn import BatchNorm, Dropout, Linear, Relu, Sequential
from burnpy.optim import Adam, CosineLr, OptimizerRecord, Sgd
from burnpy.record import load, save
from burnpy.record.safetensors_file import read
from tests.record.nets import Train, mlp, same

SCHEDULE = CosineLr(0.05, 10)


def network(generator: Generator) -> Sequential[Any]:
    """A model that draws random numbers in training, and has running statistics."""
    return Sequential(
        Linear(3, 4, device=Train, generator=generator),
        BatchNorm(4, device=Train),
        Relu(),
        Dropout(0.5, generator=generator),
        Linear(4, 2, device=Train, generator=generator),
    )


def trained(model: Any, optim: Any, generator: Generator, steps: range) -> Any:
    """The model after some steps on random data."""
    for step in steps:
        x = Tensor[Train].normal((8, 3), generator=generator)
        grads = (model(x) ** 2.0).mean().backward()
        model = optim.step(SCHEDULE(step), model, grads)
    return model


@pytest.mark.parametrize("made", [lambda: Adam(weight_decay=0.01), lambda: Sgd(momentum=0.9)])
def test_training_goes_on_bit_for_bit(tmp_path: Path, made: Any) -> None:
    generator, optim = Generator(0), made()
    model = trained(network(generator), optim, generator, range(5))
    save(tmp_path / "a", model=model, optim=optim, generator=generator, step=5)
    expected = trained(model, optim, generator, range(5, 10))

    again = Generator()
    record = load(tmp_path / "a")
    model = record.apply_to(network(again))
    optim = made().load_record(record.optim, model)
    again.set_state(record.generator)
    found = trained(model, optim, again, range(record.step, 10))
    assert same(found, expected)
    assert again.get_state() == generator.get_state()
    save(tmp_path / "expected", model=expected)
    save(tmp_path / "found", model=found)
    assert (tmp_path / "expected").read_bytes() == (tmp_path / "found").read_bytes()


def test_an_optimizers_state_has_names(tmp_path: Path) -> None:
    generator, optim = Generator(0), Adam()
    model = trained(network(generator), optim, generator, range(1))
    save(tmp_path / "a", model=model, optim=optim)
    names = read(tmp_path / "a").tensors
    assert {f"optim.states.{model[0].weight.id}.values.{slot}" for slot in optim.slots} <= names.keys()


def test_the_state_of_another_optimizer_is_refused(tmp_path: Path) -> None:
    generator, optim = Generator(0), Adam()
    model = trained(network(generator), optim, generator, range(1))
    save(tmp_path / "a", model=model, optim=optim)
    record = load(tmp_path / "a")
    with pytest.raises(errors.StateError, match="of the optimizer Adam, not of Sgd"):
        Sgd(momentum=0.9).load_record(record.optim)
    with pytest.raises(errors.StateError, match=r"for 0\.weight has shape \(3, 4\), but the parameter has \(3, 1\)"):
        Adam().load_record(record.optim, mlp(hidden=1))


def test_a_schedule_is_saved_as_its_step(tmp_path: Path) -> None:
    with pytest.raises(errors.ArgumentError, match=r"got schedule, a CosineLr.*of a schedule save the step"):
        save(tmp_path / "a", schedule=SCHEDULE)
    save(tmp_path / "a", step=np.int64(3))
    assert SCHEDULE(load(tmp_path / "a").step) == SCHEDULE(3)


def test_what_an_optimizer_remembers_comes_back_as_a_record_of_one(tmp_path: Path) -> None:
    generator, optim = Generator(0), Adam()
    model = trained(network(generator), optim, generator, range(2))
    save(tmp_path / "a", model=model, best={"optim": optim, "fresh": Sgd()}, optim=optim, step=2)
    record = load(tmp_path / "a")
    found = record.part("optim", OptimizerRecord)
    assert repr(found) == "OptimizerRecord(Adam, 6 parameters, at most 2 updates)"
    assert repr(found) in repr(record)
    assert {ident: (state.path, state.step) for ident, state in found.states.items()} == {
        ident: (state.path, 2) for ident, state in optim.state().items()
    }
    assert isinstance(record.best["optim"], OptimizerRecord)
    assert record.best["fresh"] == OptimizerRecord("Sgd", {})
    assert record.part("step", int) == 2
    assert {"model", "optim", "step"} <= {*dir(record)}
    with pytest.raises(errors.RecordError, match=r"step in .* must be str, got 2"):
        record.part("step", str)
    with pytest.raises(errors.MissingPartError, match="has no steps"):
        record.part("steps", int)
