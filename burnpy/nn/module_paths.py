"""Selection and replacement of parts of a module by path."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, TypeAlias, TypeVar

from burnpy.backend.errors import ArgumentError, a
from burnpy.nn.module_base import check_variables, read_only_fields
from burnpy.nn.module_tree import FrozenDict, TreeNode, joined, new_module, part_names, regrouped, variables_in, walk
from burnpy.nn.param import Variable

Tree = TypeVar("Tree", bound=TreeNode)

Where: TypeAlias = str | Sequence[str] | Callable[[str, Any], bool]
"""A selection of parameters: a path, of a parameter or of a module with all its parameters (``"encoder"``); a pattern
(``"*.bias"``); several of these; or a predicate that takes a path and a `Param`."""


def selected(module: TreeNode, where: Where | None, operation: str) -> dict[str, Variable[Any]]:
    """Return the selected parameters and buffers of ``module`` by their first path; all of them for None.

    A shared parameter is selected if any of its paths is. ``operation`` is the caller's name, for messages.
    """
    if where is None:
        return variables_in(module)
    first = {id(item): path for path, item in variables_in(module).items()}
    paths = [(path, item) for path, item in walk(module) if isinstance(item, Variable)]
    matches: dict[str, Variable[Any]] = {}
    if callable(where):
        matches = {first[id(item)]: item for path, item in paths if where(path, item)}
    else:
        for pattern in _patterns(where, operation):
            matching = [(path, item) for path, item in paths if meets(path, pattern)]
            if not matching:
                raise ArgumentError(
                    f"{operation} got {pattern!r}, which is not a path in {type(module).__name__} and matches none"
                    f"{suggestion(pattern, [path for path, _ in paths])}"
                )
            matches |= {first[id(item)]: item for _, item in matching}
    return {path: matches[path] for path in first.values() if path in matches}


def replaced(module: Tree, values: Mapping[str, Any]) -> Tree:
    """Return the module with ``values`` at their paths, put there in order and validated as in a new module."""
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


def meets(path: str, pattern: str) -> bool:
    """Return whether a path equals the pattern, lies below it, or matches it as a glob.

    >>> meets("encoder.0.weight", "encoder"), meets("encoder.0.weight", "*.weight"), meets("encoders.0", "encoder")
    (True, True, False)
    """
    return path == pattern or path.startswith(pattern + ".") or fnmatchcase(path, pattern)


def suggestion(unknown: str, paths: Sequence[str]) -> str:
    """Return the end of an error message about an unknown path: close matches, otherwise the existing paths."""
    known = dict.fromkeys([*paths, *(path[:k] for path in paths for k, c in enumerate(path) if c == ".")])
    close = get_close_matches(unknown, known, n=3)
    shown = close or list(paths[:8])
    more = "" if close or len(paths) <= 8 else ", …"
    return f"; {'close to it is' if close else 'there is'} {', '.join(shown)}{more}" if shown else "; it holds nothing"


def _patterns(where: Any, operation: str) -> Sequence[str]:
    """Return one or several paths and patterns as a list."""
    patterns = (where,) if isinstance(where, str) else where
    if not isinstance(patterns, (Sequence, set, frozenset)) or not all(isinstance(part, str) for part in patterns):
        raise ArgumentError(
            f"{operation} takes a path, a pattern, several of these, or a function of path and parameter, got "
            f"{a(type(where).__name__)}"
        )
    return [*patterns]


class _NoSuchPathError(Exception):
    pass


def _with(tree: Any, names: list[str], value: Any, path: str = "") -> Any:
    """Return a copy of the subtree at ``path`` with ``value`` at the remaining path ``names``."""
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
