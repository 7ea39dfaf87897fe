"""`Strategy`: the processes that train together, and values computed from the parts of all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from burnpy.backend.errors import ArgumentError, KindError, a
from burnpy.metrics.metric import Metric
from burnpy.nn.module import Module
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.optimizer import Optimizer
from burnpy.tensor.generator import Generator, default_generator
from burnpy.train.train_step import added
from burnpy.typevars import T


class Ranks(Protocol):
    """The processes of a run, called ranks, and their exchanges. All make the same calls in the same order.

    `burnpy.distributed.Group` is one.
    """

    @property
    def rank(self) -> int:
        """The number of this process, from 0. Rank 0 writes files and logs."""
        ...

    @property
    def size(self) -> int:
        """The number of ranks."""
        ...

    def mean(self, grads: GradientsParams[Any] | None, *, weight: float) -> GradientsParams[Any]:
        """Return the weighted mean of the gradients of all ranks; those without samples give None and 0."""
        ...

    def backward(self, loss: Any, model: Any, *, weight: float) -> GradientsParams[Any]:
        """Return the weighted mean of the gradients of the losses of all ranks, None for those without samples."""
        ...

    def gather(self, value: T) -> list[T]:
        """Return the values of all ranks, in the order of ranks."""
        ...

    def broadcast(self, value: T) -> T:
        """Return the value of rank 0."""
        ...


class Strategy(Protocol):
    """How a learner trains on several processes: `burnpy.distributed.DataParallel` and `burnpy.distributed.Elastic`."""

    @property
    def group(self) -> Ranks:
        """The ranks at present."""
        ...

    def run(self, step: Callable[[Any], T]) -> T:
        """Return ``step(group)``; where ranks are lost meanwhile, it may be called again with those that are left."""
        ...


class One:
    """The only process of a run, which exchanges nothing."""

    rank, size = 0, 1

    def mean(self, grads: GradientsParams[Any] | None, *, weight: float) -> GradientsParams[Any]:
        """Return the gradients unchanged."""
        assert grads is not None
        return grads

    def backward(self, loss: Any, model: Any, *, weight: float) -> GradientsParams[Any]:
        """Return the gradients of the loss."""
        return GradientsParams.from_grads(loss.backward(), model)

    def gather(self, value: T) -> list[T]:
        """Return a list of the value."""
        return [value]

    def broadcast(self, value: T) -> T:
        """Return the value."""
        return value


class OneDevice:
    """The strategy of a single process: gradients and metrics are its own."""

    group = One()

    def run(self, step: Callable[[Any], T]) -> T:
        """Return ``step(group)``."""
        return step(self.group)


def checked_strategy(strategy: Any, optim: Optimizer) -> Strategy:
    """Return a strategy.

    Raises:
        KindError: it is not one.
        ArgumentError: the optimizer divides its states among ranks that are not those of the strategy.
    """
    if isinstance(strategy, type) or not callable(getattr(strategy, "run", None)) or not hasattr(strategy, "group"):
        hint = "DataParallel(group)" if hasattr(strategy, "gather") else "one, as DataParallel(Group.world())"
        raise KindError(f"Learner(strategy=) got {strategy!r:.80}; write {hint}")
    divided: Any = getattr(optim, "group", None)
    if divided is not None and divided.size > 1 and divided is not strategy.group:
        raise ArgumentError(
            f"Learner() got {type(optim).__name__} on {divided!r} and strategy={strategy!r:.80}; expected "
            "DataParallel(group) with the same group, as an elastic run would lose the states of a lost rank"
        )
    checked: Strategy = strategy
    return checked


def shared(loader: Any, group: Ranks, name: str) -> Any:
    """Return a loader of this rank's part of every batch, None where the rank has no samples.

    Raises:
        ArgumentError: the loader cannot share its batches, or shares them already.
    """
    if group.size == 1:
        return loader
    if not hasattr(loader, "shard"):
        raise ArgumentError(
            f"fit() got {name} as {a(type(loader).__name__)}, which does not share them among {group.size} "
            "ranks; give the same burnpy.data.Loader on all, or one with a method shard(rank, size, empty=True)"
        )
    return loader.shard(group.rank, group.size, empty=True)


def from_leader(strategy: Strategy, make: Callable[[], T]) -> T:
    """Return rank 0's value on all ranks, such as the contents of a file.

    Raises:
        Exception: the one that ``make`` raised on rank 0, on all ranks.
    """

    def step(group: Ranks) -> tuple[Any, Exception | None]:
        made: tuple[Any, Exception | None] = None, None
        if group.rank == 0:
            try:
                made = make(), None
            except Exception as error:  # of any kind: all ranks raise it
                made = None, error
        return group.broadcast(made)

    value, error = strategy.run(step)
    if error is not None:
        raise error
    return value  # type: ignore[no-any-return]  # what make returned


def summed(parts: Iterable[Mapping[str, Metric]]) -> dict[str, Metric]:
    """Return the sums of the metrics of all ranks, by name; a rank without samples has none."""
    total: dict[str, Metric] = {}
    for metrics in parts:
        total = added(total, metrics)
    return total


def random_states(model: Module[Any]) -> dict[str, Any]:
    """Return the states of the generators from which the layers of a model draw, by device."""
    return {str(device): default_generator(device).get_state() for device in devices_of(model)}


def set_random_states(model: Module[Any], states: Mapping[str, Any]) -> None:
    """Set the states of the generators from which the layers of a model draw."""
    for device in devices_of(model):
        if str(device) in states:
            default_generator(device).set_state(states[str(device)])


def of_rank(states: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """Return the states with which a rank begins, derived from rank 0's; random numbers differ between ranks."""
    if not rank:
        return dict(states)
    seeds = {name: hashlib.sha256(f"{state['bits']} {rank}".encode()).digest() for name, state in states.items()}
    return {name: Generator(int.from_bytes(seed, "little")).get_state() for name, seed in seeds.items()}


def devices_of(model: Module[Any]) -> list[Any]:
    """Return the model's device and those inside of it, from whose generators its layers draw."""
    device: Any = model.device
    devices = [device]
    while (device := device.inner) is not None:
        devices.append(device)
    return devices
