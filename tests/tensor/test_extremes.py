"""Numbers whose squares over- or underflow: results are right, infinite or NaN, and never wrong in silence."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnpy import (
    Autodiff,
    IntTensor,
    Tensor,
    binary_cross_entropy_with_logits,
    cosine_similarity,
    cross_entropy,
    linalg,
    nll_loss,
)
from burnpy.backend import NumPy
from burnpy.nn import functional
from burnpy.optim import clip_by_global_norm
from tests.rows import every_row

EXAMPLES = settings(max_examples=int(os.environ.get("BURNPY_LONG_TESTS", "60")))
Train = Autodiff[NumPy]
INF = float("inf")
CASES: dict[str, tuple[Callable[[Any], Any], int]] = {
    # a title, the function, and its degree: f(x · 2ᵏ) = f(x) · 2 to the power degree · k
    "std": (lambda x: x.std(1), 1),
    "std of columns": (lambda x: x.std(0), 1),
    "std of all": (lambda x: x.std(), 1),
    "layer_norm": (lambda x: functional.layer_norm(x, x.shape[1], eps=0.0), 0),
    "batch_norm": (lambda x: functional.batch_norm(x.unsqueeze(2), None, None, training=True, eps=0.0), 0),
    "batch_norm of images": (
        lambda x: functional.batch_norm(x.reshape(1, 4, -1, 1), None, None, training=True, eps=0.0),
        0,
    ),
    "rms_norm": (
        lambda x: x._like(x.device.rms_norm(x._primitive, x[0].detach().ones_like()._primitive, (1,), 0.0)),
        0,
    ),
    "normalize": (lambda x: functional.normalize(x, eps=0.0), 0),
    "normalize, columns": (lambda x: functional.normalize(x, 3.0, 0, eps=0.0), 0),
    "length": (lambda x: linalg.vector_norm(x, dim=1), 1),
    "cosine_similarity": (lambda x: cosine_similarity(x[:2], x[2:], eps=0.0), 0),
}
NORMS = [name for name in CASES if "_norm" in name]


def outcome(f: Any, x: Any, weights: Any) -> tuple[Any, Any]:
    """The value, and the gradient of its weighted sum."""
    leaf: Any = Tensor[Train].from_data(x).require_grad()
    out = f(leaf)
    grads = (out * Tensor[Train].from_data(weights[: out.numel()].reshape(out.shape))).sum().backward()
    return out.to_numpy(), grads[leaf].to_numpy()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@EXAMPLES
@given(st.data())
def test_scaling_by_a_power_of_two_changes_no_digit(name: str, data: st.DataObject) -> None:
    """Up to where the numbers, or their gradients, leave the range of the dtype themselves."""
    f, degree = CASES[name]
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    limits: Any = np.finfo(dtype)
    width = data.draw(st.sampled_from([4, 12]))
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = generator.uniform(-1, 1, (4, width)).astype(dtype)
    weights = generator.uniform(-1, 1, x.size).astype(dtype)
    low = 0 if name in NORMS else limits.minexp // 2 - 20  # with eps = 0 what underflows is NaN
    power = data.draw(st.integers(low, limits.maxexp - 20))
    value, gradient = outcome(f, x, weights)
    found, slope = outcome(f, np.ldexp(x, power), weights)
    rough = 64 * limits.eps
    wanted = np.ldexp(value, degree * power)
    # A number close to its row's mean loses digits in the subtraction, and which ones depends on the path taken.
    np.testing.assert_allclose(found, wanted, rtol=rough, atol=4 * limits.eps * abs(wanted).max())
    wanted = np.ldexp(gradient, (degree - 1) * power)
    np.testing.assert_allclose(slope, wanted, rtol=1e3 * limits.eps, atol=rough * abs(wanted).max() + limits.tiny)


def test_layer_norm_of_one_large_number() -> None:
    x = Tensor[NumPy].from_data([[1e300, 1.0], [3.0, 1.0]], dtype="float64")
    np.testing.assert_allclose(functional.layer_norm(x, 2, eps=0.0).to_numpy(), [[1.0, -1.0], [1.0, -1.0]])
    x = Tensor[NumPy].from_data([[1e30, 1.0] * 8])
    np.testing.assert_allclose(functional.layer_norm(x, 16).to_numpy(), [[1.0, -1.0] * 8], rtol=1e-6)


def test_float16_of_a_variance_beyond_its_range() -> None:
    """Its variance is infinite in float16, and its gradient is not 0."""
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(3, 16)) * 1e4, rng.normal(size=48)
    f = lambda x: functional.layer_norm(x, 16)  # noqa: E731
    _, want = outcome(f, x.astype(np.float16).astype(np.float64), weights.astype(np.float16).astype(np.float64))
    _, found = outcome(f, x.astype(np.float16), weights.astype(np.float16))
    assert abs(want).max() > 1e-5
    np.testing.assert_allclose(found, want, rtol=0.02, atol=1e-6)


@every_row("size", [1e-45, 1e-30, 1e-20, 1.0, 1e20, 1e38])
def test_norms_of_gradients(size: float) -> None:
    x: Any = Tensor[Train].from_data([0.0, 0.0]).require_grad()
    grads = (x * size).sum().backward()
    size = float(np.float32(size))
    norm = np.float32(size * 2**0.5)
    np.testing.assert_allclose(grads.norm().item(), norm, rtol=1e-6)
    clipped = clip_by_global_norm(grads, 1.0)[x].to_numpy()
    np.testing.assert_allclose(clipped, size * min(1.0, 1 / (float(norm) + 1e-6)), rtol=1e-6)


def test_the_default_of_normalize_is_nan_where_it_overflows() -> None:
    """Backends that have none of their own: not 0."""
    from burnpy.backend.operations.normalization import Normalization

    x, one = np.array([[1e30, 1.0]], np.float32), np.ones(2, np.float32)
    device: Any = NumPy()
    out, mean, var = Normalization.normalize(device, x, one, one, (1,), 1e-5)
    assert np.isnan(out).all()
    assert np.isnan(Normalization.normalize_backward(device, x, x, one, mean, var, (1,), 1e-5)[0]).all()
    assert np.isnan(Normalization.rms_norm(device, x, one, (1,), 1e-5)).all()


@every_row("pos_weight", [None, 2.0])
@every_row(
    "logit, target, loss, gradient",
    [
        (INF, 0.0, INF, 1.0),
        (INF, 0.5, INF, 0.5),
        (INF, 1.0, 0.0, 0.0),
        (-INF, 0.0, 0.0, 0.0),
        (-INF, 0.5, INF, -0.5),
        (-INF, 1.0, INF, -1.0),
        (-1e30, 0.0, 0.0, 0.0),
        (1e30, 1.0, 0.0, 0.0),
        (float("nan"), 1.0, float("nan"), float("nan")),
    ],
)
def test_binary_cross_entropy_at_infinity(
    logit: float, target: float, loss: float, gradient: float, pos_weight: float | None
) -> None:
    """The limit and its derivative; pos_weight scales it on the side of the negative logits."""
    x: Any = Tensor[Train].from_data([logit, 0.0]).require_grad()
    weight = None if pos_weight is None else x.detach().full_like(pos_weight)
    losses = binary_cross_entropy_with_logits(x, x.detach().full_like(target), pos_weight=weight, reduction="none")
    np.testing.assert_allclose(losses.to_numpy()[0], loss)
    scale = pos_weight if pos_weight is not None and logit < 0 else 1.0
    np.testing.assert_allclose(losses.sum().backward()[x].to_numpy()[0], gradient * scale)


def test_what_does_not_count_does_not_count_however_large() -> None:
    """Targets and weights of 0 times a loss that is infinite."""
    x: Any = Tensor[Train].from_data([[0.0, -INF, 1.0]]).require_grad()
    loss = cross_entropy(x, x.detach().zeros_like() + Tensor[Train].from_data([0.25, 0.0, 0.75]))
    np.testing.assert_allclose(loss.item(), 0.5632617, rtol=1e-6)
    p = np.exp([0.0, 1.0]) / (1 + np.e)
    np.testing.assert_allclose(loss.backward()[x].to_numpy(), [[p[0] - 0.25, 0.0, p[1] - 0.75]], atol=1e-7)
    index = IntTensor[Train].from_data([1, 0])
    log_p: Any = Tensor[Train].from_data([[-0.5, -INF, -1.0], [-0.5, -INF, -1.0]]).require_grad()
    loss = nll_loss(log_p, index, weight=Tensor[Train].from_data([1.0, 0.0, 1.0]))
    assert loss.item() == 0.5
    assert loss.backward()[log_p].tolist() == [[0.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]
