"""The error for objects that cannot be sent to another process, which names the part and the remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from burnpy.backend.errors import WorkerError, a
from burnpy.data.engines.layout import Packed


def packed_for_processes(
    value: object,
    parts: Mapping[str, object],
    *,
    where: str = "where a sample is read",
    otherwise: str = "use engine='threads'",
) -> Packed:
    """Return an object that can be written for processes.

    Args:
        value: the object.
        parts: those parts of it that a user gave, by name, for the message.
        where: where the processes can make for themselves what cannot be sent, for the message.
        otherwise: another remedy, for the message.

    Raises:
        WorkerError: a part cannot be pickled; the message names the smallest such part.
    """
    try:
        return Packed(value)
    except Exception as error:  # pickling runs code of the user's classes, which may raise anything
        for name, part in parts.items():
            unpicklable = _culprit(part, name)
            if unpicklable is not None:
                path, culprit = unpicklable
                raise WorkerError(
                    f"engine='processes' sends {name} to other processes by pickle, and {path} cannot be sent: it is "
                    f"{_described(culprit)}; {_advice(culprit, where)}, or {otherwise}"
                ) from error
        raise WorkerError(
            f"engine='processes' sends {' and '.join(parts) or a(type(value).__name__)} to other processes by pickle, "
            f"which failed: {error}; {otherwise}"
        ) from error


def _culprit(value: Any, path: str, seen: frozenset[int] = frozenset()) -> tuple[str, Any] | None:
    """Return the path and the value of the smallest part that cannot be pickled; None if all can."""
    try:
        Packed(value)
    except Exception:  # as above
        for name, part in _parts(value) if id(value) not in seen else ():
            smaller = _culprit(part, f"{path}{name}", seen | {id(value)})
            if smaller is not None:
                return smaller
        return path, value
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (list, tuple)):
        yield from ((f"[{k}]", part) for k, part in enumerate(value))
    elif isinstance(value, Mapping):
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    elif isinstance(value, MethodType):
        yield ".__self__", value.__self__
    elif not isinstance(value, (FunctionType, type)):
        yield from ((f".{name}", part) for name, part in getattr(value, "__dict__", {}).items())


def _described(value: Any) -> str:
    if isinstance(value, FunctionType):
        code = value.__code__
        what = "a lambda" if value.__name__ == "<lambda>" else f"the function {value.__qualname__}"
        return f"{what}, defined in {code.co_filename} at line {code.co_firstlineno}"
    return a(type(value).__name__)


def _advice(value: Any, where: str) -> str:
    if isinstance(value, FunctionType):
        return "define it by def at the top level of a module"
    if hasattr(value, "fileno"):
        return f"open it {where}"
    return f"make it {where}"
