"""`Callback`, the base class of callbacks, their decisions and intervals; `Checkpoints` and `EarlyStopping`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from burnpy.backend.errors import ArgumentError, KindError, a
from burnpy.backend.storage import refuse_url
from burnpy.optim.settings import at_least_zero, count
from burnpy.tensor.call_errors import Explaining
from burnpy.tensor.tensor_base import describe
from burnpy.train.events import BatchEnd, EpochEnd, Event, FitStart, ValidEnd

if TYPE_CHECKING:
    from burnpy.nn.module import Module


@dataclass(frozen=True)
class Stop(metaclass=Explaining):
    """End the run after the current optimizer step."""

    reason: str


@dataclass(frozen=True)
class Save(metaclass=Explaining):
    """Write a checkpoint after the current optimizer step, and then delete the files of earlier ones.

    If there are several after one step, those with ``first`` are written before the others. The states of callbacks in
    the others say that the first was saved, and a run that continues from them relies on it.
    """

    path: Path
    delete: tuple[Path, ...] = ()
    first: bool = False


@dataclass(frozen=True)
class Replace(metaclass=Explaining):
    """Continue with another model, of the same class, device and parameters, after the current optimizer step."""

    model: Module[Any]


Decision: TypeAlias = Stop | Save | Replace
State: TypeAlias = Any
"""The state of a callback, which checkpoints store: None, bools, numbers, strings, and lists and dicts of these."""


class Callback(metaclass=Explaining):
    """The base class of callbacks, which get every event of a run and return decisions.

    A callback changes nothing. Its memory from one event to the next is its state, which it returns and
    gets back, so that a resumed run decides as the interrupted one would have. For a callback without a state, a
    function from an event to a decision, to several or to None serves as well::

        def stop_when_good(event):
            if isinstance(event, EpochEnd) and event.values["valid/accuracy"] > 0.99:
                return Stop("accurate enough")
    """

    @property
    def name(self) -> str:
        """The name under which checkpoints store the state; unique among the callbacks of a run."""
        return type(self).__name__

    def initial(self) -> State:
        """Return the state at the beginning of a run."""
        return None

    def on(self, event: Event[Any], state: State) -> tuple[State, Sequence[Decision]]:
        """Return the next state, and the decisions that an event leads to."""
        raise NotImplementedError(f"{type(self).__name__} has no on(); write one: it returns the state and decisions")


@dataclass(frozen=True)
class FunctionCallback(Callback):
    """A callback without a state, made of a function."""

    function: Callable[[Any], Decision | Sequence[Decision] | None]

    @property
    def name(self) -> str:
        """The function's name."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    def on(self, event: Event[Any], state: State) -> tuple[State, Sequence[Decision]]:
        """Return the function's decisions."""
        chosen = self.function(event)
        if chosen is None:
            return state, ()
        several: Any = chosen if isinstance(chosen, (list, tuple)) else (chosen,)
        return state, several


def callbacks_of(given: Sequence[Callback | Callable[[Any], Any]]) -> tuple[Callback, ...]:
    """Return callbacks, functions among them wrapped."""
    out: list[Callback] = []
    if not isinstance(given, (list, tuple)):
        raise KindError(f"callbacks= takes a list, got {a(type(given).__name__)}; write callbacks=[...]")
    for callback in given:
        if isinstance(callback, type):
            raise KindError(f"callbacks= got the class {callback.__name__}; make an instance: {callback.__name__}(...)")
        if not isinstance(callback, Callback) and not callable(callback):
            raise KindError(f"callbacks= got {a(type(callback).__name__)}; expected a Callback or a function")
        out.append(callback if isinstance(callback, Callback) else FunctionCallback(callback))
    return tuple(out)


def names_of(callbacks: Sequence[Callback]) -> tuple[str, ...]:
    """Return the names of callbacks, those that repeat numbered: "EarlyStopping", "EarlyStopping.2"."""
    counts: dict[str, int] = {}
    names = []
    for callback in callbacks:
        counts[callback.name] = count = counts.get(callback.name, 0) + 1
        names.append(callback.name if count == 1 else f"{callback.name}.{count}")
    return tuple(names)


def decided(
    callbacks: Mapping[str, Callback], states: Mapping[str, State], event: Event[Any]
) -> tuple[dict[str, State], list[Decision]]:
    """Return the states after an event, and all decisions in the order of the callbacks."""
    after, decisions = dict(states), list[Decision]()
    for name, callback in callbacks.items():
        result: object = callback.on(event, states[name])
        if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], (list, tuple)):
            raise KindError(
                f"{name}.on() returned {result!r:.80}; it returns the next state and a list of decisions: "
                "return state, [Stop(...)]"
            )
        after[name], chosen = result
        for decision in chosen:
            if not isinstance(decision, (Stop, Save, Replace)):
                raise KindError(f"{name} returned {a(type(decision).__name__)}; it returns Stop, Save or Replace")
        decisions += chosen
    return after, decisions


