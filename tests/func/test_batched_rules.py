"""Functions with rules of their own under `vmap`, where derivatives inside of it and around it meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from burnpy import Tensor
from burnpy.autodiff import Function, custom_jvp, custom_vjp, once_differentiable
from burnpy.backend import NumPy
from burnpy.backend.errors import GraphError
from burnpy.func import compiled, grad, hessian, jacfwd, jacrev, jvp, vmap


def x64(data: Any) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(data, dtype="float64")


class Doubled(Function):
    """x² w with twice its derivatives, which operations do not give."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x * x * w

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return 4.0 * x * w * g, 2.0 * x * x * g

    @staticmethod
    def jvp(ctx: Any, t: Any, s: Any) -> Any:
        x, w = ctx.saved_tensors
        return 4.0 * x * w * t + 2.0 * x * x * s


class DoubledOnce(Doubled):
    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        return Doubled.backward(ctx, g)


@custom_jvp
def doubled_jvp(x: Any, w: Any) -> Any:
    return x * x * w


@doubled_jvp.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x, w), (t, s) = primals, tangents
    return doubled_jvp(x, w), 4.0 * x * w * t + 2.0 * x * x * s


@custom_vjp
def doubled_vjp(x: Any, w: Any) -> Any:
    return x * x * w


doubled_vjp.defvjp(
    lambda x, w: (doubled_vjp(x, w), {"x": x, "w": w}), lambda r, g: (4.0 * r["x"] * r["w"] * g, 2.0 * r["x"] ** 2 * g)
)

X, W = x64([1.0, 2.0, 3.0]), x64(5.0)
DIAGONAL = [[20.0, 0.0, 0.0], [0.0, 40.0, 0.0], [0.0, 0.0, 60.0]]
TWENTIES = [[20.0, 0.0, 0.0], [0.0, 20.0, 0.0], [0.0, 0.0, 20.0]]
REVERSE: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "grad(vmap)": (lambda f: grad(lambda x: vmap(lambda x: f(x, W))(x).sum())(X), [20.0, 40.0, 60.0]),
    "grad(vmap), shared": (lambda f: grad(lambda w: vmap(lambda x: f(x, w))(X).sum())(W), 28.0),
    "grad(vmap(vmap))": (lambda f: grad(lambda w: vmap(vmap(lambda x: f(x, w)))(X.reshape(3, 1)).sum())(W), 28.0),
    "vmap(grad(vmap))": (
        lambda f: vmap(lambda x: grad(lambda w: vmap(lambda x: f(x, w))(x).sum())(W))(X.reshape(3, 1)),
        [2.0, 8.0, 18.0],
    ),
    "grad(vmap(grad))": (lambda f: grad(lambda x: vmap(grad(lambda x: f(x, W)))(x).sum())(X), [20.0] * 3),
    "grad(vmap(grad)), shared": (lambda f: grad(lambda w: vmap(grad(lambda x: f(x, w)))(X).sum())(W), 24.0),
    "jacrev(vmap)": (lambda f: jacrev(vmap(lambda x: f(x, W)))(X), DIAGONAL),
    "jacrev": (lambda f: jacrev(lambda x: f(x, x.full_like(5.0)))(X), DIAGONAL),
    "compiled(grad(vmap))": (
        lambda f: compiled(grad(lambda x: vmap(lambda x: f(x, W))(x).sum()))(X),
        [20.0, 40.0, 60.0],
    ),
}
FORWARD: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "jvp(vmap)": (lambda f: jvp(vmap(lambda x: f(x, W)), X, X.ones_like())[1], [20.0, 40.0, 60.0]),
    "jacfwd(vmap)": (lambda f: jacfwd(vmap(lambda x: f(x, W)))(X), DIAGONAL),
    "hessian(vmap)": (lambda f: hessian(lambda x: vmap(lambda x: f(x, W))(x).sum())(X), TWENTIES),
    "jacfwd(jacfwd)": (lambda f: jacfwd(jacfwd(lambda x: f(x, x.full_like(5.0)).sum()))(X), TWENTIES),
    "jacrev(jacfwd)": (lambda f: jacrev(jacfwd(lambda x: f(x, x.full_like(5.0)).sum()))(X), TWENTIES),
    "jacfwd(jacrev)": (lambda f: jacfwd(jacrev(lambda x: f(x, x.full_like(5.0)).sum()))(X), TWENTIES),
}
RULES = {"Function": Doubled.apply, "custom_jvp": doubled_jvp, "custom_vjp": doubled_vjp}


@pytest.mark.parametrize("name", [*REVERSE, *FORWARD])
@pytest.mark.parametrize("rule", RULES)
def test_rules_are_used(rule: str, name: str) -> None:
    if rule == "custom_vjp" and name in FORWARD:
        pytest.skip("custom_vjp has no forward mode")
    compute, expected = (REVERSE | FORWARD)[name]
    assert compute(RULES[rule]).tolist() == expected


def test_rules_that_cannot_be_differentiated_again() -> None:
    """A rule that is not there is an error in a batch, too."""
    first = lambda x: vmap(lambda x: DoubledOnce.apply(x, W))(x).sum()  # noqa: E731
    assert grad(first)(X).tolist() == [20.0, 40.0, 60.0]
    for twice in (
        lambda x: grad(first)(x).sum(),
        lambda x: vmap(grad(lambda x: DoubledOnce.apply(x, W)))(x).sum(),
    ):
        with pytest.raises(GraphError, match="once_differentiable"):
            grad(twice)(X)

    class Kept(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            square = x * x
            ctx.save_for_backward(square)
            return square * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 3.0 * ctx.saved_tensors[0] * g

    assert grad(lambda x: vmap(Kept.apply)(x).sum())(X).tolist() == [3.0, 12.0, 27.0]
    for second in (
        grad(lambda x: vmap(grad(Kept.apply))(x).sum()),
        vmap(grad(grad(Kept.apply))),
        grad(lambda x: grad(lambda x: vmap(Kept.apply)(x).sum())(x).sum()),
    ):
        with pytest.raises(GraphError, match="saved a tensor that it computed from its arguments"):
            second(X)


def test_results_without_gradients_and_several_results() -> None:
    class Split(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            positive, whole = x > 0.0, x.floor()
            ctx.mark_non_differentiable(whole)
            ctx.factor = 3.0
            return x * 3.0, whole, positive

        @staticmethod
        def backward(ctx: Any, g: Any, *_: Any) -> Any:
            return g * ctx.factor + 0.0 * ctx.saved_tensors[0]

    def f(x: Any) -> Any:
        scaled, whole, positive = Split.apply(x)
        return (scaled + whole) * positive.to_float(x.dtype) if hasattr(positive, "to_float") else scaled + whole

    assert grad(lambda x: vmap(f)(x).sum())(X).tolist() == [3.0, 3.0, 3.0]
