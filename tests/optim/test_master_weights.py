"""Master weights: 16-bit parameters that train as float32 ones, their state, and how they are continued."""

from __future__ import annotations

import copy
import pickle
import tempfile
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor, manual_seed
from burnpy.backend import NumPy
from burnpy.backend.dtypes import dtype_of
from burnpy.distributed import Group
from burnpy.distributed.zero import ZeroRedundancy
from burnpy.errors import ArgumentError, StateError
from burnpy.nn import Linear, Sequential
from burnpy.optim import (
    AdaDelta,
    AdaGrad,
    Adam,
    Adamax,
    AdamW,
    GradientsParams,
    GradScaler,
    LBfgs,
    Lion,
    NAdam,
    RAdam,
    RmsProp,
    Sgd,
)
from burnpy.record import load, save
from tests.rows import every_row

Train = Autodiff[NumPy]
OPTIMIZERS: list[Any] = [AdaDelta, AdaGrad, Adam, Adamax, AdamW, Lion, NAdam, RAdam, RmsProp, Sgd]
X = np.random.default_rng(0).normal(size=(32, 4)).astype("f4")


def model_of(dtype: str) -> Any:
    manual_seed(1)
    return Linear(4, 2, device=Train).astype(dtype)


def loss_of(model: Any) -> Any:
    x = Tensor.from_data(X, device=Train).to_dtype(model.weight.dtype)
    return (model(x) - x[:, :2] * 3.0).square().mean()


def trained(model: Any, optim: Any, lr: float, steps: int) -> Any:
    for _ in range(steps):
        model = optim.step(lr, model, loss_of(model).backward())
    return model


def error(model: Any) -> float:
    return float(loss_of(model.astype("float32")).item())


def bits(model: Any) -> list[bytes]:
    return [param.value.to_numpy().tobytes() for param in model.params()]


@pytest.mark.slow
@pytest.mark.parametrize(("optim", "lr"), [(Sgd, 1e-3), (Adam, 5e-4), (Lion, 2e-4)])
def test_small_steps_add_up_as_in_float32(optim: Any, lr: float) -> None:
    start = error(model_of("float32"))
    wanted = error(trained(model_of("float32"), optim(), lr, 150))
    with_masters = error(trained(model_of("bfloat16"), optim(master_weights=True), lr, 150))
    without = error(trained(model_of("bfloat16"), optim(), lr, 150))
    gained = start - wanted
    assert abs(with_masters - wanted) < 0.05 * gained
    assert start - without < 0.7 * gained  # steps below half the spacing of bfloat16 are lost


@every_row("dtype", ["bfloat16", "float16"])
@every_row("optim", OPTIMIZERS)
def test_the_parameter_is_the_rounded_master(optim: Any, dtype: str) -> None:
    model, optimizer = model_of(dtype), optim(master_weights=True, weight_decay=0.1)
    plain, wide = optim(weight_decay=0.1), model_of(dtype).astype("float32")
    for _ in range(3):
        grads = GradientsParams.from_grads(loss_of(model).backward(), model)
        model = optimizer.step(0.01, model, grads)
        by_id = dict(zip((p.id for p in wide.params()), grads.values(), strict=True))
        float32 = {ident: grad.to_dtype("float32") for ident, grad in by_id.items()}
        wide = plain.step(0.01, wide, GradientsParams(NumPy, float32, paths={k: k for k in float32}))
    states = optimizer.state()
    for param, want in zip(model.params(), wide.params(), strict=True):
        values = states[param.id].values
        assert {x.dtype for x in values.values()} == {dtype_of("float32")}
        np.testing.assert_array_equal(values["master"].to_numpy(), want.value.to_numpy())
        np.testing.assert_array_equal(param.value.to_numpy(), want.value.to_numpy().astype(param.dtype))


