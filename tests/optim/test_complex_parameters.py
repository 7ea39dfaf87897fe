"""Complex parameters: what optimizers, gradients of models, transformations and files do with them."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, ComplexTensor, Tensor, func
from burnpy.backend import NumPy
from burnpy.backend.errors import DTypeError, KindError, ModuleError
from burnpy.nn import Buffer, ComplexBuffer, ComplexParam, Module, Param
from burnpy.optim import (
    Adafactor,
    Adam,
    AdamW,
    Ema,
    GradientsParams,
    GradScaler,
    LBfgs,
    Muon,
    Optimizer,
    Sgd,
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
    clip_per_sample,
    per_sample_gradients,
    per_sample_norms,
    sum_of_samples,
)
from burnpy.record import load, save

Train = Autodiff[NumPy]
X = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)


class Spectral(Module[Any]):
    """|x W s| + b, where W and s are complex and s is not learned."""

    def __init__(self, device: Any = Train) -> None:
        self.w = ComplexParam(ComplexTensor.from_data([[1 + 2j, 3 - 1j], [0.5j, 1]], device=device))
        self.b = Param(Tensor.zeros((2,), device=device))
        self.s = ComplexBuffer(ComplexTensor.from_data([1j, 2], device=device))

    def forward(self, x: Any) -> Any:
        return ((x.complex() @ self.w.value) * self.s.value).abs() + self.b.value


class Paired(Module[Any]):
    """The same of a pair of floats."""

    def __init__(self, model: Spectral) -> None:
        self.w = Param(burnpy.view_as_real(model.w.value.detach()))
        self.b, self.s = model.b, model.s

    def forward(self, x: Any) -> Any:
        return ((x.complex() @ burnpy.view_as_complex(self.w.value)) * self.s.value).abs() + self.b.value


def given(device: Any = Train) -> Any:
    return Tensor.from_data(X, device=device)


def loss(model: Any, x: Any) -> Any:
    return (model(x) - 1.0).square().mean()


def grads_of(model: Any) -> GradientsParams[Any]:
    return GradientsParams.from_grads(loss(model, given()).backward(), model)


OPTIMIZERS = [Adam(weight_decay=0.1), AdamW(weight_decay=0.1, maximize=True), Sgd(momentum=0.9), LBfgs()]


@pytest.mark.parametrize("optim", OPTIMIZERS, ids=lambda optim: type(optim).__name__)
def test_a_step_is_that_of_pairs_of_floats(optim: Optimizer) -> None:
    model, beside = Spectral(), copy.copy(optim)
    pairs = Paired(model)
    for _ in range(4):
        model = optim.step(0.05, model, loss(model, given()).backward())
        pairs = beside.step(0.05, pairs, loss(pairs, given()).backward())
        np.testing.assert_array_equal(burnpy.view_as_real(model.w.value).to_numpy(), pairs.w.value.to_numpy())
    state = optim.state()[model.w.id]
    assert {x.shape for x in state.values.values()} == {(2, 2, 2)}
    record = pickle.loads(pickle.dumps(optim.into_record()))
    other = copy.copy(optim).load_record(record, model)
    after = [o.step(0.05, m, grads_of(m)) for o, m in ((optim, model), (other, model.fork(Train)))]
    assert after[0].w.value.tolist() == after[1].w.value.tolist()


def test_a_compiled_step_is_near_that_of_eager_code() -> None:
    optim, eager = Adam(), Adam()
    model, beside = Spectral(), Spectral()
    state = optim.init(model)

    @func.compiled
    def step(model: Any, state: Any, x: Any) -> Any:
        return optim.pure_step(0.1, model, loss(model, x).backward(), state)

    for _ in range(4):
        model, state = step(model, state, given())
        beside = eager.step(0.1, beside, loss(beside, given()).backward())
    np.testing.assert_allclose(model.w.value.to_numpy(), beside.w.value.to_numpy(), rtol=1e-6)


def test_optimizers_that_look_at_shapes_refuse() -> None:
    model = Spectral()
    for optim in (Muon(), Adafactor()):
        with pytest.raises(KindError, match=r"complex parameter w.*grads\.without\(path\)"):
            optim.step(0.1, model, grads_of(model))


def test_trees_hold_complex_tensors() -> None:
    z = ComplexTensor[Train].from_data([1 + 2j, 0j]).require_grad()
    gradient = ((z - 3j).abs().square().sum()).backward()
    trees: list[Any] = [{"z": z}, z]
    for tree in trees:
        after: Any = Adam().step(0.5, tree, gradient)
        moved = after["z"] if isinstance(after, dict) else after
        np.testing.assert_allclose(moved.to_numpy(), [0.5 + 2.5j, 0.5j], atol=1e-6)
    found, last = LBfgs(max_iter=30).minimize(
        1.0, z, lambda z: (lambda value: (value, value.backward()))((z - 3j).abs().square().sum())
    )
    assert last.item() < 1e-10
    assert found.allclose(ComplexTensor[Train].full((2,), 3j), atol=1e-5)


CLIPS: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda g: clip_by_value(g, 1.0), lambda w: w.real.clip(-1, 1) + 1j * w.imag.clip(-1, 1)),
    (lambda g: clip_by_norm(g, 1.0), lambda w: w / np.linalg.norm(w)),
    (lambda g: clip_by_norm(g, 1.0, p=1.0), lambda w: w / np.abs(w).sum()),
    (lambda g: clip_by_norm(g, 1.0, p=math.inf), lambda w: w / np.abs(w).max()),
    (lambda g: g * 2.0, lambda w: w * 2),
    (lambda g: g / 2.0, lambda w: w / 2),
    (lambda g: g + g, lambda w: w * 2),
    (lambda g: g.map(lambda x: x * 3.0), lambda w: w * 3),
]


def test_gradients_of_models_are_clipped_and_scaled() -> None:
    grads = grads_of(Spectral())
    w, b = grads["w"].to_numpy(), grads["b"].to_numpy()
    for ours, theirs in CLIPS:
        result = ours(grads)["w"]
        assert isinstance(result, ComplexTensor)
        np.testing.assert_allclose(result.to_numpy(), theirs(w), rtol=1e-5)
    total = math.hypot(float(np.linalg.norm(w)), float(np.linalg.norm(b)))
    assert abs(grads.norm().item() - total) < 1e-4 * total
    np.testing.assert_allclose(clip_by_global_norm(grads, 0.5)["w"].to_numpy(), w * (0.5 / total), rtol=1e-4)
    assert grads.norm(math.inf).item() == pytest.approx(max(np.abs(w).max(), np.abs(b).max()))


def test_loss_scaling_finds_infinities_in_either_part() -> None:
    scaler, model = GradScaler(device=NumPy), Spectral()
    grads = GradientsParams.from_grads(scaler.scale(loss(model, given())).backward(), model)
    unscaled, _ = scaler.unscale(grads)
    np.testing.assert_allclose(unscaled["w"].to_numpy(), grads_of(model)["w"].to_numpy(), rtol=1e-5)
    worse, _ = scaler.unscale(grads.map(lambda x: x * math.inf))
    assert worse.found_inf is not None
    assert worse.found_inf.item()


def test_buckets_hold_pairs_of_floats() -> None:
    grads = grads_of(Spectral())
    buckets, layout = grads.flatten()
    assert [(x.dtype.name, x.shape) for x in buckets] == [("float32", (10,))]
    arrays = [np.empty(bucket.shape, np.float32) for bucket in buckets]
    layout.write(grads, arrays)
    np.testing.assert_array_equal(arrays[0], buckets[0].to_numpy())
    doubled = layout.unflatten([bucket * 2.0 for bucket in buckets])
    np.testing.assert_array_equal(doubled["w"].to_numpy(), 2 * grads["w"].to_numpy())
    assert layout.flatten(grads.without("w"))[0].tolist()[2:] == [0.0] * 8


def test_gradients_of_samples() -> None:
    model = Spectral()
    each = per_sample_gradients(model, lambda model, x: loss(model, x.unsqueeze(0)), given())
    assert each["w"].shape == (4, 2, 2)
    mean = sum_of_samples(each)["w"].to_numpy() / 4
    np.testing.assert_allclose(mean, grads_of(model)["w"].to_numpy(), rtol=1e-4)
    norms = per_sample_norms(clip_per_sample(each, 0.25)).to_numpy()
    np.testing.assert_allclose(norms, np.minimum(per_sample_norms(each).to_numpy(), 0.25), rtol=1e-4)


def test_models_move_convert_and_are_averaged() -> None:
    model = Spectral()
    assert model.num_params == 6
    assert list(model.named_params()) == ["w", "b"]
    wide = model.astype("float64")
    assert [wide.w.dtype.name, wide.b.dtype.name, wide.s.dtype.name] == ["complex128", "float64", "complex128"]
    assert wide.astype("float16").w.dtype.name == "complex64"
    plain: Any = model.valid()
    assert plain.w.device is NumPy()
    assert plain.w.value.tolist() == model.w.value.tolist()
    slope = func.grad(lambda model: loss(model, given(NumPy)))(plain)
    np.testing.assert_allclose(slope.w.value.to_numpy(), grads_of(model)["w"].to_numpy(), rtol=1e-6)
    moved = Ema(model, decay=0.75).update(model.map(lambda w: w + 8.0)).model
    np.testing.assert_allclose(moved.w.value.to_numpy(), model.w.value.to_numpy() + 2, rtol=1e-6)
    assert model.with_state(model.state()).w.id == model.w.id
    frozen = model.no_grad("w")
    assert frozen.w.frozen
    assert not frozen.w.value.is_require_grad()
    assert list(grads_of(frozen).named()) == ["b"]


def test_files_hold_complex64_and_say_what_to_do_with_complex128(tmp_path: Path) -> None:
    model = Spectral().map(lambda w: w * 0.5)
    save(tmp_path / "a.safetensors", model=model, optim=Adam())
    again = load(tmp_path / "a.safetensors").apply_to(Spectral())
    assert again.w.value.tolist() == model.w.value.tolist()
    assert again.w.id == model.w.id
    with pytest.raises(DTypeError, match=r"complex128, which the format lacks.*complex64.*astype\('float32'\)"):
        save(tmp_path / "b.safetensors", model=model.astype("float64"))
    other = pickle.loads(pickle.dumps(model))
    assert isinstance(other.w, ComplexParam)
    assert other.w.value.tolist() == model.w.value.tolist()


def test_a_variable_of_another_kind_names_its_class() -> None:
    z, x = ComplexTensor[NumPy].zeros((2,)), Tensor[NumPy].zeros((2,))
    rows: list[tuple[Any, Any, str]] = [
        (Param, z, r"write ComplexParam\(\.\.\.\)"),
        (Buffer, z, r"write ComplexBuffer\(\.\.\.\)"),
        (ComplexParam, x, r"write Param\(\.\.\.\)"),
        (ComplexBuffer, x, r"write Buffer\(\.\.\.\)"),
    ]
    for make, value, message in rows:
        with pytest.raises(KindError, match=message):
            make(value)

    class Bare(Module[Any]):
        def __init__(self) -> None:
            self.z = z

    with pytest.raises(ModuleError, match=r"ComplexParam\(z\) for a tensor that it learns, ComplexBuffer\(\.\.\.\)"):
        Bare()
