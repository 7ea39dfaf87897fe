"""Learning-rate schedules by a formula: linear, stepwise, exponential, polynomial, cosine, cyclic, and one cycle."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from burnpy.backend.errors import ArgumentError
from burnpy.optim.lr_schedule_base import LrSchedule, ascending
from burnpy.optim.settings import Ranges, at_least_zero, count, number


@dataclass(frozen=True)
class LinearLr(LrSchedule):
    """Linear interpolation from ``start`` to ``end`` within ``steps`` steps, constant afterwards.

    Equal to `torch.optim.lr_scheduler.LinearLR`.

    >>> [LinearLr(0.0, 1.0, 4)(step) for step in (0, 1, 4, 9)]
    [0.0, 0.25, 1.0, 1.0]
    """

    start: float
    end: float
    steps: int

    ranges: ClassVar[Ranges] = {"start": at_least_zero, "end": at_least_zero, "steps": count}

    def at(self, step: int) -> float:
        """Return start + (end - start) · t / steps."""
        done = min(step / self.steps, 1.0)
        return self.start * (1.0 - done) + self.end * done


@dataclass(frozen=True)
class PolynomialLr(LrSchedule):
    """Polynomial decay from ``lr`` to 0 within ``steps`` steps, as `torch.optim.lr_scheduler.PolynomialLR`.

    >>> [PolynomialLr(1.0, 4, power=2.0)(step) for step in (0, 2, 4, 9)]
    [1.0, 0.25, 0.0, 0.0]
    """

    lr: float
    steps: int
    power: float = 1.0

    ranges: ClassVar[Ranges] = {"lr": at_least_zero, "steps": count, "power": at_least_zero}

    def at(self, step: int) -> float:
        """Return lr · (1 - t / steps)^power, 0 after ``steps``."""
        return float(self.lr * (1.0 - min(step / self.steps, 1.0)) ** self.power)


@dataclass(frozen=True)
class CosineLr(LrSchedule):
    """Cosine decay from ``lr`` to ``end`` within ``steps`` steps, constant afterwards.

    Up to ``steps`` it equals `torch.optim.lr_scheduler.CosineAnnealingLR`, which rises again after that.

    Source: Loshchilov and Hutter, SGDR: Stochastic gradient descent with warm restarts, 2017.

    >>> [round(CosineLr(1.0, 4)(step), 6) for step in (0, 2, 4, 9)]
    [1.0, 0.5, 0.0, 0.0]
    """

    lr: float
    steps: int
    end: float = 0.0

    ranges: ClassVar[Ranges] = {"lr": at_least_zero, "steps": count, "end": at_least_zero}

    def at(self, step: int) -> float:
        """Return end + (lr - end) · (1 + cos(π t / steps)) / 2."""
        return cosine(self.lr, self.end, min(step / self.steps, 1.0))


@dataclass(frozen=True)
class CosineRestartsLr(LrSchedule):
    """Cosine decay with warm restarts: repeats `CosineLr`, each time ``factor`` times as long.

    Equal to `torch.optim.lr_scheduler.CosineAnnealingWarmRestarts`.

    Source: Loshchilov and Hutter, SGDR: Stochastic gradient descent with warm restarts, 2017.

    >>> [round(CosineRestartsLr(1.0, 2, factor=2)(step), 6) for step in range(7)]
    [1.0, 0.5, 1.0, 0.853553, 0.5, 0.146447, 1.0]
    """

    lr: float
    steps: int
    factor: int = 1
    end: float = 0.0

    ranges: ClassVar[Ranges] = {"lr": at_least_zero, "steps": count, "factor": count, "end": at_least_zero}

    def at(self, step: int) -> float:
        """Return the rate of `CosineLr` in the cycle of the step."""
        length = self.steps
        if self.factor == 1:
            step %= length
        while step >= length:
            step -= length
            length *= self.factor
        return cosine(self.lr, self.end, step / length)


@dataclass(frozen=True)
class ExponentialLr(LrSchedule):
    """Exponential decay, ``lr`` times ``factor`` to the power of the step, as `torch.optim.lr_scheduler.ExponentialLR`.

    >>> ExponentialLr(1.0, 0.5)(3)
    0.125
    """

    lr: float
    factor: float

    ranges: ClassVar[Ranges] = {"lr": at_least_zero, "factor": at_least_zero}

    def at(self, step: int) -> float:
        """Return lr · factorᵗ."""
        return power(self.lr, self.factor, step)


@dataclass(frozen=True)
class StepLr(LrSchedule):
    """Step decay: ``lr``, multiplied by ``factor`` every ``every`` steps, as `torch.optim.lr_scheduler.StepLR`.

    >>> [StepLr(1.0, every=10, factor=0.5)(step) for step in (0, 9, 10, 20)]
    [1.0, 1.0, 0.5, 0.25]
    """

    lr: float
    every: int
    factor: float = 0.1

    ranges: ClassVar[Ranges] = {"lr": at_least_zero, "every": count, "factor": at_least_zero}

    def at(self, step: int) -> float:
        """Return lr · factor^⌊t / every⌋."""
        return power(self.lr, self.factor, step // self.every)


@dataclass(frozen=True)
class MultiStepLr(LrSchedule):
    """Step decay: ``lr``, multiplied by ``factor`` at each milestone, as `torch.optim.lr_scheduler.MultiStepLR`.

    >>> [MultiStepLr(1.0, (10, 30), factor=0.5)(step) for step in (9, 10, 29, 30)]
    [1.0, 0.5, 0.5, 0.25]

    A milestone that is repeated multiplies twice.
    """

    lr: float
    milestones: tuple[int, ...]
    factor: float = 0.1

    ranges: ClassVar[Ranges] = {"lr": at_least_zero, "factor": at_least_zero}

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "milestones", ascending(self.milestones, "MultiStepLr(milestones=)", True))

    def at(self, step: int) -> float:
        """Return lr · factor^n, where n is the number of milestones reached."""
        return power(self.lr, self.factor, sum(milestone <= step for milestone in self.milestones))


@dataclass(frozen=True)
class NoamLr(LrSchedule):
    """The schedule of the original transformer: linear warm-up, then decay as 1/√t.

    The rate is ``lr`` · size^-½ · min(t^-½, t · warm_up^-1½), with t counted from 1.

    Source: Vaswani et al., Attention is all you need, 2017.

    >>> NoamLr(1.0, warm_up=4, size=16)(3)
    0.125
    """

    lr: float
    warm_up: int
    size: int

    ranges: ClassVar[Ranges] = {"lr": at_least_zero, "warm_up": count, "size": count}

    def at(self, step: int) -> float:
        """Return the learning rate of a step."""
        t = step + 1
        return float(self.lr * self.size**-0.5 * min(t**-0.5, t * self.warm_up**-1.5))


def cosine(start: float, end: float, done: float) -> float:
    """Interpolate along half a cosine from ``start``, at ``done`` = 0, to ``end``, at 1."""
    return end + (start - end) * (1.0 + math.cos(math.pi * done)) / 2.0


def power(lr: float, factor: float, exponent: int) -> float:
    """Return lr · factor^exponent.

    Raises:
        ArgumentError: the result is too large for a float.
    """
    try:
        return float(lr * factor**exponent)
    except OverflowError:
        raise ArgumentError(f"the learning rate {lr} · {factor}^{exponent} is too large for a float") from None


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

    ranges: ClassVar[Ranges] = {"start": at_least_zero, "peak": at_least_zero, "rising": count, "factor": at_least_zero}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.peak < self.start:
            raise ArgumentError(f"CyclicLr(peak=) is {self.peak!r}, which is less than start={self.start!r}")
        if self.falling is not None:
            count(self.falling, "CyclicLr(falling=)")
        if self.mode not in ("triangular", "triangular2", "exp_range"):
            modes = '"triangular", "triangular2" or "exp_range"'
            raise ArgumentError(f"CyclicLr(mode=) is {self.mode!r}; expected {modes}")

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
        at_least_zero(self.peak, "OneCycleLr(peak=)")
        count(self.steps, "OneCycleLr(steps=)", least=2)
        if not 0 <= number(self.rising, "OneCycleLr(rising=)") <= 1:
            raise ArgumentError(f"OneCycleLr(rising=) is {self.rising!r}; expected a part of the steps, in [0, 1]")
        for name in ("start_factor", "end_factor"):
            if at_least_zero(getattr(self, name), f"OneCycleLr({name}=)") == 0:
                raise ArgumentError(f"OneCycleLr({name}=) is 0; expected a number above 0")
        if self.shape not in ("cosine", "linear"):
            raise ArgumentError(f'OneCycleLr(shape=) is {self.shape!r}; expected "cosine" or "linear"')

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
