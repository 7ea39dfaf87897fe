"""`minimize` and `least_squares` on problems of Moré, Garbow and Hillstrom, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from burnpy import Autodiff, Tensor, compiled, stack
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, ConvergenceError, DTypeError, ShapeError
from burnpy.func import grad, hessian, jacobian, jvp, least_squares, minimize, vmap
from tests.rows import every_row


def x64(data: Any) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(data, dtype="float64")


class Problem(NamedTuple):
    """Residuals, and the least sum of their squares."""

    residuals: Callable[..., list[Any]]
    start: list[float]
    least: float


BARD = np.array([0.14, 0.18, 0.22, 0.25, 0.29, 0.32, 0.35, 0.39, 0.37, 0.58, 0.73, 0.96, 1.34, 2.10, 4.39])
KOWALIK = np.array([0.1957, 0.1947, 0.1735, 0.16, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246])
INVERSE_U = np.array([0.25, 0.5, 1, 2, 4, 6, 8, 10, 12, 14, 16])


def bard(a: Any, b: Any, c: Any) -> list[Any]:
    rows = [(k, 16 - k, min(k, 16 - k)) for k in range(1, 16)]
    return [y - (a + u / (v * b + w * c)) for y, (u, v, w) in zip(BARD, rows, strict=True)]


def kowalik(a: Any, b: Any, c: Any, d: Any) -> list[Any]:
    return [y - a * (u * u + u * b) / (u * u + u * c + d) for y, u in zip(KOWALIK, 1 / INVERSE_U, strict=True)]


def wood(a: Any, b: Any, c: Any, d: Any) -> list[Any]:
    first = [10.0 * (b - a * a), 1.0 - a, 90**0.5 * (d - c * c), 1.0 - c]
    return [*first, 10**0.5 * (b + d - 2.0), 10**-0.5 * (b - d)]


PROBLEMS = {
    "Rosenbrock": Problem(lambda a, b: [10.0 * (b - a * a), 1.0 - a], [-1.2, 1.0], 0.0),
    "Freudenstein and Roth": Problem(
        lambda a, b: [((5.0 - b) * b - 2.0) * b + a - 13.0, ((b + 1.0) * b - 14.0) * b + a - 29.0],
        [0.5, -2.0],
        48.98425368,
    ),
    "Beale": Problem(
        lambda a, b: [y - a * (1.0 - b**k) for k, y in ((1, 1.5), (2, 2.25), (3, 2.625))], [1.0, 1.0], 0.0
    ),
    "Jennrich and Sampson": Problem(
        lambda a, b: [2.0 + 2.0 * k - ((k * a).exp() + (k * b).exp()) for k in range(1, 11)], [0.3, 0.4], 124.3621824
    ),
    "Bard": Problem(bard, [1.0, 1.0, 1.0], 8.214877306e-3),
    "Powell, singular": Problem(
        lambda a, b, c, d: [a + 10.0 * b, 5**0.5 * (c - d), (b - 2.0 * c) ** 2, 10**0.5 * (a - d) ** 2],
        [3.0, -1.0, 0.0, 1.0],
        0.0,
    ),
    "Wood": Problem(wood, [-3.0, -1.0, -3.0, -1.0], 0.0),
    "Kowalik and Osborne": Problem(kowalik, [0.25, 0.39, 0.415, 0.39], 3.074859878e-4),
    "Brown, badly scaled": Problem(lambda a, b: [a - 1e6, b - 2e-6, a * b - 2.0], [1.0, 1.0], 0.0),
}


NEWTON = pytest.param("newton-cg", marks=pytest.mark.long)


@pytest.mark.slow
@every_row("name, problem", PROBLEMS.items())
def test_least_squares_finds_the_known_minima(name: str, problem: Problem) -> None:
    result = least_squares(lambda x: stack(problem.residuals(*x.unbind())), x64(problem.start))
    assert result.converged.item()
    np.testing.assert_allclose(2.0 * result.value.item(), problem.least, rtol=1e-7, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lbfgs", NEWTON])
def test_minimize_finds_the_known_minima(method: str) -> None:
    names = ["Rosenbrock", "Beale", "Bard", "Powell, singular", "Freudenstein and Roth", "Wood"]
    for name in names[:5] if method == "newton-cg" else names:  # the last takes it some hundred steps
        problem = PROBLEMS[name]

        def squares(x: Any, problem: Problem = problem) -> Any:
            return sum((r * r for r in problem.residuals(*x.unbind())), start=x[0] * 0.0)

        result = minimize(squares, x64(problem.start), method=method, tol=1e-7)
        np.testing.assert_allclose(result.value.item(), problem.least, rtol=1e-6, atol=1e-9, err_msg=name)


@pytest.mark.slowest
@pytest.mark.parametrize("method", ["lbfgs", "squares", NEWTON])
def test_derivatives_of_minima_to_second_order(method: str) -> None:
    """The place of the minimum of (c - x)² + 100 (y - x²)² is (c, c²)."""
    start = x64([-1.2, 1.0])

    def f(c: Any) -> Any:
        if method == "squares":
            return least_squares(lambda x: stack([c - x[0], 10.0 * (x[1] - x[0] ** 2)]), start).x[1]
        return minimize(lambda x: (c - x[0]) ** 2 + 100.0 * (x[1] - x[0] ** 2) ** 2, start, method=method, tol=1e-9).x[
            1
        ]

    c = x64(1.2)
    found = [grad(f)(c), jvp(f, c, x64(1.0))[1], compiled(grad(f))(c), vmap(grad(f))(c.reshape(1))[0]]
    found.append(grad(lambda c: vmap(f)(c).sum())(c.reshape(1))[0])
    np.testing.assert_allclose([x.item() for x in found], 2.4, rtol=1e-8)
    np.testing.assert_allclose(hessian(f)(c).item(), 2.0, rtol=1e-7)
    np.testing.assert_allclose(vmap(f)(x64([1.2, 0.5])).to_numpy(), [1.44, 0.25], rtol=1e-8)


def test_derivatives_on_a_graph() -> None:
    tracked = Tensor[Autodiff[NumPy]].from_data(1.2, dtype="float64").require_grad()
    place = least_squares(lambda x: x * x - tracked, tracked.detach()).x
    np.testing.assert_allclose(place.backward()[tracked].item(), 0.5 / 1.2**0.5, rtol=1e-8)


@pytest.mark.slow
def test_derivatives_of_a_fit_with_residuals_left() -> None:
    t = x64(np.linspace(0.0, 3.0, 9))
    y, eps = 3.0 * (-0.5 * t).exp() + 0.1 * t.sin(), 1e-4
    fit: Any = lambda y: least_squares(lambda p: p[0] * (-p[1] * t).exp() - y, y[:2] * 0.0 + 1.0, tol=1e-12).x  # noqa: E731
    bumps = [x64(np.eye(9)[k] * eps) for k in range(9)]
    differences = np.stack([(fit(y + d) - fit(y - d)).to_numpy() / (2 * eps) for d in bumps], 1)
    np.testing.assert_allclose(jacobian(fit)(y).to_numpy(), differences, rtol=1e-4, atol=1e-6)


def test_trees_and_float32() -> None:
    start = {"a": Tensor[NumPy].zeros((2,)), "b": Tensor[NumPy].from_data(5.0)}
    found = minimize(lambda s: (s["a"] - 1.0).square().sum() + (s["b"] - s["a"].sum()) ** 2, start)
    np.testing.assert_allclose([*found.x["a"].tolist(), found.x["b"].item()], [1.0, 1.0, 2.0], atol=1e-3)
    fit = least_squares(lambda s: {"r": s["a"] - 1.0, "q": s["b"] - s["a"].sum()}, start)
    np.testing.assert_allclose([*fit.x["a"].tolist(), fit.x["b"].item()], [1.0, 1.0, 2.0], atol=1e-5)


@pytest.mark.slow
@every_row(
    "call, words",
    [
        (lambda x: minimize(lambda x: x.log().sum(), -x), "NaN or an infinite value from f after 0 steps"),
        (lambda x: minimize(lambda x: (x**4).sum(), x, max_steps=2), "reached max_steps=2 at the value"),
        (lambda x: minimize(lambda x: (x - x.detach()).sum(), x), "no step that reduces"),
        (lambda x: least_squares(lambda x: x.log(), -x), "NaN or an infinite value from f after 0 steps"),
        (lambda x: least_squares(lambda x: (x - 100.0).exp(), x, max_steps=3), "reached max_steps=3 at the value"),
    ],
)
def test_failures_are_errors_or_say_so(call: Any, words: str) -> None:
    for f in (call, compiled(lambda x: call(x).x)):
        with pytest.raises(ConvergenceError, match=words):
            f(x64([1.0, 2.0]))


def test_mistakes_are_one_sentence() -> None:
    x = x64([1.0, 2.0])
    assert not minimize(lambda x: (x**4).sum(), x, max_steps=2, check_errors=False).converged.item()
    with pytest.raises(ShapeError, match=r"returned Tensor\(2,\); reduce it"):
        minimize(lambda x: x, x)
    with pytest.raises(ArgumentError, match='expected "lbfgs" or "newton-cg"'):
        minimize(lambda x: x.sum(), x, method="adam")
    with pytest.raises(DTypeError, match="residuals of dtype float32 and x0 of dtype float64"):
        least_squares(lambda x: x.to_dtype("float32"), x)
