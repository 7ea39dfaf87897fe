"""Stacked models compute what each of them computes, and train as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor, nn
from burnpy.backend import NumPy
from burnpy.errors import ArgumentError, BatchedError, KindError
from burnpy.func import grad, stack_models, vmap
from burnpy.optim import GradientsParams, Sgd

X = Tensor[NumPy].from_data(np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32))


def network(device: Any = NumPy, width: int = 8) -> Any:
    return nn.Sequential(nn.Linear(5, width, device=device), nn.Tanh(), nn.Linear(width, 2, device=device))


def call(model: Any, x: Any) -> Any:
    return model(x)


def loss(model: Any, x: Any) -> Any:
    return model(x).square().mean()


def test_all_members_compute_at_once() -> None:
    models = [network() for _ in range(4)]
    results = vmap(call, in_dims=(0, None))(stack_models(models), X).to_numpy()
    for k, model in enumerate(models):
        np.testing.assert_allclose(results[k], model(X).to_numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: nn.Conv2d(3, 4, 3, device=NumPy), (2, 3, 6, 6)),
        (lambda: nn.Lstm(5, 4, device=NumPy), (2, 3, 5)),
        (lambda: nn.LayerNorm(5, device=NumPy), (2, 5)),
        (lambda: nn.TransformerEncoderLayer(8, 2, feedforward=8, dropout=0.0, device=NumPy), (2, 3, 8)),
    ],
)
def test_layers(layer: Callable[[], Any], shape: tuple[int, ...]) -> None:
    models = [layer() for _ in range(3)]
    x = Tensor[NumPy].from_data(np.random.default_rng(1).normal(size=shape).astype(np.float32))

    def first(model: Any, x: Any) -> Any:
        out = model(x)
        return out[0] if isinstance(out, tuple) else out

    results = vmap(first, in_dims=(0, None))(stack_models(models), x).to_numpy()
    for k, model in enumerate(models):
        np.testing.assert_allclose(results[k], first(model, x).to_numpy(), rtol=1e-4, atol=1e-5)


def test_each_member_on_its_own_data() -> None:
    models = [network() for _ in range(7)]
    results = vmap(call)(stack_models(models), X).to_numpy()
    for k, model in enumerate(models):
        np.testing.assert_allclose(results[k], model(X[k]).to_numpy(), rtol=1e-5, atol=1e-6)


def test_it_trains_as_each_alone() -> None:
    models = [network() for _ in range(3)]
    ensemble = stack_models(models)
    for _ in range(5):
        gradients = vmap(grad(loss), in_dims=(0, None))(ensemble, X)
        ensemble = Sgd().step(0.1, ensemble, GradientsParams.from_module(gradients))
        models = [Sgd().step(0.1, m, GradientsParams.from_module(grad(loss)(m, X))) for m in models]
    for path, param in ensemble.named_params().items():
        alone = np.stack([model.named_params()[path].value.to_numpy() for model in models])
        np.testing.assert_allclose(param.value.to_numpy(), alone, rtol=1e-4, atol=1e-6)


def test_on_autodiff_its_parameters_are_leaves() -> None:
    ensemble = stack_models([network(Autodiff[NumPy]) for _ in range(3)])
    x = Tensor[Autodiff[NumPy]].from_data(X.to_numpy())
    grads = vmap(loss, in_dims=(0, None))(ensemble, x).sum().backward()
    assert GradientsParams.from_grads(grads, ensemble)["0.weight"].shape == (3, 5, 8)


def test_a_step_of_each_member_is_refused_by_what_to_write() -> None:
    members, first = {"w": Tensor[NumPy].ones((3, 2))}, {"w": Tensor[NumPy].ones((2,))}
    model = nn.Linear(2, 1, bias=False, device=NumPy)
    calls: list[Any] = [
        lambda tree: Sgd().init(tree),
        lambda tree: Sgd().pure_step(0.1, tree, first, Sgd().init(first)),
        lambda tree: Sgd().step(0.1, first, tree),
        lambda tree: GradientsParams.from_module(grad(loss)(model, tree["w"])),
    ]
    for step in calls:
        with pytest.raises(BatchedError, match=r"examples differ in w.*step the stacked model outside of vmap\(\)"):
            vmap(step)(members)


def test_refusals() -> None:
    with pytest.raises(ArgumentError, match="no models"):
        stack_models([])
    with pytest.raises(ArgumentError, match="shapes"):
        stack_models([network(), network(width=9)])
    with pytest.raises(ArgumentError, match="structures"):
        stack_models([network(), nn.Sequential(nn.Linear(5, 2, device=NumPy))])
    norm = nn.BatchNorm(2, device=Autodiff[NumPy])
    updates = norm(Tensor[Autodiff[NumPy]].from_data(X.to_numpy()[:, :2])).sum().backward()
    other = Sgd().step(0.1, norm, GradientsParams.from_grads(updates, norm))
    with pytest.raises(ArgumentError, match=r"buffer .* differs"):
        stack_models([norm, other])
    with pytest.raises(KindError, match="stacks tensors"):
        stack_models([{"a": 1}, {"a": 2}])
