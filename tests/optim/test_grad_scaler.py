"""`GradScaler`: scales, skipped steps, and what carries the mark of an overflow."""

from __future__ import annotations

import math
import pickle
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.backend import Mixed, NumPy, Profiled
from burnpy.errors import ArgumentError, DeviceError, KindError, StateError
from burnpy.nn import Linear
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
    Optimizer,
    OptimizerRecord,
    RAdam,
    RmsProp,
    Sgd,
    clip_by_global_norm,
)
from burnpy.record import load, save
from tests.rows import every_row

Train = Autodiff[NumPy]


class Asynchronous(NumPy):
    """A device that must not be waited for."""

    eager_checks = False


def scaled_grads(model: Linear[Any], x: float, scaler: GradScaler[Any]) -> GradientsParams[Any]:
    data = Tensor.full((1, 2), x, device=model.device)
    return GradientsParams.from_grads(scaler.scale(model(data).sum()).backward(), model)


def test_unscaled_gradients_are_those_without_scaling() -> None:
    model, scaler = Linear(2, 3, device=Train), GradScaler(NumPy)
    grads, scaler = scaler.unscale(scaled_grads(model, 3.0, scaler))
    assert grads["weight"].tolist() == [[3.0] * 3] * 2
    assert grads.found_inf is not None
    assert not grads.found_inf.item()
    assert scaler.loss_scale == 65536.0
    assert scaler.into_record() == {"scale": 65536.0, "steps": 1}


@pytest.mark.parametrize("optim", [Adam(), Sgd(momentum=0.9), RmsProp(), Sgd()], ids=lambda o: type(o).__name__)
def test_a_step_of_infinite_gradients_changes_nothing(optim: Any) -> None:
    model, scaler = Linear(2, 1, device=Train), GradScaler(NumPy)
    grads, scaler = scaler.unscale(scaled_grads(model, 1.0, scaler))
    model = optim.step(0.1, model, grads)
    before = {ident: {n: x.to_numpy().copy() for n, x in s.values.items()} for ident, s in optim.state().items()}
    grads, scaler = scaler.unscale(scaled_grads(model, 1e38, scaler))
    assert grads.found_inf is not None
    assert grads.found_inf.item()
    assert scaler.loss_scale == 32768.0
    after = optim.step(0.1, model, clip_by_global_norm(grads, 1.0))
    for path, value in model.named_params().items():
        np.testing.assert_array_equal(after.named_params()[path].value.to_numpy(), value.value.to_numpy())
    for ident, state in optim.state().items():
        for name, x in state.values.items():
            np.testing.assert_array_equal(x.to_numpy(), before[ident][name])
    grads, scaler = scaler.unscale(scaled_grads(after, 1.0, scaler))
    again = optim.step(0.1, after, grads)
    assert again.weight.value.tolist() != after.weight.value.tolist()


def test_the_scale_grows_after_an_interval_without_overflow() -> None:
    model, scaler = Linear(2, 1, device=Train), GradScaler(NumPy, init_scale=8.0, growth_interval=2)
    scales = []
    for x in (1.0, 1.0, 1.0, float("nan"), 1.0, 1.0):
        _, scaler = scaler.unscale(scaled_grads(model, x, scaler))
        scales.append(scaler.loss_scale)
    assert scales == [8.0, 16.0, 16.0, 8.0, 8.0, 16.0]


@pytest.mark.parametrize(("scale", "x"), [(2.0**127, 0.0), (2.0**-149, float("inf"))])
def test_a_scale_becomes_neither_infinite_nor_zero(scale: float, x: float) -> None:
    model, scaler = Linear(2, 1, device=Train), GradScaler(NumPy, init_scale=scale, growth_interval=1)
    for _ in range(2):
        _, scaler = scaler.unscale(scaled_grads(model, x, scaler))
        assert scaler.loss_scale == scale


def test_nothing_waits_for_the_device() -> None:
    device = Profiled(Asynchronous)
    model, scaler, optim = Linear(2, 1, device=Autodiff(device)), GradScaler(device), Adam()
    with Profiled.record() as p:
        grads, scaler = scaler.unscale(scaled_grads(model, 1.0, scaler))
        optim.step(0.1, model, grads)
    assert "to_numpy" not in {row.operation for row in p.rows()}


def test_float16_products_train_only_with_a_scale() -> None:
    device = Mixed(NumPy, "float16")

    def slope(scaler: GradScaler[Any] | None) -> float:
        x = Tensor.full((1, 1), 1e-4, device=Autodiff(device)).require_grad()
        w = Tensor.full((1, 1), 1e-4, device=Autodiff(device)).require_grad()
        loss = ((x @ w) * 1e-8).sum()
        grads = (loss if scaler is None else scaler.scale(loss)).backward()
        return grads[w].item() / (1.0 if scaler is None else scaler.loss_scale)

    assert slope(None) == 0.0
    assert slope(GradScaler(device)) == pytest.approx(1e-12, rel=0.01)


