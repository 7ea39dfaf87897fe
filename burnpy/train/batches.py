"""Loaders and other iterables of batches, and the batches of an optimizer step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Protocol, TypeAlias

from burnpy.backend.backend import Backend
from burnpy.backend.errors import ArgumentError, DeviceError, KindError, a
from burnpy.nn.module import Module
from burnpy.optim.gradients.grad_scaler import GradientsAccumulator, GradScaler
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.train.strategy import Ranks, shared
from burnpy.train.train_step import Measured
from burnpy.typevars import T, T_co


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


def check_batches(loader: Any, name: str, epochs: int) -> None:
    """Check that a loader can be iterated as often as there are epochs.

    Raises:
        KindError: it is not iterable.
        ArgumentError: it is empty, or an iterator, which is exhausted after one epoch.
    """
    if hasattr(loader, "epoch"):
        pass
    elif isinstance(loader, Iterator):
        if epochs > 1:
            raise ArgumentError(
                f"fit() got {name} as {a(type(loader).__name__)}, an iterator, which is exhausted after one "
                f"epoch of {epochs}; give a list, a Loader, or an object whose __iter__ begins anew"
            )
    elif isinstance(loader, Mapping) or not isinstance(loader, Iterable):
        raise KindError(f"fit() got {name} as {a(type(loader).__name__)}; expected a Loader or an iterable of batches")
    if count_of(loader) == 0:
        raise ArgumentError(f"fit() got {name} without batches; is the dataset smaller than one, with drop_last?")


def check_device(batch: Any, device: Any, name: str, model: str) -> None:
    """Check that a batch, if it says where it is, is where the model is.

    Raises:
        DeviceError: it is elsewhere.
    """
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
                grads = GradientsParams.from_grads(scaled.backward(), self._model)
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
