"""Schedules match PyTorch's values, as pure functions of the step."""

from __future__ import annotations

import math
import pickle
import re
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import Tensor
from burnpy.backend import NumPy, errors
from burnpy.optim import (
    ConstantLr,
    CosineLr,
    CosineRestartsLr,
    CyclicLr,
    ExponentialLr,
    LinearLr,
    LrSchedule,
    MultiStepLr,
    NoamLr,
    OneCycleLr,
    PolynomialLr,
    ProductLr,
    ReduceOnPlateau,
    SequentialLr,
    StepLr,
    WarmUpLr,
)
from burnpy.record import load, save
from tests.rows import every_row

EXPECTED: list[tuple[LrSchedule, list[float]]] = [
    # What torch.optim.lr_scheduler's of PyTorch 2.13 give, step by step.
    (LinearLr(0.25, 1.0, 3), [0.25, 0.5, 0.75, 1.0, 1.0]),
    (PolynomialLr(1.0, 4, power=2.0), [1.0, 0.5625, 0.25, 0.0625, 0.0, 0.0]),
    (CosineLr(1.0, 4, end=0.1), [1.0, 0.868198052, 0.55, 0.231801948, 0.1]),
    (CosineRestartsLr(1.0, 2, factor=2, end=0.1), [1.0, 0.55, 1.0, 0.868198052, 0.55, 0.231801948, 1.0, 0.96574579]),
    (ExponentialLr(1.0, 0.9), [1.0, 0.9, 0.81, 0.729, 0.6561]),
    (StepLr(1.0, every=2, factor=0.3), [1.0, 1.0, 0.3, 0.3, 0.09, 0.09]),
    (MultiStepLr(1.0, (1, 3), factor=0.3), [1.0, 0.3, 0.3, 0.09, 0.09]),
    (
        OneCycleLr(1.0, 10),
        [0.04, 0.52, 1.0, 0.950484632, 0.811745654, 0.611262022, 0.388741978, 0.188258346, 0.049519368],
    ),
    (
        OneCycleLr(1.0, 10, rising=0.4, shape="linear", three_phase=True),
        [0.04, 0.36, 0.68, 1.0, 0.68, 0.36, 0.04, 0.026668, 0.013336],
    ),
    (SequentialLr((LinearLr(0.5, 1.0, 2), ExponentialLr(1.0, 0.9)), (2,)), [0.5, 0.75, 1.0, 0.9, 0.81]),
    (LinearLr(0.5, 1.0, 2) * ExponentialLr(1.0, 0.9), [0.5, 0.675, 0.81, 0.729, 0.6561]),
    (CyclicLr(0.0, 1.0, 2, 3), [0.0, 0.5, 1.0, 2 / 3, 1 / 3, 0.0, 0.5]),
    (CyclicLr(0.1, 1.1, 2, mode="triangular2"), [0.1, 0.6, 1.1, 0.6, 0.1, 0.35, 0.6, 0.35]),
    (CyclicLr(0.0, 1.0, 2, mode="exp_range", factor=0.5), [0.0, 0.25, 0.25, 0.0625, 0.0]),
    # PyTorch has none of these.
    (ConstantLr(0.3), [0.3, 0.3]),
    (WarmUpLr(2, CosineLr(1.0, 4), start=0.5), [0.5, 0.75, 1.0, 0.853553391, 0.5, 0.146446609, 0.0, 0.0]),
    (WarmUpLr(3, ConstantLr(1.0)), [0.25, 0.5, 0.75, 1.0, 1.0]),
    (OneCycleLr(1.0, 10, rising=0.1), [1.0, 0.969846431]),
    (OneCycleLr(1.0, 3, rising=1.0, three_phase=True), [0.04, 0.52, 1.0, 4e-6, 4e-6]),
    (NoamLr(2.0, warm_up=2, size=4), [1 / 2**1.5, 1 / 2**0.5, 1 / 3**0.5]),
    (0.5 * ConstantLr(0.5) * 0.5, [0.125]),
]


