"""`load`: an ONNX file as a module, an `OnnxModel`. Its nodes are read by `burnpy.interop.onnx.reader`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Set
from itertools import count as numbers_from
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError, KindError
from burnpy.interop.onnx.operators.control_flow import Graph, run
from burnpy.interop.onnx.reader import read
from burnpy.nn.module import Module, rebound
from burnpy.nn.param import Buffer, Param
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase, describe, made_of
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff


class OnnxModel(Module[B]):
    """A model read from an ONNX file, whose float initializers are parameters: the result of `load`.

    ``weights`` has them by name, and names with dots in nested dicts, so that a parameter of the file that is called
    ``layers.0.weight`` has the path ``weights.layers.0.weight``.
    """

    def __init__(self, graph: Graph, arrays: Mapping[str, Any], fixed: Set[str], device: B | type[B]) -> None:
        self.graph = graph
        self.paths = _paths(arrays)
        self.weights: dict[str, Any] = {}
        for name, array in arrays.items():
            value = Tensor.from_data(array, dtype=array.dtype, device=device, copy=array.flags.writeable)
            place = self.weights
            *folders, last = self.paths[name]
            for part in folders:
                place = place.setdefault(part, {})
            place[last] = Buffer(value) if name in fixed else Param(value)

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the inputs in the file."""
        return self.graph.inputs

    def forward(self, *inputs: TensorBase[B]) -> Any:
        """Compute the graph; a tuple if it has several outputs.

        Raises:
            ArgumentError: the number of inputs is another one than the graph's.
            KindError: an input is no tensor.
            LoadingError: an operator cannot be computed; the message names the node.
        """
        graph = self.graph
        if len(inputs) != len(graph.inputs):
            raise ArgumentError(
                f"the model takes {len(graph.inputs)} inputs, {', '.join(graph.inputs)}, got {len(inputs)}"
            )
        for name, x in zip(graph.inputs, inputs, strict=True):
            if not isinstance(x, TensorBase):
                raise KindError(f"the model takes a tensor as {name}, got {describe(x)}{made_of(x, 'Tensor')}")
        values: dict[str, Any] = dict(graph.constants)
        for name, path in self.paths.items():
            place: Any = self.weights
            for part in path:
                place = place[part]
            values[name] = place.value
        values.update(zip(graph.inputs, inputs, strict=True))
        results = run(graph, values)
        return results[0] if len(results) == 1 else tuple(results)

    def valid(self: OnnxModel[Autodiff[I]]) -> OnnxModel[I]:
        """Return the model on the inner backend."""
        return rebound(self)


def _paths(names: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the path of each name: its parts between dots, unless another name is a part of it.

    >>> _paths({"a.weight": 0, "b": 0, "b.c": 0, "b_c": 0})
    {'a.weight': ('a', 'weight'), 'b': ('b',), 'b.c': ('b_c_2',), 'b_c': ('b_c',)}
    """
    split = {name: tuple(name.split(".")) for name in names}
    leaves = set(split.values())
    inside = {path for path in leaves if any(path[:k] in leaves for k in range(1, len(path)))}
    taken = leaves | {path[:k] for path in leaves - inside for k in range(1, len(path))}
    paths: dict[str, tuple[str, ...]] = {}
    for name, path in split.items():
        if path in inside or not all(path):
            flat = name.replace(".", "_")
            numbered = (f"{flat}_{k}" for k in numbers_from(2))
            while (path := (flat,)) in taken:
                flat = next(numbered)
            taken.add(path)
        paths[name] = path
    return paths


@explained
def load(path: str | os.PathLike[str], device: B | type[B]) -> OnnxModel[B]:
    """Read an ONNX file as a module.

    Args:
        path: of the file. Data in other files must be in its folder.
        device: where the parameters are placed; on a device that differentiates the model can be trained.

    Returns:
        A module whose inputs are those of the file, in order. Numbers that the file computes from shapes are computed
        on the host, so that a compiled function may call the model.

    Raises:
        LoadingError: the file is damaged, or has operators, attributes or data types without a counterpart; all of
            them are named.
        MissingPackageError: onnx is not installed.

    >>> from burnpy import interop
    >>> from burnpy.nn import Linear
    >>> interop.onnx.export(Linear(4, 2, device=NumPy), (Tensor[NumPy].zeros((1, 4)),), "model.onnx")
    >>> model = interop.onnx.load("model.onnx", Autodiff[NumPy])
    >>> list(model.named_params())
    ['weights.weight', 'weights.bias']
    >>> model(Tensor[Autodiff[NumPy]].ones((1, 4))).shape
    (1, 2)
    """
    graph, arrays, fixed = read(path)
    return OnnxModel(graph, arrays, fixed, device)
