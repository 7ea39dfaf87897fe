"""Normalization layers: their formulas, and the running statistics of training passes, which serve eval mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Generator, Tensor
from burnpy.autodiff import checkpoint
from burnpy.backend import NumPy
from burnpy.func import compiled, grad, jvp, vmap
from burnpy.nn import BatchNorm, InstanceNorm, LayerNorm, functional, stepped
from tests.rows import every_row

Train = Autodiff[NumPy]
D: Any = {"device": Train}


def drawn(*shape: int, device: Any = Train, seed: int = 0) -> Tensor[Any]:
    return Tensor.normal(shape, generator=Generator(seed), device=device)


def test_layer_norm_has_mean_0_and_variance_1() -> None:
    out = LayerNorm((3, 4), **D)(drawn(5, 3, 4) * 3.0 + 2.0).to_numpy().reshape(5, -1)
    np.testing.assert_allclose(out.mean(1), 0.0, atol=1e-6)
    np.testing.assert_allclose(out.var(1), 1.0, rtol=1e-4)


@pytest.mark.parametrize(("shape", "sizes"), [((2, 0), 0), ((0, 3), (0, 3)), ((2, 0, 3), (0, 3))])
def test_norms_of_groups_without_elements_are_empty(shape: tuple[int, ...], sizes: Any) -> None:
    x = drawn(*shape).require_grad()
    for norm in (functional.layer_norm, functional.rms_norm):
        out = norm(x, sizes)
        assert out.shape == out.sum().backward()[x].shape == shape


def norm_stats(norm: BatchNorm[Any]) -> tuple[Any, Any, int]:
    buffers: dict[str, Any] = {**norm.named_buffers()}
    mean, var, count = (buffers[name] for name in ("running_mean", "running_var", "num_batches_tracked"))
    return mean.value.to_numpy(), var.value.to_numpy(), count.value.item()


def test_batch_norm_normalizes_by_the_batch_in_training_and_by_the_past_in_use() -> None:
    x = drawn(6, 3, 4) * 2.0 + 1.0
    norm = BatchNorm(3, eps=0.0, momentum=0.25, **D)
    out = norm(x)
    array = x.to_numpy().transpose(1, 0, 2).reshape(3, -1)
    expected = (array - array.mean(1, keepdims=True)) / array.std(1, keepdims=True)
    np.testing.assert_allclose(out.to_numpy().transpose(1, 0, 2).reshape(3, -1), expected, rtol=1e-4, atol=1e-5)
    grads = (out * out).sum().backward()
    after = stepped(norm, {}, grads.buffer_updates)
    mean, var, count = norm_stats(after)
    np.testing.assert_allclose(mean, 0.25 * array.mean(1), rtol=1e-5)
    np.testing.assert_allclose(var, 0.75 + 0.25 * array.var(1, ddof=1), rtol=1e-5)
    assert count == 1
    used = after.valid()(x.inner()).to_numpy().transpose(1, 0, 2).reshape(3, -1)
    np.testing.assert_allclose(used, (array - mean[:, None]) / np.sqrt(var)[:, None], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(after.eval()(x).to_numpy(), after.valid()(x.inner()).to_numpy())


def test_batch_norm_merges_micro_batches_and_forks_into_one_step() -> None:
    norm = BatchNorm(2, momentum=0.1, **D)
    fork: Any = norm.fork()
    one, two = drawn(5, 2, seed=1), drawn(5, 2, seed=2) + 3.0
    grads = norm(one).sum().backward() * 0.5 + fork(two).sum().backward() * 0.5
    mean, var, count = norm_stats(stepped(norm, {}, grads.buffer_updates))
    means = (one.to_numpy().mean(0) + two.to_numpy().mean(0)) / 2
    variances = (one.to_numpy().var(0, ddof=1) + two.to_numpy().var(0, ddof=1)) / 2
    np.testing.assert_allclose(mean, 0.1 * means, rtol=1e-5)
    np.testing.assert_allclose(var, 0.9 + 0.1 * variances, rtol=1e-5)
    assert count == 2


def test_batch_norm_without_momentum_is_the_mean_of_all_batches() -> None:
    norm: Any = BatchNorm(2, momentum=None, **D)
    batches = [drawn(4, 2, seed=k) for k in range(4)]
    norm = stepped(norm, {}, norm(batches[0]).sum().backward().buffer_updates)
    rest = [norm(b).sum().backward() for b in batches[1:]]
    norm = stepped(norm, {}, (rest[0] + rest[1] + rest[2]).buffer_updates)
    mean, _, count = norm_stats(norm)
    np.testing.assert_allclose(mean, np.mean([b.to_numpy().mean(0) for b in batches], 0), rtol=1e-5)
    assert count == 4


def test_batch_norm_frozen_or_in_use_says_nothing() -> None:
    x = drawn(4, 2).require_grad()
    for norm in (BatchNorm(2, **D).no_grad(), BatchNorm(2, **D).eval(), BatchNorm(2, track_running_stats=False, **D)):
        assert not norm(x).sum().backward().buffer_updates
    kept = BatchNorm(2, **D).no_grad("running_mean")
    assert list(kept(x).sum().backward().buffer_updates) == [kept.named_buffers()["running_var"].id]


def test_batch_norm_in_a_checkpoint_counts_once() -> None:
    norm = BatchNorm(3, **D)
    x = drawn(5, 3)
    plain = norm(x).exp().sum().backward()
    inside = checkpoint(lambda x: norm(x).exp(), x).sum().backward()
    assert {k: v.tolist() for k, v in plain.buffer_updates.items()} == {
        k: v.tolist() for k, v in inside.buffer_updates.items()
    }


def test_a_derivative_of_func_goes_by_the_running_statistics_of_a_plain_model() -> None:
    norm = BatchNorm(2, device=NumPy)
    x = drawn(4, 2, device=NumPy)
    slope = grad(lambda x: norm(x).sum())(x)
    np.testing.assert_allclose(slope.to_numpy(), 1 / np.sqrt(1 + 1e-5), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_a_training_pass_updates_the_running_statistics(dtype: str) -> None:
    norm = InstanceNorm(2, momentum=0.25, track_running_stats=True, device=Train).astype(dtype)
    x = np.random.default_rng(0).normal(3.0, 2.0, (4, 2, 5, 3)).astype(dtype)
    y = norm(Tensor[Train].from_data(x).require_grad())
    after: Any = stepped(norm, {}, y.sum().backward().buffer_updates)
    each = x.reshape(4, 2, -1).astype("float64")
    tolerance = 1e-12 if dtype == "float64" else 3e-3
    np.testing.assert_allclose(after.running_mean.value.to_numpy(), 0.25 * each.mean(2).mean(0), rtol=tolerance)
    variance = 0.75 + 0.25 * each.var(2, ddof=1).mean(0)
    np.testing.assert_allclose(after.running_var.value.to_numpy(), variance, rtol=tolerance)
    assert after.num_batches_tracked.value.item() == 1

    shape = (1, 2, 1, 1)
    mean, var = (b.value.to_numpy().astype("float64").reshape(shape) for b in (after.running_mean, after.running_var))
    expected = (x - mean) / np.sqrt(var + 1e-5)
    np.testing.assert_allclose(
        after.valid()(Tensor[NumPy].from_data(x)).to_numpy(),
        expected,
        rtol=tolerance,
        atol=1e-2 if dtype == "float16" else 0,
    )


def test_the_output_of_training_is_that_of_the_batch() -> None:
    x = Tensor[Train].normal((3, 2, 6))
    tracked, plain = (InstanceNorm(2, track_running_stats=track, device=Train) for track in (True, False))
    assert tracked(x).tolist() == plain(x).tolist()
    assert plain.running_mean is None
    assert not plain.track_running_stats


@every_row(
    "f",
    [
        lambda x: functional.layer_norm(x, (40,)),
        lambda x: functional.rms_norm(x, (40,), eps=1e-5),
        lambda x: functional.group_norm(x, 4),
    ],
)
def test_derivatives_of_large_numbers_of_16_bits(f: Any) -> None:
    """Their squares overflow in float16."""
    x, t = (drawn(3, 40, device=NumPy, seed=k).to_dtype("float16") * 300.0 for k in range(2))

    def tangent(x: Any, t: Any) -> Any:
        return jvp(f, (x,), (t,))[1]

    for derivative in (tangent, lambda x, t: grad(lambda x: tangent(x, t)[:, 0].sum())(x)):
        found, want = derivative(x, t).to_dtype("float64"), derivative(x.to_dtype("float64"), t.to_dtype("float64"))
        assert ((found - want).abs().max() / want.abs().max()).item() < 0.02


@pytest.mark.parametrize(
    ("shape", "dtype", "high", "tolerance"),
    [((4, 6, 8, 8), "float32", 1e7, 1e-4), ((6, 4), "float32", 1e7, 1e-4), ((4, 40), "bfloat16", 200.0, 0.03)],
)
def test_numbers_that_are_large_beside_their_deviations(shape: Any, dtype: str, high: float, tolerance: float) -> None:
    """The mean is rounded by half a deviation."""
    x, t = (drawn(*shape, device=NumPy, seed=k) + shift for k, shift in enumerate((high, 0.0)))
    x, t = x.to_dtype(dtype), t.to_dtype(dtype)
    norms = [
        lambda x: functional.layer_norm(x, x.shape[-1:]),
        lambda x: functional.batch_norm(x, None, None, training=True),
        lambda x: functional.group_norm(x, 2) if len(x.shape) > 3 else x,
        lambda x: functional.batch_norm(x, *[Tensor[NumPy].full(x.shape[1:2], y, dtype=x.dtype) for y in (high, 2.0)]),
    ]

    def derivatives(x: Any, t: Any) -> Any:
        both = [(*jvp(f, (x,), (t,)), grad(lambda x, f=f: (f(x) * t).sum())(x)) for f in norms]
        return [result for each in both for result in each]

    wanted = derivatives(x.to_dtype("float64"), t.to_dtype("float64"))
    batch = [result[0] for result in vmap(derivatives)(x.unsqueeze(0), t.unsqueeze(0))]
    for results in (derivatives(x, t), compiled(derivatives)(x, t), batch):
        for found, want in zip(results, wanted, strict=True):
            assert ((found.to_dtype("float64") - want).abs().max() / want.abs().max()).item() < tolerance


def test_large_and_small_planes_are_normalized_by_running_statistics_alike() -> None:
    x, of_channels = drawn(2, 3, 8, 9) * 3.0 + 100.0, [drawn(3, seed=k).abs() + 0.5 for k in range(1, 5)]
    x, of_channels = x.require_grad(), [value.require_grad() for value in of_channels]
    rows = x.permute(0, 2, 3, 1).reshape(-1, 3)
    planes = functional.batch_norm(x, *of_channels, eps=1e-3)
    alone = functional.batch_norm(rows, *of_channels, eps=1e-3).reshape(2, 8, 9, 3).permute(0, 3, 1, 2)
    assert planes.tolist() == alone.tolist()
    weights = drawn(2, 3, 8, 9, seed=9)
    first, second = ((out * weights).sum().backward() for out in (planes, alone))
    for leaf in (x, *of_channels):
        np.testing.assert_allclose(first[leaf].to_numpy(), second[leaf].to_numpy(), rtol=2e-4, atol=2e-4)