@every_row("schedule, expected", EXPECTED, ids=lambda value: type(value).__name__)
def test_numbers(schedule: LrSchedule, expected: list[float]) -> None:
    assert [schedule(step) for step in range(len(expected))] == pytest.approx(expected, abs=1e-9)


@every_row("schedule", [schedule for schedule, _ in EXPECTED], ids=lambda value: type(value).__name__)
def test_they_are_plain_values(schedule: LrSchedule) -> None:
    other = pickle.loads(pickle.dumps(schedule))
    assert other == schedule
    assert hash(other) == hash(schedule)
    assert [other(step) for step in (7, 0, 3)] == [schedule(step) for step in (7, 0, 3)]
    assert schedule(np.int64(3)) == schedule(3)  # type: ignore[arg-type]
    assert isinstance(schedule(2), float)
    for step in (10**6, 10**9):
        assert math.isfinite(schedule(step))
    with pytest.raises(FrozenInstanceError):
        schedule.lr = 1.0  # type: ignore[attr-defined]
    for step in (-1, 1.0, True, None, "1"):  # type: ignore[assignment]
        with pytest.raises(errors.ArgumentError, match="the step of"):
            schedule(step)


def test_after_the_last_step_the_rate_stays() -> None:
    assert CosineLr(1.0, 4, end=0.1)(100) == pytest.approx(0.1)
    assert OneCycleLr(1.0, 10)(9) == OneCycleLr(1.0, 10)(1000) == pytest.approx(1 / 25 / 1e4)


