"""`LrSchedule`: what all schedules have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from burnpy.backend.errors import ArgumentError
from burnpy.nn.call_errors import Explaining
from burnpy.optim.checks import count

if TYPE_CHECKING:
    from burnpy.optim.schedules.composed import ProductLr


class LrSchedule(metaclass=Explaining):
    """A learning rate for each step, counted from 0: a pure function with no state to save but the step.

    A schedule of one's own is a frozen dataclass with a method `at`.
    """

    def __call__(self, step: int) -> float:
        """The learning rate of a step.

        Raises:
            ArgumentError: the step is no int, or negative.
        """
        return self.at(count(step, f"the step of {type(self).__name__}", least=0))

    @abstractmethod
    def at(self, step: int) -> float:
        """The learning rate of a step, 0 or more."""

    def __mul__(self, other: LrSchedule | float) -> ProductLr:
        """The product with another schedule, of factors, or with a number.

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
    """A schedule.

    Raises:
        ArgumentError: it is none.
    """
    if not isinstance(value, LrSchedule):
        raise ArgumentError(f"{what} was given {value!r:.80}, which is no schedule; for a number, ConstantLr(number)")
    return value
