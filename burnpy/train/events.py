"""The events of a training run, in the order in which `Learner.events` yields them, and its `Result`.

A run is a `FitStart`; for each epoch an `EpochStart`, a `BatchEnd` for each batch and an `EpochEnd`, with a `ValidEnd`
before it or wherever validation is due; a `Saved` after each file; and a `FitEnd`, whatever ended the run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from burnpy.backend.errors import counted
from burnpy.typevars import M

if TYPE_CHECKING:
    from burnpy.metrics.metric import Metric
    from burnpy.optim.ema import Ema
    from burnpy.optim.gradients.grad_scaler import GradScaler
    from burnpy.optim.optimizer import Optimizer
    from burnpy.tensor.tensor import Tensor


@dataclass(frozen=True, kw_only=True)
class Result(Generic[M]):
    """The outcome of a training run."""

    model: M
    optim: Optimizer  #: with its states, to continue with; the learner's own is not changed
    scaler: GradScaler[Any] | None  #: of the next step; None if the learner has none
    ema: Ema[M] | None  #: the average of the model, ``ema.model``; None if the learner has none
    history: tuple[Mapping[str, float], ...]  #: for each completed epoch its values by name, and "epoch" and "step"
    stopped: str | None  #: why the run ended early, "interrupted" by a signal; None after all epochs
    epoch: int  #: the number of completed epochs
    step: int  #: the number of optimizer steps

    def __repr__(self) -> str:
        last = {k: round(v, 6) for k, v in self.history[-1].items()} if self.history else {}
        why = f", stopped: {self.stopped}" if self.stopped else ""
        length = f"{counted(self.epoch, 'epoch')}, {counted(self.step, 'step')}"
        return f"Result({type(self.model).__name__}, {length}{why}, last {last})"

    def _repr_html_(self) -> str:
        """Return the run as a notebook shows it: curves and a table of the values of its epochs."""
        from burnpy.backend import html
        from burnpy.train.board import charts

        names = [
            name for name in dict.fromkeys(n for row in self.history for n in row) if name not in ("epoch", "step")
        ]
        curves = {name: [(row["step"], row[name]) for row in self.history if name in row] for name in names}
        rows = [
            [f"{row['epoch'] + 1:g}", *(f"{row.get(name, math.nan):.4g}" for name in names)] for row in self.history
        ]
        facts = [
            counted(self.epoch, "epoch"),
            counted(self.step, "step"),
            *([f"stopped: {self.stopped}"] if self.stopped else []),
        ]
        head = html.headline(f"Result of {type(self.model).__name__}", *facts)
        table = html.table(["epoch", *names], rows, left=0, most=1000)
        return html.block(head, charts(curves), html.folded("values", table))


@dataclass(frozen=True, kw_only=True)
class FitStart(Generic[M]):
    """A run begins, or continues from a file."""

    model: M
    epochs: int  #: the number of epochs at which the run ends
    epoch: int  #: the epoch in which it begins, counted from 0
    batch: int  #: the batch of that epoch with which it begins, counted from 0
    step: int  #: the number of optimizer steps already taken
    batches: int | None  #: the number of batches of an epoch, or None if the loader does not say
    validates: bool  #: whether there is a validation
    resumed: Path | None  #: the file from which it continues


@dataclass(frozen=True, kw_only=True)
class EpochStart(Generic[M]):
    """An epoch begins."""

    model: M
    epoch: int
    step: int


@dataclass(frozen=True, kw_only=True)
class BatchEnd(Generic[M]):
    """A batch has been trained on. Loss and metrics are on the device; reading them waits for it."""

    model: M
    epoch: int
    batch: int  #: the number of the batch in its epoch, from 0
    step: int  #: the number of optimizer steps taken, including this one
    updated: bool  #: whether the batch completed an optimizer step; False while gradients accumulate
    lr: float
    size: int | float  #: the weight of the batch: the number of its samples
    loss: Tensor[Any]
    metrics: Mapping[str, Metric]
    grad_norm: Tensor[Any] | None  #: the global norm before clipping, if the learner computes it


@dataclass(frozen=True, kw_only=True)
class ValidEnd(Generic[M]):
    """A validation is complete."""

    model: M  #: the model that was validated: with ``Learner(ema=)`` the average
    epoch: int
    step: int
    metrics: Mapping[str, Metric]  #: by name with its prefix: "valid/loss", "valid/accuracy"
    values: Mapping[str, float]  #: those that are single numbers


@dataclass(frozen=True, kw_only=True)
class EpochEnd(Generic[M]):
    """An epoch is complete, with its validation."""

    model: M
    epoch: int
    step: int
    metrics: Mapping[str, Metric]  #: by name with its prefix: "train/loss", "valid/accuracy"
    values: Mapping[str, float]  #: those that are single numbers, and "lr"
    seconds: float  #: the duration of the epoch


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A checkpoint was handed to the writing thread; it is complete under its path when the thread is done."""

    path: Path
    step: int


@dataclass(frozen=True, kw_only=True)
class FitEnd(Generic[M]):
    """The run is over."""

    result: Result[M]


Event: TypeAlias = FitStart[M] | EpochStart[M] | BatchEnd[M] | ValidEnd[M] | EpochEnd[M] | Saved | FitEnd[M]
