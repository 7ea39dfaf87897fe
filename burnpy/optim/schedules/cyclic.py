"""The cyclic schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from burnpy.backend.errors import ArgumentError
from burnpy.optim.checks import at_least_zero, count
from burnpy.optim.schedules.base import LrSchedule
from burnpy.optim.schedules.simple import power


@dataclass(frozen=True)
class CyclicLr(LrSchedule):
    """The cyclic schedule: rises from ``start`` to ``peak`` and falls back, over and over, along straight lines.

    The values equal those of `torch.optim.lr_scheduler.CyclicLR`, whose argument names are in parentheses.

    Source: Smith, Cyclical learning rates for training neural networks, 2017.

    Args:
        start: the smallest rate (base_lr).
        peak: the largest rate (max_lr).
        rising: the number of steps in which the rate rises (step_size_up).
        falling: the number of steps in which it falls (step_size_down); as many by default.
        mode: "triangular" for equal cycles; "triangular2" for a height above ``start`` that is halved in each cycle;
            "exp_range" for one that is multiplied by ``factor`` in each step.
        factor: the factor of the mode "exp_range" (gamma).

    Raises:
        ArgumentError: a number is out of range, or the mode is unknown.

    >>> [round(CyclicLr(0.0, 1.0, 2, mode="triangular2")(step), 3) for step in range(8)]
    [0.0, 0.5, 1.0, 0.5, 0.0, 0.25, 0.5, 0.25]
    """

    start: float
    peak: float
    rising: int = 2000
    falling: int | None = None
    mode: Literal["triangular", "triangular2", "exp_range"] = "triangular"
    factor: float = 1.0

    def __post_init__(self) -> None:
        at_least_zero(self.start, "CyclicLr(start)")
        if at_least_zero(self.peak, "CyclicLr(peak)") < self.start:
            raise ArgumentError(f"CyclicLr(peak) is {self.peak!r}, which is less than start={self.start!r}")
        count(self.rising, "CyclicLr(rising)")
        if self.falling is not None:
            count(self.falling, "CyclicLr(falling)")
        at_least_zero(self.factor, "CyclicLr(factor)")
        if self.mode not in ("triangular", "triangular2", "exp_range"):
            raise ArgumentError(f'CyclicLr(mode) is {self.mode!r}; expected "triangular", "triangular2" or "exp_range"')

    def at(self, step: int) -> float:
        """Return the learning rate in the cycle of the step."""
        falling = self.rising if self.falling is None else self.falling
        cycle, position = divmod(step, self.rising + falling)
        risen = position / self.rising if position <= self.rising else 1.0 - (position - self.rising) / falling
        height = self.peak - self.start
        if self.mode == "triangular2":
            height = power(height, 0.5, cycle)
        elif self.mode == "exp_range":
            height = power(height, self.factor, step)
        return self.start + height * risen
