"""L-BFGS: its search for a step, its estimate of the Hessian, and what its function may not do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.backend import NumPy, errors
from burnpy.nn import BatchNorm, Linear, Module, Sequential
from burnpy.optim import GradientsParams, LBfgs, OptimizerRecord
from burnpy.optim.optimizers.line_search import strong_wolfe
from burnpy.record import load, save
from tests.rows import every_row

Train = Autodiff[NumPy]


def leaf(*values: float) -> Tensor[Any]:
    return Tensor[Train].from_data([*values], dtype="float64").require_grad()


def valley(p: Tensor[Any]) -> Tensor[Any]:
    """Rosenbrock's function."""
    return (1.0 - p[0]) ** 2 + 100.0 * (p[1] - p[0] ** 2) ** 2


def of_valley(p: Tensor[Any]) -> Any:
    loss = valley(p)
    return loss, loss.backward()


@dataclass(frozen=True)
class On:
    """A point of a function of one number."""

    distance: float
    value: float
    slope: float


FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "parabola": (lambda t: (t - 3.0) ** 2, lambda t: 2 * (t - 3.0)),
    "far": (lambda t: (t / 500.0 - 1.0) ** 4, lambda t: 4 / 500.0 * (t / 500.0 - 1.0) ** 3),
    "near": (lambda t: math.cosh(20.0 * (t - 0.01)), lambda t: 20.0 * math.sinh(20.0 * (t - 0.01))),
    "waves": (lambda t: 0.1 * t * t - math.sin(3.0 * t), lambda t: 0.2 * t - 3.0 * math.cos(3.0 * t)),
    "a pole": (
        lambda t: -math.log(1.0 - t) - 2.0 * t if t < 1 else math.inf,
        lambda t: 1.0 / (1.0 - t) - 2.0 if t < 1 else math.nan,
    ),
}


@every_row("first", [1e-3, 1.0, 30.0])
@every_row("name", FUNCTIONS)
def test_the_conditions_hold_at_the_point_that_is_found(name: str, first: float) -> None:
    f, slope = FUNCTIONS[name]
    seen: list[float] = []

    def at(t: float) -> On:
        seen.append(t)
        return On(t, f(t), slope(t))

    start = On(0.0, f(0.0), slope(0.0))
    found, count = strong_wolfe(at, start, first, resolution=1e-12)
    assert count == len(seen) <= 26
    assert found.value <= start.value + 1e-4 * found.distance * start.slope
    assert abs(found.slope) <= 0.9 * abs(start.slope)


def test_a_function_that_falls_for_ever_ends_the_search() -> None:
    found, count = strong_wolfe(lambda t: On(t, -t, -1.0), On(0.0, 0.0, -1.0), 1.0, resolution=1e-12, most=5)
    assert count == 6
    assert found.distance > 1.0


def test_a_parabola_of_n_dimensions_takes_about_n_steps() -> None:
    matrix = np.diag(np.linspace(1.0, 50.0, 6))
    a, b = Tensor[Train].from_data(matrix), Tensor[Train].from_data(np.arange(6.0))
    calls = 0

    def loss_and_grads(p: dict[str, Tensor[Any]]) -> Any:
        nonlocal calls
        calls += 1
        whole = p["x"] if "y" not in p else p["x"] + p["y"]
        loss = 0.5 * whole @ a @ whole - b @ whole
        return loss, loss.backward()

    p, loss = LBfgs(max_iter=40).minimize(1.0, {"x": Tensor[Train].from_data(np.zeros(6))}, loss_and_grads)
    np.testing.assert_allclose(p["x"].to_numpy(), np.arange(6.0) / np.diag(matrix), atol=1e-5)
    assert calls <= 25
    assert loss.item() == pytest.approx(-0.5 * np.sum(np.arange(6.0) ** 2 / np.diag(matrix)), rel=1e-9)


def test_calls_go_on_where_the_last_one_ended_also_from_a_file(tmp_path: Path) -> None:
    whole, _ = LBfgs(max_iter=24, max_eval=1000).minimize(1.0, leaf(-1.2, 1.0), of_valley)
    optim, p = LBfgs(max_iter=8, max_eval=1000), leaf(-1.2, 1.0)
    for k in range(3):
        if k == 2:
            save(tmp_path / "run.safetensors", optim=optim, p=p)
            record = load(tmp_path / "run.safetensors")
            optim = LBfgs(max_iter=8, max_eval=1000).load_record(record.part("optim", OptimizerRecord))
        p, _ = optim.minimize(1.0, p, of_valley)
    assert p.tolist() == whole.tolist()
    ((_, step, _),) = optim.state().values()
    assert step == 24


def test_at_the_minimum_nothing_changes() -> None:
    optim, p = LBfgs(), leaf(1.0, 1.0)
    after, loss = optim.minimize(1.0, p, of_valley)
    assert after is p
    assert loss.item() == 0.0
    assert optim.state() == {}
    after, _ = optim.minimize(1.0, after, of_valley)
    assert after is p


def test_maximize_goes_up() -> None:
    def upside_down(p: Tensor[Any]) -> Any:
        loss = -valley(p)
        return loss, loss.backward()

    up, loss = LBfgs(maximize=True).minimize(1.0, leaf(-1.2, 1.0), upside_down)
    down, _ = LBfgs().minimize(1.0, leaf(-1.2, 1.0), of_valley)
    assert up.tolist() == down.tolist()
    assert loss.item() < 0.0


