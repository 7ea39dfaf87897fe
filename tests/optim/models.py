"""Models for the tests of `burnpy.optim`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from burnpy import Autodiff, Gradients, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.nn import Buffer, Linear, Module, Param, record_update
from burnpy.optim import GradientsParams

B = TypeVar("B", bound=Backend)
Train = Autodiff[NumPy]


class Vector(Module[B]):
    """A module with one parameter."""

    def __init__(self, values: Sequence[float], device: B | type[B], dtype: str = "float64") -> None:
        self.w = Param(Tensor.from_data(list(values), dtype=dtype, device=device))

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        return (self.w.value * x).sum()


class Mlp(Module[B]):
    """Two layers and a buffer with the mean of the inputs."""

    def __init__(self, device: B | type[B]) -> None:
        self.encoder = Linear(3, 4, device=device)
        self.head = Linear(4, 2, device=device)
        self.seen = Buffer(Tensor.zeros((3,), device=device))

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        x = record_update(x * 1.0, self.seen, x.mean(dim=0))
        return self.head(self.encoder(x).tanh())


class Two(Module[B]):
    """A product of two vectors."""

    def __init__(self, device: B | type[B], dtype: str = "float64") -> None:
        self.a = Param(Tensor.from_data([1.0, 2.0], dtype=dtype, device=device))
        self.b = Param(Tensor.from_data([3.0, 4.0], dtype=dtype, device=device))

    def forward(self) -> Tensor[B]:
        return (self.a.value * self.b.value).sum()


def vector(*values: float, dtype: str = "float64") -> Vector[Autodiff[NumPy]]:
    return Vector(values, Train, dtype)


def two(dtype: str = "float64") -> Two[Autodiff[NumPy]]:
    return Two(Train, dtype)


def gradients(model: Vector[Autodiff[NumPy]], grad: Sequence[float]) -> Gradients[NumPy]:
    """Gradients with the values ``grad``."""
    return model(Tensor[Train].from_data(list(grad), dtype=model.w.dtype)).backward()


def of_two(model: Two[Autodiff[NumPy]]) -> GradientsParams[NumPy]:
    return GradientsParams.from_grads(model().backward(), model)


def values(model: Module[Any]) -> dict[str, Any]:
    """The parameters and buffers of a model as lists."""
    return {path: entry.value.tolist() for path, entry in model.state().items()}


def batch(rows: int, seed: float = 0.0) -> Tensor[Autodiff[NumPy]]:
    """Example inputs of `Mlp`."""
    return Tensor[Train].from_data([[(7.3 * r + 1.7 * c + seed) % 1.0 for c in range(3)] for r in range(rows)])
