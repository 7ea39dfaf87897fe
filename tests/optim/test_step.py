"""`Optimizer.step`: its arguments, what it preserves, and errors that change nothing."""

from __future__ import annotations

import copy
import math
import sys
import tracemalloc
from collections import Counter
from dataclasses import dataclass
from types import FrameType
from typing import Any

import pytest

from burnpy import Autodiff, Tensor
from burnpy.autodiff import Balanced
from burnpy.backend import Checked, NumPy, errors
from burnpy.nn import Buffer, Linear, Relu, Sequential
from burnpy.optim import (
    AdaDelta,
    AdaGrad,
    Adam,
    Adamax,
    AdamW,
    GradientsParams,
    Group,
    LBfgs,
    Lion,
    Muon,
    NAdam,
    Optimizer,
    RAdam,
    RmsProp,
    Sgd,
    Step,
    for_each_param,
)
from tests.kernels import needs_kernels
from tests.optim.models import Mlp, Train, Two, batch, of_two, two, values
from tests.rows import every_row


def test_the_old_model_stays_and_the_new_one_has_its_class_and_ids() -> None:
    model, optim = two(), Sgd()
    new = optim.step(1.0, model, of_two(model))
    assert type(new) is type(model)
    assert values(model) == {"a": [1.0, 2.0], "b": [3.0, 4.0]}
    assert values(new) == {"a": [-2.0, -2.0], "b": [2.0, 2.0]}
    assert (new.a.id, new.b.id) == (model.a.id, model.b.id)
    assert new.a.value.is_require_grad()
    assert model().item() == 11.0
    assert len(new().backward()) == 2


def test_it_takes_gradients_as_backward_gives_them() -> None:
    model = two()
    assert values(Sgd().step(1.0, model, model().backward())) == values(Sgd().step(1.0, model, of_two(model)))


def test_what_is_frozen_or_has_no_gradient_keeps_value_and_state() -> None:
    model, optim = two(), Adam()
    model = optim.step(0.1, model, of_two(model))
    before = optim.state()
    stale = of_two(model)
    frozen = model.no_grad("b")
    new = optim.step(0.1, frozen, stale)  # which has a gradient of b, from when it was not frozen
    assert new.b.value.tolist() == model.b.value.tolist()
    assert new.b.frozen
    assert new.a.value.tolist() != model.a.value.tolist()
    third = optim.step(0.1, new.require_grad(), stale.without("b"))
    assert third.b.value.tolist() == model.b.value.tolist()
    after = optim.state()
    assert after[model.b.id] == before[model.b.id]
    assert (after[model.a.id].step, after[model.b.id].step) == (3, 1)


def test_buffers_become_what_the_pass_would_have_them_become() -> None:
    model = Mlp(Train)
    x = batch(4)
    new = Sgd().step(0.1, model, model(x).sum().backward())
    assert values(new)["seen"] == pytest.approx(x.mean(dim=0).tolist())
    assert values(model)["seen"] == [0.0, 0.0, 0.0]
    params = model.no_grad(["encoder", "head"])
    again = Sgd().step(0.1, params, GradientsParams.from_grads(params(x).sum().backward(), params))
    assert values(again) == {**values(model), "seen": values(new)["seen"]}


def test_nested_and_balanced_devices_record_nothing_of_it() -> None:
    twice, optim = Two(Autodiff[Train]), Adam()
    for _ in range(2):
        twice = optim.step(0.1, twice, twice().backward())
    assert all(x.device is NumPy() for state in optim.state().values() for x in state.values.values())
    once, plain = two(), Adam()
    for _ in range(2):
        once = plain.step(0.1, once, once().backward())
    assert values(twice) == values(once)
    assert twice.a.value.inner().is_require_grad()
    assert len(twice().backward()[twice.a.value].sum().backward()) == 1  # the second derivative is still there
    strategy, first = Two(Autodiff[Balanced[NumPy]]), two()
    assert values(Adam().step(0.1, strategy, strategy().backward())) == values(Adam().step(0.1, first, of_two(first)))


def test_a_plain_model_takes_steps_too() -> None:
    model = two()
    plain = model.valid()
    assert values(Sgd().step(1.0, plain, of_two(model))) == values(Sgd().step(1.0, model, of_two(model)))


def test_a_shared_parameter_stays_shared() -> None:
    model = two()
    shared = model.replace(b=model.a)
    new = Sgd().step(0.5, shared, shared().backward())
    assert new.a is new.b
    assert new.a.value.tolist() == [0.0, 0.0]


