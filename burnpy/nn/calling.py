"""What is said of a class that was called with arguments which it does not take."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import CallError

if TYPE_CHECKING:
    from inspect import Parameter, Signature


class Explaining(ABCMeta):
    """Makes what has settings, and says what is wrong with those that it does not take."""

    if not TYPE_CHECKING:  # to type checkers a class is called as its __init__ says

        def __call__(cls, *args, **kwargs):
            """One of these settings."""
            try:
                return super().__call__(*args, **kwargs)
            except TypeError as error:
                refusal = call_error(cls, args, kwargs)
                if refusal is None:
                    raise
                raise refusal from error

        @property
        def __signature__(cls):
            """That of ``__init__``, for whoever looks at the class."""
            return signature_of(cls)


def signature_of(cls: type[Any]) -> Signature:
    """How a class is called: as its ``__init__`` says."""
    import inspect

    if cls.__init__ is object.__init__:
        return inspect.Signature()
    found = inspect.signature(cls.__init__)
    return found.replace(parameters=[*found.parameters.values()][1:], return_annotation=inspect.Signature.empty)


def call_error(cls: type[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> CallError | None:
    """Why ``cls(*args, **kwargs)`` is no call of its ``__init__``; None if it is one, and the mistake is elsewhere."""
    signature = signature_of(cls)
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return CallError(_explained(cls, [*signature.parameters.values()], args, kwargs))
    return None


def _explained(cls: type[Any], taken: Sequence[Parameter], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    from difflib import get_close_matches

    from burnpy.hints.modules import arguments_of

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
