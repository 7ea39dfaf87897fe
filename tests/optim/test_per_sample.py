"""Gradients of single samples: equal to those of batches of one, clipped by sample, summed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, IntTensor, Tensor, nn
from burnpy.backend import NumPy
from burnpy.errors import ArgumentError, KindError, ShapeError
from burnpy.optim import (
    GradientsParams,
    Sgd,
    clip_per_sample,
    per_sample_gradients,
    per_sample_norms,
    sum_of_samples,
)

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(6, 1, 8, 8)).astype(np.float32)
CLASSES = RNG.integers(0, 3, 6)
MODELS: dict[str, Callable[[Any], Any]] = {
    "dense": lambda device: nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 8, device=device),
        nn.Gelu(),
        nn.LayerNorm(8, device=device),
        nn.Linear(8, 3, device=device),
    ),
    "convolution": lambda device: nn.Sequential(
        nn.Conv2d(1, 4, 3, device=device), nn.Relu(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3, device=device)
    ),
    "attention": lambda device: nn.Sequential(
        nn.Flatten(1, 2),
        nn.TransformerEncoderLayer(8, 2, feedforward=16, dropout=0.0, device=device),
        nn.Flatten(),
        nn.Linear(64, 3, device=device),
    ),
}


def loss(model: Any, sample: tuple[Any, Any]) -> Any:
    x, y = sample
    return burnpy.cross_entropy(model(x.unsqueeze(0)), y.unsqueeze(0))


def batch(device: Any) -> tuple[Any, Any]:
    return Tensor.from_data(IMAGES, device=device), IntTensor.from_data(CLASSES, device=device)


@pytest.mark.parametrize("name", MODELS)
def test_each_is_the_gradient_of_a_batch_of_one(name: str) -> None:
    model = MODELS[name](Autodiff[NumPy])
    x, y = batch(Autodiff[NumPy])
    found = per_sample_gradients(model, loss, (x, y))
    for k in range(6):
        alone = GradientsParams.from_grads(loss(model, (x[k], y[k])).backward(), model)
        for path, gradient in alone.named().items():
            np.testing.assert_allclose(found[path].to_numpy()[k], gradient.to_numpy(), rtol=1e-4, atol=1e-6)
    assert found.missing == ()


def test_on_a_plain_device_and_in_chunks() -> None:
    model = MODELS["dense"](NumPy)
    whole = per_sample_gradients(model, loss, batch(NumPy))
    parts = per_sample_gradients(model, loss, batch(NumPy), chunk_size=4)
    for path, gradient in whole.named().items():
        np.testing.assert_allclose(parts[path].to_numpy(), gradient.to_numpy(), rtol=1e-5, atol=1e-6)


def test_norms_and_clipping() -> None:
    grads = per_sample_gradients(MODELS["dense"](NumPy), loss, batch(NumPy))
    norms = np.sqrt(sum([(g.to_numpy().reshape(6, -1) ** 2).sum(1) for g in grads.values()]))
    np.testing.assert_allclose(per_sample_norms(grads).to_numpy(), norms, rtol=1e-5)
    limit = float(np.median(norms))
    clipped = clip_per_sample(grads, limit)
    np.testing.assert_allclose(per_sample_norms(clipped).to_numpy(), np.minimum(norms, limit), rtol=1e-5)
    kept = norms < 0.99 * limit
    for path, gradient in grads.named().items():
        np.testing.assert_array_equal(clipped[path].to_numpy()[kept], gradient.to_numpy()[kept])


def test_their_sum_trains() -> None:
    model = MODELS["dense"](Autodiff[NumPy])
    x, y = batch(Autodiff[NumPy])
    total = sum_of_samples(per_sample_gradients(model, loss, (x, y)))
    whole = GradientsParams.from_grads(burnpy.cross_entropy(model(x), y, reduction="sum").backward(), model)
    for path, gradient in whole.named().items():
        np.testing.assert_allclose(total[path].to_numpy(), gradient.to_numpy(), rtol=1e-4, atol=1e-5)
    after = Sgd().step(0.01, model, total)
    assert burnpy.cross_entropy(after(x), y).item() < burnpy.cross_entropy(model(x), y).item()


def test_dropout_draws_for_each_sample() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 1, device=Autodiff[NumPy])).train()
    same = Tensor[NumPy].ones((6, 1, 8, 8))

    def total(model: Any, x: Any) -> Any:
        return model(x.unsqueeze(0)).sum()

    rows = per_sample_gradients(model, total, same)["2.weight"].to_numpy().reshape(6, -1)
    assert len(np.unique(rows, axis=0)) > 1
    rows = per_sample_gradients(model, total, same, randomness="same")["2.weight"].to_numpy().reshape(6, -1)
    assert len(np.unique(rows, axis=0)) == 1
    rows = per_sample_gradients(model.eval(), total, same)["2.weight"].to_numpy()
    assert (rows == 1).all()


def test_frozen_parameters_have_none() -> None:
    model = MODELS["dense"](Autodiff[NumPy]).no_grad("1.*")
    assert not [path for path in per_sample_gradients(model, loss, batch(NumPy)).named() if path.startswith("1.")]


def test_refusals() -> None:
    norm = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 3, device=Autodiff[NumPy]), nn.BatchNorm(3, device=Autodiff[NumPy])
    )
    with pytest.raises(ArgumentError, match="BatchNorm"):
        per_sample_gradients(norm, lambda model, x: model(burnpy.stack([x, x * 2.0])).square().sum(), batch(NumPy)[0])
    model = MODELS["dense"](NumPy)
    x, y = batch(NumPy)
    with pytest.raises(ShapeError, match="different sizes"):
        per_sample_gradients(model, loss, (x, y[:5]))
    grads = per_sample_gradients(model, loss, (x, y))
    with pytest.raises(ShapeError, match=r"sum_of_samples\(\) got gradients without a common first dimension"):
        sum_of_samples(sum_of_samples(grads))
    with pytest.raises(ArgumentError, match="not negative"):
        clip_per_sample(grads, -1.0)
    with pytest.raises(ArgumentError, match="no gradients"):
        per_sample_norms(grads.without("*"))
    with pytest.raises(KindError, match=r"per_sample_norms\(\) takes GradientsParams, got a dict"):
        per_sample_norms({})  # type: ignore[arg-type]  # which is the point
