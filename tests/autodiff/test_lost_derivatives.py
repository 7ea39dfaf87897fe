"""Derivatives that user code loses where values leave its tensors: they are refused, and never silently 0.

Each row is an operation whose value is the cube, whose first derivative is right; a second one is right too, or
refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, func
from burnpy.autodiff import Context, Function, custom_jvp, custom_vjp, once_differentiable
from burnpy.backend import NumPy, errors
from tests.rows import every_row

F = Callable[..., Any]
Twice = Autodiff[Autodiff[NumPy]]


def plain(data: Any) -> Any:
    return Tensor[NumPy].from_data(data, dtype="float64")


def array(data: Any, like: Any) -> Any:
    return Tensor.from_data(data, dtype="float64", device=like.device)


def function(forward: F, backward: F, jvp: F | None = None) -> Any:
    """The Function of these methods; without a right jvp, one that lets forward mode get as far as backward()."""
    methods = {"forward": forward, "backward": backward, "jvp": jvp or (lambda ctx, *tangents: tangents[0])}
    return type("F", (Function,), {name: staticmethod(f) for name, f in methods.items()}).apply  # type: ignore[attr-defined]  # a Function's


def saving(ctx: Context, x: Any) -> Any:
    ctx.save_for_backward(x)
    return x * x * x


def by_scipy(ctx: Context, x: Any) -> Any:
    """As a function of some other library is wrapped: only the argument is saved."""
    ctx.shape = x.shape
    ctx.scale = 3.0
    y = array(x.to_numpy() ** 3, x)
    ctx.save_for_backward(x)
    return y


def keeping_an_array(ctx: Context, x: Any) -> Any:
    ctx.slope = 3.0 * x.to_numpy() ** 2
    return x * x * x


def keeping_numbers(ctx: Context, x: Any) -> Any:
    ctx.slope = [3.0 * value**2 for value in x.tolist()]
    return x * x * x


def keeping_a_tensor(ctx: Context, x: Any) -> Any:
    ctx.x = x
    return x * x * x


def saving_what_it_made(ctx: Context, x: Any) -> Any:
    ctx.save_for_backward(array(3.0 * x.to_numpy() ** 2, x))
    return x * x * x


def dividing(ctx: Context, x: Any, scale: float) -> Any:
    """Keeps the value of its number, and what it knew before any value left."""
    ctx.scale, ctx.half = scale, scale / 2.0
    ctx.save_for_backward(x)
    return array(x.to_numpy() ** 3 / scale, x)


def slope(ctx: Context) -> Any:
    x = ctx.saved_tensors[0]
    return x * x * 3.0


def by_numpy(ctx: Context, g: Any) -> Any:
    return array(g.to_numpy() * 3.0 * ctx.saved_tensors[0].to_numpy() ** 2, g)


def by_elements(ctx: Context, g: Any) -> Any:
    values: list[float] = ctx.saved_tensors[0].tolist()
    return g * array([3.0 * value**2 for value in values], g)


def by_inner(ctx: Context, g: Any) -> Any:
    x: Any = ctx.saved_tensors[0]
    lower: Any = x.inner() if x.device.differentiates else x
    return g * (x * 0.0 + (3.0 * array(lower.to_numpy() ** 2, x)))


def with_dlpack(ctx: Context, g: Any) -> Any:
    values: Any = np.from_dlpack(ctx.saved_tensors[0])
    return g * array(values**2 * 3.0, g)


def with_a_number(ctx: Context, g: Any) -> Any:
    x: Any = ctx.saved_tensors[0]
    return g * x * 3.0 * array([float(member) for member in x], g)


def from_ctx(ctx: Context, g: Any) -> Any:
    return g * array(ctx.slope, g)


def from_argument(ctx: Context, g: Any) -> Any:
    return g * array(3.0 * ctx.x.to_numpy() ** 2, g)


def from_saved(ctx: Context, g: Any) -> Any:
    return g * ctx.saved_tensors[0]


LOST: list[tuple[str, F, str]] = [
    ("to_numpy", function(saving, by_numpy), r"F\.backward\(\) took values out of a tracked tensor by to_numpy\(\)"),
    ("tolist", function(saving, by_elements), r"F\.backward\(\) .* by tolist\(\).*x\.detach\(\)"),
    ("inner", function(saving, by_inner), r"F\.backward\(\) .* by inner\(\)"),
    ("DLPack", function(saving, with_dlpack), r"F\.backward\(\) .* by to_numpy\(\).*once_differentiable"),
    ("float", function(saving, with_a_number), r"F\.backward\(\) .* by float\(\)"),
    ("an array on ctx", function(keeping_an_array, from_ctx), r"F\.forward\(\) took values .* kept ctx\.slope, "),
    ("numbers on ctx", function(keeping_numbers, from_ctx), r"F\.forward\(\) .* by tolist\(\) and kept ctx\.slope"),
    ("the argument on ctx", function(keeping_a_tensor, from_argument), r"F\.forward\(\) kept ctx\.x,.*save_for_backw"),
    ("saved", function(saving_what_it_made, from_saved), r"F\.forward\(\) .* saved a tensor that is neither"),
    ("once", function(keeping_an_array, once_differentiable(lambda *xs: from_ctx(*xs))), "is once_differentiable"),
]  # fmt: skip


def second_derivatives(f: F) -> list[F]:
    """Every way to the second derivatives of the sum of f(x), each a function of x that gives a list."""

    def nested(x: Any) -> Any:
        leaf = Tensor.from_data(x.to_numpy(), device=Twice).require_grad()
        first = f(leaf).sum().backward()[leaf]
        if not first.is_require_grad():
            return [0.0] * x.numel()
        return first.sum().backward()[leaf.inner()].tolist()

    def total(x: Any) -> Any:
        return f(x).sum()

    ones = plain([1.0, 1.0])
    return [
        nested,
        lambda x: func.hvp(total, x, ones)[1].tolist(),
        lambda x: func.vhp(total, x, ones)[1].tolist(),
        lambda x: func.hessian(total)(x).sum(dim=0).tolist(),
        lambda x: func.hessian(total, mode="reverse-over-reverse")(x).sum(dim=0).tolist(),
        lambda x: func.grad(lambda x: func.grad(total)(x).sum())(x).tolist(),
        lambda x: func.jvp(func.grad(total), x, ones)[1].tolist(),
    ]


X = plain([2.0, -3.0])


@every_row("how, f, message", LOST, ids=[row[0] for row in LOST])
def test_second_derivatives_that_are_lost_are_refused(how: str, f: F, message: str) -> None:
    assert func.grad(lambda x: f(x).sum())(X).tolist() == pytest.approx([12.0, 27.0])
    for derivative in second_derivatives(f):
        with pytest.raises(errors.GraphError, match=message):
            derivative(X)


def sorting(ctx: Context, x: Any) -> Any:
    """Values leave for an order, which has no derivative."""
    order = IntTensor.from_data(x.to_numpy().argsort(), device=x.device)
    ctx.save_for_backward(x, order)
    ctx.order = x.to_numpy().argsort()
    return x * x * x


def masked(ctx: Context, x: Any) -> Any:
    ctx.save_for_backward(x, Tensor.ones(x.shape, device=x.device).double())
    return x * x * x


def checking(ctx: Context, g: Any) -> Any:
    x: Any = ctx.saved_tensors[0]
    assert math.isfinite(g.detach().sum().item())
    assert np.isfinite(x.detach().to_numpy()).all()
    assert "Tensor" in f"{x} {x.sum():.2f} {g.shape}"
    return g * slope(ctx)


RIGHT: list[tuple[str, F]] = [
    ("saved as argument", function(saving, lambda ctx, g: g * slope(ctx))),
    ("another library's function", function(by_scipy, lambda ctx, g: g * ctx.saved_tensors[0].square() * 3.0)),
    ("constants", lambda x: function(dividing, lambda ctx, g: (g * slope(ctx) / (ctx.half * 2.0), None))(x, 1.0)),
    ("ints", function(sorting, lambda ctx, g: g * ctx.saved_tensors[0].square() * 3.0)),
    ("a constant tensor", function(masked, lambda ctx, g: g * slope(ctx) * ctx.saved_tensors[1])),
    ("values of detached tensors", function(saving, checking)),
]  # fmt: skip


@every_row("how, f", RIGHT, ids=[row[0] for row in RIGHT])
def test_what_loses_nothing_is_left_alone(how: str, f: F) -> None:
    reverse = second_derivatives(f)
    for derivative in (reverse[0], reverse[2], reverse[4], reverse[5]):  # these have no forward rule
        assert derivative(X) == [12.0, -18.0]


def through_a_mask(ctx: Context, g: Any) -> Any:
    return g * (ctx.saved_tensors[0] > 0).float("float64")


def clipped(ctx: Context, x: Any) -> Any:
    ctx.save_for_backward(x)
    return x.relu()


def doubled(ctx: Context, x: Any) -> Any:
    return array(x.to_numpy() * 2.0, x)


@pytest.mark.parametrize(
    ("f", "slope"), [(function(doubled, lambda ctx, g: g * 2.0), 2.0), (function(clipped, through_a_mask), 1.0)]
)
def test_linear_functions_and_masks(f: F, slope: float) -> None:
    """Second derivatives that are 0, and known to be."""

    def total(x: Any) -> Any:
        return f(x).sum()

    def weighted(x: Any) -> Any:
        return (f(x) * x).sum()

    assert func.hessian(total, mode="reverse-over-reverse")(X).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert func.vhp(weighted, X, plain([1.0, 0.0]))[1].tolist() == [2.0 * slope, 0.0]


def test_only_what_is_differentiated_by_is_refused() -> None:
    """An outer derivative with respect to something else goes on, unless it comes in with the gradient."""
    f = function(keeping_an_array, from_ctx)
    scale = plain(2.0)
    mixed = func.jacrev(lambda s: func.grad(lambda x: (f(x) * s).sum())(X))(scale)
    assert mixed.tolist() == [12.0, 27.0]
    numpy = function(saving, by_numpy)
    with pytest.raises(errors.GraphError, match=r"by to_numpy\(\)"):
        func.jacrev(lambda s: func.grad(lambda x: (numpy(x) * s).sum())(X))(scale)
    with pytest.raises(errors.GraphError, match=r"by to_numpy\(\)"):
        func.jacfwd(lambda s: func.grad(lambda x: (numpy(x) * s).sum())(X))(scale)


def test_jvp_of_a_function() -> None:
    def jvp(ctx: Context, t: Any) -> Any:
        return array(t.to_numpy() * 3.0 * ctx.saved_tensors[0].to_numpy() ** 2, t)

    f = function(saving, lambda ctx, g: g * slope(ctx), jvp)
    ones = plain([1.0, 1.0])
    assert func.jvp(f, X, ones)[1].tolist() == [12.0, 27.0]
    with pytest.raises(errors.GraphError, match=r"F\.jvp\(\) took values .* by to_numpy\(\)"):
        func.grad(lambda x: func.jvp(f, x, ones)[1].sum())(X)
    with pytest.raises(errors.GraphError, match=r"F\.jvp\(\) took values .* by to_numpy\(\)"):
        func.jvp(lambda x: func.jvp(f, x, ones)[1], X, ones)


def rules(fwd: F, bwd: F) -> Any:
    @custom_vjp
    def cube(x: Any) -> Any:
        return x * x * x

    cube.defvjp(fwd, bwd)
    return cube


def numpy_rule(residuals: Any, g: Any) -> Any:
    return (array(g.to_numpy() * 3.0 * residuals[0].to_numpy() ** 2, g),)


RULES: list[tuple[str, Any, str]] = [
    ("bwd", rules(lambda x: (x * x * x, [x]), numpy_rule), "bwd"),
    ("residuals", rules(lambda x: (x * x * x, array(x.to_numpy() ** 2, x)), lambda r, g: (g * r * 3.0,)), "fwd"),
    ("fwd", rules(lambda x: (array(x.to_numpy() ** 3, x), x), lambda x, g: (g * x * x * 3.0,)), "fwd"),
]  # fmt: skip


@pytest.mark.parametrize(("how", "f", "rule"), RULES, ids=[row[0] for row in RULES])
def test_rules_of_custom_vjp(how: str, f: Any, rule: str) -> None:
    assert func.grad(lambda x: f(x).sum())(X).tolist() == [12.0, 27.0]
    ways = second_derivatives(f)
    for derivative in ways if how != "fwd" else ways[:1]:
        with pytest.raises(errors.GraphError, match=rf"the {rule} of cube\(\) took values .* by to_numpy\(\)"):
            derivative(X)


def test_a_rule_of_custom_jvp_loses_not_even_the_first() -> None:
    @custom_jvp
    def cube(x: Any) -> Any:
        return x * x * x

    cube.defjvp(lambda primals, tangents: (cube(*primals), array(tangents[0].to_numpy(), primals[0]) * primals[0]))
    with pytest.raises(errors.GraphError, match=r"the jvp of cube\(\) took values .* by to_numpy\(\)"):
        func.grad(lambda x: cube(x).sum())(X)
