"""Optimizer states are updated in place unless they were exposed."""

from __future__ import annotations

import copy
import ctypes
import math
import pickle
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, ComplexTensor, Tensor
from burnpy.backend import Checked, NumPy, Profiled, errors
from burnpy.nn import ComplexParam, Linear, Module, Param, Sequential
from burnpy.optim import (
    AdaDelta,
    AdaGrad,
    Adam,
    Adamax,
    AdamW,
    GradientsParams,
    Lion,
    NAdam,
    Optimizer,
    OptimizerRecord,
    RAdam,
    RmsProp,
    Sgd,
)
from tests.interrupting import LONG
from tests.kernels import needs_kernels
from tests.optim.models import Train, Two, of_two, two, values
from tests.rows import every_row

OPTIMIZERS: dict[str, Callable[[], Optimizer]] = {
    "sgd": lambda: Sgd(momentum=0.9, dampening=0.5, weight_decay=0.1),
    "nesterov": lambda: Sgd(momentum=0.9, nesterov=True),
    "adam": lambda: Adam(weight_decay=0.1),
    "adamw": lambda: AdamW(),
    "amsgrad": lambda: AdamW(amsgrad=True, betas=(0.5, 0.5)),
    "rmsprop": lambda: RmsProp(weight_decay=0.1),
    "adagrad": lambda: AdaGrad(lr_decay=0.1, initial_sum=0.5),
}
DEFAULTS: dict[str, Callable[[], Optimizer]] = {
    "rmsprop with momentum": lambda: RmsProp(momentum=0.9, centered=True),
    "plain sgd": lambda: Sgd(),
    "nadam": lambda: NAdam(),
    "radam": lambda: RAdam(betas=(0.5, 0.8)),
    "adamax": lambda: Adamax(),
    "adadelta": lambda: AdaDelta(eps=1e-3),
    "lion": lambda: Lion(weight_decay=0.1),
}
"""The optimizers whose updates no backend performs in place."""


class One(Module[Autodiff[NumPy]]):
    """One parameter of any shape and layout."""

    def __init__(self, value: Any) -> None:
        self.w = Param(value)

    def forward(self) -> Tensor[Autodiff[NumPy]]:
        return self.w.value.sum()


def one(shape: tuple[int, ...], dtype: str, transposed: bool) -> One:
    array = np.random.default_rng(0).uniform(-1, 1, shape[::-1] if transposed else shape).astype(dtype)
    value = Tensor[Train].from_data(array)
    model = One(value.permute(tuple(range(len(shape)))[::-1]) if transposed else value)
    assert model.w.shape == shape
    return model


def drawn(model: One, seed: int) -> GradientsParams[NumPy]:
    array = np.asarray(np.random.default_rng(seed).normal(size=model.w.shape)).astype(model.w.dtype)
    return GradientsParams(NumPy, {model.w.id: Tensor[NumPy].from_data(array)}, paths={model.w.id: "w"})


def arrays(optim: Optimizer) -> dict[tuple[str, str], Any]:
    """The state arrays themselves, accessed without marking them as exposed."""
    result = optim._memory.states.items()
    return {(state.path, name): x._primitive for _, state in result for name, x in state.values.items()}


def remembered(optim: Optimizer) -> dict[tuple[str, str], bytes]:
    return {key: x.tobytes() for key, x in arrays(optim).items()}


def same_memory(some: dict[Any, Any], others: dict[Any, Any]) -> list[bool]:
    return [np.shares_memory(x, others[key]) for key, x in some.items()]


