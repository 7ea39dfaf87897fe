"""Explains calls with arguments that are not taken, where they fail: a call that succeeds is not looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Final, NoReturn, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

CO_VARARGS: Final = 4  # of `inspect`, which takes long to import
CO_VARKEYWORDS: Final = 8


def explained(function: F, owner: str = "") -> F:
    """The function, which says in a `CallError` what is wrong with arguments that it does not take.

    It takes a tenth of a microsecond more. What is nearly as quick itself looks for unknown arguments, and calls
    `refuse`.

    Args:
        function: a function, or a method.
        owner: the class that it is to be a method of, as errors name it.
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            trace = error.__traceback__
            if trace is None or trace.tb_next is None:  # raised by the call, and not in what was called
                _refuse(function, args, kwargs, error)
            raise

    called.__wrapped__ = function  # type: ignore[attr-defined]  # whose signature is shown
    return _renamed(called, function, owner)  # type: ignore[no-any-return]  # it is called as the function is


def copied(method: Any, owner: str, ground: dict[str, Any]) -> Any:
    """A copy of a method, as one of class ``owner`` and with other globals."""
    copy = FunctionType(method.__code__, ground, method.__name__, method.__defaults__, method.__closure__)
    copy.__kwdefaults__, copy.__annotations__ = method.__kwdefaults__, method.__annotations__
    return _renamed(copy, method, owner)


def takes_arguments(method: FunctionType) -> bool:
    """Whether a method takes arguments, and does not take whatever it is given by name."""
    code = method.__code__
    several = code.co_argcount + code.co_kwonlyargcount > 1 or code.co_flags & CO_VARARGS
    return bool(several and not code.co_flags & CO_VARKEYWORDS)


def refuse(tensor: object, operation: str, unknown: Mapping[str, object]) -> NoReturn:
    """Refuse arguments that a method of a tensor does not take.

    Raises:
        CallError: there are some.
    """
    _refuse(getattr(type(tensor), operation), (tensor,), unknown, None)
    raise AssertionError(f"{operation}() takes {', '.join(unknown)}")


def _refuse(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], error: TypeError | None) -> None:
    from burnpy.hints.calls import method_error

    refusal = method_error(function, args, kwargs)
    if refusal is not None:
        raise refusal from error


def _renamed(copy: Any, method: Any, owner: str) -> Any:
    name = method.__name__
    copy.__name__, copy.__qualname__ = name, f"{owner}.{name}" if owner else method.__qualname__
    copy.__module__, copy.__doc__ = method.__module__, method.__doc__
    return copy
