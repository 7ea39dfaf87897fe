"""Derivatives of solutions of higher order, in both modes and mixed, against closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Tensor, compiled
from burnpy.backend import NumPy
from burnpy.func import cg, fixed_point, grad, hessian, jacobian, jvp, least_squares, minimize, odeint, root, vmap

SQUARE_ROOTS: dict[str, Callable[[Any], Any]] = {
    "root": lambda a: root(lambda x: x * x - a, a * 0.0 + 2.0).x,
    "fixed_point": lambda a: fixed_point(lambda x: (x + a / x) * 0.5, a * 0.0 + 2.0).x,
    "minimize": lambda a: minimize(lambda x: x**3 / 3.0 - a * x, a * 0.0 + 2.0).x,
    "least_squares": lambda a: least_squares(lambda x: (x * x - a).reshape(1), a * 0.0 + 2.0).x,
}
ORDERS = [3.0**0.5, 0.5 * 3.0**-0.5, -0.25 * 3.0**-1.5, 0.375 * 3.0**-2.5, -0.9375 * 3.0**-3.5]
"""The derivatives of the square root at 3."""


def x64(data: Any) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(data, dtype="float64")


def forward(f: Any) -> Any:
    return lambda x: jvp(f, x, x.ones_like())[1]


@pytest.mark.slowest
@pytest.mark.parametrize("name", SQUARE_ROOTS)
def test_square_roots(name: str) -> None:
    f = SQUARE_ROOTS[name]
    a, derivative = x64(3.0), f
    for n, expected in enumerate(ORDERS):
        assert derivative(a).item() == pytest.approx(expected, rel=1e-6), n
        derivative = grad(derivative)
    for mixed in (forward(forward(forward(f))), grad(forward(grad(f))), compiled(grad(grad(grad(f))))):
        assert mixed(a).item() == pytest.approx(ORDERS[3], rel=1e-6)
    assert vmap(grad(grad(grad(f))))(x64([3.0, 4.0])).tolist() == pytest.approx([ORDERS[3], 0.375 / 32.0], rel=1e-6)


def test_linear_systems_by_conjugate_gradients() -> None:
    """The derivatives of A⁻¹ b = (…, -a / (2 - a²)), where one step reaches the solution at a = 0."""
    b = x64([1.0, 0.0])

    def second(a: Any) -> Any:
        return cg(lambda x: x64([[1.0, 0.0], [0.0, 2.0]]) @ x + a * x.flip(0), b).x[1]  # -a / (2 - a²)

    derivative, a = second, x64(0.0)
    for n, expected in enumerate([0.0, -0.5, 0.0, -1.5]):
        assert derivative(a).item() == pytest.approx(expected, abs=1e-9), n
        derivative = grad(derivative)
    assert forward(forward(forward(second)))(a).item() == pytest.approx(-1.5)
    assert compiled(hessian(second))(x64(0.5)).item() == pytest.approx(hessian(second)(x64(0.5)).item())
    by_b = jacobian(lambda b: cg(lambda x: x64([[1.0, 0.0], [0.0, 2.0]]) @ x, b).x)(b)
    np.testing.assert_allclose(by_b.to_numpy(), [[1.0, 0.0], [0.0, 0.5]], atol=1e-12)


@pytest.mark.slowest
def test_times_of_events() -> None:
    """The time at which a · exp(-t) is ½, log(2 a), and the state there times it, ½ log(2 a)."""

    def time(a: Any) -> Any:
        return odeint(lambda t, y: -y, a, [0.0, 5.0], event=lambda t, y: y - 0.5, rtol=1e-10, atol=1e-12).t[-1]

    def product(a: Any) -> Any:
        found = odeint(lambda t, y: -y, a, [0.0, 5.0], event=lambda t, y: y - 0.5, rtol=1e-10, atol=1e-12)
        return found.y[-1] * found.t[-1]

    a = x64(2.0)
    orders = [grad(time)(a).item(), hessian(time)(a).item(), forward(hessian(time))(a).item()]
    assert orders == pytest.approx([0.5, -0.25, 0.25], rel=1e-3)
    assert hessian(product)(a).item() == pytest.approx(-0.125, rel=1e-4)
    assert vmap(grad(grad(time)))(x64([2.0, 3.0])).tolist() == pytest.approx([-0.25, -1 / 9], rel=1e-4)
