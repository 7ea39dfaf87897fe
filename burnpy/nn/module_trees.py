"""Modules as trees for `burnpy.func`.

For derivatives a module is a tree of its parameters: ``grad(loss)(model)`` returns a module of gradients. For functions
that are compiled as a whole, it is a tree of all its tensors, buffers included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_
from typing import Any

from burnpy.func.pytree import Handler, register_tree, register_whole
from burnpy.nn.module_base import ModuleBase
from burnpy.nn.tree import Rebuild, Recipe
from burnpy.nn.variable import Variable


class ModuleStructure:
    """The structure of a module without its parameters' values. Equal if classes, paths and shapes are equal."""

    __slots__ = ("_known", "module", "params")

    def __init__(self, module: ModuleBase[Any], params: tuple[Variable[Any], ...]) -> None:
        self.module, self.params = module, params
        self._known: tuple[Any, ...] | None = None

    @property
    def _key(self) -> tuple[Any, ...]:
        if self._known is None:
            self._known = (
                tuple((path, type(part)) for path, part in self.module.named_modules().items()),
                tuple((path, variable.shape) for path, variable in self.module.named_params().items()),
            )
        return self._known

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModuleStructure) and (self.module is other.module or self._key == other._key)

    def __hash__(self) -> int:
        return hash(self._key)


def flatten_module(module: ModuleBase[Any]) -> tuple[list[Any], ModuleStructure]:
    """Flatten a module into the values of its parameters and its structure.

    Shared parameters are there once; buffers and everything else are constants of the structure, so that a derivative
    is a module with gradients in place of parameters and the same buffers.
    """
    params = module.params()
    return [param._value for param in params], ModuleStructure(module, params)


def unflatten_module(values: Sequence[Any], structure: ModuleStructure) -> Any:
    """Rebuild a module from parameter values, unchecked, and a structure returned by `flatten_module`."""
    if all(map(is_, values, [param._value for param in structure.params])):
        return structure.module
    return _with_values(structure.module, structure.params, values)


def _with_values(module: ModuleBase[Any], variables: Iterable[Variable[Any]], values: Sequence[Any]) -> Any:
    """Rebuild a module with other values of some of its variables, unchecked."""
    known = {id(variable): variable._unchecked(value) for variable, value in zip(variables, values, strict=True)}
    return Rebuild(known=known)(module)


class WholeStructure:
    """A module without the values of its parameters and buffers. It keeps neither them nor the module alive.

    Two are equal if their modules have the same classes, ids, settings and modes, so that one may have the other's
    values. Settings are compared with ``==``, and where that gives no bool, by identity.
    """

    __slots__ = ("_key", "_settings", "recipe")

    def __init__(self, module: ModuleBase[Any], variables: dict[str, Variable[Any]]) -> None:
        parts = module.named_modules()
        self._key = (
            tuple([(path, type(part), part._override) for path, part in parts.items()]),
            tuple([(path, type(v), v._id, getattr(v, "_frozen", False)) for path, v in variables.items()]),
        )
        self._settings = [
            {name: value for name, value in vars(part).items() if name not in part._parts} for part in parts.values()
        ]
        empty = Recipe(module)([None] * len(variables))
        self.recipe = Recipe(empty)  #: how to rebuild the module with other values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WholeStructure):
            return False
        return self is other or (self._key == other._key and all(map(_same, self._settings, other._settings)))

    def __hash__(self) -> int:
        return hash(self._key)


def _same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    """Return whether the settings of two modules are equal."""
    return left.keys() == right.keys() and all(
        value is right[name] or bool(type(value) is type(right[name]) and value == right[name])
        for name, value in left.items()
    )


def flatten_whole(module: ModuleBase[Any]) -> tuple[list[Any], WholeStructure]:
    """Flatten a module into the values of its parameters and buffers, and its structure."""
    known: tuple[list[Any], WholeStructure] | None = module._whole
    if known is None:
        variables = module._variables()
        known = [variable._value for variable in variables.values()], WholeStructure(module, variables)
        object.__setattr__(module, "_whole", known)
    return known


def unflatten_whole(values: Sequence[Any], structure: WholeStructure) -> Any:
    """Rebuild a module from the values of its parameters and buffers, unchecked."""
    module = structure.recipe(values)
    object.__setattr__(module, "_whole", ([*values], structure))
    return module


register_tree(ModuleBase, flatten_module, unflatten_module)
register_whole(ModuleBase, Handler(flatten_whole, unflatten_whole))
