"""`root` against SciPy's test problems, and its derivatives against closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor, cat, compiled, stack
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, ConvergenceError, ShapeError
from burnpy.func import grad, hessian, jvp, root, vmap
from tests.rows import every_row


def x64(data: Any) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(data, dtype="float64")


def helical_valley(x: Any) -> Any:
    a, b, c = x.unbind()
    turn = b.atan2(a) / (2 * np.pi)
    return stack([10.0 * (c - 10.0 * turn), 10.0 * ((a * a + b * b).sqrt() - 1.0), c])


def powell_singular(x: Any) -> Any:
    a, b, c, d = x.unbind()
    return stack([a + 10.0 * b, 5**0.5 * (c - d), (b - 2.0 * c) ** 2, 10**0.5 * (a - d) ** 2])


def powell_badly_scaled(x: Any) -> Any:
    return stack([1e4 * x[0] * x[1] - 1.0, (-x[0]).exp() + (-x[1]).exp() - 1.0001])


def broyden_tridiagonal(x: Any) -> Any:
    zero = x[:1] * 0.0
    before, after = cat([zero, x[:-1]]), cat([x[1:], zero])
    return (3.0 - 2.0 * x) * x - before - 2.0 * after + 1.0


@every_row(
    "f, x0, want, tolerance",
    [
        (lambda x: stack([10.0 * (x[1] - x[0] ** 2), 1.0 - x[0]]), [-1.2, 1.0], [1.0, 1.0], 1e-9),  # Rosenbrock
        (helical_valley, [-1.0, 0.1, 0.0], [1.0, 0.0, 0.0], 1e-9),
        (powell_singular, [3.0, -1.0, 0.0, 1.0], [0.0] * 4, 1e-6),  # its Jacobian at the root is singular
        (powell_badly_scaled, [0.0, 1.0], [1.09815933e-5, 9.106146740], 1e-8),
        (broyden_tridiagonal, [-1.0] * 10, None, 1e-9),
    ],
)
def test_usual_problems(f: Any, x0: Any, want: Any, tolerance: float) -> None:
    result = root(f, x64(x0))
    assert result.converged.item()
    assert result.residual.item() < 1e-8
    if want is not None:
        np.testing.assert_allclose(result.x.to_numpy(), want, rtol=1e-8, atol=tolerance)


@pytest.mark.slow
def test_derivatives_to_second_order() -> None:
    solve: Any = lambda a: root(lambda x: x * x - a, a).x  # noqa: E731
    a = x64(9.0)
    found = [grad(solve)(a), jvp(solve, a, x64(1.0))[1], compiled(grad(solve))(a), vmap(grad(solve))(a.reshape(1))[0]]
    found += [grad(lambda rows: vmap(solve)(rows).sum())(a.reshape(1))[0]]
    np.testing.assert_allclose([x.item() for x in found], 1 / 6, rtol=1e-12)
    second = [hessian(solve)(a), grad(grad(solve))(a), compiled(grad(grad(solve)))(a)]
    np.testing.assert_allclose([x.item() for x in second], -1 / 108, rtol=1e-12)
    tracked = Tensor[Autodiff[NumPy]].from_data(9.0, dtype="float64").require_grad()
    assert solve(tracked).backward()[tracked].item() == grad(solve)(a).item()
    fast = compiled(solve)
    assert [round(fast(x64(v)).item(), 12) for v in (4.0, 25.0)] == [2.0, 5.0]


def test_trees_and_float32() -> None:
    first = {"x": Tensor[NumPy].from_data(1.0), "y": Tensor[NumPy].from_data([0.5])}
    result = root(lambda s: {"y": s["y"] - s["x"], "x": s["x"] ** 2 + s["y"].square().sum() - 4.0}, first)
    np.testing.assert_allclose([result.x["x"].item(), result.x["y"].item()], 2**0.5, rtol=1e-6)


@pytest.mark.slow
@every_row(
    "f, x0, words",
    [
        (lambda x: x * x + 1.0, 3.0, "no step that reduces the residual of 1 after"),
        (lambda x: x.log(), -1.0, "NaN or an infinite value from f after 0 steps"),
        (lambda x: x.exp(), 0.0, "reached max_steps=100"),
    ],
)
def test_failures_are_errors_or_say_so(f: Any, x0: float, words: str) -> None:
    for call in (lambda x: root(f, x), compiled(lambda x: root(f, x).x)):
        with pytest.raises(ConvergenceError, match=words):
            call(x64(x0))
    assert not root(f, x64(x0), check_errors=False).converged.item()


def test_mistakes_are_one_sentence() -> None:
    with pytest.raises(ShapeError, match=r"a result of f of shape \(2,\) for x0, which has shape \(3,\)"):
        root(lambda x: x[:2], x64([1.0, 2.0, 3.0]))
    with pytest.raises(ArgumentError, match="tol=-1"):
        root(lambda x: x, x64([1.0]), tol=-1.0)
