"""Forks of a model on threads: their gradients are matched by parameter id."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from burnpy import Autodiff, Tensor
from burnpy.backend import NumPy
from burnpy.optim import Adam, GradientsAccumulator, GradientsParams
from tests.optim.models import Mlp, Train, batch, values


def test_two_forks_on_two_threads_are_one_big_batch() -> None:
    whole = forked = Mlp(Train).astype("float64")
    one, two = Adam(), Adam()
    meeting = threading.Barrier(2)

    def worker(fork: Mlp[Autodiff[NumPy]], x: Tensor[Autodiff[NumPy]]) -> GradientsParams[NumPy]:
        meeting.wait(60)
        return GradientsParams.from_grads((fork(x) ** 2).mean().backward(), fork)

    with ThreadPoolExecutor(2) as pool:
        for step in range(5):
            x = batch(10, step / 7.0).to_dtype("float64")
            whole = one.step(0.05, whole, (whole(x) ** 2).mean().backward())
            parts = (x[:6], x[6:])
            result = list(pool.map(worker, [forked.fork() for _ in parts], parts))
            accumulator = GradientsAccumulator[NumPy]()
            for grads, part in zip(result, parts, strict=True):
                accumulator = accumulator.add(grads, weight=len(part))
            forked = two.step(0.05, forked, accumulator.mean())
    for path in ("encoder.weight", "encoder.bias", "head.weight", "head.bias"):
        mine, other = whole.named_params()[path].value, forked.named_params()[path].value
        assert (mine - other).abs().max().item() < 1e-9
    seen = x[:6].mean(dim=0) / 2.0 + x[6:].mean(dim=0) / 2.0
    assert values(forked)["seen"] == pytest.approx(seen.tolist())
