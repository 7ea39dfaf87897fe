"""The interface of engines, which start workers and carry calls to them, and a worker's handling of a call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.gradients.layout import Layout, entries_of
from burnpy.tensor.generator import manual_seed
from burnpy.tensor.tensor import Tensor


class Flat(NamedTuple):
    """Gradients in buckets."""

    buckets: tuple[Tensor[Any], ...]
    digest: bytes  #: of the layout
    layout: Layout[Any] | None  #: the layout, if this process has not sent it before


_sent: dict[bytes, Layout[Any]] = {}
"""The layouts that this process has sent, by their digests; the latest is the last."""


def flattened(value: Any) -> Any:
    """Return gradients in buckets, and other values as they are."""
    if not isinstance(value, GradientsParams):
        return value
    layout = next(reversed(_sent.values()), None)
    if layout is None or layout.entries != entries_of(value) or layout.paths != value._paths:
        layout = Layout.of(value)
    known = _sent.pop(layout.digest, None) is not None
    _sent[layout.digest] = layout
    return Flat(layout.on(value.device).flatten(value), layout.digest, None if known else layout)


class FlatLayouts:
    """The layouts that workers have sent, which every answer is shown to, in the order of each worker's answers."""

    def __init__(self) -> None:
        self._known: dict[bytes, Layout[Any]] = {}

    def opened(self, value: Any) -> Any:
        """Return the gradients in buckets, and other values as they are."""
        if not isinstance(value, Flat):
            return value
        layout = self._known[value.digest] if value.layout is None else value.layout
        self._known[value.digest] = layout
        return layout.on(value.buckets[0].device if value.buckets else layout.device).unflatten(value.buckets)


class Lost(Exception):
    """A worker has ended, or cannot be reached; the argument says how, for messages."""


class Failure(NamedTuple):
    """An exception that a task raised, in the place of its value."""

    error: Exception


class WorkerTask(NamedTuple):
    """One share of one call."""

    call: int  #: the number of the call
    share: int  #: its number
    seed: int  #: of the random numbers that are drawn for the share


class WorkerHandle(ABC):
    """A worker, which does one task at a time. One that was started has a first answer to give: that it is ready."""

    @abstractmethod
    def submit(self, call: Any, task: WorkerTask, share: Any) -> None:
        """Give it a task of a call."""

    @abstractmethod
    def answer(self) -> Any:
        """Return its answer, which `Engine.wait` said is there: a value or a `Failure`."""


class WorkerEngine(ABC):
    """Starts workers and carries calls to them."""

    @abstractmethod
    def start(self) -> WorkerHandle:
        """Start a worker, and return without waiting until it is ready."""

    @abstractmethod
    def call(self, function: Callable[[Any, Any], Any], model: Any) -> Any:
        """Return a call that can be submitted to any worker: the function and the model are packed once."""

    @abstractmethod
    def wait(self, workers: Sequence[Any], seconds: float) -> list[Any]:
        """Return those of the workers that have answered or ended, as soon as there are some; none if time is up."""

    @abstractmethod
    def end(self, workers: Sequence[Any]) -> None:
        """End workers at once, whatever they are doing; some may have ended already."""

    def close(self) -> None:  # noqa: B027  # most have nothing to do
        """End the resources started for the workers, which have ended."""


def done(function: Callable[[Any, Any], Any], model: Any, share: Any, seed: int) -> Any:
    """Do a task: call the function, with random numbers that depend on the task alone, and not on the worker."""
    manual_seed(seed)
    return flattened(function(model, share))
