"""PyTorch, eager: untracked under ``no_grad``, tracked with ``requires_grad``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.peers import EXPRESSIONS, Array, Peer, Training

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


class PyTorch(Peer):
    package = "torch"
    expressions = EXPRESSIONS

    def untracked(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        torch.set_grad_enabled(False)
        return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}

    def tracked(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        torch.set_grad_enabled(True)
        return {name: self.leaf(array) for name, array in arrays.items()} | {"torch": torch}

    def differentiated(self, expression: str, leaves: Sequence[str], seed: str | None) -> str:
        return f"torch.autograd.grad({expression}, ({', '.join(leaves)},), {seed})"

    def leaf(self, array: Array) -> Any:
        return torch.from_numpy(array.copy()).requires_grad_()

    def gradients(self, f: Callable[..., Any], leaves: Sequence[Any]) -> Any:
        return torch.autograd.grad(f(*leaves), leaves)

    def gradients_recorded(self, f: Callable[..., Any], arrays: Sequence[Array]) -> Callable[[], Any]:
        leaves = [self.leaf(array) for array in arrays]
        return lambda: torch.autograd.grad(f(*leaves), leaves, create_graph=True)

    def training(
        self, weights: Sequence[Array], images: Array, labels: npt.NDArray[np.int64], optimizer: str
    ) -> Training:
        return Mlp(weights, images, labels, optimizer)


class Mlp(Training):
    """The optimizers are PyTorch's own, which change the parameters in place."""

    def __init__(self, weights: Sequence[Array], images: Array, labels: npt.NDArray[np.int64], optimizer: str) -> None:
        self.parameters = [torch.from_numpy(w.copy()).requires_grad_() for w in weights]
        self.images = [torch.from_numpy(batch.copy()) for batch in images]
        self.labels = [torch.from_numpy(batch.copy()) for batch in labels]
        rate = {"SGD": 0.01, "Adam": 1e-3}[optimizer]
        self.optimizer = getattr(torch.optim, optimizer)(self.parameters, lr=rate)

    def forward(self, batch: int) -> None:
        w1, b1, w2, b2, w3, b3 = self.parameters
        x = (self.images[batch] @ w1 + b1).relu()
        x = (x @ w2 + b2).relu()
        self.last = torch.nn.functional.cross_entropy(x @ w3 + b3, self.labels[batch])

    def backward(self) -> None:
        self.last.backward()

    def update(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()

    def loss(self) -> float:
        return float(self.last)


PEER = PyTorch()