@every_row(
    "make, message",
    [
        (lambda: ConstantLr(-0.1), "ConstantLr(lr=) is -0.1; expected a finite number that is not negative"),
        (lambda: ConstantLr(math.nan), "ConstantLr(lr=) is NaN"),
        (lambda: LinearLr(0.0, math.inf, 3), "LinearLr(end=) is inf; expected a finite number"),
        (lambda: LinearLr(0.0, 1.0, 0), "LinearLr(steps=) is 0; expected an int of 1 or more"),
        (lambda: LinearLr(0.0, 1.0, 2.5), "LinearLr(steps=) is 2.5; expected an int"),  # type: ignore[arg-type]
        (lambda: PolynomialLr(1.0, 4, power=-1.0), "PolynomialLr(power=) is -1.0; expected"),
        (lambda: CosineLr(1.0, 4, end=-0.1), "CosineLr(end=) is -0.1; expected"),
        (lambda: CosineRestartsLr(1.0, 4, factor=0), "CosineRestartsLr(factor=) is 0; expected"),
        (lambda: ExponentialLr(1.0, -0.5), "ExponentialLr(factor=) is -0.5; expected"),
        (lambda: StepLr(1.0, every=0), "StepLr(every=) is 0; expected"),
        (lambda: MultiStepLr(1.0, (3, 1)), "MultiStepLr(milestones=) got (3, 1); each is no earlier"),
        (lambda: MultiStepLr(1.0, 3), "MultiStepLr(milestones=) got 3; give a tuple of steps"),  # type: ignore[arg-type]
        (lambda: NoamLr(1.0, warm_up=0, size=4), "NoamLr(warm_up=) is 0; expected"),
        (lambda: CyclicLr(1.0, 0.5), "CyclicLr(peak=) is 0.5, which is less than start=1.0"),
        (lambda: CyclicLr(0.0, 0.5, 0), "CyclicLr(rising=) is 0; expected"),
        (lambda: CyclicLr(0.0, 0.5, falling=0), "CyclicLr(falling=) is 0; expected"),
        (lambda: CyclicLr(0.0, 0.5, mode="square"), 'expected "triangular", "triangular2" or "exp_range"'),  # type: ignore[arg-type]
        (lambda: ReduceOnPlateau(lr=-1.0), "ReduceOnPlateau(lr=) is -1.0; expected"),
        (lambda: ReduceOnPlateau(lr=1.0, factor=1.0), "(factor=) is 1.0; expected a number of at least 0 and less"),
        (lambda: ReduceOnPlateau(lr=1.0, patience=-1), "(patience=) is -1; expected an int of 0 or more"),
        (lambda: ReduceOnPlateau(lr=1.0, best="low"), "(best=) must be a number, got 'low'"),  # type: ignore[arg-type]
        (lambda: ReduceOnPlateau(lr=1.0).observe("low"), "takes a number or a tensor of one element, got 'low'"),  # type: ignore[arg-type]
        (lambda: ReduceOnPlateau(lr=1.0, mode="least"), 'expected "min" or "max"'),  # type: ignore[arg-type]
        (lambda: ReduceOnPlateau(lr=1.0, threshold_mode="none"), 'expected "rel" or "abs"'),  # type: ignore[arg-type]
        (lambda: OneCycleLr(1.0, 10, rising=1.5), "OneCycleLr(rising=) is 1.5; expected a part of the steps"),
        (lambda: OneCycleLr(1.0, 10, start_factor=0.0), "OneCycleLr(start_factor=) is 0; expected"),
        (lambda: OneCycleLr(1.0, 10, shape="square"), 'expected "cosine" or "linear"'),  # type: ignore[arg-type]
        (lambda: OneCycleLr(1.0, 1), "OneCycleLr(steps=) is 1; expected an int of 2 or more"),
        (lambda: WarmUpLr(0, ConstantLr(1.0)), "WarmUpLr(steps=) is 0; expected"),
        (lambda: WarmUpLr(3, 0.1), "WarmUpLr(after=) got 0.1, which is not a schedule"),  # type: ignore[arg-type]
        (lambda: SequentialLr((ConstantLr(1.0),), (2,)), "got 1 schedules and 1 milestones"),
        (lambda: SequentialLr((), ()), "SequentialLr() got (); give a tuple of schedules"),
        (lambda: SequentialLr((ConstantLr(1.0), 0.1), (2,)), "got 0.1, which is not a schedule"),  # type: ignore[arg-type]
        (lambda: ProductLr(()), "ProductLr() got (); give a tuple of schedules"),
        (lambda: ConstantLr(1.0) * "2", "ConstantLr(lr=) must be a number, got '2'"),  # type: ignore[operator]
        (lambda: ExponentialLr(1.0, 2.0)(10**6), "learning rate 1.0 · 2.0^1000000 is too large"),
    ],
)
def test_mistakes(make: Any, message: str) -> None:
    with pytest.raises(errors.ArgumentError, match=re.escape(message)):
        make()


def test_a_rate_falls_on_a_plateau_and_no_further_than_the_least() -> None:
    plateau = ReduceOnPlateau(lr=1.0, mode="max", factor=0.5, patience=1, cooldown=1, min_lr=0.3, threshold_mode="abs")
    rates = []
    for metric in (0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, math.nan, 0.6, Tensor[NumPy].from_data(0.7)):
        plateau = pickle.loads(pickle.dumps(plateau)).observe(metric)
        rates.append(plateau.lr)
    assert rates == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.3, 0.3, 0.3, 0.3]
    assert plateau.best == pytest.approx(0.7)
    assert plateau.bad == 0
    assert ReduceOnPlateau(lr=1.0).observe(math.inf).best is None


def test_a_plateau_is_saved_to_a_file(tmp_path: Path) -> None:
    for plateau in (ReduceOnPlateau(lr=1.0), ReduceOnPlateau(lr=1.0, cooldown=2, patience=0).observe(1.0).observe(2.0)):
        save(tmp_path / "run.safetensors", plateau=plateau)
        assert ReduceOnPlateau(**load(tmp_path / "run.safetensors").plateau) == plateau
