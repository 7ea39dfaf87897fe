"""`Callback`, the base class of callbacks, and their decisions `Stop`, `Save` and `Replace`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from burnpy.backend.errors import KindError, a

if TYPE_CHECKING:
    from burnpy.nn.module import Module
    from burnpy.train.events import Event


@dataclass(frozen=True)
class Stop:
    """End the run after the current optimizer step."""

    reason: str


@dataclass(frozen=True)
class Save:
    """Write a checkpoint after the current optimizer step, and then delete the files of earlier ones.

    Of several after one step, those that are ``first`` are written before the others, so that a run which continues
    from one of the others, in which the states of callbacks say that the first was saved, can rely on it.
    """

    path: Path
    delete: tuple[Path, ...] = ()
    first: bool = False


@dataclass(frozen=True)
class Replace:
    """Continue with another model, of the same class and parameters, after the current optimizer step."""

    model: Module[Any]


Decision: TypeAlias = Stop | Save | Replace
State: TypeAlias = Any
"""The state of a callback, which checkpoints store: None, bools, numbers, strings, and lists and dicts of these."""


class Callback:
    """The base class of callbacks, which get every event of a run and return decisions.

    A callback changes nothing. What it has to remember from one event to the next is its state, which it returns and
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
    """Return callbacks, functions among them wrapped.

    Raises:
        KindError: something is neither a callback nor a function.
    """
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
    """Return the states after an event, and all decisions in the order of the callbacks.

    Raises:
        KindError: a callback returned something else than decisions.
    """
    after, decisions = dict(states), list[Decision]()
    for name, callback in callbacks.items():
        after[name], chosen = callback.on(event, states[name])
        for decision in chosen:
            if not isinstance(decision, (Stop, Save, Replace)):
                raise KindError(f"{name} returned {a(type(decision).__name__)}; it returns Stop, Save or Replace")
        decisions += chosen
    return after, decisions
