"""burnpy on NumPy: untracked on ``NumPy``, tracked on ``Autodiff[NumPy]``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import burnpy
from benchmarks.peers import EXPRESSIONS, Array, Peer, Training
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import NumPy

Train: TypeAlias = Autodiff[NumPy]


class Burnpy(Peer):
    package = "burnpy"
    expressions = EXPRESSIONS

    def untracked(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        return {name: Tensor[NumPy].from_data(array) for name, array in arrays.items()}

    def tracked(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        return {name: self.leaf(array) for name, array in arrays.items()}

    def differentiated(self, expression: str, leaves: Sequence[str], seed: str | None) -> str:
        read = "; ".join(f"grads[{leaf}]" for leaf in leaves)
        return f"grads = ({expression}).backward({seed or ''}); {read}"

    def leaf(self, array: Array) -> Any:
        return Tensor[Train].from_data(array).require_grad()

    def gradients(self, f: Callable[..., Any], leaves: Sequence[Any]) -> Any:
        grads = f(*leaves).backward()
        return [grads[leaf] for leaf in leaves]

    def gradients_recorded(self, f: Callable[..., Any], arrays: Sequence[Array]) -> Callable[[], Any]:
        leaves = [Tensor[Autodiff[Train]].from_data(array).require_grad() for array in arrays]
        return lambda: self.gradients(f, leaves)

    def training(
        self, weights: Sequence[Array], images: Array, labels: npt.NDArray[np.int64], optimizer: str
    ) -> Training:
        return Mlp(weights, images, labels, optimizer)


class Mlp(Training):
    """The optimizers are written by hand, as arithmetic of immutable tensors on the inner backend."""

    def __init__(self, weights: Sequence[Array], images: Array, labels: npt.NDArray[np.int64], optimizer: str) -> None:
        self.parameters = [Tensor[Train].from_data(w).require_grad() for w in weights]
        self.images = [Tensor[Train].from_data(batch) for batch in images]
        self.labels = [IntTensor[Train].from_data(batch) for batch in labels]
        self.rule = self.sgd if optimizer == "SGD" else self.adam
        self.first = [p.inner() * 0.0 for p in self.parameters]
        self.second = self.first
        self.count = 0

    def forward(self, batch: int) -> None:
        w1, b1, w2, b2, w3, b3 = self.parameters
        x = (self.images[batch] @ w1 + b1).relu()
        x = (x @ w2 + b2).relu()
        self.last = burnpy.cross_entropy(x @ w3 + b3, self.labels[batch])

    def backward(self) -> None:
        self.grads = self.last.backward()

    def update(self) -> None:
        self.parameters = [Tensor[Train].from_inner(p).require_grad() for p in self.rule()]
        del self.grads

    def sgd(self) -> list[Tensor[NumPy]]:
        return [p.inner() - self.grads[p] * 0.01 for p in self.parameters]

    def adam(self) -> list[Tensor[NumPy]]:
        self.count += 1
        rate, scale = 1e-3 / (1 - 0.9**self.count), (1 - 0.999**self.count) ** -0.5
        grads = [self.grads[p] for p in self.parameters]
        self.first = [m * 0.9 + g * 0.1 for m, g in zip(self.first, grads, strict=True)]
        self.second = [v * 0.999 + g * g * 0.001 for v, g in zip(self.second, grads, strict=True)]
        moved = zip(self.parameters, self.first, self.second, strict=True)
        return [p.inner() - m * rate / (v.sqrt() * scale + 1e-8) for p, m, v in moved]

    def loss(self) -> float:
        return float(self.last.item())


PEER = Burnpy()