def test_a_model_with_running_statistics() -> None:
    model = Sequential(Linear(3, 4, device=Train), BatchNorm(4, device=Train))
    x = Tensor[Train].normal((20, 3))

    def loss_and_grads(model: Sequential[Any]) -> Any:
        loss = (model(x) - 1.0).square().mean()
        return loss, loss.backward()

    before: dict[str, Any] = dict(model.named_buffers())
    after, loss = LBfgs(max_iter=3).minimize(1.0, model, loss_and_grads)
    assert loss.item() < 1.0
    buffers: dict[str, Any] = dict(after.named_buffers())
    assert all(buffers[path].value.tolist() != buffer.value.tolist() for path, buffer in before.items())


def test_a_frozen_parameter_stays_and_one_that_learns_later_begins_anew() -> None:
    class Two(Module[Any]):
        def __init__(self) -> None:
            self.a, self.b = Linear(2, 1, device=Train), Linear(2, 1, device=Train)

        def forward(self, x: Tensor[Any]) -> Tensor[Any]:
            return self.a(x) + self.b(x).tanh()

    x = Tensor[Train].normal((9, 2))

    def loss_and_grads(model: Two) -> Any:
        loss = (model(x) - 1.0).square().mean()
        return loss, loss.backward()

    model, optim = Two().no_grad(lambda path, param: path.startswith("b")), LBfgs(max_iter=2, max_eval=100)
    fixed = model.b.weight.value.tolist()
    model, first = optim.minimize(1.0, model, loss_and_grads)
    assert model.b.weight.value.tolist() == fixed
    model, second = optim.minimize(1.0, model.require_grad(), loss_and_grads)
    assert second.item() <= first.item()
    assert {step for _, step, _ in optim.state().values()} == {2}


def test_loss_that_is_not_a_number_is_too_high() -> None:
    def loss_and_grads(p: Tensor[Any]) -> Any:
        loss = (p[0].log() - p[0]).neg() + 0.0 * p[1]
        return loss, loss.backward()

    p, loss = LBfgs().minimize(10.0, leaf(0.05, 0.0), loss_and_grads)
    assert loss.item() == pytest.approx(1.0, rel=1e-6)
    assert p[0].item() == pytest.approx(1.0, rel=1e-3)


MISTAKES: list[tuple[Any, type[Exception], str]] = [
    (3.0, errors.KindError, "takes a function"),
    (lambda p: valley(p), errors.KindError, "return the loss and the gradients"),
    (lambda p: (valley(p), p), errors.KindError, r"return loss, loss\.backward\(\)"),
    (lambda p: (p, valley(p).backward()), errors.ShapeError, "0-d"),
]


@pytest.mark.parametrize(("function", "error", "words"), MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes(function: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        LBfgs().minimize(1.0, leaf(0.0, 1.0), function)


def test_the_parameters_have_to_be_the_same_each_time() -> None:
    def loss_and_grads(p: dict[str, Tensor[Any]]) -> Any:
        loss = (p["x"] - 2.0) ** 2 + (p["y"] ** 2 if p["x"].item() == 0.0 else 0.0)
        return loss, loss.backward()

    p = {name: Tensor[Train].from_data(value).require_grad() for name, value in (("x", 0.0), ("y", 1.0))}
    with pytest.raises(errors.ArgumentError, match="no gradient for y from a later evaluation"):
        LBfgs().minimize(1.0, p, loss_and_grads)


def test_a_discarded_result_is_noticed_and_an_error_changes_nothing() -> None:
    optim, p = LBfgs(max_iter=2), leaf(-1.2, 1.0)
    optim.minimize(1.0, p, of_valley)
    with pytest.raises(errors.StateError, match="which it has updated already"):
        optim.minimize(1.0, p, of_valley)

    fresh, calls = LBfgs(), 0

    def failing(p: Tensor[Any]) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise ZeroDivisionError
        return of_valley(p)

    p = leaf(-1.2, 1.0)
    with pytest.raises(ZeroDivisionError):
        fresh.minimize(1.0, p, failing)
    assert fresh.state() == {}
    assert fresh.minimize(1.0, p, of_valley)[1].item() < 1.0


def test_gradients_may_be_of_several_batches() -> None:
    model = Linear(2, 1, device=Train)
    x, y = Tensor[Train].normal((8, 2)), Tensor[Train].normal((8, 1))

    def in_parts(model: Linear[Any]) -> Any:
        losses = [(model(x[k : k + 4]) - y[k : k + 4]).square().mean() for k in (0, 4)]
        parts = [GradientsParams.from_grads(loss.backward(), model) for loss in losses]
        return (losses[0] + losses[1]) / 2, (parts[0] + parts[1]) / 2

    def whole(model: Linear[Any]) -> Any:
        loss = (model(x) - y).square().mean()
        return loss, loss.backward()

    _, one = LBfgs().minimize(1.0, model, in_parts)
    _, other = LBfgs().minimize(1.0, model, whole)
    assert one.item() == pytest.approx(other.item(), rel=1e-4)


def test_a_model_without_gradients_stays_as_it_is() -> None:
    model = Linear(2, 1, device=Train)

    def without_any(model: Linear[Any]) -> Any:
        loss = model(Tensor[Train].ones((3, 2))).square().mean()
        return loss, GradientsParams.from_grads(loss.backward(), model).without(("weight", "bias"))

    new, loss = LBfgs().minimize(1.0, model, without_any)
    assert new is model
    assert loss.item() == without_any(model)[0].item()
