"""The running statistics of instance normalization are means over a batch's members, and serve eval mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.backend import NumPy
from burnpy.nn import InstanceNorm, stepped

Train = Autodiff[NumPy]


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
