"""The batches of an optimizer step, and where they come from."""

from __future__ import annotations

from typing import Any

from burnpy.optim.accumulator import GradientsAccumulator
from burnpy.optim.grads_params import GradientsParams
from burnpy.train.batches import batches_of
from burnpy.train.running import Measured
from burnpy.train.strategy import Strategy
from burnpy.train.together import shared


class MicroBatches:
    """The batches whose gradients make an optimizer step; of several, the gradients are weighted by their sizes."""

    def __init__(self, several: bool) -> None:
        self.measured: list[Measured] = []
        self._several = several
        self._total = GradientsAccumulator[Any]()
        self._only: GradientsParams[Any] | None = None

    def add(self, measured: Measured, grads: GradientsParams[Any] | None) -> None:
        """Add a batch and its gradients, None if the rank has no samples of it."""
        self.measured.append(measured)
        if grads is None:
            return
        if self._several:
            self._total = self._total.add(grads, weight=measured.size)
        else:
            self._only = grads

    def mean(self) -> tuple[GradientsParams[Any] | None, float]:
        """Return the mean of the gradients and their weight; None and 0 if there were no samples."""
        grads = self._total.mean() if self._total else self._only
        return grads, sum((each.size for each in self.measured if each.step is not None), start=0.0)


class Feed:
    """The batches of an epoch from some number on, this rank's part of each."""

    def __init__(self, strategy: Strategy, loader: Any, epoch: int, start: int) -> None:
        self._strategy, self._loader, self._epoch = strategy, loader, epoch
        self.begin(start)

    def begin(self, start: int) -> None:
        """Begin at a batch, with this rank's part among the ranks at present."""
        part = shared(self._loader, self._strategy.group, "training batches")
        self._batches = batches_of(part, self._epoch, start)
        self.advance()

    def advance(self) -> None:
        """Go on to the next batch."""
        self._following: Any = next(self._batches, _END)

    @property
    def batch(self) -> Any:
        """The next batch; None if this rank has no samples of it, or if there is none."""
        return None if self._following is _END else self._following

    def has_next(self) -> bool:
        """Return whether there is a next batch."""
        return self._following is not _END

    def end(self) -> None:
        """Have no next batch."""
        self._following = _END


_END = object()
