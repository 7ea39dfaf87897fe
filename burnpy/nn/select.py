"""Selection of parameters and buffers of a module by path, by pattern, or by a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from burnpy.backend.errors import ArgumentError, a
from burnpy.nn.tree import TreeNode, variables_in, walk
from burnpy.nn.variable import Variable

Where: TypeAlias = str | Sequence[str] | Callable[[str, Any], bool]
"""A selection of parameters: a path, of a parameter or of a module with all its parameters (``"encoder"``); a pattern
(``"*.bias"``); several of these; or a predicate that takes a path and a `Param`."""


def selected(module: TreeNode, where: Where | None, operation: str) -> dict[str, Variable[Any]]:
    """Return the selected parameters and buffers of ``module`` by their first path; all of them for None.

    A shared parameter is selected if any of its paths is. ``operation`` is the caller's name, for messages.

    Raises:
        ArgumentError: a path or pattern matches nothing.
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
                    f"{operation} got {pattern!r}, which is not a path in {type(module).__name__} and meets none"
                    f"{suggestion(pattern, [path for path, _ in paths])}"
                )
            matches |= {first[id(item)]: item for _, item in matching}
    return {path: matches[path] for path in first.values() if path in matches}


def _patterns(where: Any, operation: str) -> Sequence[str]:
    """Return one or several paths and patterns as a list.

    Raises:
        ArgumentError: ``where`` is something else.
    """
    patterns = (where,) if isinstance(where, str) else where
    if not isinstance(patterns, (Sequence, set, frozenset)) or not all(isinstance(part, str) for part in patterns):
        raise ArgumentError(
            f"{operation} takes a path, a pattern, several of these, or a function of path and parameter, got "
            f"{a(type(where).__name__)}"
        )
    return [*patterns]


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
