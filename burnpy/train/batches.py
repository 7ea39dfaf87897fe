"""Loaders, which can begin anywhere in an epoch, and other iterables of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Protocol, TypeAlias

from burnpy.backend.backend import Backend
from burnpy.backend.errors import ArgumentError, DeviceError, KindError, a
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
