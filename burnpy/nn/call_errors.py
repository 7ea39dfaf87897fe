"""What is said of a class that was called with arguments which it does not take."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import CallError

if TYPE_CHECKING:
    from inspect import Signature


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
    from burnpy.hints import call_errors
    from burnpy.hints.modules import arguments_of

    if cls.__init__ is object.__init__ and args and not kwargs:
        return CallError(f"{cls.__name__}() was given {len(args)} values, and has no __init__ that takes any")
    return call_errors.call_error(
        cls.__name__, [*signature_of(cls).parameters.values()], args, kwargs, arguments_of(cls)
    )
