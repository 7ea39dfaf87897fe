"""A training step of a convolutional network keeps its pictures in one order of memory: nothing is transposed."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.backend import Backend, Decorator, NumPy, Operation
from burnpy.nn import BatchNorm, Conv2d, Flatten, Linear, MaxPool2d, Relu, Sequential
from burnpy.optim import Adam

pytest.importorskip("llvmlite")

from burnpy_numpy import cpu_threads as threads
from burnpy_numpy.kernels.convolution import conv2d, tiles

I = TypeVar("I", bound=Backend)  # noqa: E741
Seen = list[tuple[str, bool, Any]]
seen: ContextVar[Seen | None] = ContextVar("seen", default=None)


class Watched(Decorator[I], Generic[I]):
    """Notes the pictures that operations are given, and return."""

    word = "watches"

    def around(self, op: Operation, f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        result = f(*args)
        found = seen.get()
        results = result if isinstance(result, tuple) else (result,)
        for x in (*args, *results):
            if found is not None and isinstance(x, np.ndarray) and x.ndim == 4 and x.shape[0] == MEMBERS:
                found.append((op.name, x.flags.c_contiguous, x))
        return result


MEMBERS = 24


def test_a_step_of_a_convolutional_network_transposes_nothing(
    noted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    device: Any = Autodiff[Watched[NumPy]]
    model: Any = Sequential(
        Conv2d(3, 16, 3, padding=1, bias=False, device=device),
        BatchNorm(16, device=device),
        Relu(),
        MaxPool2d(2),
        Conv2d(16, 24, 3, padding=1, device=device),
        BatchNorm(24, device=device),
        Relu(),
        MaxPool2d(2),
        Flatten(),
        Linear(24 * 4 * 4, 10, device=device),
    )
    optim = Adam()
    x = Tensor.from_data(
        np.random.default_rng(0).standard_normal((MEMBERS, 3, 16, 16)).astype(np.float32), device=device
    )
    padded: list[int] = []
    copy = tiles.Windows._copy

    def counted(self: Any, x: Any, steps: tuple[int, int, int]) -> Any:
        padded.append(x.shape[0])
        return copy(self, x, steps)

    monkeypatch.setattr(tiles.Windows, "_copy", counted)
    for module in (threads, conv2d):
        monkeypatch.setattr(module, "COUNT", 1)  # several threads may each lay out an input
    found: Seen = []
    seen.set(found)
    try:
        optim.step(0.1, model, (model(x) * model(x)).mean().backward())
    finally:
        seen.set(None)
    operations = {name for name, _, _ in found}
    assert {"conv2d", "conv2d_bias", "conv2d_input", "conv2d_weight", "max_pool2d_backward"} <= operations
    assert {"normalize", "relu", "normalize_backward", "relu_backward"} <= operations
    assert [(name, x.shape, x.strides) for name, whole, x in found if not whole] == []
    # The only copies are for windows beyond the edges: each kernel of convolution copies its input, once. The vectors
    # decide which convolutions are kernels; with 3 channels, all are.
    kernels = [k.program.name for k in noted if k.program.name in ("convolution", "weight_gradient")]
    assert set(kernels) == {"convolution", "weight_gradient"}
    assert sum(padded) == MEMBERS * len(kernels)
