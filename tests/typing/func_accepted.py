"""Code type checkers must accept of `burnpy.func`, with the types they must infer: levels are hidden. Runs, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, assert_type

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, compiled
from burnpy.autodiff import Forward, make_dual, unpack_dual
from burnpy.backend import Backend, NumPy
from burnpy.func import (
    cg,
    cond,
    fixed_point,
    grad,
    hessian,
    hvp,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    least_squares,
    linearize,
    minimize,
    odeint,
    root,
    scan,
    stack_models,
    value_and_grad,
    vhp,
    vjp,
    vmap,
    while_loop,
)
from burnpy.nn import Linear, Module

B = TypeVar("B", bound=Backend)
MYPY = False  # True to mypy, by this name
Params = dict[str, Tensor[NumPy]]

x = Tensor[NumPy].from_data([1.0, 2.0])
on_graph = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0])
params: Params = {"w": x, "b": x}


# The function is written for plain tensors, and so is its derivative.
def energy(t: Tensor[NumPy]) -> Tensor[NumPy]:
    return (t * t).sum()


def squares(t: Tensor[NumPy]) -> Tensor[NumPy]:
    return t * t


def with_count(t: Tensor[NumPy]) -> tuple[Tensor[NumPy], int]:
    return (t * t).sum(), 3


def loss(p: Params, t: Tensor[NumPy]) -> Tensor[NumPy]:
    return (p["w"] * t + p["b"]).sum()


def product(a: Tensor[NumPy], b: Tensor[NumPy]) -> Tensor[NumPy]:
    return a * b


def loss_and_count(p: Params, t: Tensor[NumPy]) -> tuple[Tensor[NumPy], int]:
    return loss(p, t), len(p)


def parts(t: Tensor[NumPy]) -> tuple[Tensor[NumPy], Params]:
    return t.sum(), {"twice": t * 2}


derivative: Callable[[Tensor[NumPy]], Tensor[NumPy]] = grad(energy)
assert_type(grad(energy)(x), Tensor[NumPy])
assert_type(grad(grad(energy))(Tensor[NumPy].from_data(2.0)), Tensor[NumPy])
cube: Callable[[Tensor[NumPy]], Tensor[NumPy]] = grad(lambda t: t * t * t)
assert_type(grad(loss)(params, x), dict[str, Tensor[NumPy]])
assert_type(grad(loss, 1)(params, x), Tensor[NumPy])
assert_type(grad(loss, argnums=(0, 1))(params, x), tuple[dict[str, Tensor[NumPy]], Tensor[NumPy]])
assert_type(grad(with_count, has_aux=True)(x), tuple[Tensor[NumPy], int])
assert_type(value_and_grad(energy)(x), tuple[Tensor[NumPy], Tensor[NumPy]])
assert_type(value_and_grad(with_count, has_aux=True)(x), tuple[tuple[Tensor[NumPy], int], Tensor[NumPy]])
assert_type(value_and_grad(loss)(params, x), tuple[Tensor[NumPy], dict[str, Tensor[NumPy]]])
assert_type(value_and_grad(loss, 1)(params, x), tuple[Tensor[NumPy], Tensor[NumPy]])
assert_type(grad(loss_and_count, 1, has_aux=True)(params, x), tuple[Tensor[NumPy], int])
both, count = grad(loss_and_count, argnums=(0, 1), has_aux=True)(params, x)
assert_type(both, tuple[dict[str, Tensor[NumPy]], Tensor[NumPy]])
assert_type(count, int)
(at, count), both = value_and_grad(loss_and_count, argnums=(0, 1), has_aux=True)(params, x)
assert_type(at, Tensor[NumPy])
assert_type(both, tuple[dict[str, Tensor[NumPy]], Tensor[NumPy]])
assert_type(value_and_grad(loss_and_count, 1, has_aux=True)(params, x), tuple[tuple[Tensor[NumPy], int], Tensor[NumPy]])

out, pullback = vjp(product, x, x)
assert_type(out, Tensor[NumPy])
assert_type(pullback(x), tuple[Tensor[NumPy], Tensor[NumPy]])
assert_type(vjp(with_count, x, has_aux=True)[2], int)
assert_type(vjp(loss, params, x)[1](Tensor[NumPy].ones(())), tuple[dict[str, Tensor[NumPy]], Tensor[NumPy]])

assert_type(jvp(product, (x, x), (x, x)), tuple[Tensor[NumPy], Tensor[NumPy]])
assert_type(jvp(squares, x, x), tuple[Tensor[NumPy], Tensor[NumPy]])
assert_type(jvp(with_count, (x,), (x,), has_aux=True), tuple[Tensor[NumPy], Tensor[NumPy], int])
assert_type(jvp(parts, (x,), (x,))[1], tuple[Tensor[NumPy], dict[str, Tensor[NumPy]]])

value, pushforward = linearize(product, x, x)
assert_type(value, Tensor[NumPy])
assert_type(pushforward(x, x), Tensor[NumPy])

assert_type(jacobian(squares)(x), Tensor[NumPy])
assert_type(jacobian(squares, mode="forward", chunk_size=1)(x), Tensor[NumPy])
assert_type(jacrev(with_count, has_aux=True)(x), tuple[Tensor[NumPy], int])
assert_type(jacfwd(squares)(x), Tensor[NumPy])
assert_type(hessian(energy)(x), Tensor[NumPy])
assert_type(hvp(energy, x, x), tuple[Tensor[NumPy], Tensor[NumPy]])
assert_type(vhp(loss, (params, x), (params, x)), tuple[Tensor[NumPy], tuple[dict[str, Tensor[NumPy]], Tensor[NumPy]]])


# Lambdas. What is called with its arguments is inferred by all checkers,
assert_type(vjp(lambda t: t * t, x)[0], Tensor[NumPy])
assert_type(vjp(lambda a, b: a * b, x, x)[1](x), tuple[Tensor[NumPy], Tensor[NumPy]])
assert_type(jvp(lambda t: t * t, x, x), tuple[Tensor[NumPy], Tensor[NumPy]])
assert_type(jvp(lambda a, b: a * b, (x, x), (x, x)), tuple[Tensor[NumPy], Tensor[NumPy]])
assert_type(jvp(lambda t: (t * t, 3), x, x, has_aux=True), tuple[Tensor[NumPy], Tensor[NumPy], int])
assert_type(linearize(lambda t: t * t, x)[1](x), Tensor[NumPy])
assert_type(hvp(lambda t: (t * t).sum(), x, x), tuple[Tensor[NumPy], Tensor[NumPy]])
assert_type(vhp(lambda a, b: (a * b).sum(), (x, x), (x, x))[1], tuple[Tensor[NumPy], Tensor[NumPy]])
# and those of `grad` take their type from the arguments of the call.
model = Linear(2, 1, device=NumPy)
assert_type(grad(lambda t: (t * t).sum())(x), Tensor[NumPy])
assert_type(grad(lambda t: (t * t).sum())(on_graph), Tensor[Autodiff[NumPy]])
assert_type(grad(lambda t: (t * x).sum())(x), Tensor[NumPy])
assert_type(grad(lambda t: (x * t).sum())(x), Tensor[NumPy])
assert_type(grad(lambda t: energy(t))(x), Tensor[NumPy])
assert_type(grad(grad(lambda t: t * t * t))(x[0]), Tensor[NumPy])
assert_type(grad(lambda a, b: (a * b).sum())(x, x), Tensor[NumPy])
assert_type(grad(lambda a, b, scale: (a * b * scale).sum())(x, x, 2.0), Tensor[NumPy])
assert_type(grad(lambda p: (p["w"] * x).sum())(params), Params)
assert_type(grad(lambda m: m(x).sum())(model), Linear[NumPy])
assert_type(grad(lambda m, t: m(t).sum())(model, x), Linear[NumPy])
assert_type(value_and_grad(lambda t: (t * t).sum())(x), tuple[Tensor[Any], Tensor[NumPy]])
_, slope_of_model = value_and_grad(lambda m, t: m(t).sum())(model, x)
assert_type(slope_of_model, Linear[NumPy])
if (
    not MYPY
):  # With argnums or has_aux several overloads accept a lambda, whose arguments are Any: then mypy infers Any.
    assert_type(grad(lambda a, b: (a * b).sum(), 1)(x, x), Tensor[NumPy])
    assert_type(grad(lambda m, t: m(t).sum(), 1)(model, x), Tensor[NumPy])
    assert_type(grad(lambda m, t: m(t).sum(), (0, 1))(model, x), tuple[Linear[NumPy], Tensor[NumPy]])
    assert_type(grad(lambda t: ((t * t).sum(), 3), has_aux=True)(x), tuple[Tensor[NumPy], int])
    assert_type(grad(lambda m, t: (m(t).sum(), 3), has_aux=True)(model, x), tuple[Linear[NumPy], int])
    assert_type(value_and_grad(lambda a, b: (a * b).sum(), 1)(x, x), tuple[Tensor[Any], Tensor[NumPy]])
    at, found = value_and_grad(lambda m, t: m(t).sum(), (0, 1))(model, x)
    assert_type(found, tuple[Linear[NumPy], Tensor[NumPy]])
    (at, three), slopes = value_and_grad(lambda t: ((t * t).sum(), 3), has_aux=True)(x)
    assert_type(three, int)
    assert_type(slopes, Tensor[NumPy])
    assert_type(jacobian(lambda t: t * x)(x), Tensor[NumPy])
    assert_type(jacrev(lambda t: t * t, chunk_size=1)(x), Tensor[NumPy])
    assert_type(jacfwd(lambda t: (t * t, 3), has_aux=True)(x), tuple[Tensor[NumPy], int])
    assert_type(hessian(lambda t: (t * t).sum(), mode="reverse-over-reverse")(x), Tensor[NumPy])
    assert_type(hessian(grad(lambda t: (t * t).sum()))(x), Tensor[NumPy])
    assert_type(vmap(grad(lambda m, t: m(t).sum()), in_dims=(None, 0))(model, x.reshape((1, 2))), Linear[NumPy])
    assert_type(compiled(grad(lambda m, t: m(t).sum()))(model, x), Linear[NumPy])
    assert_type(compiled(value_and_grad(lambda m, t: m(t).sum()))(model, x), tuple[Tensor[Any], Linear[NumPy]])
# The Jacobian by a model is a tree of the shapes of both, for which there is no type.
jacobian(lambda m: m(x))(model)
hessian(lambda p: (p["w"] * x).sum())(params)
# A lambda in a variable of a type is what a def is.
of_pair: Callable[[Tensor[NumPy], Params], Tensor[NumPy]] = lambda t, p: (t * p["w"]).sum()  # noqa: E731
assert_type(grad(of_pair, 1)(x, params), Params)


def scaled(t: Tensor[B], scale: float = 1.0) -> Tensor[B]:
    return (t * scale).sum()


# A function of any backend may have more arguments.
assert_type(grad(scaled)(x, 2.0), Tensor[NumPy])
assert_type(grad(scaled)(x, scale=2.0), Tensor[NumPy])


# Generic code, and other backends.
def slope(f: Callable[[Tensor[B]], Tensor[B]], t: Tensor[B]) -> Tensor[B]:
    return grad(f)(t)


def total(t: Tensor[B]) -> Tensor[B]:
    return t.sum()


assert_type(slope(energy, x), Tensor[NumPy])
assert_type(slope(total, on_graph), Tensor[Autodiff[NumPy]])
assert_type(grad(total)(on_graph), Tensor[Autodiff[NumPy]])
assert_type(hessian(total)(x), Tensor[NumPy])


def truth(t: Tensor[NumPy]) -> BoolTensor[NumPy]:
    return t > 0.0


def model_loss(m: Linear[NumPy], t: Tensor[NumPy], y: Tensor[NumPy]) -> Tensor[NumPy]:
    return (m.weight.value.sum() * t * y).sum()


# Functions of one example, which become functions of a batch.
assert_type(vmap(squares)(x), Tensor[NumPy])
assert_type(vmap(energy, in_dims=-1, out_dims=0, randomness="different", chunk_size=8)(x), Tensor[NumPy])
assert_type(vmap(parts)(x), tuple[Tensor[NumPy], dict[str, Tensor[NumPy]]])
assert_type(vmap(truth)(x), BoolTensor[NumPy])
assert_type(vmap(grad(energy))(x), Tensor[NumPy])
assert_type(vmap(vmap(squares))(x.reshape((1, 2))), Tensor[NumPy])
assert_type(vmap(total)(x), Tensor[NumPy])
assert_type(vmap(scaled, in_dims=(0, None))(x, 2.0), Tensor[NumPy])
assert_type(vmap(loss, in_dims=({"w": None, "b": None}, 0))(params, x), Tensor[NumPy])
assert_type(vmap(grad(loss), in_dims=(None, 0))(params, x), dict[str, Tensor[NumPy]])
assert_type(vmap(grad(model_loss), in_dims=(None, 0, 0))(model, x, x), Linear[NumPy])
assert_type(stack_models([model, model]), Linear[NumPy])
assert_type(vmap(model_loss, in_dims=(0, None, None))(stack_models([model, model]), x, x), Tensor[NumPy])
assert_type(vmap(compiled(squares))(x), Tensor[NumPy])
assert_type(compiled(vmap(squares))(x), Tensor[NumPy])
assert_type(jacobian(squares, chunk_size=1)(x), Tensor[NumPy])
if not MYPY:
    assert_type(vmap(lambda t: (t * t).sum())(x), Tensor[NumPy])
    assert_type(vmap(lambda a, b: a * b, in_dims=(0, None))(x, x), Tensor[NumPy])

# Forward mode by hand.
dual = make_dual(x, x)
assert_type(dual, Tensor[Forward[NumPy]])
assert_type(dual * dual, Tensor[Forward[NumPy]])
assert_type(unpack_dual(dual).primal, Tensor[NumPy])
assert_type(unpack_dual(dual).tangent, Tensor[NumPy] | None)
assert_type(make_dual(on_graph, on_graph), Tensor[Forward[Autodiff[NumPy]]])

# Compiled functions keep their types, as decorators with and without settings, and as methods.
one = Tensor[NumPy].from_data([1.0, 2.0])


@compiled
def plain(x: Tensor[NumPy], scale: float, *, power: int = 2) -> tuple[Tensor[NumPy], Tensor[NumPy]]:
    return x * scale, x**power


@compiled(donate=("x",), check=True)
def donated(x: Tensor[B], y: Tensor[B]) -> Tensor[B]:
    return x + y


class Layer(Module[B]):
    def __init__(self, device: B | type[B]) -> None:
        self.dense = Linear(2, 2, device=device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        return self.dense(x)

    @compiled
    def applied(self, x: Tensor[B], times: int = 1) -> Tensor[B]:
        for _ in range(times):
            x = self(x)
        return x


assert_type(plain(one, 2.0), tuple[Tensor[NumPy], Tensor[NumPy]])
assert_type(plain(one, 2.0, power=3)[1], Tensor[NumPy])
assert_type(donated(one * 1.0, one), Tensor[NumPy])
assert_type(Layer(NumPy).applied(one, times=2), Tensor[NumPy])
assert_type(compiled(grad(energy))(one), Tensor[NumPy])
assert_type(hessian(compiled(energy))(one), Tensor[NumPy])
assert_type(str(plain.explain(one, 2.0)), str)
assert_type([part.name for part in plain.plans[0].operations], list[str])
plain.clear()


# Loops have the type of the carry, and branches the type of their result.
def step(
    carry: tuple[Tensor[NumPy], IntTensor[NumPy]], x: Tensor[NumPy]
) -> tuple[tuple[Tensor[NumPy], IntTensor[NumPy]], Tensor[NumPy]]:
    total, count = carry
    return (total + x, count + 1), total


(last, number), totals = scan(step, (one[0], IntTensor[NumPy].from_data(0)), one)
assert_type(last, Tensor[NumPy])
assert_type(number, IntTensor[NumPy])
assert_type(totals, Tensor[NumPy])


def halved(x: Tensor[NumPy]) -> Tensor[NumPy]:
    return x / 2.0


def large(x: Tensor[NumPy]) -> BoolTensor[NumPy]:
    return x.max() > 1.0


assert_type(while_loop(large, halved, one), Tensor[NumPy])
assert_type(cond(one.sum() > 0.0, halved, lambda x: -x, one), Tensor[NumPy])


# Solvers return the state, or the unknowns, with its type.
solution = odeint(lambda t, y: -y, x, [0.0, 1.0])
assert_type(solution.y, Tensor[NumPy])
trees = odeint(lambda t, y: {"w": -y["w"], "b": y["b"]}, params, [0.0, 1.0], method="rk4")
assert_type(trees.y, Params)
assert_type(root(lambda y: y * y - x, x).x, Tensor[NumPy])
assert_type(fixed_point(lambda y: y * 0.5 + x, x).x, Tensor[NumPy])
assert_type(minimize(lambda p: (p["w"] - p["b"]).square().sum(), params).x, Params)
assert_type(least_squares(lambda y: y - x, x).x, Tensor[NumPy])
assert_type(cg(lambda y: y * 2.0, x).x, Tensor[NumPy])
