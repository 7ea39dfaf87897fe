"""Choosing among what a module holds: by path, by pattern, or by a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeAlias

from burnpy.backend.errors import ArgumentError, a
from burnpy.nn.tree import variables_in, walk
from burnpy.nn.variable import Variable

if TYPE_CHECKING:
    from burnpy.nn.base import ModuleBase

Where: TypeAlias = str | Sequence[str] | Callable[[str, Any], bool]
"""Which parameters are meant: a path, of a parameter or of all below it (``"encoder"``); a pattern (``"*.bias"``);
several of these; or a function of path and `Param` that says yes or no."""


def selected(module: ModuleBase[Any], where: Where | None, operation: str) -> dict[str, Variable[Any]]:
    """What ``module`` holds under the paths that are meant, by its first path; all for None.

    A shared parameter is meant if any of its paths is.

    Raises:
        ArgumentError: a path or pattern meets nothing.
    """
    if where is None:
        return variables_in(module)
    first = {id(item): path for path, item in variables_in(module).items()}
    paths = [(path, item) for path, item in walk(module) if isinstance(item, Variable)]
    found: dict[str, Variable[Any]] = {}
    if callable(where):
        found = {first[id(item)]: item for path, item in paths if where(path, item)}
    else:
        for pattern in _patterns(where, operation):
            met = [(path, item) for path, item in paths if meets(path, pattern)]
            if not met:
                raise ArgumentError(
                    f"{operation} was asked for {pattern!r}, which is no path in {type(module).__name__} and meets none"
                    f"{suggestion(pattern, [path for path, _ in paths])}"
                )
            found |= {first[id(item)]: item for _, item in met}
    return {path: found[path] for path in first.values() if path in found}


def _patterns(where: Any, operation: str) -> Sequence[str]:
    """One or several paths and patterns, as several."""
    patterns = (where,) if isinstance(where, str) else where
    if not isinstance(patterns, (Sequence, set, frozenset)) or not all(isinstance(part, str) for part in patterns):
        raise ArgumentError(
            f"{operation} takes a path, a pattern, several of these, or a function of path and parameter, and was "
            f"given {a(type(where).__name__)}"
        )
    return [*patterns]


def meets(path: str, pattern: str) -> bool:
    """Whether a path is one that is meant: the path itself, one below it, or one of the pattern's form.

    >>> meets("encoder.0.weight", "encoder"), meets("encoder.0.weight", "*.weight"), meets("encoders.0", "encoder")
    (True, True, False)
    """
    return path == pattern or path.startswith(pattern + ".") or fnmatchcase(path, pattern)


def suggestion(wanted: str, paths: Sequence[str]) -> str:
    """What to say of the paths that there are, where one was not found; close ones first."""
    known = dict.fromkeys([*paths, *(path[:k] for path in paths for k, c in enumerate(path) if c == ".")])
    close = get_close_matches(wanted, known, n=3)
    shown = close or list(paths[:8])
    more = "" if close or len(paths) <= 8 else ", …"
    return f"; {'close to it is' if close else 'there is'} {', '.join(shown)}{more}" if shown else "; it holds nothing"
