"""Each transform against formulas: arguments, trees, dtypes, shapes, fan-out and aliasing."""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest

from burnpy import Tensor, stack
from burnpy.backend import NumPy
from burnpy.func import (
    grad,
    hessian,
    hvp,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    linearize,
    register_tree,
    value_and_grad,
    vhp,
    vjp,
)

rng = np.random.default_rng(0)


def x64(data: Any) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(data, dtype="float64")


def close(found: Any, want: Any, rtol: float = 1e-12) -> None:
    np.testing.assert_allclose(found.to_numpy(), want, rtol=rtol, atol=1e-13)
    assert found.shape == np.shape(want)


def test_grad_and_its_arguments() -> None:
    a, b = rng.normal(size=(2, 3)), rng.normal(size=(3,))
    x, y = x64(a), x64(b)

    def f(x: Any, y: Any, scale: float = 1.0, *, shift: Any = 0.0) -> Any:
        return (x.sin() * y * scale + shift).sum()

    by_x, by_y = np.cos(a) * b, np.sin(a).sum(0)
    close(grad(f)(x, y), by_x)
    close(grad(f, 1)(x, y), by_y)
    close(grad(f, argnums=-1)(x, y), by_y)
    close(grad(f, 1)(x, y, 3.0), 3 * by_y)
    close(grad(f)(x, y, scale=2.0, shift=x), 2 * by_x)
    both = grad(f, (1, 0))(x, y)
    assert isinstance(both, tuple)
    close(both[0], by_y)
    close(both[1], by_x)
    value, gradient = value_and_grad(f)(x, y)
    close(value, (np.sin(a) * b).sum())
    close(gradient, by_x)
    assert grad(f).__name__ == "f"


def test_aux() -> None:
    x = x64([1.0, 2.0])

    def f(x: Any) -> Any:
        doubled = x * 2
        return (doubled * x).sum(), {"doubled": doubled, "n": 3, "where": doubled.argmax(), "x": None}

    gradient, aux = grad(f, has_aux=True)(x)
    (value, again), same = value_and_grad(f, has_aux=True)(x)
    out, pullback, third = vjp(f, x, has_aux=True)
    out2, tangent, fourth = jvp(f, (x,), (x,), has_aux=True)
    row, fifth = jacrev(f, has_aux=True)(x)
    column, sixth = jacfwd(f, has_aux=True)(x)
    for found in (gradient, same, pullback(x64(1.0))[0], row, column):
        assert found.tolist() == [4.0, 8.0]
    assert value.item() == out.item() == out2.item() == 10.0
    assert tangent.item() == 4.0 + 16.0
    for found in (aux, again, third, fourth, fifth, sixth):
        assert found["doubled"].tolist() == [2.0, 4.0]
        assert found["doubled"].device is found["where"].device is NumPy()
        assert (found["n"], found["where"].item(), found["x"]) == (3, 1, None)
        assert found["doubled"] * x is not None  # it has not escaped


class Layer(NamedTuple):
    weight: Any
    bias: Any


def test_trees() -> None:
    x, y = x64([1.0, 2.0]), x64(3.0)
    tree = {"layers": [Layer(x, y), Layer(y, x)], "rest": (x, (), None), "named": OrderedDict(b=y)}

    def f(tree: Any) -> Any:
        (w, b), (v, c) = tree["layers"]
        return (w * b * c).sum() * v + tree["rest"][0].sum() * tree["named"]["b"]

    found = grad(f)(tree)
    assert isinstance(found["layers"][0], Layer)
    assert isinstance(found["named"], OrderedDict)
    assert found["rest"][1:] == ((), None)
    close(found["layers"][0].weight, 3.0 * np.array([1.0, 2.0]) * 3.0)
    close(found["layers"][0].bias, 5.0 * 3.0)
    close(found["layers"][1].weight, 15.0)
    close(found["layers"][1].bias, 3.0 * np.array([1.0, 2.0]) * 3.0)
    close(found["rest"][0], [3.0, 3.0])
    close(found["named"]["b"], 3.0)

    # Tangents and cotangents of the same structure; entries of dicts go by their keys.
    out: Any
    tangent: Any
    out, tangent = jvp(lambda t: {"p": t["a"] * t["b"], "q": [t["a"]]}, ({"a": x, "b": y},), ({"b": x64(1.0), "a": x},))
    assert out["p"].tolist() == [3.0, 6.0]
    assert (tangent["p"].tolist(), tangent["q"][0].tolist()) == ([4.0, 8.0], [1.0, 2.0])
    _, pullback = vjp(lambda t: {"p": t["a"] * t["b"], "q": [t["a"]]}, {"a": x, "b": y})
    (back,) = pullback({"q": [x], "p": x64([1.0, 0.0])})
    assert (back["a"].tolist(), back["b"].item()) == ([4.0, 2.0], 1.0)
    tree_with_default: Any = defaultdict(list, a=x)
    (found,) = vjp(lambda t: t["a"], tree_with_default)[1](x)
    assert isinstance(found, defaultdict)
    assert found.default_factory is list


