"""A model with dropout and running statistics, and functions for workers: quick, killed, failing and slow ones."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import burnpy
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.metrics import Mean
from burnpy.nn import BatchNorm, Dropout, Linear, Relu, Sequential
from burnpy.optim import GradientsParams, Sgd

Train = Autodiff[NumPy]
X = np.random.default_rng(0).normal(size=(24, 5)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)


def net() -> Any:
    burnpy.manual_seed(1)
    return Sequential(
        Linear(5, 8, device=Train), BatchNorm(8, device=Train), Relu(), Dropout(0.3), Linear(8, 2, device=Train)
    )


def gradients(model: Any, rows: Any) -> GradientsParams[NumPy]:
    logits = model(Tensor[Train].from_data(X[rows]))
    loss = burnpy.cross_entropy(logits, IntTensor[Train].from_data(Y[rows]))
    return GradientsParams.from_grads(loss.backward(), model)


def square(offset: float, x: float) -> float:
    return offset + x * x


def delayed(offset: float, x: float) -> float:
    time.sleep(0.02 * (5 - x))  # so that later shares are done first
    return offset + x


def pid(seconds: float, share: int) -> int:
    time.sleep(seconds)
    return os.getpid()


def mean_of(factor: float, x: Tensor[NumPy]) -> Mean:
    return Mean.of(x * factor)


def killed(given: tuple[Any, str, int], rows: Any) -> GradientsParams[NumPy]:
    """The gradients; the process is killed amid it as often as said, counted by files in a folder."""
    model, folder, kills = given
    for k in range(kills):
        try:
            Path(folder, f"{k}").touch(exist_ok=False)
        except FileExistsError:
            continue
        os.kill(os.getpid(), signal.SIGKILL)
    return gradients(model, rows)


def always_killed(model: Any, share: int) -> int:
    if share == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return share


def failing(model: Any, share: int) -> int:
    if share == 2:
        raise LookupError(f"there is no share {share}")
    return share


def stuck(folder: str, share: int) -> int:
    try:
        Path(folder, "stuck").touch(exist_ok=False)
    except FileExistsError:
        return share
    time.sleep(600)
    return -1


def a_lock(model: Any, share: int) -> Any:
    return threading.Lock()


def trained(mean: Any) -> bytes:
    """The weights after three steps with a function from a model and shares to mean gradients."""
    model, optim = net(), Sgd(momentum=0.9)
    for step in range(3):
        rows = np.random.default_rng(step).permutation(24)[:17]
        model = optim.step(0.1, model, mean(model, np.array_split(rows, 4)))
    return b"".join(entry.value.tobytes() for _, entry in sorted(model.into_record().items()))