@dataclass(frozen=True)
class Steps(metaclass=Explaining):
    """Every ``n`` optimizer steps."""

    n: int

    def __post_init__(self) -> None:
        count(self.n, "Steps(n=)")

    def due(self, event: Event[Any]) -> bool:
        """Return whether it is due at an event.

        >>> Steps(200).due  # doctest: +ELLIPSIS
        <bound method Steps.due of Steps(n=200)>
        """
        return isinstance(event, BatchEnd) and event.updated and event.step % self.n == 0


@dataclass(frozen=True)
class Epochs(metaclass=Explaining):
    """Every ``n`` epochs, at their end."""

    n: int = 1

    def __post_init__(self) -> None:
        count(self.n, "Epochs(n=)")

    def due(self, event: Event[Any]) -> bool:
        """Return whether it is due at an event."""
        return isinstance(event, EpochEnd) and (event.epoch + 1) % self.n == 0


Every: TypeAlias = Steps | Epochs


def check_every(owner: str, name: str, every: object) -> None:
    """Check that ``every`` is an interval."""
    if not isinstance(every, (Steps, Epochs)):
        hint = f": Steps({every}) or Epochs({every})" if isinstance(every, int) else ", as Steps(200) or Epochs(1)"
        raise KindError(f"{owner}({name}=) got {every!r:.80}; say what to count{hint}")


EACH_EPOCH = Epochs(1)

Mode: TypeAlias = Literal["min", "max"]


def monitored(callback: str, name: str, event: Event[Any]) -> float | None:
    """Return the monitored value if the event is the one that brings it, else None. Values whose names begin with
    "valid/" come with each `ValidEnd`, all others with `EpochEnd`."""
    validation = name.startswith("valid/")
    if isinstance(event, FitStart) and validation and not event.validates:
        raise ArgumentError(
            f"{callback} monitors {name!r}, and this run has no validation; give fit() validation batches"
        )
    if not isinstance(event, ValidEnd if validation else EpochEnd):
        return None
    if name not in event.values:
        known = ", ".join(sorted(event.values)) or "none"
        raise ArgumentError(f"{callback} monitors {name!r}, which this run does not have; it has {known}")
    return event.values[name]


def mode_of(name: str, mode: Mode | None, event: Event[Any]) -> Mode:
    """Return the given mode, or else the metric's: "min" for losses and errors, "max" for others."""
    if mode is not None:
        return mode
    metric = event.metrics.get(name) if isinstance(event, (EpochEnd, ValidEnd)) else None
    return "min" if metric is None else metric.better


def improved(value: float, best: float | None, mode: Mode, min_delta: float = 0.0) -> bool:
    """Return whether a value is better than the best so far by more than ``min_delta``; NaN never is.

    >>> improved(0.5, None, "min"), improved(0.5, 0.4, "min"), improved(0.5, 0.4, "max", 0.1)
    (True, False, False)
    """
    if value != value:
        return False
    if best is None:
        return True
    return value < best - min_delta if mode == "min" else value > best + min_delta


def check_name(owner: str, argument: str, name: object, *, required: bool = False) -> None:
    """Check that a name is a string, or None unless it is required."""
    if not isinstance(name, str) and (required or name is not None):
        raise ArgumentError(
            f"{owner}() got {argument}={describe(name)}; expected a string{'' if required else ' or None'}"
        )


def check_mode(callback: str, mode: object) -> None:
    """Check that a mode is "min", "max" or None."""
    if mode not in ("min", "max", None):
        raise ArgumentError(f'{callback} got mode={mode!r:.80}; expected "min", "max", or None to take the metric\'s')


SUFFIX = ".safetensors"
BEST = f"best{SUFFIX}"


