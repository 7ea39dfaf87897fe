"""`LrSchedule`: the base class of schedules; constant schedules, and schedules composed of others."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from burnpy.backend.errors import ArgumentError
from burnpy.nn.module_errors import Explaining
from burnpy.optim.settings import Ranges, at_least_zero, check_ranges, count


class LrSchedule(metaclass=Explaining):
    """A learning rate schedule: a pure function from the step, counted from 0, to the learning rate.

    To write a schedule, define a frozen dataclass with a method `at`.
    """

    ranges: ClassVar[Ranges] = {}
    """The checks of the settings of a class by name, such as `burnpy.optim.settings.at_least_zero`."""

    def __post_init__(self) -> None:
        check_ranges(self, self.ranges)

    def __call__(self, step: int) -> float:
        """Return the learning rate of a step.

        Raises:
            ArgumentError: ``step`` is not an int, or is negative.
        """
        return self.at(count(step, f"the step of {type(self).__name__}", least=0))

    @abstractmethod
    def at(self, step: int) -> float:
        """Return the learning rate of a step, which is 0 or more."""

    def __mul__(self, other: LrSchedule | float) -> ProductLr:
        """Multiply with another schedule or with a number.

        >>> from burnpy.optim import ConstantLr
        >>> (ConstantLr(0.5) * 0.5)(3)
        0.25
        """
        if isinstance(other, LrSchedule):
            return ProductLr((self, other))
        return ProductLr((self, ConstantLr(other)))

    __rmul__ = __mul__


def ascending(milestones: object, what: str) -> tuple[int, ...]:
    """Return milestones as a tuple, checked to be strictly ascending steps. ``what`` names them in messages.

    Raises:
        ArgumentError: they are anything else.
    """
    if not isinstance(milestones, (tuple, list)):
        raise ArgumentError(f"{what} got {milestones!r:.80}; give a tuple of steps")
    steps = tuple(count(step, f"one of {what}", least=0) for step in milestones)
    if any(a >= b for a, b in pairwise(steps)):
        raise ArgumentError(f"{what} got {steps}; each is later than the one before it")
    return steps


def schedule_of(value: object, what: str) -> LrSchedule:
    """Return ``value``, checked to be a schedule. ``what`` names it in messages.

    Raises:
        ArgumentError: it is not a schedule.
    """
    if not isinstance(value, LrSchedule):
        raise ArgumentError(f"{what} got {value!r:.80}, which is not a schedule; for a number, ConstantLr(number)")
    return value


def schedules_of(schedules: object, what: str) -> tuple[LrSchedule, ...]:
    """Return ``schedules`` as a tuple, checked to be of schedules and not empty. ``what`` names them in messages.

    Raises:
        ArgumentError: there are none, or one is not a schedule.
    """
    if not isinstance(schedules, (tuple, list)) or not schedules:
        raise ArgumentError(f"{what} got {schedules!r:.80}; give a tuple of schedules")
    return tuple(schedule_of(schedule, what) for schedule in schedules)


@dataclass(frozen=True)
class ConstantLr(LrSchedule):
    """A constant learning rate.

    >>> ConstantLr(0.1)(1000)
    0.1
    """

    lr: float

    ranges: ClassVar[Ranges] = {"lr": at_least_zero}

    def at(self, step: int) -> float:
        """Return the constant rate."""
        return self.lr


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
        object.__setattr__(self, "schedules", schedules_of(self.schedules, "ProductLr()"))

    def at(self, step: int) -> float:
        """Return the product of the schedules at the step."""
        return math.prod(schedule.at(step) for schedule in self.schedules)


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

    ranges: ClassVar[Ranges] = {"steps": count, "after": schedule_of}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start is not None:
            at_least_zero(self.start, "WarmUpLr(start=)")

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
        object.__setattr__(self, "milestones", ascending(self.milestones, "SequentialLr(milestones=)"))
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
