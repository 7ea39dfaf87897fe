"""Registration of modules as pytrees with `burnpy.func`, so that ``grad(loss)(model)`` returns a module of gradients.

The leaves of a module are the values of its parameters, shared ones once; buffers and everything else are constants.
The derivative is a module with gradients in place of parameters and the same buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnpy.func.pytree import register_tree
from burnpy.nn.base import ModuleBase
from burnpy.nn.tree import Rebuild
from burnpy.nn.variable import Param, Variable


class ModuleStructure:
    """The structure of a module without its parameters' values. Equal if classes, paths and shapes are equal."""

    __slots__ = ("_key", "module")

    def __init__(self, module: ModuleBase[Any]) -> None:
        self.module = module
        self._key = (
            tuple((path, type(part)) for path, part in module.named_modules().items()),
            tuple((path, variable.shape) for path, variable in module.named_params().items()),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModuleStructure) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def flatten_module(module: ModuleBase[Any]) -> tuple[list[Any], ModuleStructure]:
    """Flatten a module into the values of its parameters and its structure."""
    return [param.value for param in module.params()], ModuleStructure(module)


def unflatten_module(values: Sequence[Any], structure: ModuleStructure) -> Any:
    """Rebuild a module from parameter values, unchecked, and a structure returned by `flatten_module`."""
    new = dict(zip(map(id, structure.module.params()), values, strict=True))

    def valued(path: str, variable: Variable[Any]) -> Variable[Any]:
        return variable._unchecked(new[id(variable)]) if isinstance(variable, Param) else variable

    return Rebuild(valued)(structure.module)


register_tree(ModuleBase, flatten_module, unflatten_module)
