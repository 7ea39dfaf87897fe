"""Derivatives that are taken inside of forward(), backward(), rules and hooks, while others are taken around them: user
code that is handed tensors of a device beneath the open levels works there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from burnpy import Autodiff, Tensor, func
from burnpy.autodiff import (
    Context,
    Function,
    checkpoint,
    custom_jvp,
    custom_vjp,
    once_differentiable,
    register_multi_grad_hook,
)
from burnpy.backend import NumPy

Train = Autodiff[NumPy]
D = Callable[[Any], Any]


def number(value: float) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(value, dtype="float64")


THREE, TWO = number(3.0), number(2.0)


def cube(x: Any) -> Any:
    return x * x * x


class Slope(Function):
    """3 x², and its derivatives, all found by func."""

    @staticmethod
    def forward(ctx: Context, x: Any) -> Any:
        ctx.save_for_backward(x)
        return func.grad(cube)(x)

    @staticmethod
    def backward(ctx: Context, grad: Any) -> Any:
        return grad * func.grad(func.grad(cube))(ctx.saved_tensors[0])

    @staticmethod
    def jvp(ctx: Context, tangent: Any) -> Any:
        return tangent * func.grad(func.jacfwd(cube))(ctx.saved_tensors[0])


class Once(Function):
    @staticmethod
    def forward(ctx: Context, x: Any) -> Any:
        ctx.save_for_backward(x)
        return 3.0 * x * x

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Any) -> Any:
        return grad * func.grad(func.grad(cube))(ctx.saved_tensors[0])


@custom_vjp
def by_vjp(x: Any) -> Any:
    return func.grad(cube)(x)


by_vjp.defvjp(lambda x: (by_vjp(x), x), lambda x, grad: (grad * func.grad(func.grad(cube))(x),))


@custom_jvp
def by_jvp(x: Any) -> Any:
    return func.grad(cube)(x)


@by_jvp.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return by_jvp(x), t * func.grad(func.grad(cube))(x)


@custom_jvp
def by_closure(x: Any) -> Any:
    return 3.0 * x * x


@by_closure.defjvp
def _closing(primals: Any, tangents: Any) -> Any:
    """6 x t, as the derivative with respect to a constant of a function that closes over the tangent."""
    (x,), (t,) = primals, tangents
    return by_closure(x), 3.0 * func.grad(lambda z: 2.0 * z * t * x)(TWO)


@custom_jvp
def by_checkpoint(x: Any) -> Any:
    return 3.0 * x * x


@by_checkpoint.defjvp
def _recomputing(primals: Any, tangents: Any) -> Any:
    return by_checkpoint(*primals), checkpoint(lambda x, t: 6.0 * x * t, *primals, *tangents)


BOTH_MODES: list[D] = [Slope.apply, by_jvp, by_closure, by_checkpoint]
REVERSE: list[D] = [func.grad, func.jacrev]
FORWARD: list[D] = [func.jacfwd, lambda f: lambda x: func.jvp(f, x, number(1.0))[1]]


def values(f: D, ways: list[D]) -> list[float]:
    """Of f, its derivative and its second derivative at 3."""
    found = [f(THREE).item()]
    for first in ways:
        found += [first(f)(THREE).item(), *[second(first(f))(THREE).item() for second in ways]]
    return found


def expected(ways: list[D]) -> list[float]:
    return [27.0, *[18.0, *[6.0] * len(ways)] * len(ways)]


@pytest.mark.parametrize("f", BOTH_MODES, ids=["Function", "custom_jvp", "closing over a tangent", "checkpoint"])
def test_reverse_forward_and_mixed(f: D) -> None:
    ways = REVERSE + FORWARD
    assert values(f, ways) == pytest.approx(expected(ways), abs=1e-12)


def test_reverse_alone() -> None:
    assert values(by_vjp, REVERSE) == pytest.approx(expected(REVERSE), abs=1e-12)
    assert func.grad(Once.apply)(THREE).item() == 18.0
    assert func.grad(lambda x: func.grad(Once.apply)(THREE) * x)(THREE).item() == 18.0


@pytest.mark.parametrize("f", [*BOTH_MODES, by_vjp])
def test_as_a_constant_of_an_outer_derivative(f: D) -> None:
    assert func.grad(lambda x: x * f(THREE))(TWO).item() == 27.0
    assert func.grad(lambda x: x * func.grad(lambda y: f(x * 0.0 + THREE) * y)(x))(TWO).item() == 27.0
    assert func.jvp(lambda x: x * func.grad(f)(THREE), TWO, number(1.0))[1].item() == 18.0


def test_on_a_tracked_tensor() -> None:
    functions: list[D] = [*BOTH_MODES, by_vjp]
    for f in functions:
        x = Tensor[Train].from_data(3.0, dtype="float64").require_grad()
        assert f(x).backward()[x].item() == 18.0


def test_hooks() -> None:
    """Of a pass on another device, run by a function that is being differentiated."""
    told: list[Any] = []

    def hook(grad: Any) -> Any:
        return grad * func.grad(lambda z: z * z)(grad)

    def f(x: Any) -> Any:
        leaf = Tensor[Train].from_data(1.0, dtype="float64").require_grad()
        (seen,), _ = register_multi_grad_hook([leaf], lambda grads: told.append(hook(grads[0])))
        hooked, _ = seen.register_hook(hook)
        made, _ = (hooked * 1.0).register_node_hook(before=lambda grads: (hook(grads[0]),))
        return x * (made * 1.0).backward()[leaf]

    assert func.grad(f)(THREE).item() == 8.0
    assert [t.device for t in told] == [NumPy()]
    assert told[0].item() == 128.0
