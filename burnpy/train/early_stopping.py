"""`EarlyStopping`: ending a run that no longer improves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError
from burnpy.train.callback import Callback, Decision, State, Stop
from burnpy.train.monitor import Mode, check_mode, improved, mode_of, monitored

if TYPE_CHECKING:
    from burnpy.train.events import Event


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

    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
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
