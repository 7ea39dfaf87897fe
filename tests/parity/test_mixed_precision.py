"""Mixed precision beside `torch.autocast`: from the same weights and batches, the losses of both follow one curve.

They are not equal to the bit: `Mixed` rounds the operands of products and keeps their results in float32, where PyTorch
rounds the results too, and adds biases to those; how, depends on the processor. The tolerances, relative to the first
loss, are three times the largest difference found on processors with and without instructions for bfloat16.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from benchmarks.tasks import task
from burnpy import Autodiff, IntTensor, cross_entropy
from burnpy.backend import Mixed, NumPy
from burnpy.optim import Adam, GradientsParams, GradScaler, clip_by_global_norm

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
pytestmark = pytest.mark.slow

STEPS, BATCHES, RATE, SCALE = 24, 2, 1e-2, 1024.0
TOLERANCES = {
    ("MLP", "bfloat16"): 0.003,
    ("MLP", "float16"): 0.0005,
    ("CNN", "bfloat16"): 0.1,
    ("CNN", "float16"): 0.0015,
    ("mini-GPT", "bfloat16"): 0.1,
    ("mini-GPT", "float16"): 0.03,
}
"""The difference of the losses of any step, relative to the first. The transformer's activations lie between products,
and so on rounded results in PyTorch."""


@cache
def our_losses(model: str, dtype: str | None) -> list[float]:
    """Losses in mixed precision, scaled in float16; or in float32 for None."""
    from benchmarks.peers.ours import inputs_of, model_of

    one, scaled = task(model, "float32", small=True), dtype == "float16"
    inner: Any = NumPy() if dtype is None else Mixed(NumPy, dtype)
    device: Any = Autodiff(inner)
    net, optim, scaler = model_of(one, device), Adam(), GradScaler(inner, init_scale=SCALE)
    batches, losses = inputs_of(one, device), []
    for step in range(STEPS):
        k = step % BATCHES
        labels = IntTensor.from_data(one.labels[k].reshape(-1), device=device)
        loss = cross_entropy(net(batches[k]), labels)
        losses.append(loss.item())
        grads = GradientsParams.from_grads((scaler.scale(loss) if scaled else loss).backward(), net)
        if scaled:
            grads, scaler = scaler.unscale(grads)
        net = optim.step(RATE, net, clip_by_global_norm(grads, 1.0))
    return losses


@cache
def torch_losses(model: str, dtype: str) -> list[float]:
    """Losses within `torch.autocast` on the CPU, scaled in float16."""
    from benchmarks.peers.pytorch import model_of

    one, scaled = task(model, "float32", small=True), dtype == "float16"
    net = model_of(one)
    optim = torch.optim.Adam(net.parameters(), lr=RATE)
    scaler = torch.amp.GradScaler("cpu", init_scale=SCALE, enabled=scaled)
    losses = []
    for step in range(STEPS):
        k = step % BATCHES
        with torch.autocast("cpu", getattr(torch, dtype)):
            logits = net(torch.from_numpy(one.inputs[k].copy()))
            loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(one.labels[k].reshape(-1).copy()))
        losses.append(loss.item())
        optim.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optim)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optim)
        scaler.update()
    return losses


def furthest(ours: list[float], theirs: list[float]) -> float:
    """The largest difference of two curves, relative to the first loss."""
    return float(np.abs(np.subtract(ours, theirs)).max()) / theirs[0]


@pytest.mark.parametrize(("model", "dtype"), TOLERANCES)
def test_losses_follow_those_of_autocast(model: str, dtype: str) -> None:
    ours, theirs = our_losses(model, dtype), torch_losses(model, dtype)
    assert theirs[-1] < 0.7 * theirs[0], "nothing is learnt"
    assert furthest(ours, theirs) < TOLERANCES[model, dtype]


def test_losses_in_float32_do_not() -> None:
    assert furthest(our_losses("CNN", None), torch_losses("CNN", "float16")) > TOLERANCES["CNN", "float16"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_operands_are_rounded(dtype: str) -> None:
    """The first loss differs from the loss in float32 by the rounding of 16 bits, and by no more."""
    difference = abs(our_losses("CNN", dtype)[0] / our_losses("CNN", None)[0] - 1)
    assert 1e-6 < difference < 1e-2