def test_state_follows_the_model_to_another_device_and_dtype() -> None:
    model, optim = two(), Adam()
    model = optim.step(0.1, model, of_two(model))
    moved: Any = model.to_device(Autodiff[Checked[NumPy]])
    moved = optim.step(0.1, moved, moved().backward())
    assert optim.state()[model.a.id].values["m"].device is Checked(NumPy)
    assert optim.state()[model.a.id].step == 2
    single = moved.astype("float32")
    assert optim.step(0.1, single, single().backward()).a.dtype == "float32"


def test_a_copy_goes_on_from_where_it_was_made() -> None:
    model, optim = two(), Adam()
    model = optim.step(0.1, model, of_two(model))
    other = copy.copy(optim)
    optim.step(0.1, model, of_two(model))
    assert other.state()[model.a.id].step == 1
    assert optim.state()[model.a.id].step == 2


def test_whoever_holds_an_old_state_has_it_as_it_was() -> None:
    model, optim = two(), Adam()
    model = optim.step(0.1, model, of_two(model))
    held, record = optim.state()[model.a.id].values["m"], optim.into_record().states[model.a.id].values["v"]
    before = held.tolist(), record.tolist()
    for _ in range(3):
        model = optim.step(0.1, model, of_two(model))
    assert (held.tolist(), record.tolist()) == before


@pytest.mark.parametrize(("seen", "arrays"), [(False, 8), (True, 8 + 3)])
def test_a_step_takes_memory_for_the_new_parameters_and_little_else(seen: bool, arrays: int) -> None:
    tracemalloc.start()
    try:
        layers = [Linear(256, 256, bias=False, device=Train) for _ in range(8)]
        model, optim = Sequential(*layers), Adam()
        x = Tensor[Train].ones((1, 256))
        model = optim.step(0.1, model, model(x).sum().backward())
        grads = model(x).sum().backward()
        if seen:  # and forgotten: each pair of averages is freed when there is a new one
            optim.state()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        optim.step(0.1, model, grads)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak < (arrays + 1.2) * 256 * 256 * 4  # a block, and not twice eight averages too


class Watch:
    """Check that an error changes neither the model nor the optimizer."""

    def __init__(self, optim: Adam, model: Two[Autodiff[NumPy]]) -> None:
        self.optim, self.model = optim, model
        self.before = optim.state(), values(model)

    def check(self) -> None:
        assert self.optim.state() == self.before[0]
        assert values(self.model) == self.before[1]


def test_mistakes_change_nothing() -> None:
    model, optim = two(), Adam()
    model = optim.step(0.1, model, of_two(model))
    good, watch = of_two(model), Watch(optim, model)
    for rate in (-0.1, math.nan, math.inf, "0.1", None, True, model.a.value):
        with pytest.raises(errors.ArgumentError, match=r"learning rate of Adam.step\(\)"):
            optim.step(rate, model, good)  # type: ignore[arg-type]
    with pytest.raises(errors.ModuleError, match="gradients are of a, b, which this Two does not have"):
        optim.step(0.1, two(), good)
    with pytest.raises(errors.ArgumentError, match="the very model"):
        optim.step(0.1, two(), model().backward())
    with pytest.raises(errors.DeviceError, match=r"on Checked\[NumPy\], .* on NumPy"):
        optim.step(0.1, model, good.to_device(Checked[NumPy]))
    with pytest.raises(errors.DeviceError, match=r"on NumPy, .* on Autodiff\[NumPy\]"):
        optim.step(0.1, Two(Autodiff[Train]), good)
    with pytest.raises(errors.KindError, match="got a dict"):
        optim.step(0.1, model, dict(good))  # type: ignore[call-overload]
    with pytest.raises(errors.KindError, match=r"a model is a burnpy\.nn\.Module"):
        optim.step(0.1, good, good)  # type: ignore[call-overload]
    half: Any = GradientsParams(NumPy, {k: g.half() for k, g in good.items()}, paths={model.a.id: "a"})
    with pytest.raises(errors.ShapeError, match=r"the gradient of a has shape .* float16"):
        optim.step(0.1, model, half)
    wide = model.replace(a=type(model.a)(Tensor.zeros((3,), dtype="float64", device=Train), id=model.a.id))
    grown = GradientsParams.from_grads((wide.a.value * 2.0).sum().backward(), wide)
    with pytest.raises(errors.StateError, match=r"optimizer's m for a has shape \(2,\), but the parameter has \(3,\)"):
        optim.step(0.1, wide, grown)
    watch.check()


def test_an_operation_that_fails_half_way_changes_nothing() -> None:
    model: Any = Two(Autodiff[Checked[NumPy]])
    optim = Adam()
    model = optim.step(0.1, model, model().backward())
    grads = GradientsParams.from_grads(model().backward(), model)
    before = optim.state()
    with Checked.allow("nan"):
        bad = grads + (grads.without("a") * math.nan)
    with pytest.raises(errors.NonFiniteError):
        optim.step(0.1, model, bad)
    assert optim.state() == before
    optim.step(0.1, model, grads)
    assert optim.state()[model.a.id].step == 2


