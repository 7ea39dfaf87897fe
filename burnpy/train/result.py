"""`Result`: the outcome of a training run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from burnpy.typevars import M

if TYPE_CHECKING:
    from burnpy.optim.grad_scaler import GradScaler
    from burnpy.optim.optimizer import Optimizer


@dataclass(frozen=True, kw_only=True)
class Result(Generic[M]):
    """The outcome of a training run."""

    model: M
    optim: Optimizer  #: with its states, to continue with; the learner's own is not changed
    scaler: GradScaler[Any] | None  #: of the next step; None if the learner has none
    history: tuple[Mapping[str, float], ...]  #: for each completed epoch its values by name, and "epoch" and "step"
    stopped: str | None  #: why the run ended early, "interrupted" by a signal; None after all epochs
    epoch: int  #: the number of completed epochs
    step: int  #: the number of optimizer steps

    def __repr__(self) -> str:
        last = {k: round(v, 6) for k, v in self.history[-1].items()} if self.history else {}
        why = f", stopped: {self.stopped}" if self.stopped else ""
        return f"Result({type(self.model).__name__}, {self.epoch} epochs, {self.step} steps{why}, last {last})"
