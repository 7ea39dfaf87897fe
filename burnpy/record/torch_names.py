"""PyTorch's names of a model's parameters, and which of them PyTorch stores transposed.

A layer whose names differ has a method or attribute ``torch_names``: a mapping from its own names, relative to the
layer, to PyTorch's, which end in ``.T`` for a transposed parameter; as in ``{"weight": "weight.T"}``. A name may also
refer to a whole submodule. Names that are not in the mapping are the same in PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from burnpy.nn.module import Module
from burnpy.nn.module_base import ModuleBase
from burnpy.nn.tree import joined, walk
from burnpy.nn.variable import Variable

TRANSPOSED = ".T"


class TorchName(NamedTuple):
    """PyTorch's name of a parameter or buffer, and whether PyTorch stores it transposed."""

    name: str
    transposed: bool


def torch_names(model: Module[Any]) -> dict[str, TorchName]:
    """Return PyTorch's name of every parameter and buffer, by path; a shared one is listed under each of its paths.

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
    names: Any = getattr(layer, "torch_names", None)
    if callable(names):
        names = names()
    return names or {}


def _translated(path: str, known: Mapping[str, Mapping[str, str]]) -> TorchName:
    """Translate a path, from the outermost module inwards: the longest name that each module's mapping has first."""
    parts = path.split(".")
    name, transposed = "", False
    start = 0
    while start < len(parts):
        names = known.get(".".join(parts[:start]), {})
        for end in range(len(parts), start, -1):
            torch_name = names.get(".".join(parts[start:end]))
            if torch_name is not None:
                transposed = torch_name.endswith(TRANSPOSED)
                name = joined(name, torch_name.removesuffix(TRANSPOSED))
                start = end
                break
        else:
            name = joined(name, parts[start])
            start += 1
    return TorchName(name, transposed)
