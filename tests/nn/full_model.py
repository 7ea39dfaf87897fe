"""A module with one of everything that a module can store, and the paths of its parameters and buffers."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.nn import BoolBuffer, Buffer, IntBuffer, Linear, Module, Param, Relu

B = TypeVar("B", bound=Backend)
Train = Autodiff[NumPy]


class Parts(NamedTuple):
    first: Any
    second: Any


class Model(Module[B]):
    """A module with one of everything that a module can store."""

    def __init__(self, device: B | type[B]) -> None:
        first, last = Linear(2, 4, device=device), Linear(4, 1, device=device)
        self.layers: Any = [first, Relu(), last]
        self.named = {"a": Linear(1, 1, device=device), "none": None}
        self.pair = Parts(Param(Tensor.ones((3,), device=device)), 7)
        self.tied = last.weight
        self.again = first
        self.nothing = None
        self.count = IntBuffer(IntTensor.zeros((), device=device))
        self.mask = BoolBuffer(BoolTensor.ones((2,), device=device))
        self.mean = Buffer(Tensor.zeros((4,), device=device))
        self.sizes = [1, 2]
        self.words = {"x": 1, 2: "y"}

    def forward(self, x: Tensor[B], scale: float = 1.0) -> Tensor[B]:
        for layer in self.layers:
            x = layer(x)
        return x * scale


PARAMS = [
    "layers.0.weight",
    "layers.0.bias",
    "layers.2.weight",
    "layers.2.bias",
    "named.a.weight",
    "named.a.bias",
    "pair.first",
]
BUFFERS = ["count", "mask", "mean"]


def ids(model: Module[Any]) -> dict[str, str]:
    return {path: entry.id or "" for path, entry in model.state().items()}


def holding(**fields: Any) -> Module[Any]:
    class Holder(Module[Any]):
        def __init__(self) -> None:
            for name, value in fields.items():
                setattr(self, name, value)

    return Holder()


def plain(*shape: int) -> Tensor[NumPy]:
    return Tensor[NumPy].ones(shape)
