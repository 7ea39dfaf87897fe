"""`LrSchedule`: the base class of schedules; constant schedules and products."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

from burnpy.backend.errors import ArgumentError
from burnpy.nn.module_errors import Explaining
from burnpy.optim.matching import at_least_zero, count


class LrSchedule(metaclass=Explaining):
    """A learning rate schedule: a pure function from the step, counted from 0, to the learning rate.

    To write a schedule, define a frozen dataclass with a method `at`.
    """

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

    def __post_init__(self) -> None:
        at_least_zero(self.lr, "ConstantLr(lr)")

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
