"""The interface of engines, which start workers and carry calls to them, and a worker's handling of a call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from burnpy.distributed.engines.flat import flattened
from burnpy.tensor.generator import manual_seed


class Lost(Exception):
    """A worker has ended, or cannot be reached; the argument says how, for messages."""


class Failure(NamedTuple):
    """An exception that a task raised, in the place of its value."""

    error: Exception


class Task(NamedTuple):
    """One share of one call."""

    call: int  #: the number of the call
    share: int  #: its number
    seed: int  #: of the random numbers that are drawn for the share


class Worker(ABC):
    """A worker, which does one task at a time. One that was started has a first answer to give: that it is ready."""

    @abstractmethod
    def submit(self, call: Any, task: Task, share: Any) -> None:
        """Give it a task of a call.

        Raises:
            Lost: it has ended.
            WorkerError: the share cannot be sent.
        """

    @abstractmethod
    def answer(self) -> Any:
        """Return its answer, which `Engine.wait` said is there: a value or a `Failure`.

        Raises:
            Lost: it has ended.
        """


class Engine(ABC):
    """Starts workers and carries calls to them."""

    @abstractmethod
    def start(self) -> Worker:
        """Start a worker, and return without waiting until it is ready."""

    @abstractmethod
    def call(self, function: Callable[[Any, Any], Any], model: Any) -> Any:
        """Return a call that can be submitted to any worker: the function and the model are packed once.

        Raises:
            WorkerError: they cannot be sent.
        """

    @abstractmethod
    def wait(self, workers: Sequence[Any], seconds: float) -> list[Any]:
        """Return those of the workers that have answered or ended, as soon as there are some; none if time is up."""

    @abstractmethod
    def end(self, workers: Sequence[Any]) -> None:
        """End workers at once, whatever they are doing; some may have ended already."""

    def close(self) -> None:  # noqa: B027  # most have nothing to do
        """End what was started for the workers, who have ended."""


def done(function: Callable[[Any, Any], Any], model: Any, share: Any, seed: int) -> Any:
    """Do a task: call the function, with random numbers that depend on the task alone, and not on the worker."""
    manual_seed(seed)
    return flattened(function(model, share))