def test_wide_parameters_have_no_master() -> None:
    model: Any = Sequential(Linear(2, 2, device=Train).astype("bfloat16"), Linear(2, 1, device=Train))
    optim = Adam(master_weights=True)
    x = Tensor[Train].ones((1, 2))
    loss = model[1](model[0](x.to_dtype("bfloat16")).to_dtype("float32")).sum()
    model = optim.step(0.1, model, loss.backward())
    names = {state.path: set(state.values) for state in optim.state().values()}
    assert names["0.weight"] == {"m", "v", "master"}
    assert names["1.weight"] == {"m", "v"}
    assert [str(p.dtype) for p in model.params()] == ["bfloat16", "bfloat16", "float32", "float32"]


def test_a_resumed_run_has_the_same_bits() -> None:
    optim = AdamW(master_weights=True)
    model = trained(model_of("bfloat16"), optim, 1e-3, 5)
    with tempfile.TemporaryDirectory() as folder:
        save(f"{folder}/run.safetensors", model=model, optim=optim)
        record = load(f"{folder}/run.safetensors")
    again = AdamW(master_weights=True).load_record(record.optim)
    resumed = trained(record.apply_to(model_of("bfloat16")), again, 1e-3, 5)
    pickled = pickle.loads(pickle.dumps(optim))
    copied = copy.copy(optim)
    whole = bits(trained(model, optim, 1e-3, 5))
    assert bits(resumed) == whole
    assert bits(trained(model, pickled, 1e-3, 5)) == whole
    assert bits(trained(model, copied, 1e-3, 5)) == whole
    for state in again.state().values():
        assert state.values["master"].dtype == np.float32


def test_a_parameter_that_was_changed_changes_its_master() -> None:
    optim = Sgd(master_weights=True)
    model = trained(model_of("bfloat16"), optim, 1e-3, 20)
    before = optim.state()[model.weight.id].values["master"].to_numpy().copy()
    changed = model.weight.value.detach().at[0, 0].set(2.0)
    model = model.with_values({model.weight.id: changed})
    model = optim.step(0.0, model, loss_of(model).backward())
    after = optim.state()[model.weight.id].values["master"].to_numpy()
    assert after[0, 0] == 2.0
    np.testing.assert_array_equal(after.reshape(-1)[1:], before.reshape(-1)[1:])


def test_masters_begin_in_the_middle_of_a_run() -> None:
    optim = Adam()
    model = trained(model_of("bfloat16"), optim, 1e-3, 2)
    later = Adam(master_weights=True).load_record(optim.into_record())
    model = trained(model, later, 1e-3, 2)
    assert set(later.state()[model.weight.id].values) == {"m", "v", "master"}
    with pytest.raises(StateError, match="holds m, master, v, and this optimizer remembers m, v"):
        Adam().load_record(later.into_record())


def test_an_overflow_leaves_masters_as_they_are() -> None:
    optim, scaler = Adam(master_weights=True), GradScaler(NumPy)
    model = trained(model_of("float16"), optim, 1e-3, 2)
    before = {ident: s.values["master"].to_numpy().copy() for ident, s in optim.state().items()}
    grads = GradientsParams.from_grads(loss_of(model).backward(), model)
    bad, scaler = scaler.unscale(grads * 1e9)
    after = optim.step(1e-3, model, bad)
    assert bits(after) == bits(model)
    for ident, state in optim.state().items():
        np.testing.assert_array_equal(state.values["master"].to_numpy(), before[ident])


def test_zero_redundancy_has_masters_too() -> None:
    optim, plain = ZeroRedundancy(AdamW(master_weights=True), Group.world()), AdamW(master_weights=True)
    assert optim.master_weights
    one, other = trained(model_of("bfloat16"), optim, 1e-3, 3), trained(model_of("bfloat16"), plain, 1e-3, 3)
    assert bits(one) == bits(other)
    record = optim.into_record()
    assert {"master"} < set(next(iter(record.states.values())).values)
    assert ZeroRedundancy(AdamW(master_weights=True), Group.world()).load_record(record, one).state()


def test_mistakes_are_said() -> None:
    wrong: Any = "yes"
    with pytest.raises(ArgumentError, match=r"Adam\(\) got master_weights='yes'; expected True or False"):
        Adam(master_weights=wrong)
    with pytest.raises(ArgumentError, match=r"LBfgs\(\) got master_weights=True"):
        LBfgs(master_weights=True)