def test_registered_types_and_their_subclasses() -> None:
    class Model:
        def __init__(self, weight: Any, name: str) -> None:
            self.weight, self.name = weight, name

    class Special(Model): ...

    register_tree(Model, lambda m: ([m.weight], (type(m), m.name)), lambda children, rest: rest[0](*children, rest[1]))
    found = grad(lambda m: (m.weight**2).sum())(Special(x64([1.0, 2.0]), "mine"))
    assert (type(found), found.name, found.weight.tolist()) == (Special, "mine", [2.0, 4.0])


def test_fan_out_and_aliasing() -> None:
    x = x64([1.0, 2.0])

    def f(x: Any) -> Any:
        y = x * x
        a, b = y + x, y
        return (a * b * y.detach()).sum() + (y + y).sum()

    n = np.array([1.0, 2.0])
    close(grad(f)(x), (4 * n**3 + 3 * n**2) * n**2 + 4 * n)
    close(jvp(f, (x,), (x64([1.0, 1.0]),))[1], ((4 * n**3 + 3 * n**2) * n**2 + 4 * n).sum())
    # One tensor as two arguments is two variables, and in two places of a tree, too.
    one, two = grad(lambda x, y: (x * x * y).sum(), (0, 1))(x, x)
    close(one, 2 * n**2)
    close(two, n**2)
    pair = grad(lambda t: (t[0] * t[0] * t[1]).sum())([x, x])
    close(pair[0], 2 * n**2)
    # The output is an argument, or a part of the other output.
    assert grad(lambda x: x)(x64(3.0)).item() == 1.0
    _, pullback = vjp(lambda x, y: (x, x, y), x, x)
    assert [g.tolist() for g in pullback((x, x, x))] == [[2.0, 4.0], [1.0, 2.0]]
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dtypes(dtype: str) -> None:
    x = Tensor[NumPy].from_data([1.0, 2.0], dtype=dtype)
    wide = x64([3.0, 4.0])
    found = [
        grad(lambda x: (x * wide).sum())(x),  # each gradient is of its argument's dtype
        vjp(lambda x: x.double(), x)[1](wide)[0],
        jacrev(lambda x: x * wide)(x),
    ]
    assert [g.dtype for g in found] == [x.dtype] * 3
    assert jvp(lambda x: x * wide, (x,), (x,))[1].dtype == jacfwd(lambda x: x * wide)(x).dtype == "float64"
    assert linearize(lambda x: x * wide, x)[1](x).dtype == "float64"


def test_scalars_and_empty_tensors() -> None:
    empty = x64(np.zeros((0, 3)))
    assert grad(lambda x: x.sum())(empty).shape == (0, 3)
    assert jvp(lambda x: x * 2, (empty,), (empty,))[1].shape == (0, 3)
    assert vjp(lambda x: x * 2, empty)[1](empty)[0].shape == (0, 3)
    assert linearize(lambda x: x.sum(), empty)[1](empty).item() == 0.0
    for jac in (jacrev, jacfwd):
        assert jac(lambda x: x * 2)(empty).shape == (0, 3, 0, 3)
        assert jac(lambda x: x.sum())(empty).shape == (0, 3)
        assert jac(lambda x: Tensor.zeros((0,), device=x.device, dtype=x.dtype) * x)(x64(1.0)).shape == (0,)
        assert jac(lambda x: x * x)(x64(3.0)).item() == 6.0
    assert hessian(lambda x: x.sum())(empty).shape == (0, 3, 0, 3)
    assert hessian(lambda x: x**3)(x64(2.0)).item() == 12.0
    assert grad(lambda x: (x * x).reshape(1, 1))(x64(3.0)).item() == 6.0  # one element is enough


