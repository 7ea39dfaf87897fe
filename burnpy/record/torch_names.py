"""What PyTorch calls the parameters of a model's layers, and which of them it keeps transposed.

A layer whose names differ says so itself, with a method or attribute ``torch_names``: PyTorch's name for each of its
own, relative to the layer, with ``.T`` at the end of one that is transposed; as in ``{"weight": "weight.T"}``. A name
may be of a whole submodule. What is not named is called the same there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from burnpy.nn.base import ModuleBase
from burnpy.nn.module import Module
from burnpy.nn.tree import joined, walk
from burnpy.nn.variable import Variable

TRANSPOSED = ".T"


class TorchName(NamedTuple):
    """Where PyTorch keeps a parameter or buffer."""

    name: str
    transposed: bool


def torch_names(model: Module[Any]) -> dict[str, TorchName]:
    """PyTorch's name of every parameter and buffer, by path; of what is shared, for each of its paths.

    >>> from burnpy.backend import NumPy
    >>> from burnpy.nn import Linear, Sequential
    >>> torch_names(Sequential(Linear(2, 3, device=NumPy)))["0.weight"]
    TorchName(name='0.weight', transposed=True)
    """
    modules: dict[str, ModuleBase[Any]] = {}
    paths = []
    for path, item in walk(model):
        if isinstance(item, Variable):
            paths.append(path)
        else:
            modules[path] = item
    known = {path: _names(module) for path, module in modules.items()}
    return {path: _translated(path, known) for path in paths}


def _names(layer: ModuleBase[Any]) -> Mapping[str, str]:
    found: Any = getattr(layer, "torch_names", None)
    if callable(found):
        found = found()
    return found or {}


def _translated(path: str, known: Mapping[str, Mapping[str, str]]) -> TorchName:
    """A path with each part as the innermost module around it calls it, outer modules first."""
    parts = path.split(".")
    name, transposed = "", False
    start = 0
    while start < len(parts):
        names = known.get(".".join(parts[:start]), {})
        for end in range(len(parts), start, -1):
            given = names.get(".".join(parts[start:end]))
            if given is not None:
                transposed = given.endswith(TRANSPOSED)
                name = joined(name, given.removesuffix(TRANSPOSED))
                start = end
                break
        else:
            name = joined(name, parts[start])
            start += 1
    return TorchName(name, transposed)
