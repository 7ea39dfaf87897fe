"""What is said of a class that was called with arguments which it does not take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import CallError

if TYPE_CHECKING:
    from inspect import Parameter


def call_error(cls: type[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> CallError | None:
    """Why ``cls(*args, **kwargs)`` is no call of its ``__init__``; None if it is one, and the mistake is elsewhere."""
    import inspect

    signature = inspect.signature(cls.__init__)
    if cls.__init__ is object.__init__ and (args or kwargs):
        return CallError(_explained(cls, (), args, kwargs))
    try:
        signature.bind(None, *args, **kwargs)
    except TypeError:
        _, *taken = signature.parameters.values()
        return CallError(_explained(cls, taken, args, kwargs))
    return None


def _explained(cls: type[Any], taken: Sequence[Parameter], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    from difflib import get_close_matches

    from burnpy.nn.theirs import arguments_of

    name = cls.__name__
    in_order = [p.name for p in taken if p.kind is p.POSITIONAL_OR_KEYWORD]
    names = [p.name for p in taken if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    unknown = [key for key in kwargs if key not in names]
    if unknown:
        hint = arguments_of(cls).get(unknown[0])
        close = get_close_matches(unknown[0], names, n=1)
        known = hint or (f"is it {close[0]}?" if close else f"there is {', '.join(names) or 'nothing'}")
        return f"{name}() does not take {unknown[0]}; {known}"
    if cls.__init__ is object.__init__:
        return f"{name}() was given {len(args)} values, and has no __init__ that takes any"
    if len(args) > len(in_order):
        by_name = [f"{key}=" for key in names if key not in in_order]
        hint = arguments_of(cls).get("", f"give the others by name: {', '.join(by_name) or 'there are none'}")
        return (
            f"{name}() takes {', '.join(in_order) or 'nothing'} by position, and was given {len(args)} values; {hint}"
        )
    twice = [key for key in in_order[: len(args)] if key in kwargs]
    if twice:
        return f"{name}() was given {twice[0]} twice, by position and by name; it is one value"
    there = {*in_order[: len(args)], *kwargs}
    missing = [p.name for p in taken if p.default is p.empty and p.name in names and p.name not in there]
    where = "; device= says where it is: NumPy, or Autodiff[NumPy] to train it" if "device" in missing else ""
    return f"{name}() was not given {', '.join(missing)}{where or '; it cannot be made without'}"
