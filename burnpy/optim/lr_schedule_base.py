"""`LrSchedule`, the base class of learning-rate schedules; products, sequences and warm-up; `ReduceOnPlateau`.

A schedule is a plain value without state: to resume training, save the number of the step. It can be pickled, compared,
and multiplied.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Literal, Self, SupportsFloat

from burnpy.backend.errors import ArgumentError
from burnpy.optim.settings import Ranges, at_least_zero, check_ranges, count, fraction, number
from burnpy.tensor.call_errors import Explaining, next_value, refuse_attribute
from burnpy.tensor.tensor_base import describe


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

    if not TYPE_CHECKING:  # type checkers see only the attributes of the class
        __getattr__ = refuse_attribute

    def __mul__(self, other: LrSchedule | float) -> ProductLr:
        """Multiply with another schedule or with a number.

        >>> (ConstantLr(0.5) * 0.5)(3)
        0.25
        """
        if isinstance(other, LrSchedule):
            return ProductLr((self, other))
        return ProductLr((self, ConstantLr(other)))

    __rmul__ = __mul__


def ascending(milestones: object, what: str, repeated: bool = False) -> tuple[int, ...]:
    """Return milestones as a tuple, checked to be ascending steps, which may be ``repeated``; ``what`` names them."""
    if not isinstance(milestones, (tuple, list)):
        raise ArgumentError(f"{what} got {milestones!r:.80}; give a tuple of steps")
    steps = tuple(count(step, f"one of {what}", least=0) for step in milestones)
    if any(a > b or (a == b and not repeated) for a, b in pairwise(steps)):
        order = "no earlier" if repeated else "later"
        raise ArgumentError(f"{what} got {steps}; each is {order} than the one before it")
    return steps


def schedule_of(value: object, what: str) -> LrSchedule:
    """Return ``value``, checked to be a schedule. ``what`` names it in messages."""
    if not isinstance(value, LrSchedule):
        raise ArgumentError(f"{what} got {value!r:.80}, which is not a schedule; for a number, ConstantLr(number)")
    return value


def schedules_of(schedules: object, what: str) -> tuple[LrSchedule, ...]:
    """Return ``schedules`` as a tuple, checked to be of schedules and not empty. ``what`` names them in messages."""
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


@dataclass(frozen=True, kw_only=True)
class ReduceOnPlateau(metaclass=Explaining):
    """A learning rate that is reduced when a metric has not improved for more than ``patience`` observations.

    It is immutable: `observe` takes a new value of the metric, such as the validation loss of an epoch, and returns the
    next `ReduceOnPlateau`, whose ``lr`` is the rate from then on. `burnpy.record.save` saves its fields, and
    ``ReduceOnPlateau(**record.plateau)`` restores it. The rates equal those of
    `torch.optim.lr_scheduler.ReduceLROnPlateau`::

        plateau = ReduceOnPlateau(lr=0.1)
        for epoch in range(epochs):
            ...                                   # model = optim.step(plateau.lr, model, grads), for each batch
            plateau = plateau.observe(validation_loss)

    Args:
        lr: the learning rate.
        mode: "min" if a smaller metric is better, "max" if a larger one is.
        factor: the factor by which the rate is multiplied, in [0, 1).
        patience: the number of observations without improvement that are tolerated.
        threshold: the least improvement that counts.
        threshold_mode: "rel" if the threshold is relative to the best metric, "abs" if it is a difference.
        cooldown: the number of observations after a reduction that are not counted as being without improvement.
        min_lr: the smallest rate.
        eps: the rate is not reduced if it would change by no more than this.
        best: the best metric observed; None if there was none.
        bad: the number of observations without improvement since the best, or since the last reduction.
        cooling: the number of observations left of the cooldown.

    Raises:
        ArgumentError: a number is out of range, or a mode is unknown.

    >>> plateau, rates = ReduceOnPlateau(lr=1.0, factor=0.5, patience=1), []
    >>> for loss in (3.0, 2.0, 2.0, 2.1, 1.9):
    ...     plateau = plateau.observe(loss)
    ...     rates.append(plateau.lr)
    >>> rates
    [1.0, 1.0, 1.0, 0.5, 0.5]
    """

    lr: float
    mode: Literal["min", "max"] = "min"
    factor: float = 0.1
    patience: int = 10
    threshold: float = 1e-4
    threshold_mode: Literal["rel", "abs"] = "rel"
    cooldown: int = 0
    min_lr: float = 0.0
    eps: float = 1e-8
    best: float | None = None
    bad: int = 0
    cooling: int = 0

    def __post_init__(self) -> None:
        for name in ("lr", "threshold", "min_lr", "eps"):
            at_least_zero(getattr(self, name), f"ReduceOnPlateau({name}=)")
        fraction(self.factor, "ReduceOnPlateau(factor=)")
        if self.best is not None:
            number(self.best, "ReduceOnPlateau(best=)")
        for name in ("patience", "cooldown", "bad", "cooling"):
            count(getattr(self, name), f"ReduceOnPlateau({name}=)", least=0)
        for name, known in (("mode", ("min", "max")), ("threshold_mode", ("rel", "abs"))):
            if getattr(self, name) not in known:
                raise ArgumentError(
                    f'ReduceOnPlateau({name}=) is {getattr(self, name)!r}; expected "{known[0]}" or "{known[1]}"'
                )

    if not TYPE_CHECKING:  # type checkers see only the attributes of the class
        __getattr__ = refuse_attribute

    @next_value
    def observe(self, metric: SupportsFloat) -> Self:
        """Return the next value, after one more observation of the metric: a number or a tensor of one element.

        NaN is no improvement.

        Raises:
            ArgumentError: the metric is something else.
        """
        try:
            current = float(metric)
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                f"ReduceOnPlateau.observe() takes a number or a tensor of one element, got {describe(metric)}"
            ) from error
        best, bad, cooling, lr = self.best, self.bad, self.cooling, self.lr
        if self._improves(current):
            best, bad = current, 0
        else:
            bad += 1
        if cooling:
            cooling, bad = cooling - 1, 0
        if bad > self.patience:
            cooling, bad = self.cooldown, 0
            reduced = max(lr * self.factor, self.min_lr)
            if lr - reduced > self.eps:
                lr = reduced
        return replace(self, lr=lr, best=best, bad=bad, cooling=cooling)

    def into_record(self) -> dict[str, float | int | str | None]:
        """Return all fields by name, for `burnpy.record.save`."""
        return asdict(self)

    def _improves(self, metric: float) -> bool:
        sign = 1.0 if self.mode == "max" else -1.0
        best = sign * -math.inf if self.best is None else self.best
        margin = sign * self.threshold
        bound = best + margin if self.threshold_mode == "abs" else best * (1.0 + margin)
        return metric > bound if self.mode == "max" else metric < bound
