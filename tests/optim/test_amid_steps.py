"""During a step an optimizer can be neither read nor modified; exposed states are always those of whole steps."""

from __future__ import annotations

import copy
import dataclasses
import io
import pickle
import random
import signal
import threading
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.backend import NumPy, errors, try_lock
from burnpy.nn import Module, Param
from burnpy.optim import Adam, GradientsParams, Optimizer, OptimizerRecord, optimizer, optimizer_states, step
from burnpy.optim.optimizer_states import Memory
from tests.interrupting import LONG, Interruption, every_opcode, interrupt
from tests.optim.models import Train, of_two, two, values

Seen: TypeAlias = dict[str, tuple[int, tuple[bytes, ...]]]
"""An exposed state: for each path the number of updates, and the bytes of the averages."""


def seen_in(optim: Optimizer) -> Any:
    return OptimizerRecord("Adam", optim._memory.states)


WAYS: dict[str, Callable[[Optimizer], Any]] = {
    "state": lambda optim: OptimizerRecord("Adam", optim.state()),
    "into_record": lambda optim: optim.into_record(),
    "asdict": lambda optim: OptimizerRecord("Adam", dataclasses.asdict(optim)["_memory"].states),
    "astuple": lambda optim: OptimizerRecord(
        "Adam", next(x for x in dataclasses.astuple(optim) if isinstance(x, Memory)).states
    ),
    "copy": lambda optim: seen_in(copy.copy(optim)),
    "deepcopy": lambda optim: seen_in(copy.deepcopy(optim)),
    "pickle": lambda optim: seen_in(pickle.loads(pickle.dumps(optim))),
    "old pickle": lambda optim: seen_in(pickle.loads(pickle.dumps(optim, 0))),
    "pickle out of band": lambda optim: pickle.Pickler(
        io.BytesIO(), 5, buffer_callback=list[pickle.PickleBuffer]().append
    ).dump(optim),
}


def bytes_of(record: OptimizerRecord) -> Seen:
    return {
        state.path: (state.step, tuple(np.asarray(x).tobytes() for x in state.values.values()))
        for state in record.states.values()
    }


class Wide(Module[Autodiff[NumPy]]):
    """A module with one parameter of many elements."""

    def __init__(self) -> None:
        self.w = Param(Tensor[Train].ones((1 << 19,)))

    def forward(self) -> Tensor[Autodiff[NumPy]]:
        return self.w.value.square().sum()


class Watch:
    """Trains a model, and records the optimizer's state before and after each whole step."""

    def __init__(self) -> None:
        self.model, self.optim = two(), Adam()
        self.whole: list[Seen] = []
        self.shown: list[tuple[Any, Seen]] = []
        self.refused = 0
        self.step()

    def step(self) -> None:
        self.model = self.optim.step(0.1, self.model, of_two(self.model))
        self.whole.append(bytes_of(OptimizerRecord("Adam", self.optim._memory.states)))

    def look(self) -> None:
        """The calls that a signal handler may make."""
        for show in WAYS.values():
            try:
                record = show(self.optim)
            except errors.StateError as error:
                self.refused += "was called during" in str(error)
            else:
                if record is not None:
                    self.shown.append((record, bytes_of(record)))

    def check(self) -> None:
        """Check that exposed states are unchanged and those of whole steps."""
        for record, before in self.shown:
            assert bytes_of(record) == before
            assert before in self.whole
        self.shown.clear()


MODULES = optimizer, step, optimizer_states, try_lock


def test_what_handlers_see_amid_steps_is_of_whole_steps_and_stays() -> None:
    watch = Watch()
    for result in every_opcode(watch.step, MODULES, watch.look, every=1 if LONG else 23):
        assert result is None
        watch.step()
        watch.check()
    assert watch.refused > len(WAYS)
    assert len(watch.whole) > 20


class Asking(Adam):
    """Adam that calls a function during its updates."""

    asked: ClassVar[Callable[[Optimizer], None] | None] = None

    def update(self, *args: Any) -> Any:
        if Asking.asked is not None:
            Asking.asked(self)
        return super().update(*args)