def test_found_inf_is_carried_on() -> None:
    model, scaler = Linear(2, 1, device=Train), GradScaler(NumPy)
    fine, _ = scaler.unscale(scaled_grads(model, 1.0, scaler))
    bad, _ = scaler.unscale(scaled_grads(model, float("inf"), scaler))
    plain = GradientsParams.from_grads(model(Tensor[Train].ones((1, 2))).sum().backward(), model)
    for grads in (bad * 2.0, bad + fine, plain + bad, bad.without("bias"), bad.map(lambda g: g * 0.0)):
        assert grads.found_inf is not None
        assert grads.found_inf.item()
    moved = pickle.loads(pickle.dumps(bad.to_device(NumPy)))
    assert moved.found_inf.item()
    assert (plain + plain).found_inf is None
    both = (fine + plain).found_inf
    assert both is not None
    assert not both.item()


def test_a_checkpoint_has_a_place_for_it() -> None:
    model, scaler = Linear(2, 1, device=Train), GradScaler(NumPy, growth_interval=3)
    _, scaler = scaler.unscale(scaled_grads(model, float("inf"), scaler))
    _, scaler = scaler.unscale(scaled_grads(model, 1.0, scaler))
    with tempfile.TemporaryDirectory() as folder:
        save(f"{folder}/run.safetensors", scaler=scaler)
        again = GradScaler(NumPy, growth_interval=3).load_record(load(f"{folder}/run.safetensors").scaler)
    assert again.into_record() == scaler.into_record() == {"scale": 32768.0, "steps": 1}


def test_mistakes() -> None:
    model, scaler = Linear(2, 1, device=Train), GradScaler(NumPy)
    wrong: tuple[dict[str, Any], ...] = (
        {"init_scale": 0.0},
        {"init_scale": 2.0**128},
        {"growth_factor": 0.5},
        {"backoff_factor": 2.0},
        {"growth_interval": 0},
    )
    for settings in wrong:
        with pytest.raises(ArgumentError, match=next(iter(settings))):
            GradScaler(NumPy, **settings)
    with pytest.raises(DeviceError, match="beneath, so give it NumPy"):
        GradScaler(Train)
    with pytest.raises(DeviceError, match="the scale is on NumPy"):
        scaler.scale(Tensor[Autodiff[Mixed[NumPy]]].ones(()))
    with pytest.raises(KindError, match=r"from_grads\(grads, model\)"):
        scaler.unscale(model(Tensor[Train].ones((1, 2))).sum().backward())  # type: ignore[arg-type]  # which is the mistake
    grads, scaler = scaler.unscale(scaled_grads(model, 1.0, scaler))
    with pytest.raises(StateError, match="unscaled already"):
        scaler.unscale(grads)
    with pytest.raises(StateError, match="into_record"):
        scaler.load_record({"step": 3})
    for record, message in (
        ({"scale": math.nan, "steps": 0}, "the scale is NaN"),
        ({"scale": -1.0, "steps": 0}, "the scale is -1.0; expected one from"),
        ({"scale": "2", "steps": 0}, "the scale must be a number"),
        ({"scale": 2.0, "steps": -1}, "its age is -1; expected an int"),
    ):
        with pytest.raises(StateError, match=message):
            scaler.load_record(record)


OPTIMIZERS: dict[str, Callable[[], Optimizer]] = {
    "Adam": Adam,
    "AMSGrad": lambda: Adam(amsgrad=True),
    "AdamW": AdamW,
    "NAdam": NAdam,
    "RAdam": RAdam,
    "Adamax": Adamax,
    "AdaGrad": lambda: AdaGrad(lr_decay=0.5),
    "AdaDelta": AdaDelta,
    "Lion": Lion,
    "RmsProp": lambda: RmsProp(momentum=0.9),
    "Sgd": lambda: Sgd(momentum=0.9, dampening=0.5),
    "LBfgs": lambda: LBfgs(history_size=2),
    "with masters": lambda: Adam(master_weights=True),
}
DEVICES = {"NumPy": NumPy(), "a device that waits for nothing": Asynchronous()}
OVERFLOWS = "x" * 18 + "..x.xx" + "." * 6


def trained(optim: Optimizer, model: Any, overflows: str, device: Any = None) -> Any:
    """Return a model after scaled steps; the steps marked x overflow."""
    scaler: GradScaler[Any] = GradScaler(device or model.device.inner, init_scale=2.0**60)
    for k, mark in enumerate(overflows):
        x = 1e38 if mark == "x" else 1.0 + k % 3
        grads, scaler = scaler.unscale(scaled_grads(model, x if mark == "x" else 1.0, scaler))
        model = optim.step(0.01, model, grads if mark == "x" else grads * x)
    return model


