"""`GradientsParams`: immutable gradients by parameter, independent of model and device."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from typing import Any

import pytest

from burnpy import Autodiff, Tensor
from burnpy.autodiff import Balanced
from burnpy.backend import Checked, NumPy, errors
from burnpy.func import grad
from burnpy.nn import Linear, Param
from burnpy.optim import GradientsParams, Sgd
from tests.optim.models import Mlp, Train, Two, batch, gradients, of_two, two, vector


def test_they_are_a_mapping_of_ids_asked_by_parameter_id_or_path() -> None:
    model = two()
    grads = of_two(model)
    for key in (model.a, model.a.id, "a"):
        assert grads[key].tolist() == [3.0, 4.0]
        assert key in grads
    assert list(grads) == [model.a.id, model.b.id]
    assert len(grads) == 2
    assert grads.device is NumPy()
    assert list(grads.named()) == ["a", "b"]
    assert [g.tolist() for g in grads.values()] == [[3.0, 4.0], [1.0, 2.0]]
    assert grads.get("c") is None
    assert grads.get(model.a, None) is grads["a"]
    assert 3 not in grads  # type: ignore[comparison-overlap]
    assert repr(grads) == "GradientsParams(a, b, device=NumPy)"
    assert grads == grads
    assert grads != of_two(model)
    assert len({grads, grads}) == 1


def test_what_is_missing_is_told() -> None:
    model = two()
    grads = GradientsParams.from_grads((model.a.value * 2.0).sum().backward(), model)
    assert grads.missing == ("b",)
    assert "missing" in repr(grads)
    with pytest.raises(errors.MissingGradientError, match=r"none for b: the loss does not depend"):
        grads["b"]
    with pytest.raises(errors.MissingGradientError, match=r"none for 'bb'.*close to it is b"):
        grads["bb"]
    with pytest.raises(errors.MissingGradientError, match="frozen or of another model"):
        grads[two().a]
    with pytest.raises(errors.KindError, match=r"got a Tensor; of model\.weight, give model.weight itself"):
        grads[model.a.value]  # type: ignore[index]  # which is the point
    other = GradientsParams.from_grads((model.b.value * 2.0).sum().backward(), model)
    assert (grads + other).missing == ()
    assert (grads + other).without("a").missing == ("a",)


def test_frozen_parameters_and_other_leaves_are_left_out() -> None:
    model = two().no_grad("b")
    other = Tensor[Train].from_data([1.0, 1.0], dtype="float64").require_grad()
    grads = GradientsParams.from_grads((model() + other.sum()).backward(), model)
    assert list(grads.named()) == ["a"]
    assert grads.missing == ()


def test_arithmetic_makes_new_ones() -> None:
    model = two()
    grads = of_two(model)
    total: Any = sum([grads, grads])  # type: ignore[arg-type]  # checkers want 0 of the result, too
    assert (grads + grads)["a"].tolist() == total["a"].tolist() == [6.0, 8.0]
    with pytest.raises(errors.KindError, match="GradientsParams are added to GradientsParams"):
        1 + grads
    assert (2.0 * grads * 2.0)["a"].tolist() == [12.0, 16.0]
    assert (grads / 2.0)["a"].tolist() == [1.5, 2.0]
    assert grads.map(lambda g: -g)["b"].tolist() == [-1.0, -2.0]
    assert grads["a"].tolist() == [3.0, 4.0]
    assert grads.norm().item() == pytest.approx(math.sqrt(30.0))
    assert (grads.norm(1).item(), grads.norm(math.inf).item()) == (10.0, 4.0)
    assert grads.norm(3).item() == pytest.approx(100.0 ** (1 / 3))
    assert grads.without(["a", "b"]).norm().item() == 0.0
    assert list(grads.without(model.a).named()) == ["b"]
    assert list(grads.without([model.a.id, "*b"]).named()) == []
    with pytest.raises(errors.ArgumentError, match="'c', which meets no parameter"):
        grads.without("c")
    with pytest.raises(errors.ArgumentError, match="gradient of a, of shape"):
        grads.map(lambda g: g.sum())
    with pytest.raises(errors.ArgumentError, match="p is positive"):
        grads.norm(0)


def test_norms_of_half_precision_do_not_overflow() -> None:
    model = two("float16")
    grads = of_two(model).map(lambda g: g * 0.0 + 300.0)
    assert grads.norm().item() == pytest.approx(600.0)
    assert grads.norm().dtype == "float32"


def test_what_does_not_add() -> None:
    grads = of_two(two())
    with pytest.raises(errors.KindError, match=r"not to a float.*grads.map"):
        grads + 1.0  # type: ignore[operator]
    with pytest.raises(errors.DeviceError, match=r"NumPy and Checked\[NumPy\] do not add"):
        grads + grads.to_device(Checked[NumPy])  # type: ignore[arg-type]
    half: Any = GradientsParams(NumPy, {k: g.half() for k, g in grads.items()}, paths=dict.fromkeys(grads, "a"))
    with pytest.raises(errors.ShapeError, match="the gradients of a are of shape"):
        grads + half


def test_they_cannot_be_changed() -> None:
    grads = of_two(two())
    with pytest.raises(errors.ImmutableError, match="map"):
        grads._values = {}
    with pytest.raises(errors.ImmutableError, match="map"):
        grads["a"] = grads["b"]
    with pytest.raises(errors.ImmutableError, match="_values cannot be set or deleted"):
        del grads._values
    with pytest.raises(errors.ImmutableError, match=r"grads\[key\] cannot be set or deleted"):
        del grads["a"]


def test_gradients_and_a_model_with_nothing_in_common() -> None:
    model = two()
    grads = model().backward()
    stepped = Sgd().step(0.1, model, grads)
    for stranger in (two(), stepped, model.fork()):
        with pytest.raises(
            errors.ArgumentError, match="belong to none of this Two's 2 parameters; pass the very model"
        ):
            GradientsParams.from_grads(grads, stranger)
    with pytest.raises(errors.ArgumentError, match="every parameter of this Two is frozen"):
        GradientsParams.from_grads(grads, model.no_grad())
    with pytest.raises(errors.DeviceError, match=r"valid\(\)"):
        GradientsParams.from_grads(grads, model.valid())  # type: ignore[arg-type]
    with pytest.raises(errors.DeviceError, match=r"on NumPy, .* on Autodiff\[NumPy\]"):
        GradientsParams.from_grads(grads, Two(Autodiff[Train]))  # type: ignore[misc]
    with pytest.raises(errors.KindError, match="got a Tensor"):
        GradientsParams.from_grads(model(), model)  # type: ignore[arg-type]
    with pytest.raises(errors.KindError, match=r"a burnpy.nn.Module, got a list"):
        GradientsParams.from_grads(grads, [])  # type: ignore[arg-type]


def test_they_are_moved_and_pickled_with_updates_of_buffers() -> None:
    model = Mlp(Train)
    grads = GradientsParams.from_grads(model(batch(4)).sum().backward(), model)
    assert list(grads.buffer_updates) == [model.seen.id]
    for other in (pickle.loads(pickle.dumps(grads)), grads.to_device(Checked[NumPy]), grads * 3.0 / 3.0):
        assert list(other) == list(grads)
        assert other["head.bias"].tolist() == pytest.approx(grads["head.bias"].tolist())
        update = other.buffer_updates[model.seen.id]
        assert update.tolist() == grads.buffer_updates[model.seen.id].tolist()
        assert update.device is other.device
    assert (grads + grads).buffer_updates[model.seen.id].tolist()[-1] == 2.0


@pytest.mark.slowest
def test_another_process_can_use_them() -> None:
    model = vector(1.0, 2.0)
    grads = GradientsParams.from_grads(gradients(model, [0.5, 1.0]), model)
    code = (
        "import pickle, sys; from tests.optim.models import *; from burnpy.optim import Sgd\n"
        "model, grads = pickle.load(sys.stdin.buffer); print(Sgd().step(1.0, model, grads).w.value.tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps((model, grads)), capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == "[0.5, 1.0]"


def test_gradients_of_models_inside_of_strategies_and_nested() -> None:
    balanced = Linear(2, 1, device=Autodiff[Balanced[NumPy]])
    grads = GradientsParams.from_grads(
        balanced(Tensor.ones((1, 2), device=Autodiff[Balanced[NumPy]])).sum().backward(), balanced
    )
    assert grads.device is NumPy()
    twice = Two(Autodiff[Train])
    outer = GradientsParams.from_grads(twice().backward(), twice)
    assert outer.device is Train.device()
    assert outer["a"].tolist() == [3.0, 4.0]


def test_parameters_held_twice_are_one() -> None:
    model = two()
    shared = model.replace(b=model.a)
    grads = GradientsParams.from_grads(shared().backward(), shared)
    assert list(grads.named()) == ["a"]
    assert grads["a"].tolist() == [2.0, 4.0]
    assert isinstance(shared.b, Param)


@pytest.mark.parametrize("device", [Train, NumPy, Autodiff[Train]], ids=str)
def test_a_module_of_gradients_from_func(device: Any) -> None:
    model: Any = Two(device).no_grad("b")
    gradients = GradientsParams.from_module(grad(lambda model: model())(model))
    assert gradients.device is (model.device.inner or model.device)
    assert {path: x.tolist() for path, x in gradients.named().items()} == {"a": [3.0, 4.0]}
    new = Sgd().step(0.5, model, gradients)
    assert new.a.value.tolist() == [-0.5, 0.0]
    assert new.b is model.b


def test_a_module_of_gradients_is_no_gradients_by_itself() -> None:
    model = two()
    gradients: Any = grad(lambda model: model())(model)
    hint = r"write GradientsParams\.from_module\(gradients\)"
    with pytest.raises(errors.KindError, match=hint):
        Sgd().step(0.1, model, gradients)
    with pytest.raises(errors.KindError, match=hint):
        GradientsParams.from_grads(gradients, model)
    with pytest.raises(errors.ArgumentError, match="in which no parameter learns"):
        GradientsParams.from_module(model.no_grad())
    with pytest.raises(errors.KindError, match=r"a model is a burnpy\.nn\.Module"):
        GradientsParams.from_module(3)  # type: ignore[call-overload]


def test_gradients_by_leaf_are_asked_for_by_the_value_of_a_parameter() -> None:
    model = two()
    grads: Any = model().backward()
    with pytest.raises(errors.KindError, match=r"by tensor, got .*; give its \.value"):
        grads[model.a]
    assert grads[model.a.value].tolist() == [3.0, 4.0]
