"""Derivatives through models whose parameters are computed: steps within steps, hypernetworks, casts, copies."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest

from burnpy import Tensor, compiled
from burnpy.backend import NumPy
from burnpy.errors import GraphError
from burnpy.func import grad, hessian, jvp, stack_models, value_and_grad, vmap
from burnpy.nn import Linear, Param, Sequential, Tanh
from burnpy.optim import GradientsParams, Sgd

Net: TypeAlias = Sequential[NumPy]
Weights: TypeAlias = dict[str, Tensor[NumPy]]

RNG = np.random.default_rng(0)
X, Y = (Tensor[NumPy].from_data(RNG.normal(size=(5, 1))) for _ in range(2))
NET: Net = Sequential(Linear(1, 4, device=NumPy), Tanh(), Linear(4, 1, device=NumPy)).astype("float64")
WEIGHTS: Weights = {path: param.value for path, param in NET.named_params().items()}
ONE = Tensor[NumPy].ones((3, 2))
LINEAR = Linear(2, 1, device=NumPy)


def by_hand(weights: Weights) -> Tensor[NumPy]:
    hidden = (X @ weights["0.weight"] + weights["0.bias"]).tanh()
    return (hidden @ weights["2.weight"] + weights["2.bias"] - Y).square().mean()


def loss(net: Net) -> Tensor[NumPy]:
    return (net(X) - Y).square().mean()


def moved(net: Net, slopes: Net) -> Weights:
    by = slopes.named_params()
    return {path: param.value - 0.1 * by[path].value for path, param in net.named_params().items()}


def mapped(net: Net, slopes: Net) -> Net:
    by = iter(slopes.params())
    return net.map(lambda weight: weight - 0.1 * next(by).value)


STEPS: dict[str, Callable[[Net, Net], Net]] = {
    "with_state": lambda net, slopes: net.with_state(moved(net, slopes)),
    "with_values": lambda net, slopes: net.with_values(
        {net.named_params()[path].id: weight for path, weight in moved(net, slopes).items()}
    ),
    "replace": lambda net, slopes: net.replace({path: Param(weight) for path, weight in moved(net, slopes).items()}),
    "map": mapped,
}


@pytest.mark.parametrize("name", STEPS)
def test_a_gradient_passes_through_steps_within(name: str) -> None:
    def after_steps(net: Net) -> Tensor[NumPy]:
        for _ in range(3):
            net = STEPS[name](net, grad(loss)(net))
        return loss(net)

    def wanted(weights: Weights) -> Tensor[NumPy]:
        for _ in range(3):
            slopes = grad(by_hand)(weights)
            weights = {path: weight - 0.1 * slopes[path] for path, weight in weights.items()}
        return by_hand(weights)

    value, slopes = value_and_grad(after_steps)(NET)
    expected, expected_slopes = value_and_grad(wanted)(WEIGHTS)
    assert value.allclose(expected)
    for path, param in slopes.named_params().items():
        assert param.value.allclose(expected_slopes[path], rtol=1e-12), path


HYPER: dict[str, Callable[[Tensor[Any]], Any]] = {
    "with_state": lambda w: LINEAR.with_state({"weight": w * 2.0}, strict=False),
    "with_values": lambda w: LINEAR.with_values({LINEAR.weight.id: w * 2.0}),
    "replace": lambda w: LINEAR.replace({"weight": Param(w * 2.0), "bias": None}),
}


def by_product(w: Tensor[Any], bias: bool) -> Tensor[Any]:
    out = ONE @ (w * 2.0)
    return (out + LINEAR.bias.value if bias and LINEAR.bias is not None else out).square().sum()


@pytest.mark.parametrize("name", HYPER)
def test_a_model_from_outside_takes_computed_weights(name: str) -> None:
    def f(w: Tensor[Any]) -> Tensor[Any]:
        return HYPER[name](w)(ONE).square().sum()  # type: ignore[no-any-return]  # of a model

    def wanted(w: Tensor[Any]) -> Tensor[Any]:
        return by_product(w, name != "replace")

    w = LINEAR.weight.value
    assert grad(f)(w).allclose(grad(wanted)(w))
    assert compiled(grad(f))(w).allclose(grad(wanted)(w))
    assert jvp(f, (w,), (w,))[1].allclose(jvp(wanted, (w,), (w,))[1])
    assert hessian(f)(w).allclose(hessian(wanted)(w))
    batch: Tensor[Any] = vmap(f)(w.expand(2, 2, 1))
    assert batch.allclose(wanted(w).expand(2))


def test_a_gradient_passes_through_a_cast() -> None:
    def total(model: Linear[Any]) -> Tensor[Any]:
        return model.astype("float64")(ONE.to_dtype("float64")).sum()

    slopes: Any = grad(total)(LINEAR)
    assert slopes.weight.value.tolist() == [[3.0], [3.0]]
    assert slopes.weight.dtype == np.float32


def test_a_gradient_passes_through_copies() -> None:
    def of_ones(model: Any) -> Any:
        return model(ONE).sum()

    def total(model: Linear[Any]) -> Any:
        members = [copy.copy(model), copy.deepcopy(model), model.fork()]
        ensemble: Any = stack_models(members)
        return vmap(of_ones)(ensemble).sum()

    slopes: Any = grad(total)(LINEAR)
    assert slopes.weight.value.tolist() == [[9.0], [9.0]]
    assert grad(lambda x: (copy.copy(x) * copy.deepcopy(x)).sum())(ONE).allclose(ONE * 2.0)


def test_an_update_without_a_derivative_is_refused() -> None:
    def after(net: Net) -> Tensor[Any]:
        return loss(Sgd().step(0.1, net, GradientsParams.from_module(grad(loss)(net))))

    def doubled(weight: Tensor[Any]) -> Tensor[Any]:
        return Sgd().step(0.1, {"w": weight}, {"w": weight.detach()})["w"]

    def first_order(net: Net) -> Tensor[Any]:
        return after(net.map(lambda weight: weight.detach())) + loss(net)

    with pytest.raises(GraphError, match=r"from_module\(\) is inside of a function that grad\(\) differentiates"):
        grad(after)(NET)
    with pytest.raises(GraphError, match=r"Sgd.step\(\) is inside of a function that jvp\(\)"):
        jvp(doubled, (ONE,), (ONE,))
    found, wanted = (grad(f)(NET).named_params()["0.weight"].value for f in (first_order, loss))
    assert found.allclose(wanted)
