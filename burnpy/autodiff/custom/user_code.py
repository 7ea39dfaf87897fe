"""Calls of user code: with positional arguments, on the level of its arguments, and with clear signature errors."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter
from typing import Any

from burnpy.backend.errors import ArgumentError
from burnpy.hints.signatures import signature
from burnpy.tensor.levels import open_levels, working_on


def called(who: str, expected: str, function: Callable[..., Any], device: Any, *args: Any) -> Any:
    """Call ``function(*args)`` with tensors of ``device``.

    Args:
        who: the function, for messages, such as ``Exp.backward()``.
        expected: the arguments that it must take, in words.
        function: the user's function.
        device: the device of its arguments; None if that is the innermost open level.
        *args: the arguments.

    Raises:
        ArgumentError: the function does not take these arguments.
    """
    try:
        if device is None or not open_levels.get():
            return function(*args)
        with working_on(device):
            return function(*args)
    except TypeError:
        refuse_signature(who, expected, function, args)
        raise


def refuse_signature(who: str, expected: str, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Raise an error that explains the expected signature if a function cannot be called with ``args``.

    Raises:
        ArgumentError: the function does not take these arguments.
    """
    try:
        own_signature = signature(function)
    except (TypeError, ValueError):  # a builtin without a signature: its own error message is used
        return
    try:
        own_signature.bind(*args)
    except TypeError as error:
        names = ", ".join(
            str(p.replace(annotation=Parameter.empty, default=Parameter.empty))
            for p in own_signature.parameters.values()
        )
        raise ArgumentError(
            f"{who} takes ({names}) and was called with {len(args)} argument{'' if len(args) == 1 else 's'} ({error}); "
            f"let it take {expected}"
        ) from None


def positional(
    operation: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], skip: int
) -> tuple[Any, ...]:
    """Return all arguments of a call by position; omitted ones before a keyword argument get their default.

    Raises:
        ArgumentError: the function does not take these arguments, or not by position.
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
            f"{operation}() takes keyword-only arguments: {', '.join(bound.kwargs)}; gradients are returned by "
            "position, so make all arguments positional"
        )
    return bound.args[skip:]