def test_linearize_runs_the_function_once() -> None:
    calls = []

    def f(x: Any, p: Any) -> Any:
        calls.append(x)
        return {"a": x.exp() * p["w"], "b": x64(1.0)}

    x, w = x64([0.5, -1.0]), x64(2.0)
    out, push = linearize(f, x, {"w": w})
    e = np.exp([0.5, -1.0])
    for t, s in ((x64([1.0, 0.0]), x64(0.0)), (x64([3.0, -1.0]), x64(2.0))):
        found = push(t, {"w": s})
        close(found["a"], e * (2.0 * t.to_numpy() + s.item()))
        assert found["b"].item() == 0.0
    assert len(calls) == 1
    close(out["a"], 2 * e)


def rosenbrock(x: Any) -> Any:
    return ((x[1:] - x[:-1] ** 2) ** 2 * 100.0 + (1.0 - x[:-1]) ** 2).sum()


def rosenbrock_hessian(x: Any) -> Any:
    n = len(x)
    h = np.zeros((n, n))
    for k in range(n - 1):
        h[k, k] += 1200 * x[k] ** 2 - 400 * x[k + 1] + 2
        h[k + 1, k + 1] += 200
        h[k, k + 1] = h[k + 1, k] = -400 * x[k]
    return h


def test_rosenbrock() -> None:
    a, v = rng.normal(size=6), rng.normal(size=6)
    x, direction = x64(a), x64(v)
    want = rosenbrock_hessian(a)
    for found in (
        hessian(rosenbrock)(x),
        jacrev(jacfwd(rosenbrock))(x),
        jacrev(jacrev(rosenbrock))(x),
        jacfwd(jacfwd(rosenbrock))(x),
        jacobian(grad(rosenbrock))(x),
        stack([hvp(rosenbrock, x, row)[1] for row in Tensor[NumPy].eye(6, dtype="float64")]),
        stack([vhp(rosenbrock, x, row)[1] for row in Tensor[NumPy].eye(6, dtype="float64")]),
    ):
        close(found, want, 1e-11)
    for product in (hvp, vhp):
        value, found = product(rosenbrock, x, direction)
        close(found, want @ v, 1e-11)
        close(value, float(rosenbrock(x).item()))
        (value, (first, second)) = product(lambda x, y: (x * x * y).sum(), (x, x), (direction, x))
        close(first, 2 * a * v + 2 * a * a)
        close(second, 2 * a * v)
        close(value, (a**3).sum())
    minimum = x64(np.ones(6))
    close(grad(rosenbrock)(minimum), np.zeros(6))


def test_products_with_the_hessian_of_trees() -> None:
    p = {"w": x64([1.0, 2.0]), "b": x64(0.5)}
    v = {"w": x64([1.0, -1.0]), "b": x64(2.0)}
    for product in (hvp, vhp):
        _, (found,) = product(lambda p: (p["w"] ** 3).sum() * p["b"], (p,), (v,))
        close(found["w"], 6 * np.array([1.0, 2.0]) * 0.5 * [1.0, -1.0] + 3 * np.array([1.0, 4.0]) * 2.0)
        close(found["b"], (3 * np.array([1.0, 4.0]) * [1.0, -1.0]).sum())


def test_third_order_of_a_vector_function() -> None:
    a, u, v, w = (rng.normal(size=4) for _ in range(4))
    x = x64(a)
    d = [functools.partial(_directional, x64(t)) for t in (u, v, w)]
    want = -np.cos(a) * u * v * w
    close(d[0](d[1](d[2](lambda x: x.sin())))(x), want)
    close(vjp(d[1](d[2](lambda x: x.sin())), x)[1](x64(u))[0], want)
    close(d[0](lambda x: vjp(d[2](lambda x: x.sin()), x)[1](x64(v))[0])(x), want)
    close(jacrev(jacfwd(jacrev(lambda x: x.sin().sum())))(x), _diagonal(-np.cos(a)))


def _directional(t: Any, f: Any) -> Any:
    return lambda x: jvp(f, (x,), (t,))[1]


def _diagonal(values: Any) -> Any:
    out = np.zeros((len(values),) * 3)
    for k, value in enumerate(values):
        out[k, k, k] = value
    return out
