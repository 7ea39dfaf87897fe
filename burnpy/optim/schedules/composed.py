"""Schedules made of schedules."""

from __future__ import annotations

import math
from dataclasses import dataclass

from burnpy.backend.errors import ArgumentError
from burnpy.optim.checks import at_least_zero, count
from burnpy.optim.schedules.base import LrSchedule, schedule_of
from burnpy.optim.schedules.simple import ascending


@dataclass(frozen=True)
class WarmUpLr(LrSchedule):
    """In ``steps`` steps up to where ``after`` begins, in a straight line, and then ``after``.

    It is PyTorch's `LinearLR`, with ``start`` for its ``start_factor``, in a `SequentialLR` with what follows.

    Args:
        steps: how long it takes.
        after: what follows, counted from 0.
        start: which part of ``after(0)`` it begins with. Unless given 1 / (steps + 1), so that every step is as large
            as the first: with 0 the first update would change no weight.

    Raises:
        ArgumentError: a number is out of its range, or ``after`` is no schedule.

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
        """See the class."""
        if step >= self.steps:
            return self.after.at(step - self.steps)
        if self.start is None:
            return self.after.at(0) * (step + 1) / (self.steps + 1)
        return self.after.at(0) * (self.start + (1.0 - self.start) * step / self.steps)


@dataclass(frozen=True)
class SequentialLr(LrSchedule):
    """One schedule after another, each counted from 0 where it begins: `torch.optim.lr_scheduler.SequentialLR`.

    Args:
        schedules: the schedules.
        milestones: the steps at which the second, third … begin.

    Raises:
        ArgumentError: there is not one milestone fewer than schedules, or they do not ascend.

    >>> from burnpy.optim import ConstantLr, LinearLr
    >>> [SequentialLr((ConstantLr(1.0), LinearLr(1.0, 0.0, 2)), (2,))(step) for step in range(5)]
    [1.0, 1.0, 1.0, 0.5, 0.0]
    """

    schedules: tuple[LrSchedule, ...]
    milestones: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedules", _schedules(self.schedules, "SequentialLr()"))
        object.__setattr__(self, "milestones", ascending(self.milestones, "SequentialLr(milestones)"))
        if len(self.milestones) != len(self.schedules) - 1:
            parts, milestones = len(self.schedules), len(self.milestones)
            raise ArgumentError(
                f"SequentialLr() was given {parts} schedules and {milestones} milestones; of these there is one fewer, "
                "where the second, third … begin"
            )

    def at(self, step: int) -> float:
        """Of the schedule that the step is in."""
        behind = [milestone for milestone in self.milestones if milestone <= step]
        return self.schedules[len(behind)].at(step - (behind[-1] if behind else 0))


@dataclass(frozen=True)
class ProductLr(LrSchedule):
    """The product of schedules, one of rates and the others of factors; ``first * second`` is one.

    Raises:
        ArgumentError: there are none.

    >>> from burnpy.optim import ExponentialLr, StepLr
    >>> (StepLr(1.0, every=2, factor=0.5) * ExponentialLr(1.0, 0.5))(3)
    0.0625
    """

    schedules: tuple[LrSchedule, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedules", _schedules(self.schedules, "ProductLr()"))

    def at(self, step: int) -> float:
        """The product at the step."""
        return math.prod(schedule.at(step) for schedule in self.schedules)


def _schedules(given: object, what: str) -> tuple[LrSchedule, ...]:
    if not isinstance(given, (tuple, list)) or not given:
        raise ArgumentError(f"{what} was given {given!r:.80}; give a tuple of schedules")
    return tuple(schedule_of(schedule, what) for schedule in given)
