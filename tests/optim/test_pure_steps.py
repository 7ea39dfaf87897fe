"""Pure steps: the same bits as `step`, in eager mode and in compiled functions."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from copy import copy
from itertools import cycle
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, Tensor, compiled
from burnpy.backend import Mixed, NumPy
from burnpy.backend.errors import ArgumentError, KindError, RecordingError, StateError
from burnpy.func import grad
from burnpy.func.pytree import flatten, map_tree
from burnpy.nn import BatchNorm, Conv2d, Embedding, LayerNorm, Linear, Module, Sequential
from burnpy.optim import (
    AdaDelta,
    Adafactor,
    AdaGrad,
    Adam,
    Adamax,
    AdamW,
    Ema,
    GradientsAccumulator,
    GradientsParams,
    GradScaler,
    Group,
    Lamb,
    LBfgs,
    Lion,
    NAdam,
    Optimizer,
    OptimizerState,
    RAdam,
    RmsProp,
    Sgd,
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
)
from tests.rows import every_row

Train = Autodiff[NumPy]


class Asynchronous(NumPy):
    """A device that finds out about overflows late."""

    eager_checks = False


BIASES = (Group("*bias", lr_scale=0.5, weight_decay=0.0), Group("parts.0.weight", lr=0.03))

OPTIMIZERS: dict[str, Optimizer] = {
    "sgd": Sgd(),
    "momentum": Sgd(momentum=0.9),
    "dampening": Sgd(momentum=0.9, dampening=0.3, weight_decay=0.1),
    "nesterov": Sgd(momentum=0.9, nesterov=True, maximize=True),
    "adam": Adam(weight_decay=0.1),
    "adam of groups": Adam(groups=BIASES),
    "amsgrad": Adam(amsgrad=True, maximize=True),
    "adamw": AdamW(),
    "adamw of groups": AdamW(weight_decay=0.2, groups=BIASES),
    "adamax": Adamax(),
    "nadam": NAdam(weight_decay=0.1, decoupled_weight_decay=True),
    "adagrad": AdaGrad(lr_decay=0.1, initial_sum=0.1),
    "adadelta": AdaDelta(),
    "rmsprop": RmsProp(),
    "centered": RmsProp(centered=True, momentum=0.5),
    "radam": RAdam(betas=(0.9, 0.9)),
    "radam, decoupled": RAdam(betas=(0.9, 0.9), weight_decay=0.1, decoupled_weight_decay=True),
    "lion": Lion(weight_decay=0.1),
    "lamb": Lamb(weight_decay=0.1, groups=BIASES),
    "adafactor": Adafactor(weight_decay=0.1),
    "masters of adafactor": Adafactor(master_weights=True),
    "masters": AdamW(master_weights=True),
    "masters of groups": Sgd(momentum=0.9, master_weights=True, groups=BIASES),
}


every_dtype = pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, "float32") for name in OPTIMIZERS),
        *zip(OPTIMIZERS, cycle(("float64", "bfloat16")), strict=False),
    ],
)
"""Each optimizer in float32 and, by turns, in a wider and a narrower float: a plan has the steps of any dtype."""


class Net(Module[Any]):
    """A network with a shared and a frozen parameter, and one without a gradient."""

    def __init__(self, device: Any) -> None:
        first = Linear(4, 4, device=device)
        self.parts = Sequential(first, first, Linear(4, 2, device=device))
        self.frozen = Linear(4, 4, device=device).no_grad()
        self.idle = Linear(3, 3, device=device)

    def forward(self, x: Any) -> Any:
        return self.parts(self.frozen(x).tanh())


def batch(shape: tuple[int, ...], seed: int = 0, device: Any = Train, dtype: str = "float32") -> Any:
    values = np.random.default_rng(seed).normal(size=shape)
    return Tensor.from_data(values, dtype=dtype, device=device)


def bits(tree: Any) -> list[bytes]:
    """Return the bytes of all tensors of a model, or of another tree."""
    if isinstance(tree, Module):
        return [x._value.to_numpy().tobytes() for x in tree._variables().values()]
    return [x.to_numpy().tobytes() for x in flatten(tree)[0]]


def tensors_of(states: Any) -> dict[str, dict[str, bytes]]:
    """Return the states of an optimizer, or of a pure one, as bytes by id and name."""
    values = {ident: getattr(state, "values", state) for ident, state in states.items()}
    values = {ident: state if isinstance(state, dict) else dict(states[ident]) for ident, state in values.items()}
    return {ident: {name: x.to_numpy().tobytes() for name, x in state.items()} for ident, state in values.items()}


@pytest.fixture
def unfused(monkeypatch: Any) -> None:
    """Plans of the very operations that were recorded, with their bits."""
    monkeypatch.setattr(NumPy, "executor", lambda self: None)


@pytest.mark.slow
@pytest.mark.usefixtures("unfused")
@every_dtype
def test_a_pure_step_has_the_bits_of_a_step(name: str, dtype: str) -> None:
    optim = copy(OPTIMIZERS[name])
    x = batch((5, 4), dtype=dtype)
    stepped: Any = Net(Train).astype(dtype)
    eager = replayed = stepped
    state = replayed_state = optim.init(stepped)

    def gradients(model: Any, x: Any) -> Any:
        return GradientsParams.from_grads(model(x).square().mean().backward(), model)

    @compiled
    def step(model: Any, state: Any, lr: Any, x: Any) -> Any:
        return optim.pure_step(lr, model, gradients(model, x), state)

    for k in range(6):
        lr = 0.1 / (k + 1)
        stepped = optim.step(lr, stepped, gradients(stepped, x))
        eager, state = optim.pure_step(lr, eager, gradients(eager, x), state)
        replayed, replayed_state = step(replayed, replayed_state, lr, x)
        assert bits(stepped) == bits(eager) == bits(replayed)
        known = optim.state()
        for pure in (state, replayed_state):
            tensors = tensors_of({ident: pure[ident] for ident in known})
            assert tensors == tensors_of(known)
            assert {ident: pure.step(ident).item() for ident in known} == {i: s.step for i, s in known.items()}
    assert state.step(stepped.idle.weight).item() == 0
    assert len(step.plans) == 2, "the first step splits the count of parameters without a gradient"


@pytest.mark.usefixtures("unfused")
def test_donated_models_and_states() -> None:
    model, x, _ = mlp(Train)
    optim = Adam()

    def stepped(model: Any, state: Any, x: Any) -> Any:
        return optim.pure_step(0.1, model, model(x).square().mean().backward(), state)

    a: Any = stepped(model, optim.init(model), x)
    for _ in range(2):
        a = stepped(a[0], a[1], x)
    quick: Any = compiled(stepped, donate=("model", "state"))
    b: Any = model.fork(), optim.init(model)
    for _ in range(3):
        b = quick(*b, x)
    assert bits(a[0]) == bits(b[0])
    assert bits(a[1]) == bits(b[1])


def test_a_step_does_not_change_its_arguments() -> None:
    model, x = Linear(4, 2, device=Train), batch((5, 4))
    optim = Adam()
    state = optim.init(model)
    before = bits(model), bits(state)
    grads = model(x).sum().backward()
    first = optim.pure_step(0.1, model, grads, state)
    second = optim.pure_step(0.1, model, grads, state)
    assert (bits(model), bits(state)) == before
    assert bits(first[0]) == bits(second[0])
    assert bits(first[1]) == bits(second[1]) != before[1]
    assert optim.state() == {}


@pytest.mark.usefixtures("unfused")
def test_parameters_that_are_updated_at_times() -> None:
    """As in adversarial training, where two losses update two parts of a model in turn."""
    model: Any = Sequential(Linear(4, 4, device=Train), Linear(4, 2, device=Train))
    optim, x = Adam(), batch((5, 4))
    stepped = replayed = model
    state = optim.init(model)

    @compiled
    def step(model: Any, state: Any, x: Any, part: str) -> Any:
        grads = GradientsParams.from_grads(model(x).square().mean().backward(), model)
        return optim.pure_step(0.1, model, grads.without(part), state)

    for k in range(7):
        part = "01"[k % 3 == 0]
        grads = GradientsParams.from_grads(stepped(x).square().mean().backward(), stepped)
        stepped = optim.step(0.1, stepped, grads.without(part))
        replayed, state = step(replayed, state, x, part)
        assert bits(stepped) == bits(replayed)
    assert len(state.counts) == 2
    assert {state.step(p).item() for p in replayed[0].params()} == {3}
    assert {state.step(p).item() for p in replayed[1].params()} == {4}


class Small(Module[Any]):
    """A small transformer block over an embedding."""

    def __init__(self, device: Any) -> None:
        self.tokens = Embedding(11, 8, device=device)
        self.norm = LayerNorm(8, device=device)
        self.qkv, self.out = Linear(8, 24, device=device), Linear(8, 11, device=device)

    def forward(self, ids: Any) -> Any:
        x = self.tokens(ids)
        q, k, v = (part.reshape(2, 5, 2, 4).permute(0, 2, 1, 3) for part in self.qkv(self.norm(x)).chunk(3, -1))
        y = burnpy.nn.functional.scaled_dot_product_attention(q, k, v, causal=True)
        return self.out(x + y.permute(0, 2, 1, 3).reshape(2, 5, 8)).reshape(10, 11)


def mlp(device: Any) -> tuple[Any, Any, Any]:
    model = Sequential(Linear(6, 8, device=device), burnpy.nn.Gelu(), Linear(8, 3, device=device))
    return model, batch((10, 6), device=device), 3


def cnn(device: Any) -> tuple[Any, Any, Any]:
    model = Sequential(
        Conv2d(2, 4, 3, device=device), BatchNorm(4, device=device), burnpy.nn.Relu(), burnpy.nn.Flatten(1),
        Linear(36, 3, device=device),
    )  # fmt: skip
    return model, batch((10, 2, 5, 5), device=device), 3


def transformer(device: Any) -> tuple[Any, Any, Any]:
    ids = np.random.default_rng(1).integers(11, size=(2, 5))
    return Small(device), burnpy.IntTensor.from_data(ids, device=device), 11


@pytest.mark.usefixtures("unfused")
@pytest.mark.parametrize("device", [Autodiff(NumPy()), Autodiff(Mixed(NumPy()))], ids=["NumPy", "Mixed"])
@pytest.mark.parametrize("made", [mlp, cnn, transformer])
def test_a_whole_training_step_is_compiled(made: Any, device: Any) -> None:
    model, x, classes = made(device)
    y = burnpy.IntTensor.from_data(np.random.default_rng(2).integers(classes, size=10), device=device)
    optim = AdamW()

    def step(model: Any, state: Any, lr: Any, x: Any, y: Any) -> Any:
        loss = burnpy.cross_entropy(model(x), y)
        grads = clip_by_global_norm(GradientsParams.from_grads(loss.backward(), model), 0.5)
        model, state = optim.pure_step(lr, model, grads, state)
        return model, state, loss.detach()

    quick = compiled(step)
    a, b = (model, optim.init(model)), (model, optim.init(model))
    for k in range(5):
        *a, expected = step(*a, 0.01 / (k + 1), x, y)
        *b, loss = quick(*b, 0.01 / (k + 1), x, y)
        assert loss.item() == expected.item()
        assert bits(a[0]) == bits(b[0])
        assert bits(a[1]) == bits(b[1])
    assert len(quick.plans) == 1


@pytest.mark.usefixtures("unfused")
@pytest.mark.parametrize("made", [mlp, cnn])
def test_gradients_are_arguments_and_results(made: Any) -> None:
    model, x, _ = made(Train)
    loss: Any = lambda model, x: model(x).square().mean()  # noqa: E731
    f = compiled(lambda model, x: GradientsParams.from_grads(loss(model, x).backward(), model))
    for seed in (0, 1):
        x = batch(x.shape, seed)
        expected = GradientsParams.from_grads(loss(model, x).backward(), model)
        got = f(model, x)
        assert got.device is NumPy()
        assert list(got) == list(expected)
        assert got._paths == expected._paths
        assert bits(got) == bits(expected)
        assert dict(got.buffer_updates).keys() == dict(expected.buffer_updates).keys()
        assert bits(compiled(lambda grads: grads * 2.0)(got)) == bits(expected * 2.0)
        stepped = Sgd().step(0.1, model, got)
        assert bits(stepped) == bits(Sgd().step(0.1, model, expected))


CLIPS: dict[str, Any] = {
    "value": lambda grads: clip_by_value(grads, 0.01),
    "norm": lambda grads: clip_by_norm(grads, 0.01),
    "norms of 1": lambda grads: clip_by_norm(grads, 0.01, p=1.0),
    "global": lambda grads: clip_by_global_norm(grads, 0.3),
    "global, no limit": lambda grads: clip_by_global_norm(grads, 1e9),
    "largest": lambda grads: clip_by_global_norm(grads, 0.1, p=math.inf),
}


@pytest.mark.usefixtures("unfused")
@pytest.mark.parametrize("name", CLIPS)
def test_clipping_in_a_compiled_function(name: str) -> None:
    model, x, _ = mlp(Train)

    def clipped(model: Any, x: Any) -> Any:
        return CLIPS[name](GradientsParams.from_grads(model(x).square().sum().backward(), model))

    f = compiled(clipped)
    for scale in (0.001, 1.0, math.nan, 1e3):
        assert bits(f(model, x * scale)) == bits(clipped(model, x * scale))


@every_row("dtype", ["float32", "float64", "bfloat16"])
@every_row("device", [NumPy(), Asynchronous()], ids=["NumPy", "asynchronous"])
@every_row("clip", [clip_by_value, clip_by_norm, clip_by_global_norm])
def test_limits_may_be_tensors(clip: Any, device: Any, dtype: str) -> None:
    model = mlp(Autodiff(device))[0].astype(dtype)
    x = batch((10, 6), device=Autodiff(device), dtype=dtype)
    grads = GradientsParams.from_grads(model(x).square().sum().backward(), model)
    clipped = compiled(clip)
    for limit in (0.3, 0.01, 1e9):
        expected = bits(clip(grads, limit))
        assert bits(clip(grads, Tensor.from_data(limit, dtype="float64", device=device))) == expected
        assert bits(clipped(grads, limit)) == expected
    assert len(clipped.plans) == 1
    for f in (clip, clipped):
        with pytest.raises(ArgumentError, match=r"got the limit -1.0; expected a number that is not negative"):
            f(grads, -1.0)
    with pytest.raises(ArgumentError, match="a number or a 0-d tensor"):
        clip(grads, x)


@pytest.mark.slow
@pytest.mark.usefixtures("unfused")
@pytest.mark.parametrize("device", [NumPy(), Asynchronous()], ids=["NumPy", "asynchronous"])
@pytest.mark.parametrize("name", ["sgd", "momentum", "adamw", "radam", "nadam", "masters"])
def test_a_scaler_in_a_compiled_step(name: str, device: Any) -> None:
    optim = OPTIMIZERS[name]
    model: Any = Linear(2, 3, device=Autodiff(device))
    x = batch((5, 2), device=Autodiff(device))

    def gradients(model: Any, scaler: Any, x: Any) -> Any:
        loss = scaler.scale(model(x).square().mean())
        return scaler.unscale(GradientsParams.from_grads(loss.backward(), model))

    @compiled
    def step(model: Any, state: Any, scaler: Any, lr: Any, x: Any) -> Any:
        grads, scaler = gradients(model, scaler, x)
        return *optim.pure_step(lr, model, clip_by_global_norm(grads, 1.0), state), scaler

    optim = copy(optim)
    stepped = eager = replayed = model
    state = pure = optim.init(model)
    scalers = [GradScaler(device, growth_interval=2)] * 3
    for k, scale in enumerate((1.0, 1e30, 1.0, 2.0, 1e38, 1.0, 1.0)):
        given = x * scale
        grads, scalers[0] = gradients(stepped, scalers[0], given)
        stepped = optim.step(0.1 / (k + 1), stepped, clip_by_global_norm(grads, 1.0))
        grads, scalers[1] = gradients(eager, scalers[1], given)
        eager, pure = optim.pure_step(0.1 / (k + 1), eager, clip_by_global_norm(grads, 1.0), pure)
        replayed, state, scalers[2] = step(replayed, state, scalers[2], 0.1 / (k + 1), given)
        assert bits(stepped) == bits(eager)
        if device.eager_checks:
            assert bits(replayed) == bits(eager)
        for x1, x2 in zip(
            replayed.params(), eager.params(), strict=True
        ):  # elsewhere, rates are multiplied on the device
            np.testing.assert_allclose(x1.value.to_numpy(), x2.value.to_numpy(), rtol=1e-5)
        assert len({scaler.loss_scale for scaler in scalers}) == 1
    known = optim.state()
    assert {known[ident].step for ident in known} == {5}
    assert tensors_of(pure) == tensors_of(known)
    for last in (state, pure):
        assert {last.step(ident).item() for ident in last} == {5}


@pytest.mark.usefixtures("unfused")
@pytest.mark.parametrize("warm_up", [False, True])
def test_an_average_in_a_compiled_step(warm_up: bool) -> None:
    model, x, _ = mlp(Train)
    optim = Adam()

    def step(model: Any, state: Any, ema: Any, x: Any) -> Any:
        model, state = optim.pure_step(0.1, model, model(x).square().mean().backward(), state)
        return model, state, ema.update(model)

    quick = compiled(step)
    a = b = (model, optim.init(model), Ema(model, 0.5, warm_up))
    for _ in range(4):
        a, b = step(*a, x), quick(*b, x)
        assert bits(a[2].model) == bits(b[2].model)
    assert isinstance(b[2].updates, burnpy.IntTensor)
    assert (a[2].updates, b[2].updates.item(), b[2].decay) == (4, 4, 0.5)
    assert len(quick.plans) == 1


@pytest.mark.usefixtures("unfused")
def test_an_accumulator_in_a_compiled_step() -> None:
    model, x, _ = cnn(Train)

    def gradients(model: Any, x: Any) -> Any:
        return GradientsParams.from_grads(model(x).square().mean().backward(), model)

    def mean(model: Any, xs: Any) -> Any:
        accumulator: Any = GradientsAccumulator()
        for x in xs:
            accumulator = accumulator.add(gradients(model, x), weight=x.shape[0])
        return accumulator.mean(), accumulator

    xs = [x, batch((4, 2, 5, 5), 3)]
    (expected, total), (got, accumulator) = mean(model, xs), compiled(mean)(model, xs)
    assert bits(got) == bits(expected)
    assert (accumulator.weight, len(accumulator)) == (14.0, 2)
    add = compiled(lambda accumulator, grads: accumulator.add(grads, 4))
    assert bits(add(accumulator, got).mean()) == bits(total.add(expected, 4).mean())


TREES: dict[str, Any] = {
    "tensor": batch((3,)),
    "dict": {"w": batch((3,)), "b": [batch((2, 2), 1), (batch((), 2),)]},
}


def squares(tree: Any) -> Any:
    return sum((x * x * x).sum() for x in flatten(tree)[0])


@pytest.mark.usefixtures("unfused")
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("backward", [False, True])
def test_trees_of_tensors(name: str, backward: bool) -> None:
    tree = map_tree(lambda x: x.require_grad() if backward else x.inner(), TREES[name])
    optim = Adam()
    gradients: Callable[[Any], Any] = (lambda t: squares(t).backward()) if backward else grad(squares)
    step = compiled(lambda tree, state, lr: optim.pure_step(lr, tree, gradients(tree), state))
    stepped = eager = replayed = tree
    state = pure = optim.init(tree)
    for _ in range(4):
        stepped = optim.step(0.1, stepped, gradients(stepped))
        eager, pure = optim.pure_step(0.1, eager, gradients(eager), pure)
        replayed, state = step(replayed, state, 0.1)
        assert bits(stepped) == bits(eager) == bits(replayed)
    if name == "dict":
        assert state["b.1.0"].keys() == {"m", "v"}
        assert state.paths["b.1.0"] == "b.1.0"


def test_the_rate_may_be_a_tensor() -> None:
    model, x = Linear(4, 2, device=Train), batch((5, 4))
    grads = GradientsParams.from_grads(model(x).sum().backward(), model)
    optim = AdamW(groups=[Group("bias", lr_scale=0.5)])
    state = optim.init(model)
    expected = bits(optim.pure_step(0.5, model, grads, state))
    device: Any
    for device in (NumPy(), Autodiff(NumPy())):
        for rate in (Tensor.from_data(0.5, device=device), Tensor.from_data(0.5, device=device).require_grad()):
            assert bits(optim.pure_step(rate, model, grads, state)) == expected
            assert bits(compiled(optim.pure_step)(rate, model, grads, state)) == expected
    with pytest.raises(ArgumentError, match=r"0-d tensor, got a tensor of shape \(2,\)"):
        optim.pure_step(Tensor[NumPy].ones((2,)), model, grads, state)
    for wrong in (-1.0, math.nan, math.inf):
        with pytest.raises(ArgumentError, match="the learning rate of pure_step"):
            optim.pure_step(wrong, model, grads, state)
        with pytest.raises(ArgumentError, match="the learning rate of pure_step"):
            compiled(optim.pure_step)(wrong, model, grads, state)


@pytest.mark.parametrize("name", ["momentum", "adam", "masters"])
def test_records_go_both_ways(name: str) -> None:
    optim = copy(OPTIMIZERS[name])
    model: Any = Linear(4, 2, device=Train).astype("bfloat16")
    x = batch((5, 4), dtype="bfloat16")
    loss: Any = lambda model: model(x).square().mean().backward()  # noqa: E731
    state = optim.init(model)
    for _ in range(3):
        model, state = optim.pure_step(0.1, model, loss(model), state)
    optim.load_record(state.into_record(), model)
    again = optim.init(model, optim.into_record())
    assert bits(again) == bits(state)
    assert bits(pickle.loads(pickle.dumps(state))) == bits(state)
    stepped, (pure, state) = optim.step(0.1, model, loss(model)), optim.pure_step(0.1, model, loss(model), again)
    assert bits(stepped) == bits(pure)
    assert tensors_of(state) == tensors_of(optim.state())
    assert len(state.counts) == 1


class Numbered(Optimizer):
    """An optimizer that computes with the rate and the number in Python."""

    slots = ()

    def update(self, device: Any, params: Any, grads: Any, states: Any, step: Any) -> Any:
        return ([device.sub(param, step.lr * step.number) for param in params],)


def test_refusals() -> None:
    x = batch((5, 4))
    model: Any = Linear(4, 2, device=Train)
    grads = GradientsParams.from_grads(model(x).sum().backward(), model)
    optim = Adam()
    state = optim.init(model)
    with pytest.raises(RecordingError, match=r"Adam.step\(\) was called in a compiled .* optim.pure_step"):
        compiled(lambda model, grads: optim.step(0.1, model, grads))(model, grads)
    with pytest.raises(RecordingError, match=r"Adam.step\(\) was called in a compiled"):
        compiled(lambda tree: optim.step(0.1, tree, tree))(x)
    with pytest.raises(RecordingError, match=r"Numbered.update\(\) computes with .* gated = True"):
        compiled(Numbered().pure_step)(0.1, model, grads, Numbered().init(model))
    after, counted = Numbered().pure_step(0.5, model, grads, Numbered().init(model))
    after, counted = Numbered().pure_step(0.5, after, grads, counted)
    np.testing.assert_allclose((model.bias.value - after.bias.value).to_numpy(), 1.5, rtol=1e-6)
    for impure in (LBfgs().init, lambda model: LBfgs().pure_step(0.1, model, grads, state)):
        with pytest.raises(ArgumentError, match=r"LBfgs has no pure step: .*; use LBfgs.step\(\)"):
            impure(model)
    wrong: Any = {}
    with pytest.raises(KindError, match="takes a state"):
        optim.pure_step(0.1, model, grads, wrong)
    with pytest.raises(StateError, match="a state of Adam; begin with"):
        Sgd().pure_step(0.1, model, grads, state)
    with pytest.raises(StateError, match="with m, v, and this optimizer remembers m, v, vmax"):
        Adam(amsgrad=True).pure_step(0.1, model, grads, state)
    with pytest.raises(StateError, match="of other parameters"):
        optim.pure_step(0.1, Linear(4, 2, device=Train), grads, state)
    with pytest.raises(KindError, match="takes a model"):
        optim.init(3)
    with pytest.raises(KeyError, match="no parameter"):
        state.step("w")
    with pytest.raises(KeyError, match="no parameter"):
        state["w"]
    with pytest.raises(burnpy.backend.errors.ImmutableError, match="never changes"):
        state.counts = ()
    assert isinstance(state, OptimizerState)
    assert optim.state() == {}
