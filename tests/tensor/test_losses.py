"""Losses against their formulas in NumPy, written out element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import (
    Autodiff,
    IntTensor,
    Tensor,
    binary_cross_entropy_with_logits,
    compiled,
    cross_entropy,
    func,
    mse_loss,
    nll_loss,
)
from burnpy.backend import NumPy
from burnpy.backend.errors import ShapeError
from burnpy.nn.functional import kl_div
from tests.rows import every_row

Array = np.ndarray[Any, Any]
Train = Autodiff[NumPy]
rng = np.random.default_rng(10)


def log_softmax(a: Array, dim: int) -> Array:
    return np.asarray(a - np.log(np.exp(a).sum(dim, keepdims=True)))


def reduced(losses: Array, counts: Array, reduction: str) -> Array:
    if reduction == "none":
        return losses
    return np.asarray(losses.sum() / (counts.sum() if reduction == "mean" else 1))


@every_row("reduction", ["mean", "sum", "none"])
@every_row("smoothing", [0.0, 0.2])
@every_row("ignored", [None, 1])
@every_row("weighted", [False, True])
@every_row("shape", [(3,), (4, 3), (2, 3, 2), (2, 3, 2, 2)])
def test_classes(shape: tuple[int, ...], weighted: bool, ignored: int | None, smoothing: float, reduction: Any) -> None:
    dim = min(1, len(shape) - 1)
    logits = rng.standard_normal(shape)
    target = rng.integers(0, 3, shape[:dim] + shape[dim + 1 :])
    target.ravel()[:1] = 2  # at least one is not ignored
    weight = np.array([0.5, 2.0, 1.5]) if weighted else np.ones(3)
    log_p = np.moveaxis(log_softmax(logits, dim), dim, -1)
    losses, counts = np.zeros(target.shape), np.zeros(target.shape)
    for at in np.ndindex(target.shape):
        right = target[at]
        if right != ignored:
            counts[at] = weight[right]
            smooth = -(log_p[at] * weight).sum() / 3
            losses[at] = -(1 - smoothing) * weight[right] * log_p[at][right] + smoothing * smooth
    arguments: dict[str, Any] = {"reduction": reduction}
    if weighted:
        arguments["weight"] = Tensor[NumPy].from_data(weight)
    if ignored is not None:
        arguments["ignore_index"] = ignored
    x, y = Tensor[NumPy].from_data(logits), IntTensor[NumPy].from_data(target)
    found = cross_entropy(x, y, label_smoothing=smoothing, **arguments)
    np.testing.assert_allclose(found.to_numpy(), reduced(losses, counts, reduction), 1e-9)
    if not smoothing:
        np.testing.assert_allclose(nll_loss(x.log_softmax(dim), y, **arguments).to_numpy(), found.to_numpy(), 1e-9)


@every_row("reduction", ["mean", "sum", "none"])
@every_row("smoothing", [0.0, 0.2])
@every_row("shape", [(3,), (4, 3), (2, 3, 2)])
def test_probabilities(shape: tuple[int, ...], smoothing: float, reduction: Any) -> None:
    dim = min(1, len(shape) - 1)
    logits, target, weight = rng.standard_normal(shape), rng.random(shape), np.array([0.5, 2.0, 1.5])
    along = weight.reshape(3, *(1,) * (len(shape) - dim - 1))
    losses = -(log_softmax(logits, dim) * along * (target * (1 - smoothing) + smoothing / 3)).sum(dim)
    x, y, w = (Tensor[NumPy].from_data(a) for a in (logits, target, weight))
    found = cross_entropy(x, y, weight=w, label_smoothing=smoothing, reduction=reduction)
    np.testing.assert_allclose(found.to_numpy(), reduced(losses, np.ones(losses.shape), reduction), 1e-9)


def test_the_gradient_of_cross_entropy_is_softmax_less_target() -> None:
    logits, target = rng.standard_normal((4, 3)), np.array([2, -100, 0, 1])
    x = Tensor[Train].from_data(logits).require_grad()
    grads = cross_entropy(x, IntTensor[Train].from_data(target)).backward()
    wanted = np.exp(log_softmax(logits, 1)) - np.eye(3)[np.maximum(target, 0)]
    wanted[1] = 0  # is ignored
    np.testing.assert_allclose(grads[x].to_numpy(), wanted / 3, 1e-9)


def test_nothing_to_average_is_nan() -> None:
    x = Tensor[NumPy].zeros((2, 3))
    assert np.isnan(cross_entropy(x, IntTensor[NumPy].full((2,), -100)).item())
    assert cross_entropy(x, IntTensor[NumPy].full((2,), -100), reduction="sum").item() == 0
    assert cross_entropy(x[:0], IntTensor[NumPy].zeros((0,)), reduction="none").shape == (0,)


def test_squares() -> None:
    x, y = Tensor[NumPy].from_data([1.0, 2.0]), Tensor[NumPy].from_data([3.0, 2.0])
    assert mse_loss(x, y).item() == 2.0
    assert mse_loss(x, y, reduction="sum").item() == 4.0
    assert mse_loss(x, y, reduction="none").tolist() == [4.0, 0.0]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_binary(reduction: Any) -> None:
    a, p, w = rng.standard_normal((4, 3)), rng.random((4, 3)), np.array([0.5, 2.0, 1.5])
    s = 1 / (1 + np.exp(-a))
    losses = -w * (w * p * np.log(s) + (1 - p) * np.log(1 - s))
    x, y, v = (Tensor[NumPy].from_data(values) for values in (a, p, w))
    found = binary_cross_entropy_with_logits(x, y, weight=v, pos_weight=v, reduction=reduction)
    np.testing.assert_allclose(found.to_numpy(), reduced(losses, np.ones((4, 3)), reduction), 1e-9)


def test_binary_far_out_and_its_gradient_at_zero() -> None:
    x = Tensor[Train].from_data([0.0, 1000.0, -1000.0]).require_grad()
    loss = binary_cross_entropy_with_logits(x, Tensor[Train].from_data([1.0, 0.0, 1.0]), reduction="sum")
    assert loss.item() == pytest.approx(2000 + np.log(2))
    assert loss.backward()[x].tolist() == [-0.5, 1.0, -1.0]


@pytest.mark.parametrize("loss", [cross_entropy, nll_loss])
def test_classes_in_the_last_dim_are_told_how_to_go_on(loss: Any) -> None:
    logits, target = Tensor[Train].zeros((2, 5, 3)), IntTensor[Train].zeros((2, 5))
    with pytest.raises(ShapeError, match=r"of shape \(2, 3\); if the classes are last, write .*flatten\(0, -2\)"):
        loss(logits, target)
    assert loss(logits.flatten(0, -2), target.flatten()).ndim == 0
    with pytest.raises(ShapeError, match=r"they must be of shape \(2, 3\)$"):
        loss(logits, target[:, :4])


CLASS = IntTensor[NumPy].from_data(np.arange(70_000) % 3)
WEIGHTS = Tensor[NumPy].from_data([1.0, 3.0, 2.0])
MEANS: dict[str, Callable[[Any], Any]] = {
    "cross_entropy": lambda x: cross_entropy(x, CLASS, ignore_index=2),
    "cross_entropy, large losses": lambda x: cross_entropy(x[:9000] * 50.0, CLASS[:9000], ignore_index=2),
    "cross_entropy, weights": lambda x: cross_entropy(x, CLASS, weight=WEIGHTS.to_dtype(x.dtype)),
    "cross_entropy, smoothed": lambda x: cross_entropy(x, CLASS, ignore_index=2, label_smoothing=0.1),
    "nll_loss": lambda x: nll_loss(x, CLASS),
    "mse_loss, weights": lambda x: mse_loss(x, x * 0.0, weight=x.ones_like()),
    "kl_div": lambda x: kl_div(x[:50] - 1000.0, x[:50].softmax(1) * 50.0, reduction="batchmean"),
    "nanmean": lambda x: x.nanmean(),
}


@every_row("name", MEANS)
def test_means_of_16_bit_floats_whose_sums_are_out_of_range(name: str) -> None:
    """The largest float16 is 65,504, which the sum of all losses, or their number, exceeds."""
    loss = MEANS[name]
    x = Tensor[NumPy].from_data(np.random.default_rng(0).normal(size=(70_000, 3)), dtype="float16")
    wide = x.to_dtype("float64")
    want, slopes = loss(wide).item(), func.grad(lambda x: loss(x) * 500.0)(wide).to_numpy()
    ways: dict[str, Callable[[Any], Any]] = {
        "eager": loss,
        "compiled": compiled(loss),
        "vmap": lambda x: func.vmap(loss)(x.reshape(1, *x.shape))[0],
    }
    for way, f in ways.items():
        assert f(x).item() == pytest.approx(want, rel=4e-3), way
        got = func.grad(lambda x, f=f: f(x) * 500.0)(x).to_numpy()
        assert name == "kl_div" or np.abs(got - slopes).max() <= 2e-2 * np.abs(slopes).max(), way


def test_losses_with_weights_of_classes_are_one_operation_of_the_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, weight = Tensor[NumPy].normal((4, 3)), Tensor[NumPy].from_data([0.5, 2.0, 1.5])
    target = IntTensor[NumPy].from_data([2, 0, 1, 1])
    wanted = nll_loss(logits.log_softmax(1), target, weight=weight)
    monkeypatch.setattr(NumPy, "log_softmax", None)
    assert cross_entropy(logits, target, weight=weight).allclose(wanted)