@every_row(
    "make",
    [
        lambda: Sgd(momentum=1.0),
        lambda: Sgd(momentum=-0.1),
        lambda: Sgd(momentum=0.9, dampening=1.5),
        lambda: Sgd(nesterov=True),
        lambda: Sgd(momentum=0.9, dampening=0.1, nesterov=True),
        lambda: Sgd(weight_decay=-1.0),
        lambda: Adam(betas=(0.9, 1.0)),
        lambda: Adam(betas=(-0.1, 0.9)),
        lambda: Adam(betas=0.9),  # type: ignore[arg-type]
        lambda: Adam(betas=(0.9, math.nan)),
        lambda: Adam(eps=-1e-8),
        lambda: AdamW(weight_decay=math.inf),
        lambda: RmsProp(alpha=1.0),
        lambda: RmsProp(momentum=2.0),
        lambda: NAdam(betas=(1.0, 0.9)),
        lambda: NAdam(momentum_decay=-1.0),
        lambda: RAdam(eps=math.nan),
        lambda: Adamax(betas=(0.9,)),  # type: ignore[arg-type]
        lambda: AdaDelta(rho=1.0),
        lambda: Lion(betas=0.9),  # type: ignore[arg-type]
        lambda: LBfgs(history_size=0),
        lambda: LBfgs(max_iter=0),
        lambda: LBfgs(max_eval=0),
        lambda: LBfgs(tolerance_grad=-1.0),
        lambda: LBfgs(weight_decay=0.1),
        lambda: LBfgs(groups=[Group("a", lr=0.5)]),
        lambda: AdaGrad(lr_decay=-0.1),
        lambda: AdaGrad(initial_sum=math.nan),
        lambda: Adam(maximize=1),  # type: ignore[arg-type]
        lambda: Adam(amsgrad="yes"),  # type: ignore[arg-type]
        lambda: AdamW(amsgrad=1),  # type: ignore[arg-type]
        lambda: Sgd(momentum=0.9, nesterov=1),  # type: ignore[arg-type]
        lambda: RmsProp(centered=[]),  # type: ignore[arg-type]
        lambda: NAdam(decoupled_weight_decay=[]),  # type: ignore[arg-type]
        lambda: RAdam(decoupled_weight_decay=0.1),  # type: ignore[arg-type]
        lambda: Muon(nesterov=1),  # type: ignore[arg-type]
        lambda: Adam(groups="bias"),  # type: ignore[arg-type]
        lambda: Adam(groups=["bias"]),  # type: ignore[list-item]
    ],
)
def test_settings_out_of_range(make: Any) -> None:
    with pytest.raises(
        errors.ArgumentError, match=r"(Sgd|[NR]?Adam|AdamW|Adamax|RmsProp|AdaGrad|AdaDelta|Lion|LBfgs|Muon)\("
    ):
        make()


@dataclass(frozen=True, eq=False, kw_only=True)
class SignSgd(Optimizer):
    """A user-defined optimizer, which stores the last sign."""

    @property
    def slots(self) -> tuple[str, ...]:
        return ("sign",)

    def update(self, device: Any, params: Any, grads: Any, states: Any, step: Step) -> Any:
        def signed(param: Any, grad: Any, _: Any) -> tuple[Any, ...]:
            sign = device.sign(step.gradient(device, param, grad))
            return device.sub(param, device.mul(sign, step.lr)), sign

        return for_each_param(signed, params, grads, *states)


def test_an_optimizer_of_ones_own() -> None:
    model, optim = two(), SignSgd(groups=[Group("b", lr_scale=0.5)])
    model = optim.step(1.0, model, of_two(model) * -1.0)
    assert values(model) == {"a": [2.0, 3.0], "b": [3.5, 4.5]}
    assert SignSgd().load_record(optim.into_record()).state()[model.a.id].step == 1
    assert values(SignSgd(maximize=True).step(1.0, model, of_two(model) * -1.0)) == {"a": [1.0, 2.0], "b": [2.5, 3.5]}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda params, states: (params,), r"lists of 2 arrays for 2 parameters; .* one of each state: sign$"),
        (lambda params, states: (params[:1], states), "lists of 1, 2 arrays"),
        (lambda params, states: (states[::-1], params, states), "lists of 2, 2, 2 arrays"),
        (lambda params, states: ([x[:1] for x in params], states), r"shape \(1,\) and dtype float64 for a, .* \(2,\)"),
    ],
)
def test_an_update_that_returns_something_else_is_refused(wrong: Any, message: str) -> None:
    class Wrong(SignSgd):
        def update(self, device: Any, params: Any, grads: Any, states: Any, step: Step) -> Any:
            return wrong(params, states[0])

    model, optim = two(), Wrong()
    with pytest.raises(errors.ShapeError, match=message):
        optim.step(1.0, model, of_two(model))
    assert optim.state() == {}


