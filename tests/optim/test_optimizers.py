"""Optimizers match PyTorch's results, step by step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Tensor
from burnpy.backend import NumPy
from burnpy.optim import (
    AdaDelta,
    Adafactor,
    AdaGrad,
    Adam,
    Adamax,
    AdamW,
    LBfgs,
    Lion,
    NAdam,
    Optimizer,
    RAdam,
    RmsProp,
    Sgd,
)
from burnpy.optim.optimizers.adam import radam_rates
from burnpy.optim.optimizers.sgd import asgd_rates
from burnpy.optim.update_formula import Step, UpdateCount
from tests.optim.models import Train, gradients, vector
from tests.rows import every_row

GRADIENTS = ((0.5, -1.0), (-0.25, 0.75), (1.0, 2.0), (0.125, -0.5))
EXPECTED: list[tuple[Optimizer, list[float]]] = [
    # After four steps from (1, -2) with a rate of 0.1: what torch.optim's of PyTorch 2.13 give in float64.
    (Sgd(), [0.8625, -2.125]),
    (Sgd(weight_decay=0.1), [0.82508356, -2.04566962]),
    (Sgd(momentum=0.9), [0.6933, -2.18935]),
    (Sgd(momentum=0.9, dampening=0.5, weight_decay=0.1), [0.701068145, -1.8022741025]),
    (Sgd(momentum=0.9, nesterov=True), [0.58647, -2.295415]),
    (Adam(), [0.7476574665, -1.970020384204]),
    (Adam(betas=(0.8, 0.9), eps=1e-3, weight_decay=0.1), [0.716801679472, -1.936674752203]),
    (Adam(amsgrad=True, betas=(0.5, 0.5)), [0.784075793206, -2.014563426133]),
    (AdamW(), [0.744082214527, -1.962299406015]),
    (AdamW(amsgrad=True, betas=(0.5, 0.5), weight_decay=0.1), [0.74836470946, -1.937576842896]),
    (RmsProp(), [-0.534961896962, -2.243031203229]),
    (RmsProp(centered=True), [-0.545551656796, -2.240216253719]),
    (RmsProp(alpha=0.9, momentum=0.5, weight_decay=0.1), [0.113969459176, -1.95475930003]),
    (RmsProp(alpha=0.9, momentum=0.5, centered=True), [0.147149499833, -2.072617854378]),
    (AdaGrad(), [0.846587680585, -2.024060796508]),
    (NAdam(), [0.813768692631, -2.027999530832]),
    (
        NAdam(betas=(0.8, 0.9), eps=1e-3, weight_decay=0.1, decoupled_weight_decay=True),
        [0.762319994032, -1.95794184239],
    ),
    (RAdam(), [0.861415401156, -1.995193134106]),
    (RAdam(betas=(0.5, 0.8), weight_decay=0.1), [0.82148481219, -1.990532037079]),
    (Adamax(), [0.800833464466, -1.943658448307]),
    (Adamax(maximize=True, weight_decay=0.1), [1.163466851605, -2.021467038004]),
    (AdaDelta(eps=1e-3), [0.980909039558, -2.008168983588]),
    (AdaGrad(lr_decay=0.1, initial_sum=0.5, weight_decay=0.1), [0.875940574545, -1.989752795513]),
]


@every_row("optim, expected", EXPECTED, ids=lambda value: repr(value))
def test_four_steps(optim: Optimizer, expected: list[float]) -> None:
    model = vector(1.0, -2.0)
    for grad in GRADIENTS:
        model = optim.step(0.1, model, gradients(model, grad))
    assert model.w.value.tolist() == pytest.approx(expected, rel=0, abs=2e-12)


def sgd(p: float, g: float, state: dict[str, float], lr: float, t: int) -> float:
    g += 0.1 * p
    state["v"] = g if t == 1 else 0.9 * state["v"] + 0.5 * g
    return p - lr * state["v"]


def adam(p: float, g: float, state: dict[str, float], lr: float, t: int) -> float:
    state["m"] = 0.9 * state.get("m", 0.0) + 0.1 * g
    state["v"] = 0.99 * state.get("v", 0.0) + 0.01 * g * g
    m, v = state["m"] / (1 - 0.9**t), state["v"] / (1 - 0.99**t)
    return p - lr * m / (math.sqrt(v) + 1e-8)


def adamw(p: float, g: float, state: dict[str, float], lr: float, t: int) -> float:
    return adam(p * (1 - lr * 0.1), g, state, lr, t)


def rmsprop(p: float, g: float, state: dict[str, float], lr: float, t: int) -> float:
    state["s"] = 0.9 * state.get("s", 0.0) + 0.1 * g * g
    state["a"] = 0.9 * state.get("a", 0.0) + 0.1 * g
    state["b"] = 0.5 * state.get("b", 0.0) + g / (math.sqrt(state["s"] - state["a"] ** 2) + 1e-8)
    return p - lr * state["b"]


def adagrad(p: float, g: float, state: dict[str, float], lr: float, t: int) -> float:
    state["s"] = state.get("s", 0.5) + g * g
    return p - lr / (1 + (t - 1) * 0.1) * g / (math.sqrt(state["s"]) + 1e-10)


def lion(p: float, g: float, state: dict[str, float], lr: float, t: int) -> float:
    m = state.get("m", 0.0)
    state["m"] = 0.8 * m + 0.2 * g
    return p * (1 - lr * 0.1) - lr * math.copysign(1.0, 0.5 * m + 0.5 * g)


Formula = Callable[[float, float, dict[str, float], float, int], float]
FORMULAS: list[tuple[Optimizer, Formula]] = [
    (Sgd(momentum=0.9, dampening=0.5, weight_decay=0.1), sgd),
    (Adam(betas=(0.9, 0.99)), adam),
    (AdamW(betas=(0.9, 0.99), weight_decay=0.1), adamw),
    (RmsProp(alpha=0.9, momentum=0.5, centered=True), rmsprop),
    (AdaGrad(lr_decay=0.1, initial_sum=0.5), adagrad),
    (Lion(betas=(0.5, 0.8), weight_decay=0.1), lion),
]


@every_row("optim, formula", FORMULAS, ids=lambda value: getattr(value, "__name__", ""))
def test_every_step_is_the_formula_with_the_rate_of_that_step(optim: Optimizer, formula: Formula) -> None:
    model, p, state = vector(1.0), 1.0, dict[str, float]()
    for t in range(1, 30):
        grad, lr = math.sin(3.0 * t) + p, 0.1 / t
        model = optim.step(lr, model, gradients(model, [grad]))
        p = formula(p, grad, state, lr, t)
        assert model.w.value.tolist() == pytest.approx([p], rel=1e-12, abs=1e-12)


def test_half_precision_and_0d() -> None:
    optims = (Sgd(momentum=0.9), Adam(), RmsProp(), AdaGrad(), NAdam(), RAdam(), Adamax(), AdaDelta(eps=1e-3), Lion())
    for optim in (*optims, LBfgs()):
        model = vector(1.0, 2.0, dtype="float16")
        for _ in range(3):
            model = optim.step(0.1, model, gradients(model, [1.0, -1.0]))
        assert model.w.dtype == "float16"
        assert all(math.isfinite(x) for x in model.w.value.tolist())


def test_the_momentum_of_nadam_does_not_depend_on_the_steps_of_others() -> None:
    """The product of the momenta is cached, for all optimizers with the same settings."""

    def trained() -> list[float]:
        model, optim = vector(1.0, -2.0), NAdam()
        for grad in GRADIENTS:
            model = optim.step(0.1, model, gradients(model, grad))
            other = vector(1.0)
            NAdam().step(0.1, other, gradients(other, [1.0]))  # starts with the first update
        return model.w.value.tolist()  # type: ignore[no-any-return]  # of a vector

    assert trained() == trained() == pytest.approx([0.813768692631, -2.027999530832], rel=0, abs=2e-12)


def test_a_variance_that_is_negative_by_rounding_is_zero() -> None:
    optim, grad, model = RmsProp(alpha=0.5, centered=True), np.linspace(0.1, 3.0, 50), vector(*[0.0] * 50)
    for _ in range(60):
        model = optim.step(0.1, model, gradients(model, grad.tolist()))
    assert not model.w.value.isnan().any().item()


def test_settings_are_shown_and_fixed() -> None:
    assert repr(Adam(eps=1e-6)) == (
        "Adam(weight_decay=0.0, maximize=False, groups=(), master_weights=False, betas=(0.9, 0.999), eps=1e-06, "
        "amsgrad=False)"
    )
    with pytest.raises(AttributeError):
        Adam().eps = 1.0  # type: ignore[misc]  # which is the point


@every_row(("dtype", "scale"), [("float32", 1e19), ("float32", 1e30), ("float16", 3e4), ("float64", 1e200)])
@every_row("shape", [(3, 4), (2, 3, 4), (5,), ()])
def test_adafactor_steps_as_far_for_large_gradients(dtype: str, scale: float, shape: tuple[int, ...]) -> None:
    """Squares beyond the dtype's numbers neither overflow nor change the size of a step."""
    signs = np.where(np.arange(np.prod(shape)).reshape(shape) % 3, 1.0, -1.0)
    start: Any = Tensor[Train].ones(shape, dtype=dtype).require_grad()
    small, large = (
        Adafactor(d=1.0).step(0.1, start, Tensor[NumPy].from_data(signs * size, dtype=dtype)) for size in (1.0, scale)
    )
    np.testing.assert_allclose(large.double().to_numpy(), small.double().to_numpy(), rtol=2e-3)


@pytest.mark.parametrize("rates", [None, 1])
def test_numbers_of_an_update_that_only_the_device_counts(rates: int | None) -> None:
    """All of them are in a table, for one rate if they are not proportional to it."""
    device: Any = NumPy()
    count = UpdateCount(device, device.discrete.full((), 4, np.dtype("int64")))
    step, formula = Step(0.5, 9, updates=count), asgd_rates if rates is None else radam_rates
    settings = (0.1, 0.5, 1.0) if rates is None else (0.9, 0.99)
    found = [device.to_numpy(x).item() for x in step.numbers(formula, rates, *settings)]
    np.testing.assert_allclose(found, formula(5, 0.5, *settings), rtol=1e-15)
