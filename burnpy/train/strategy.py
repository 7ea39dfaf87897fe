"""`Strategy`: the processes that train together, and how what one of them needs of the others is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from burnpy.optim.grads_params import GradientsParams
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
