"""`cg` and `fixed_point`: values, and derivatives against closed forms and differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy import Tensor, compiled, linalg, stack
from burnpy.backend import NumPy
from burnpy.backend.errors import ConvergenceError, KindError, ShapeError
from burnpy.func import cg, fixed_point, grad, hessian, jvp, vmap

RNG = np.random.default_rng(0)


def x64(data: Any) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(data, dtype="float64")


SQUARE = RNG.normal(size=(6, 6))
MATRIX, RIGHT = x64(SQUARE @ SQUARE.T + np.eye(6)), x64(RNG.normal(size=6))


def exact(s: Any, b: Any) -> Any:
    return linalg.solve(MATRIX * s, b)


def test_conjugate_gradients_and_their_derivatives() -> None:
    def solve(s: Any, b: Any) -> Any:
        return cg(lambda x: (MATRIX * s) @ x, b).x

    s, weights = x64(1.7), x64(RNG.normal(size=6))
    np.testing.assert_allclose(solve(s, RIGHT).to_numpy(), exact(s, RIGHT).to_numpy(), rtol=1e-8)
    loss: Any = lambda f: lambda s, b: (f(s, b) ** 2 @ weights).sum()  # noqa: E731
    for one, two in (
        (grad(loss(solve), (0, 1)), grad(loss(exact), (0, 1))),
        (compiled(grad(loss(solve), (0, 1))), grad(loss(exact), (0, 1))),
        (lambda s, b: jvp(solve, (s, b), (s, weights)), lambda s, b: jvp(exact, (s, b), (s, weights))),
        (
            lambda s, b: (hessian(lambda s: loss(solve)(s, b))(s),),
            lambda s, b: (hessian(lambda s: loss(exact)(s, b))(s),),
        ),
        (
            lambda s, b: (vmap(lambda b: solve(s, b))(stack([b, b * 2.0])),),
            lambda s, b: (stack([exact(s, b), exact(s, b * 2.0)]),),
        ),
    ):
        for found, want in zip(one(s, RIGHT), two(s, RIGHT), strict=True):
            np.testing.assert_allclose(found.to_numpy(), want.to_numpy(), rtol=1e-6, atol=1e-8)
    plain = cg(MATRIX, RIGHT)
    better = cg(MATRIX, RIGHT, preconditioner=lambda r: linalg.solve(MATRIX, r))
    assert better.steps.item() <= 2 < plain.steps.item() <= 8
    assert cg(MATRIX, RIGHT * 0.0).x.tolist() == [0.0] * 6
    tree = cg(lambda t: {"a": t["a"] * 2.0, "b": t["b"] * 4.0}, {"a": x64([1.0, 2.0]), "b": x64(3.0)}).x
    assert (tree["a"].tolist(), tree["b"].item()) == ([0.5, 1.0], 0.75)


@pytest.mark.slow
def test_fixed_points_and_their_derivatives() -> None:
    one, a, eps = x64(1.0), x64(0.9), 1e-5
    solve: Any = lambda a: fixed_point(lambda x: (a * x).cos(), one).x  # noqa: E731
    assert (
        fixed_point(lambda x: x.cos(), one).steps.item()
        < 10
        < fixed_point(lambda x: x.cos(), one, history=0).steps.item()
    )
    slope = (solve(a + eps) - solve(a - eps)).item() / (2 * eps)
    found = [grad(solve)(a), jvp(solve, a, one)[1], compiled(grad(solve))(a), vmap(grad(solve))(a.reshape(1))[0]]
    np.testing.assert_allclose([x.item() for x in found], slope, rtol=1e-8)
    bend = (grad(solve)(a + eps) - grad(solve)(a - eps)).item() / (2 * eps)
    np.testing.assert_allclose(hessian(solve)(a).item(), bend, rtol=1e-6)
    weight, x = x64(RNG.normal(size=(20, 20)) / 6), x64(RNG.normal(size=20))
    deep = fixed_point(lambda h: (weight @ h + x).tanh(), x)
    np.testing.assert_allclose((weight @ deep.x + x).tanh().to_numpy(), deep.x.to_numpy(), atol=1e-9)


def test_failures_and_mistakes() -> None:
    with pytest.raises(ConvergenceError, match="is not positive definite after 1 steps"):
        cg(-MATRIX, RIGHT)
    with pytest.raises(ConvergenceError, match="reached max_steps=2 with a residual"):
        compiled(lambda b: cg(MATRIX, b, max_steps=2).x)(RIGHT)
    with pytest.raises(ConvergenceError, match="reached max_steps=20 with g"):
        fixed_point(lambda x: 1.0 - x, RIGHT, max_steps=20, history=0)
    with pytest.raises(ConvergenceError, match="NaN or an infinite value from g after 0 steps"):
        fixed_point(lambda x: (x * 0.0 - 1.0).log(), RIGHT[:1] * 0.0)
    assert not cg(MATRIX, RIGHT, max_steps=2, check_errors=False).converged.item()
    with pytest.raises(ShapeError, match=r"matrix of shape \(6, 6\) for b of shape Tensor\(2,\)"):
        cg(MATRIX, RIGHT[:2])
    with pytest.raises(KindError, match="takes a function that multiplies with a matrix as a"):
        cg("matrix", RIGHT)  # type: ignore[arg-type]  # wrong on purpose
