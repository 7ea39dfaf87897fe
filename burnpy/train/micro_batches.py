"""The batches of an optimizer step, and where they come from."""

from __future__ import annotations

from typing import Any

from burnpy.nn.module import Module
from burnpy.optim.accumulator import GradientsAccumulator
from burnpy.optim.grad_scaler import GradScaler
from burnpy.optim.grads_params import GradientsParams
from burnpy.tensor.tensor import Tensor
from burnpy.train.batches import batches_of
from burnpy.train.running import Measured
from burnpy.train.strategy import Ranks
from burnpy.train.together import shared


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
        self._several = several
        self._scaler = scaler
        self._total = GradientsAccumulator[Any]()

    def add(self, measured: Measured) -> None:
        """Add a batch."""
        self.measured.append(measured)
        if self._several and measured.step is not None:
            grads = GradientsParams.from_grads(self._scaled(measured.step.loss).backward(), self._model)
            self._total = self._total.add(grads, weight=measured.size)

    def mean(self, group: Ranks) -> GradientsParams[Any]:
        """Return the mean of the gradients of all ranks. Some ranks may have had no samples."""
        if self._several:
            return group.mean(self._total.mean() if self._total else None, weight=self._total.weight)
        ((step, size, _),) = self.measured
        return group.backward(None if step is None else self._scaled(step.loss), self._model, weight=size)

    def _scaled(self, loss: Tensor[Any]) -> Tensor[Any]:
        return loss if self._scaler is None else self._scaler.scale(loss)


class Feed:
    """The batches of an epoch from some number on, this rank's part of each.

    Attributes:
        group: the ranks that share the batches.
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
