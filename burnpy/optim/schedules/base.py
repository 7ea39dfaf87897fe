"""`LrSchedule`: the base class of schedules."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from burnpy.backend.errors import ArgumentError
from burnpy.nn.call_errors import Explaining
from burnpy.optim.checks import count

if TYPE_CHECKING:
    from burnpy.optim.schedules.composed import ProductLr


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
        from burnpy.optim.schedules.composed import ProductLr
        from burnpy.optim.schedules.simple import ConstantLr

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
        raise ArgumentError(f"{what} was given {value!r:.80}, which is no schedule; for a number, ConstantLr(number)")
    return value
