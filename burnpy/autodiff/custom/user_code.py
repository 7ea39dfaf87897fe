"""Calling user code: with arguments by position, on the level that they are of, and told where it cannot be called."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

from burnpy.backend.errors import ArgumentError
from burnpy.tensor.levels import open_levels, working_on


def called(who: str, wanted: str, function: Callable[..., Any], device: Any, *args: Any) -> Any:
    """``function(*args)``, which is handed tensors of ``device``.

    Args:
        who: the function, for messages: ``Exp.backward()``.
        wanted: what it must take, in words.
        function: of the user's.
        device: of what it is handed; None where it is on the level that is open.
        *args: for the function.

    Raises:
        ArgumentError: it does not take these arguments.
    """
    try:
        if device is None or not open_levels.get():
            return function(*args)
        with working_on(device):
            return function(*args)
    except TypeError:
        refuse_signature(who, wanted, function, args)
        raise


def refuse_signature(who: str, wanted: str, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Say how a function must be written, if it is one that cannot be called with ``args``.

    Raises:
        ArgumentError: it is.
    """
    try:
        found = signature(function)
    except (TypeError, ValueError):  # a builtin without a signature: its own message has to do
        return
    try:
        found.bind(*args)
    except TypeError as error:
        names = ", ".join(
            str(p.replace(annotation=Parameter.empty, default=Parameter.empty)) for p in found.parameters.values()
        )
        raise ArgumentError(
            f"{who} takes ({names}) and was called with {len(args)} argument{'' if len(args) == 1 else 's'} ({error}); "
            f"let it take {wanted}"
        ) from None


def positional(
    operation: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], skip: int
) -> tuple[Any, ...]:
    """All arguments of a call by position, those left out before a named one with their default.

    Raises:
        ArgumentError: the function does not take them, or not by position.
    """
    if not kwargs:
        return args
    try:
        bound = signature(function).bind(*(None,) * skip, *args, **kwargs)
    except TypeError as error:
        raise ArgumentError(f"{operation}() was called with arguments that it does not take: {error}") from None
    bound.apply_defaults()
    if bound.kwargs:
        raise ArgumentError(
            f"{operation}() was given {', '.join(bound.kwargs)} by keyword only; every argument has a gradient by its "
            "position: let the function take it by position"
        )
    return bound.args[skip:]