def values_of(model: Any) -> dict[str, Any]:
    return {path: param.value.to_numpy() for path, param in model.named_params().items()}


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_skipped_step_does_not_count(name: str, device: Any) -> None:
    """Only the other steps change the model: bit for bit where the host knows the skipped ones."""
    model = Linear(2, 3, device=Autodiff(device))
    skipping, plain = OPTIMIZERS[name](), OPTIMIZERS[name]()
    found = values_of(trained(skipping, model, OVERFLOWS))
    expected = model
    for k, mark in enumerate(OVERFLOWS):
        if mark == ".":
            grads = GradientsParams.from_grads(
                expected(Tensor.ones((1, 2), device=model.device)).sum().backward(), expected
            )
            expected = plain.step(0.01, expected, grads * (1.0 + k % 3))
    for path, value in values_of(expected).items():
        difference = np.abs(found[path] - value).max()
        assert difference <= (0.0 if device.eager_checks else 2e-7), f"{path} differs by {difference}"
    steps = {state.step for state in skipping.state().values()}
    assert steps == {OVERFLOWS.count(".")} == {state.step for state in plain.state().values()}


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_the_first_move_after_skipped_steps_is_a_whole_one(device: Any) -> None:
    model, optim = Linear(2, 1, device=Autodiff(device)), Adam()
    after = trained(optim, model, "x" * 18 + ".")
    moves = (model.weight.value.inner() - after.weight.value.inner()).to_numpy()
    np.testing.assert_allclose(moves, 0.01, rtol=1e-5)


@every_row("name", [name for name in OPTIMIZERS if name != "LBfgs"])
def test_counting_waits_for_no_device(name: str) -> None:
    device = Profiled(Asynchronous)
    model, optim = Linear(2, 3, device=Autodiff(device)), OPTIMIZERS[name]()
    with Profiled.record() as p:
        trained(optim, model, "x..x.", device)
    assert "to_numpy" not in {row.operation for row in p.rows()}
    counts = optim._memory.counts.values()
    assert len(counts) == 2
    assert len(set(counts)) == 1, "parameters updated together share a count, and so a kernel"
    assert {state.step for state in optim.state().values()} == {3}


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_with_skipped_steps_resumes_to_the_same_bits(name: str, device: Any, tmp_path: Any) -> None:
    model, optim = Linear(2, 3, device=Autodiff(device)), OPTIMIZERS[name]()
    model = trained(optim, model, "x.x..")
    other, pickled = OPTIMIZERS[name](), pickle.loads(pickle.dumps(optim))
    save(f"{tmp_path}/run.safetensors", optim=optim)
    other.load_record(load(f"{tmp_path}/run.safetensors").optim)
    expected = values_of(trained(optim, model, ".x..x."))
    for resumed in (other, pickled):
        for path, value in values_of(trained(resumed, model, ".x..x.")).items():
            np.testing.assert_array_equal(value, expected[path])
        assert {ident: state.step for ident, state in resumed.state().items()} == {
            ident: state.step for ident, state in optim.state().items()
        }


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_a_record_of_plain_counts_loads(device: Any) -> None:
    """As steps without a scaler write it; it goes on with one, and without."""
    model: Any = Linear(2, 1, device=Autodiff(device))
    optim = Adam()
    zeros = (
        {name: np.zeros((2, 1), np.float32) for name in ("m", "v")},
        {n: np.zeros(1, np.float32) for n in ("m", "v")},
    )
    states = {model.weight.id: ("weight", 7, zeros[0]), model.bias.id: ("bias", 7, zeros[1])}
    optim.load_record(OptimizerRecord.of("Adam", states))
    model = trained(optim, model, ".x.")
    grads = model(Tensor.ones((1, 2), device=model.device)).sum().backward()
    model = optim.step(0.01, model, grads)
    model = trained(optim, model, "x.")
    assert {state.step for state in optim.state().values()} == {11}


def test_parameters_with_other_numbers_of_updates_have_counts_of_their_own() -> None:
    model, optim = Linear(2, 1, device=Autodiff(Asynchronous())), Adam()
    scaler = GradScaler(Asynchronous)
    grads, scaler = scaler.unscale(scaled_grads(model, 1.0, scaler))
    model = optim.step(0.01, model, grads.without("bias"))
    model = trained(optim, model, "x.x.")
    assert {state.path: state.step for state in optim.state().values()} == {"weight": 3, "bias": 2}


class Numbered(Optimizer):
    """An optimizer that knows nothing of skipped steps, and moves by the number of the step."""

    slots = ()

    def update(self, device: Any, params: Any, grads: Any, states: Any, step: Any) -> Any:
        return ([device.sub(param, float(step.number)) for param in params],)


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_an_optimizer_that_knows_nothing_of_skipped_steps(device: Any) -> None:
    model: Any = Linear(2, 1, device=Autodiff(device))
    after = trained(Numbered(), model, "xx.x.")
    np.testing.assert_allclose((model.bias.value.inner() - after.bias.value.inner()).to_numpy(), 3.0, rtol=1e-6)
