"""The one-cycle schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from burnpy.backend.errors import ArgumentError
from burnpy.optim.checks import at_least_zero, count, number
from burnpy.optim.schedules.base import LrSchedule
from burnpy.optim.schedules.simple import cosine


@dataclass(frozen=True)
class OneCycleLr(LrSchedule):
    """The one-cycle schedule: ``peak / start_factor`` up to ``peak``, down to ``peak / start_factor / end_factor``.

    The rate stays constant after the last step. The values equal those of `torch.optim.lr_scheduler.OneCycleLR`, whose
    argument names are in parentheses.

    Source: Smith and Topin, Super-convergence: Very fast training of neural networks using large learning rates, 2018.

    Args:
        peak: the largest rate (max_lr).
        steps: the number of steps (total_steps); the last is ``steps - 1``.
        rising: the fraction of steps in which the rate rises (pct_start), in [0, 1].
        start_factor: the peak divided by the first rate (div_factor).
        end_factor: the first rate divided by the last (final_div_factor).
        shape: "cosine" or "linear" interpolation (anneal_strategy).
        three_phase: whether to fall to the first rate as fast as it rose, and then to the last (three_phase).

    Raises:
        ArgumentError: a number is out of range.

    >>> [round(OneCycleLr(1.0, 11, rising=0.5, shape="linear")(step), 4) for step in (0, 4, 10, 11)]
    [0.04, 0.8933, 0.0, 0.0]
    """

    peak: float
    steps: int
    rising: float = 0.3
    start_factor: float = 25.0
    end_factor: float = 1e4
    shape: Literal["cosine", "linear"] = "cosine"
    three_phase: bool = False

    def __post_init__(self) -> None:
        at_least_zero(self.peak, "OneCycleLr(peak)")
        count(self.steps, "OneCycleLr(steps)", least=2)
        if not 0 <= number(self.rising, "OneCycleLr(rising)") <= 1:
            raise ArgumentError(f"OneCycleLr(rising) is {self.rising!r}; expected a part of the steps, in [0, 1]")
        for name in ("start_factor", "end_factor"):
            if at_least_zero(getattr(self, name), f"OneCycleLr({name})") == 0:
                raise ArgumentError(f"OneCycleLr({name}) is 0, and is divided by")
        if self.shape not in ("cosine", "linear"):
            raise ArgumentError(f'OneCycleLr(shape) is {self.shape!r}; expected "cosine" or "linear"')

    def at(self, step: int) -> float:
        """Return the learning rate in the phase of the step."""
        first = self.peak / self.start_factor
        last = first / self.end_factor
        if step >= self.steps:
            return last
        top = self.rising * self.steps - 1
        phases = [(top, first, self.peak), (self.steps - 1.0, self.peak, last)]
        if self.three_phase:
            phases[1:] = [(2 * top, self.peak, first), (self.steps - 1.0, first, last)]
        begin = 0.0
        for end, low, high in phases:
            if step <= end:
                done = (step - begin) / (end - begin) if end > begin else 1.0
                return cosine(low, high, done) if self.shape == "cosine" else low + (high - low) * done
            begin = end
        return last
