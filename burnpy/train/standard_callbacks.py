"""The callbacks `Checkpoints`, which saves the run to a folder, and `EarlyStopping`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError
from burnpy.backend.storage import refuse_url
from burnpy.train.callback import (
    EACH_EPOCH,
    Callback,
    Decision,
    Every,
    Mode,
    Save,
    State,
    Stop,
    check_every,
    check_mode,
    improved,
    mode_of,
    monitored,
)
from burnpy.train.events import BatchEnd, EpochEnd

if TYPE_CHECKING:
    from burnpy.train.events import Event

SUFFIX = ".safetensors"
BEST = f"best{SUFFIX}"


@dataclass(frozen=True)
class Checkpoints(Callback):
    """Save the run to files ``step-00000200.safetensors`` in a folder, and the best to ``best.safetensors``.

    Each file holds everything that a run continues from. A file is complete or absent, also if the process is killed.

    Args:
        folder: the folder, which is created if it does not exist.
        every: how often to save, `Steps` (200) or `Epochs` (1).
        keep: how many files to keep, not counting the best; None keeps all.
        best: the name of a value, such as "valid/accuracy"; whenever it has improved, the best is saved.
        mode: whether "min" or "max" is better; None takes the metric's.

    Raises:
        ArgumentError: a setting is invalid, or, during the run, there is no value called ``best``.
    """

    folder: str | Path
    every: Every = EACH_EPOCH
    keep: int | None = 3
    best: str | None = None
    mode: Mode | None = None

    def __post_init__(self) -> None:
        check_mode("Checkpoints", self.mode)
        check_every("Checkpoints", "every", self.every)
        refuse_url(self.folder, "Checkpoints()")
        if self.keep is not None and self.keep < 1:
            raise ArgumentError(
                f"Checkpoints(keep={self.keep}) would delete the file it saves; keep is 1 or more, or None"
            )

    def initial(self) -> State:
        """Return the state: nothing saved."""
        return {"best": None, "kept": [], "deleted": []}

    def on(self, event: Event[Any], state: State) -> tuple[State, Sequence[Decision]]:
        """Decide to save when it is due, and when the value has improved."""
        decisions = list[Decision]()
        if self.best is not None:
            value = monitored("Checkpoints", self.best, event)
            if value is not None and improved(value, state["best"], mode_of(self.best, self.mode, event)):
                state = {**state, "best": value}
                decisions.append(Save(Path(self.folder) / BEST, first=True))
        if self.every.due(event):
            assert isinstance(event, (BatchEnd, EpochEnd))
            state, save = self.saved(event.step, state)
            decisions.append(save)
        return state, decisions

    def saved(self, step: int, state: State) -> tuple[State, Save]:
        """Return the state after a save of a step, and the decision to save it.

        A file deleted now is deleted again after the next save: a run that is killed in between, and goes on from this
        file, leaves none behind.
        """
        name = f"step-{step:08d}{SUFFIX}"
        kept = [*(other for other in state["kept"] if other != name), name]
        cut = len(kept) if self.keep is None else self.keep
        old, kept = kept[:-cut], kept[-cut:]
        delete = tuple(Path(self.folder) / other for other in [*state["deleted"], *old] if other not in kept)
        return {**state, "kept": kept, "deleted": old}, Save(Path(self.folder) / name, delete)

    def latest(self) -> Path | None:
        """Return the file of the latest step in the folder, or None."""
        files = sorted(Path(self.folder).glob(f"step-*{SUFFIX}"), key=lambda path: (len(path.name), path.name))
        return files[-1] if files else None


@dataclass(frozen=True)
class EarlyStopping(Callback):
    """End the run when a value has not improved for ``patience`` evaluations: validations or epochs.

    Args:
        monitor: the name of the value: "valid/loss", "valid/accuracy".
        patience: the number of evaluations without improvement after which the run ends; 1 or more.
        mode: whether "min" or "max" is better; None takes the metric's.
        min_delta: the improvement that counts as one.

    Raises:
        ArgumentError: a setting is invalid, or, during the run, there is no value of this name.

    >>> from burnpy.nn import Linear
    >>> from burnpy.optim import Sgd
    >>> from burnpy.train import Learner, Step
    >>> x = Tensor[Autodiff[NumPy]].ones((4, 1))
    >>> def step(model, x):
    ...     return Step(model(x).square().mean())
    >>> learner = Learner(step, optim=Sgd(), lr=0.0, callbacks=[EarlyStopping("train/loss", patience=2)])
    >>> learner.fit(Linear(1, 1, device=x.device), [x], epochs=9).epoch
    3
    """

    monitor: str
    patience: int = 5
    mode: Mode | None = None
    min_delta: float = 0.0

    def __post_init__(self) -> None:
        check_mode("EarlyStopping", self.mode)
        if self.patience < 1:
            raise ArgumentError(f"EarlyStopping(patience={self.patience}) would never train; it is 1 or more")
        if not self.min_delta >= 0:
            raise ArgumentError(f"EarlyStopping(min_delta={self.min_delta}) is 0 or more")

    def initial(self) -> State:
        """Return the state: nothing seen."""
        return {"best": None, "waited": 0}

    def on(self, event: Event[Any], state: State) -> tuple[State, Sequence[Decision]]:
        """Compare the value with the best so far."""
        value = monitored("EarlyStopping", self.monitor, event)
        if value is None:
            return state, ()
        if improved(value, state["best"], mode_of(self.monitor, self.mode, event), self.min_delta):
            return {"best": value, "waited": 0}, ()
        waited = state["waited"] + 1
        if waited < self.patience:
            return {**state, "waited": waited}, ()
        best = "a number" if state["best"] is None else f"{state['best']:.6g}"
        return {**state, "waited": waited}, (
            Stop(f"{self.monitor} has not improved on {best} for {waited} evaluations"),
        )