def test_parameters_with_equal_settings_are_updated_in_one_call() -> None:
    steps: list[tuple[int, Step]] = []

    class Watched(Adam):
        def update(self, device: Any, params: Any, *args: Any) -> Any:
            steps.append((len(params), args[-1]))
            return super().update(device, params, *args)

    model, optim = Mlp(Train), Watched(groups=[Group("*.bias", weight_decay=0.5)])
    for _ in range(2):
        model = optim.step(0.1, model, model(batch(4)).sum().backward())
    grads = model(batch(4)).sum().backward()
    late = GradientsParams.from_grads(grads, model).without("head")
    model = optim.step(0.1, model, late)
    optim.step(0.1, model, model(batch(4)).sum().backward())
    plain, decayed = Step(0.1, owned=True), Step(0.1, weight_decay=0.5, owned=True)
    assert steps == [
        *((2, step._replace(number=number)) for number in (1, 2) for step in (plain, decayed)),
        *((1, step._replace(number=3)) for step in (plain, decayed)),
        *((1, step._replace(number=number)) for number in (4, 3) for step in (plain, decayed)),
    ]


def test_a_linear_layer_learns() -> None:
    model, optim = Linear(2, 1, device=Train), Adam()
    x = Tensor[Train].from_data([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = Tensor[Train].from_data([[1.0], [2.0], [3.0]])
    for _ in range(600):
        model = optim.step(0.1, model, ((model(x) - y) ** 2).mean().backward())
    assert model.weight.value.reshape((2,)).tolist() == pytest.approx([2.0, 1.0], abs=0.05)


def test_a_buffer_that_is_refused_changes_nothing() -> None:
    class Wrong(Mlp[Any]):
        def updated(self, updates: Any) -> Any:
            return {"seen": Tensor[Train].zeros((7,))}

    model, optim = Mlp(Train), Adam()
    wrong = Wrong(Train).load_record(model.into_record())
    grads = wrong(batch(4)).sum().backward()
    with pytest.raises(errors.ShapeError, match="for seen, which is of shape"):
        optim.step(0.1, wrong, grads)
    assert optim.state() == {}
    by_param = GradientsParams.from_grads(model(batch(4)).sum().backward(), model)
    other = model.replace(seen=Buffer(Tensor[Train].zeros((3,))))
    with pytest.raises(errors.ModuleError, match="updates of 1 buffers that Mlp does not hold"):
        optim.step(0.1, other, by_param)
    assert optim.state() == {}


@needs_kernels
@every_row("optim", [Sgd(), Sgd(momentum=0.9), Adam(), AdamW(amsgrad=True), RmsProp(), AdaGrad()])
@every_row("by_param", [False, True], ids=["gradients", "gradients by parameter"])
def test_a_step_of_four_parameters_takes_few_python_calls(optim: Optimizer, by_param: bool) -> None:
    model: Any = Sequential(Linear(4, 8, device=Train), Relu(), Linear(8, 2, device=Train))
    for _ in range(3):
        grads: Any = model(Tensor[Train].ones((3, 4))).square().mean().backward()
        if by_param:
            grads = GradientsParams.from_grads(grads, model)
        called: list[str] = []

        def count(frame: FrameType, event: str, argument: object, called: list[str] = called) -> None:
            if event == "call":
                called.append(frame.f_code.co_qualname)

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            model = optim.step(1e-3, model, grads)
        finally:
            sys.setprofile(before)
    assert len(called) <= 112, Counter(called).most_common(20)


@every_row("optim", [AdamW, lambda: Sgd(momentum=0.9), lambda: AdaGrad(maximize=True)])
def test_steps_of_one_result_after_another_have_the_bits_of_single_steps(optim: Any) -> None:
    def trained(single: bool) -> tuple[list[Any], dict[str, int]]:
        model, own, seen = Mlp(Train).load_record(start), optim(), []
        for k in range(8):
            x = batch(4) * (k + 1.0)
            loss = (
                model.head(x[:, :1] * Tensor[Train].ones((4,))) if k == 3 else model(x)
            )  # of one layer alone, and of all
            model = own.step(0.1, model, loss.square().mean().backward())
            if single:
                model = Mlp(Train).load_record(model.into_record())  # no step's result
            if k == 5:
                seen.append({path: x.tolist() for path, x in own.state()[model.head.bias.id].values.items()})
            seen.append(values(model))
        return seen, {state.path: state.step for state in own.state().values()}

    start = Mlp(Train).into_record()
    (repeated, counts), (alone, single_counts) = trained(False), trained(True)
    assert repeated == alone
    assert counts == single_counts