@pytest.mark.parametrize("way", [*WAYS, "load_record", "step"])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["by a handler", "by another thread"])
def test_amid_a_step_it_is_refused(way: str, elsewhere: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model, optim = two(), Asking()
    model = optim.step(0.1, model, of_two(model))
    record, twin = optim.into_record(), copy.copy(optim)
    ways: dict[str, Callable[[Optimizer], Any]] = {
        **WAYS,
        "load_record": lambda optim: optim.load_record(record),
        "step": lambda optim: optim.step(0.1, model, of_two(model)),
    }
    raised: list[str] = []

    def asked(optim: Optimizer) -> None:
        try:
            ways[way](optim)
        except errors.StateError as error:
            raised.append(str(error))

    def asked_elsewhere(optim: Optimizer) -> None:
        thread = threading.Thread(target=asked, args=(optim,))
        thread.start()
        thread.join(60)

    with monkeypatch.context() as patch:
        patch.setattr(Asking, "asked", staticmethod(asked_elsewhere if elsewhere else asked))
        new = optim.step(0.1, model, of_two(model))
    assert len(raised) == 2  # the copy has exposed the states, so each parameter is updated in a call of its own
    does = {"load_record": "load", "step": "go on"}.get(way, "save")
    amid = "during step() of the same optimizer, by the handler of a signal or by another thread; set a flag there, and"
    assert all(message.endswith(f"{amid} {does} after the step") for message in raised)
    assert values(new) == values(twin.step(0.1, model, of_two(model)))
    WAYS[way](optim) if way in WAYS else optim.load_record(record)


@pytest.mark.slow
def test_a_step_that_was_interrupted_anywhere_has_put_everything_back() -> None:
    watch = Watch()
    optim, model, grads = watch.optim, watch.model, of_two(watch.model)
    for raised in every_opcode(lambda: optim.step(0.1, model, grads), MODULES, interrupt, every=1 if LONG else 5):
        assert isinstance(raised, Interruption)
        assert optim._memory._lock.owner() is None
        after = bytes_of(OptimizerRecord("Adam", optim.state()))
        watch.shown.append((optim.into_record(), after))
        assert {path: step for path, (step, _) in after.items()}.keys() == {"a", "b"}
        fresh = Adam().load_record(optim.into_record())  # each state is entirely old or new, none is partial
        assert values(fresh.step(0.1, model, grads)) == values(copy.copy(optim).step(0.1, model, grads))
        assert all(bytes_of(record) == before for record, before in watch.shown)
    assert len(watch.shown) > 20


def test_what_was_not_begun_is_as_it_was() -> None:
    class Failing(Adam):
        def update(self, *args: Any) -> Any:
            if args[-1].number == 2 and raises:
                raise Interruption
            return super().update(*args)

    raises: list[bool] = []
    model, optim = two(), Failing()
    model = optim.step(0.1, model, of_two(model))
    before = bytes_of(optim.into_record())
    model = optim.step(0.1, model, of_two(model).without("b"))
    raises.append(True)
    with pytest.raises(Interruption) as caught:
        optim.step(0.1, model, of_two(model))
    assert (
        caught.value.__traceback__ is not None
    )  # an exception that keeps the step's frame alive does not block later calls
    after = bytes_of(optim.into_record())
    assert after["b"] == before["b"]
    assert after["a"][0] == 3


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_checkpoints_of_a_handler_in_a_training_loop() -> None:
    """The handler runs at arbitrary moments; large arrays make updates long enough to be interrupted."""
    model, optim, rng = Wide(), Adam(), random.Random(0)
    whole: list[Seen] = []
    shown: list[tuple[OptimizerRecord, Seen]] = []
    refused = 0

    def handler(number: int, frame: object) -> None:
        nonlocal refused
        try:
            record = optim.into_record()
            shown.append((record, bytes_of(record)))
        except errors.StateError:
            refused += 1

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for count in range(1, 1 + (LONG or 30)):
            grads = GradientsParams.from_grads(model().backward(), model)
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 2e-3))
            model = optim.step(0.1, model, grads)
            signal.setitimer(signal.ITIMER_REAL, 0)
            # The states count a step that repeats the last one when they are shown, perhaps before the next step.
            states = {ident: state._replace(step=count) for ident, state in optim._memory.states.items()}
            whole.append(bytes_of(OptimizerRecord("Adam", states)))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert refused
    assert all(bytes_of(record) == seen and (not seen or seen in whole) for record, seen in shown)
