"""The batches of an optimizer step, and `Strategy`, the processes that share them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Protocol, TypeAlias

from burnpy.backend.backend import Backend
from burnpy.backend.errors import ArgumentError, DeviceError, KindError, a
from burnpy.metrics.metric import Metric
from burnpy.nn.module import Module
from burnpy.optim.gradients.accumulator import GradientsAccumulator
from burnpy.optim.gradients.grad_scaler import GradScaler
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.optimizer import Optimizer
from burnpy.tensor.call_errors import Explaining, explained
from burnpy.tensor.generator import Generator, default_generator
from burnpy.train.train_step import Measured, added
from burnpy.typevars import T, T_co


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


class OneDevice(metaclass=Explaining):
    """The strategy of a single process: gradients and metrics are its own."""

    group = One()

    @explained
    def run(self, step: Callable[[Any], T]) -> T:
        """Return ``step(group)``."""
        return step(self.group)


def checked_strategy(strategy: Any, optim: Optimizer) -> Strategy:
    """Return a strategy."""
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
    """Return a loader of this rank's part of every batch, None where the rank has no samples."""
    if group.size == 1:
        return loader
    if not hasattr(loader, "shard"):
        raise ArgumentError(
            f"fit() got {name} as {a(type(loader).__name__)}, which does not share them among {group.size} "
            "ranks; give the same burnpy.data.Loader on all, or one with a method shard(rank, size, empty=True)"
        )
    return loader.shard(group.rank, group.size, empty=True)


def from_leader(strategy: Strategy, make: Callable[[], T]) -> T:
    """Return rank 0's value on all ranks, such as the contents of a file."""

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


class EpochLoader(Protocol[T_co]):
    """A loader whose order is a function of the epoch, such as `burnpy.data.Loader`."""

    def epoch(self, epoch: int, *, start: int = 0) -> Iterable[T_co]:
        """Return the batches of an epoch from the batch ``start`` on."""
        ...


Batches: TypeAlias = EpochLoader[T] | Iterable[T]


def batches_of(loader: Any, epoch: int, start: int) -> Iterator[Any]:
    """Return the batches of an epoch from ``start`` on; an iterable that is no loader is skipped through."""
    if hasattr(loader, "epoch"):
        return iter(loader.epoch(epoch, start=start))
    return islice(iter(loader), start, None)


def count_of(loader: Any) -> int | None:
    """Return the number of batches of an epoch, or None if the loader does not say."""
    try:
        return len(loader) if hasattr(loader, "__len__") else None
    except TypeError:  # an iterable dataset, whose length is not known
        return None


def check_batches(loader: Any, name: str, epochs: int, call: str = "fit()") -> None:
    """Check that a loader can be iterated as often as there are epochs. ``call`` names the function that got it."""
    if hasattr(loader, "epoch"):
        pass
    elif isinstance(loader, Iterator):
        if epochs > 1:
            raise ArgumentError(
                f"{call} got {name} as {a(type(loader).__name__)}, an iterator, which is exhausted after one "
                f"epoch of {epochs}; give a list, a Loader, or an object whose __iter__ begins anew"
            )
    elif isinstance(loader, Mapping) or not isinstance(loader, Iterable):
        raise KindError(f"{call} got {name} as {a(type(loader).__name__)}; expected a Loader or an iterable of batches")
    if count_of(loader) == 0:
        raise ArgumentError(f"{call} got {name} without batches; is the dataset smaller than one, with drop_last?")


def check_device(batch: Any, device: Any, name: str, model: str) -> None:
    """Check that a batch, if it says where it is, is where the model is."""
    own = getattr(batch, "device", None)
    if isinstance(own, Backend) and own is not device:
        raise DeviceError(
            f"fit() got {name} on {own}, and {model} is on {device}; make them there, as with collate(device={device})"
        )


def settings_of(loader: Any) -> dict[str, Any]:
    """Return the values that must be equal in a resumed run: the number of batches, and the loader's description."""
    own = loader.settings() if hasattr(loader, "settings") else {}
    return {"batches": count_of(loader), **own}


class MicroBatches:
    """The batches whose gradients make an optimizer step; of several, the gradients are weighted by their sizes.

    Args:
        model: the model that computes their losses.
        several: whether there may be more than one. The gradients of a single one are computed by `mean`, so that their
            exchange overlaps the backward pass.
        scaler: by which losses are multiplied; their gradients are to be unscaled.
    """

    def __init__(self, model: Module[Any], several: bool, scaler: GradScaler[Any] | None = None) -> None:
        self.measured: list[Measured] = []
        self._model: Any = model
        self._scaler = scaler
        self._total = GradientsAccumulator[Any]() if several else None
        self._ready: GradientsParams[Any] | None = None  # the gradients of a single batch, if they are computed already

    def add(self, measured: Measured, grads: GradientsParams[Any] | None = None) -> None:
        """Add a batch, and its gradients if they are computed already."""
        self.measured.append(measured)
        if self._total is None:
            self._ready = grads
        elif measured.step is not None:
            if grads is None:
                loss = measured.step.loss
                scaled = loss if self._scaler is None else self._scaler.scale(loss)
                self._total = self._total.backward(scaled, self._model, weight=measured.size)
            else:
                self._total = self._total.add(grads, weight=measured.size)

    def mean(self, group: Ranks) -> GradientsParams[Any]:
        """Return the mean of the gradients of all ranks. Some ranks may have had no samples."""
        if self._total is not None:
            return group.mean(self._total.mean() if self._total else None, weight=self._total.weight)
        ((step, size, _),) = self.measured
        if self._ready is not None:
            return group.mean(self._ready, weight=size)
        loss = None if step is None else step.loss
        if loss is not None and self._scaler is not None:
            loss = self._scaler.scale(loss)
        return group.backward(loss, self._model, weight=size)


class Feed:
    """The batches of an epoch from some number on, this rank's part of each.

    Attributes:
        group: the ranks that share the batches.
        has_next: whether there is a next batch.
        batch: the next batch; None if this rank has no samples of it, or if there is none.
    """

    def __init__(self, group: Ranks, loader: Any, epoch: int, start: int) -> None:
        self._loader, self._epoch = loader, epoch
        self.begin(group, start)

    def begin(self, group: Ranks, start: int) -> None:
        """Begin at a batch, which some ranks share."""
        self.group = group
        self._batches = batches_of(shared(self._loader, group, "training batches"), self._epoch, start)
        self.advance()

    def advance(self) -> None:
        """Go on to the next batch."""
        following = next(self._batches, _END)
        self.has_next = following is not _END
        self.batch: Any = following if self.has_next else None

    def end(self) -> None:
        """Have no next batch."""
        self.has_next, self.batch = False, None


_END = object()
