"""Schedules composed of other schedules."""

from __future__ import annotations

from dataclasses import dataclass

from burnpy.backend.errors import ArgumentError
from burnpy.optim.matching import at_least_zero, count
from burnpy.optim.schedules.lr_schedule import LrSchedule, schedule_of, schedules_of
from burnpy.optim.schedules.schedule_formulas import ascending


@dataclass(frozen=True)
class WarmUpLr(LrSchedule):
    """Linear warm-up to the initial rate of ``after`` within ``steps`` steps, followed by ``after``.

    Equal to PyTorch's `LinearLR`, with ``start`` as its ``start_factor``, followed by ``after`` in a `SequentialLR`.

    Args:
        steps: the number of warm-up steps.
        after: the schedule after the warm-up, counted from 0 at its start.
        start: the initial rate as a fraction of ``after(0)``. By default 1 / (steps + 1), so that all increments are
            equal; with 0 the first update would not change any weight.

    Raises:
        ArgumentError: a number is out of range, or ``after`` is not a schedule.

    >>> from burnpy.optim import ConstantLr
    >>> [WarmUpLr(4, ConstantLr(1.0))(step) for step in range(6)]
    [0.2, 0.4, 0.6, 0.8, 1.0, 1.0]
    """

    steps: int
    after: LrSchedule
    start: float | None = None

    def __post_init__(self) -> None:
        count(self.steps, "WarmUpLr(steps)")
        schedule_of(self.after, "WarmUpLr(after)")
        if self.start is not None:
            at_least_zero(self.start, "WarmUpLr(start)")

    def at(self, step: int) -> float:
        """Return the learning rate of a step."""
        if step >= self.steps:
            return self.after.at(step - self.steps)
        if self.start is None:
            return self.after.at(0) * (step + 1) / (self.steps + 1)
        return self.after.at(0) * (self.start + (1.0 - self.start) * step / self.steps)


@dataclass(frozen=True)
class SequentialLr(LrSchedule):
    """A sequence of schedules, each counted from 0 at its start, as `torch.optim.lr_scheduler.SequentialLR`.

    Args:
        schedules: the schedules.
        milestones: the steps at which the second, third … schedule begins.

    Raises:
        ArgumentError: there is not one milestone less than schedules, or the milestones do not ascend.

    >>> from burnpy.optim import ConstantLr, LinearLr
    >>> [SequentialLr((ConstantLr(1.0), LinearLr(1.0, 0.0, 2)), (2,))(step) for step in range(5)]
    [1.0, 1.0, 1.0, 0.5, 0.0]
    """

    schedules: tuple[LrSchedule, ...]
    milestones: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedules", schedules_of(self.schedules, "SequentialLr()"))
        object.__setattr__(self, "milestones", ascending(self.milestones, "SequentialLr(milestones)"))
        if len(self.milestones) != len(self.schedules) - 1:
            parts, milestones = len(self.schedules), len(self.milestones)
            raise ArgumentError(
                f"SequentialLr() got {parts} schedules and {milestones} milestones; of these there is one fewer, "
                "where the second, third … begin"
            )

    def at(self, step: int) -> float:
        """Return the learning rate of the schedule that is active at the step."""
        passed = [milestone for milestone in self.milestones if milestone <= step]
        return self.schedules[len(passed)].at(step - (passed[-1] if passed else 0))