@dataclass(frozen=True)
class Checkpoints(Callback):
    """Save the run to files ``step-00000200.safetensors`` in a folder, and the best to ``best.safetensors``.

    Each file holds everything that a run continues from. A file is complete or absent, also if the process is killed.

    Args:
        folder: the folder, which is created if it does not exist.
        every: how often to save, `Steps` (200) or `Epochs` (1).
        keep: how many files to keep, not counting the best; None keeps all.
        best: the name of a value, such as "valid/accuracy"; whenever it has improved, the best is saved.
        mode: whether "min" or "max" is better; None takes the metric's.

    Raises:
        ArgumentError: a setting is invalid, or, during the run, there is no value called ``best``.
    """

    folder: str | Path
    every: Every = EACH_EPOCH
    keep: int | None = 3
    best: str | None = None
    mode: Mode | None = None

    def __post_init__(self) -> None:
        check_mode("Checkpoints", self.mode)
        check_every("Checkpoints", "every", self.every)
        refuse_url(self.folder, "Checkpoints()")
        check_name("Checkpoints", "best", self.best)
        if self.keep is not None:
            count(self.keep, "Checkpoints(keep=)")

    def initial(self) -> State:
        """Return the state: nothing saved."""
        return {"best": None, "kept": [], "deleted": []}

    def on(self, event: Event[Any], state: State) -> tuple[State, Sequence[Decision]]:
        """Decide to save when it is due, and when the value has improved."""
        decisions = list[Decision]()
        if self.best is not None:
            value = monitored("Checkpoints", self.best, event)
            if value is not None and improved(value, state["best"], mode_of(self.best, self.mode, event)):
                state = {**state, "best": value}
                decisions.append(Save(Path(self.folder) / BEST, first=True))
        if self.every.due(event):
            assert isinstance(event, (BatchEnd, EpochEnd))
            state, save = self.saved(event.step, state)
            decisions.append(save)
        return state, decisions

    def saved(self, step: int, state: State) -> tuple[State, Save]:
        """Return the state after a save of a step, and the decision to save it.

        A file deleted now is deleted again after the next save: a run that is killed in between, and goes on from this
        file, leaves none behind.
        """
        name = f"step-{step:08d}{SUFFIX}"
        kept = [*(other for other in state["kept"] if other != name), name]
        cut = len(kept) if self.keep is None else self.keep
        old, kept = kept[:-cut], kept[-cut:]
        delete = tuple(Path(self.folder) / other for other in [*state["deleted"], *old] if other not in kept)
        return {**state, "kept": kept, "deleted": old}, Save(Path(self.folder) / name, delete)

    def latest(self) -> Path | None:
        """Return the file of the latest step in the folder, or None."""
        files = sorted(Path(self.folder).glob(f"step-*{SUFFIX}"), key=lambda path: (len(path.name), path.name))
        return files[-1] if files else None


@dataclass(frozen=True)
class EarlyStopping(Callback):
    """End the run when a value has not improved for ``patience`` evaluations: validations or epochs.

    A run that has ended so, and is resumed, ends at once; with more patience it goes on.

    Args:
        monitor: the name of the value: "valid/loss", "valid/accuracy".
        patience: the number of evaluations without improvement after which the run ends; 1 or more.
        mode: whether "min" or "max" is better; None takes the metric's.
        min_delta: the improvement that counts as one.

    Raises:
        ArgumentError: a setting is invalid, or, during the run, there is no value of this name.

    >>> from burnpy.nn import Linear
    >>> from burnpy.optim import Sgd
    >>> from burnpy.train import Learner, Step
    >>> x = Tensor[Autodiff[NumPy]].ones((4, 1))
    >>> def step(model, x):
    ...     return Step(model(x).square().mean())
    >>> learner = Learner(step, optim=Sgd(), lr=0.0, callbacks=[EarlyStopping("train/loss", patience=2)])
    >>> learner.fit(Linear(1, 1, device=x.device), [x], epochs=9).epoch
    3
    """

    monitor: str
    patience: int = 5
    mode: Mode | None = None
    min_delta: float = 0.0

    def __post_init__(self) -> None:
        check_mode("EarlyStopping", self.mode)
        check_name("EarlyStopping", "monitor", self.monitor, required=True)
        count(self.patience, "EarlyStopping(patience=)")
        at_least_zero(self.min_delta, "EarlyStopping(min_delta=)")

    def initial(self) -> State:
        """Return the state: nothing seen."""
        return {"best": None, "waited": 0}

    def on(self, event: Event[Any], state: State) -> tuple[State, Sequence[Decision]]:
        """Compare the value with the best so far."""
        value = monitored("EarlyStopping", self.monitor, event)
        if value is None:
            return state, self._decisions(state) if isinstance(event, FitStart) else ()
        if improved(value, state["best"], mode_of(self.monitor, self.mode, event), self.min_delta):
            return {"best": value, "waited": 0}, ()
        state = {**state, "waited": state["waited"] + 1}
        return state, self._decisions(state)

    def _decisions(self, state: State) -> Sequence[Decision]:
        """Return the decision to stop if the patience has ended."""
        waited = state["waited"]
        if waited < self.patience:
            return ()
        best = "a number" if state["best"] is None else f"{state['best']:.6g}"
        return (Stop(f"{self.monitor} has not improved on {best} for {waited} evaluations"),)