@pytest.mark.slow
@every_row("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_steps_stay_in_their_memory(make: Callable[[], Optimizer]) -> None:
    model, optim = two(), make()
    model = optim.step(0.1, model, of_two(model))
    first, before = arrays(optim), remembered(optim)
    for _ in range(3):
        model = optim.step(0.1, model, of_two(model))
    assert all(same_memory(first, arrays(optim)))
    assert all(remembered(optim)[key] != old for key, old in before.items())


@pytest.mark.slowest
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", [*OPTIMIZERS, *DEFAULTS])
def test_bit_for_bit_what_new_arrays_would_have(name: str, dtype: str) -> None:
    make = {**OPTIMIZERS, **DEFAULTS}[name]
    shapes: list[tuple[tuple[int, ...], bool]] = [((3,), False), ((), False), ((0, 3), False), ((4, 3), True)]
    if LONG or dtype == "float32":  # threads share the work, in parts of as many elements in any dtype
        shapes.append(((520, 520), False))
    for shape, transposed in shapes:
        mine = theirs = one(shape, dtype, transposed)
        optim, fresh = make(), make()
        mine = optim.step(0.1, mine, drawn(mine, 0))
        theirs = fresh.step(0.1, theirs, drawn(theirs, 0))
        for seed in range(1, 5 if len(shape) < 2 or shape[0] < 520 else 3):
            held, seen = arrays(optim), fresh.state()
            old, grads, shown = mine.w.value.to_numpy().tobytes(), drawn(mine, seed), arrays(fresh)
            new = optim.step(0.1, mine, grads)
            theirs = fresh.step(0.1, theirs, drawn(theirs, seed))
            assert mine.w.value.to_numpy().tobytes() == old
            assert grads[mine.w.id].to_numpy().tobytes() == drawn(mine, seed)[mine.w.id].to_numpy().tobytes()
            mine = new
            assert mine.w.value.to_numpy().tobytes() == theirs.w.value.to_numpy().tobytes()
            assert remembered(optim) == remembered(fresh)
            assert not any(same_memory(shown, arrays(fresh)))
            assert all(x._primitive is shown["w", slot] for s in seen.values() for slot, x in s.values.items())
            if name in OPTIMIZERS and dtype != "float16":
                assert all(x is held[key] for key, x in arrays(optim).items())


@needs_kernels
@every_row("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_what_was_shown_stays(make: Callable[[], Optimizer]) -> None:
    model, optim = two(), make()
    model = optim.step(0.1, model, of_two(model))
    for show in (optim.state, lambda: optim.into_record().states):
        shown = [np.asarray(x) for s in show().values() for x in s.values.values()]
        before, held = [x.tobytes() for x in shown], arrays(optim)
        model = optim.step(0.1, model, of_two(model))
        assert not any(same_memory(held, arrays(optim)))
        held = arrays(optim)
        model = optim.step(0.1, model, of_two(model))
        assert all(same_memory(held, arrays(optim)))
        assert [x.tobytes() for x in shown] == before


def test_what_was_shown_stays_though_other_parameters_took_steps_since() -> None:
    model, optim = two(), Adam()
    model = optim.step(0.1, model, of_two(model))
    shown = optim.state()[model.b.id].values["m"]
    before, grads = shown.tolist(), of_two(model)
    model = optim.step(0.1, model, grads.without("b"))
    optim.step(0.1, model, grads)
    assert shown.tolist() == before


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class Slotted(Adam):
    """Adam with slots, which is copied differently."""


def out_of_band(optim: Optimizer) -> Any:
    """A copy that shares memory, as far as pickle can."""
    buffers: list[pickle.PickleBuffer] = []
    return pickle.loads(pickle.dumps(optim, 5, buffer_callback=buffers.append), buffers=buffers)


@pytest.mark.slow
@every_row("make", [*OPTIMIZERS.values(), Slotted], ids=[*OPTIMIZERS, "slots"])
@every_row("duplicate", [copy.copy, copy.deepcopy, out_of_band])
def test_copies_are_independent(make: Callable[[], Optimizer], duplicate: Callable[[Optimizer], Optimizer]) -> None:
    def stepped(optim: Optimizer, model: Any, scale: float) -> Any:
        return optim.step(0.1, model, of_two(model) * scale)

    def trained(copied: bool) -> list[Any]:
        """Four optimizers that continue from one step, or from the same step taken by each."""
        origin, start = make(), two()
        models = [stepped(origin, start, 1.0)] * 4
        if copied:
            optims = [origin, duplicate(origin), duplicate(origin)]
            optims.append(duplicate(optims[1]))
        else:
            optims = [origin, make(), make(), make()]
            for optim in optims[1:]:
                stepped(optim, start, 1.0)
        for _ in range(3):
            for k in (0, 2, 3, 1):
                models[k] = stepped(optims[k], models[k], k - 1.5)
        return [(values(model), remembered(optim)) for model, optim in zip(models, optims, strict=True)]

    assert trained(True) == trained(False)


@every_row("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_record_stays_as_it_was_loaded(make: Callable[[], Optimizer]) -> None:
    model, optim = two(), make()
    model = optim.step(0.1, model, of_two(model))
    record, name = optim.into_record(), type(optim).__name__
    writeable = {
        ident: state._replace(values={slot: x.copy() for slot, x in state.values.items()})
        for ident, state in record.states.items()
    }
    for given in (record, OptimizerRecord(name, writeable), OptimizerRecord(name, optim.state())):
        held = [x for s in given.states.values() for x in s.values.values()]
        before = [np.asarray(x).tobytes() for x in held]
        loaded, other = make(), two().load_record(model.into_record())
        other = loaded.step(0.1, other, of_two(other))  # whose states are its own, and are forgotten
        assert loaded.load_record(given) is loaded
        for _ in range(3):
            other = loaded.step(0.1, other, of_two(other))
        assert [np.asarray(x).tobytes() for x in held] == before
    seen = make().load_record(optim.load_record(record).into_record())
    for _ in range(2):
        model = seen.step(0.1, model, of_two(model))
        assert [x.tobytes() for s in record.states.values() for x in s.values.values()] == before


def test_a_refused_step_changes_no_bit() -> None:
    model, optim = two(), Adam()
    model = optim.step(0.1, model, of_two(model))
    good, before = of_two(model), remembered(optim)
    half: Any = GradientsParams(
        NumPy, {k: g.half() if k == model.b.id else g for k, g in good.items()}, paths={model.b.id: "b"}
    )
    for rate, of, grads in ((math.nan, model, good), (0.1, two(), good), (0.1, model, half)):
        with pytest.raises(errors.BurnpyError):
            optim.step(rate, of, grads)
        assert remembered(optim) == before


def test_what_a_checked_device_refuses_changes_no_bit() -> None:
    model, optim = two(), Adam()
    model = optim.step(0.1, model, of_two(model))
    moved: Any = model.to_device(Autodiff[Checked[NumPy]])
    for _ in range(2):
        good = GradientsParams.from_grads(moved().backward(), moved)
        with Checked.allow("nan"):
            bad = good + good.without("a") * math.nan
        before, held = remembered(optim), arrays(optim)
        with pytest.raises(errors.NonFiniteError):
            optim.step(0.1, moved, bad)
        assert remembered(optim) == before
        assert all(same_memory(held, arrays(optim)))
        moved = optim.step(0.1, moved, good)
        assert not any(same_memory(held, arrays(optim)))


def test_a_refused_step_does_not_own_what_it_had_not_made() -> None:
    model, optim = two(), Adam()
    model = optim.step(0.1, model, of_two(model))
    shown = optim.state()
    before = [x.tolist() for s in shown.values() for x in s.values.values()]
    moved: Any = model.to_device(Autodiff[Checked[NumPy]])
    good = GradientsParams.from_grads(moved().backward(), moved)
    with Checked.allow("nan"):
        bad = good + good.without("a") * math.nan
    with pytest.raises(errors.NonFiniteError):
        optim.step(0.1, moved, bad)
    optim.step(0.1, model, of_two(model))
    assert [x.tolist() for s in shown.values() for x in s.values.values()] == before


@dataclass(frozen=True, eq=False, kw_only=True)
class Cut(Adam):
    """Adam that raises KeyboardInterrupt after a countdown of updates, and records the ``owned`` flags."""

    countdown: list[int]
    owned: list[bool]

    def update(self, *args: Any) -> Any:
        self.owned.append(args[-1].owned)
        if self.countdown:
            self.countdown[0] -= 1
            if not self.countdown[0]:
                self.countdown.clear()
                raise KeyboardInterrupt
        return super().update(*args)


def test_a_step_that_is_cut_short_knows_what_it_has_made() -> None:
    model, optim = two(), Cut(countdown=[], owned=[])
    model = optim.step(0.1, model, of_two(model))
    shown = optim.state()
    before = [x.tolist() for s in shown.values() for x in s.values.values()]
    optim.countdown.append(2)
    with pytest.raises(KeyboardInterrupt):
        optim.step(0.1, model, of_two(model))
    assert [s.step for s in optim._memory.states.values()] == [2, 1]
    for _ in range(2):
        model = optim.step(0.1, model, of_two(model))
    assert [x.tolist() for s in shown.values() for x in s.values.values()] == before
    assert optim.owned == [True, False, False, True, False, True, True]  # states that were shown are calls of their own


@pytest.mark.parametrize(
    ("inner", "owned"),
    [(NumPy, True), (Profiled[NumPy], True), (Checked[NumPy], False), (Profiled[Checked[NumPy]], False)],
)
def test_states_are_overwritten_where_no_error_can_follow(inner: Any, owned: bool) -> None:
    model: Any = Two(Autodiff[inner])
    optim = Cut(countdown=[], owned=[])
    for _ in range(2):
        model = optim.step(0.1, model, model().backward())
    assert optim.owned == ([True] * 2 if owned else [False] * 4)


def layers() -> Sequential[Autodiff[NumPy]]:
    burnpy.manual_seed(0)
    return Sequential(*[Linear(256, 256, bias=False, device=Train) for _ in range(8)])


def passed(model: Any) -> Any:
    """The gradients of a model of `layers`."""
    return model(Tensor[Train].linspace(-1.0, 1.0, steps=256).reshape(1, 256)).sum().backward()


@needs_kernels
@pytest.mark.parametrize("first", [False, True])
def test_new_parameters_take_the_memory_of_gradients_that_nobody_reads_later(first: bool) -> None:
    model, optim = layers(), Sgd(momentum=0.9)
    if not first:
        model = optim.step(0.1, model, passed(model))
    held = [passed(model)]
    tracemalloc.start()
    try:
        optim.step(0.1, model, held.pop())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (8 * first + 1.2) * 256 * 256 * 4  # a block, and at first the averages


@every_row("name, make", [*(OPTIMIZERS | DEFAULTS).items()])
def test_the_bits_do_not_depend_on_who_holds_the_gradients(name: str, make: Callable[[], Optimizer]) -> None:
    alone, shared, optim, other = layers(), layers(), make(), make()
    for _ in range(3):
        alone = optim.step(0.1, alone, passed(alone))
        grads = passed(shared)
        shared = other.step(0.1, shared, grads)
    assert values(alone) == values(shared), name


HOLDERS: dict[str, Callable[[Any, Any], Any]] = {
    "a variable": lambda grads, model: grads,
    "gradients by parameter": GradientsParams.from_grads,
    "a tensor": lambda grads, model: model[0].weight.value.grad(grads),
    "an array": lambda grads, model: model[0].weight.value.grad(grads)._primitive,
    "a view of one": lambda grads, model: model[0].weight.value.grad(grads)._primitive[1:],
}


@every_row("name, held_by", [*HOLDERS.items()])
def test_gradients_that_somebody_holds_stay_as_they_are(name: str, held_by: Callable[[Any, Any], Any]) -> None:
    model, optim = layers(), Sgd(momentum=0.9)
    for _ in range(2):
        grads = [passed(model)]
        weight = model[0].weight.value.grad(grads[0])
        array, expected = weight._primitive, weight.tolist()
        holder = held_by(grads[0], model)
        at = array.__array_interface__["data"][0]  # no reference
        del weight, array
        model = optim.step(0.1, model, grads.pop())
        kept: Any = np.ndarray((256, 256), "float32", (ctypes.c_float * 65536).from_address(at))
        assert kept.tolist() == expected, name
        del holder


def test_a_gradient_of_two_parameters_is_not_overwritten_by_either() -> None:
    """Both operands of a sum have its gradient."""
    model, optim = two(), Sgd()
    for _ in range(2):
        model = optim.step(1.0, model, (model.a.value + model.b.value).sum().backward())
    assert values(model) == {"a": [-1.0, 0.0], "b": [1.0, 2.0]}


class Phases(Module[Autodiff[NumPy]]):
    """A complex parameter before a real one."""

    def __init__(self) -> None:
        self.z = ComplexParam(ComplexTensor[Train].ones((2,)))
        self.w = Param(Tensor[Train].ones((64, 64)))

    def forward(self) -> Tensor[Autodiff[NumPy]]:
        return self.w.value.square().sum() + self.z.value.abs().sum()


def test_gradients_beside_complex_ones_stay_as_they_are() -> None:
    model = Phases()
    grads = model().backward()
    for _ in range(2):
        after = Sgd().step(0.25, model, GradientsParams.from_grads(grads, model))
        assert after.w.value[0, 0].item() == 0.5
