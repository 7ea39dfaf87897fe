"""Replacement of parts of a module by path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from burnpy.backend.errors import ArgumentError
from burnpy.nn.fields import check_variables, read_only_fields
from burnpy.nn.select import suggestion
from burnpy.nn.tree import FrozenDict, TreeNode, joined, new_module, part_names, regrouped, walk

M = TypeVar("M", bound=TreeNode)


def replaced(module: M, values: Mapping[str, Any]) -> M:
    """Return the module with ``values`` at their paths, put there in order and validated as in a new module.

    Raises:
        ArgumentError: a path does not exist.
        ModuleError, DeviceError: the result would not be a valid module.
    """
    result = module
    for path, value in values.items():
        try:
            result = _with(result, path.split("."), value)
        except _NoSuchPathError:
            paths = [known for known, _ in walk(module) if known]
            raise ArgumentError(
                f"replace() got the path {path!r}, which {type(module).__name__} does not have"
                + suggestion(path, [*(name for name in vars(module) if name not in paths), *paths])
            ) from None
    check_variables(result)
    return result


class _NoSuchPathError(Exception):
    pass


def _with(tree: Any, names: list[str], value: Any, path: str = "") -> Any:
    """A copy of the subtree at ``path`` with ``value`` at the remaining path ``names``."""
    if not names:
        return value
    name, rest = names[0], names[1:]
    inside = joined(path, name)
    if isinstance(tree, TreeNode):
        fields = dict(vars(tree))
        if name not in fields:
            raise _NoSuchPathError
        fields[name] = _with(fields[name], rest, value, inside)
        out = new_module(type(tree), fields, (), tree._override)
        object.__setattr__(out, "_parts", read_only_fields(out))
        return out
    if isinstance(tree, dict) and name in tree:
        return FrozenDict({**tree, name: _with(tree[name], rest, value, inside)})
    if isinstance(tree, tuple) and name in part_names(tree):
        parts = [
            _with(part, rest, value, inside) if place == name else part
            for place, part in zip(part_names(tree), tree, strict=True)
        ]
        return regrouped(tuple(parts), tree)
    raise _NoSuchPathError
