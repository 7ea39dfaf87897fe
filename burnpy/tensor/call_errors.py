"""Methods that say what is wrong with arguments that they do not take, and are named after the class that users know.

A call is looked at where it failed; one that succeeds is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Final, NoReturn, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

CO_VARARGS: Final = 4  # of `inspect`, which takes long to import
CO_VARKEYWORDS: Final = 8


def explained(function: F, owner: type | None = None) -> F:
    """The function, which says in a `CallError` what is wrong with arguments that it does not take.

    It takes a tenth of a microsecond more. What is nearly as quick itself looks for unknown arguments, and calls
    `refuse`.

    Args:
        function: a function, or a method.
        owner: the class that it is to be a method of.
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


def copied(method: Any, owner: type, ground: dict[str, Any]) -> Any:
    """A copy of a method, as one of class ``owner`` and with other globals."""
    copy = FunctionType(method.__code__, ground, method.__name__, method.__defaults__, method.__closure__)
    copy.__kwdefaults__, copy.__annotations__ = method.__kwdefaults__, method.__annotations__
    return _renamed(copy, method, owner)


def adopted(method: Any, owner: type) -> Any:
    """A method as one of class ``owner``, which explains its calls if it takes arguments."""
    if type(method) is classmethod:
        return classmethod(explained(method.__func__, owner))
    code = method.__code__
    several = code.co_argcount + code.co_kwonlyargcount > 1 or code.co_flags & CO_VARARGS
    if several and not code.co_flags & CO_VARKEYWORDS:
        return explained(method, owner)
    return copied(method, owner, method.__globals__)


def composed(owner: C) -> C:
    """A class decorator: the public methods that a class is composed of become its own, so that errors name the class
    that users know.
    """
    for part in owner.__mro__[1:]:
        for name, method in vars(part).items():
            if type(method) in (FunctionType, classmethod) and not name.startswith("_") and name not in vars(owner):
                setattr(owner, name, adopted(method, owner))
    return owner


def refuse(tensor: object, operation: str, unknown: Mapping[str, object]) -> NoReturn:
    """Refuse arguments that a method of a tensor does not take.

    Raises:
        CallError: there are some.
    """
    _refuse(getattr(type(tensor), operation), (tensor,), unknown, None)
    raise AssertionError(f"{operation}() takes {', '.join(unknown)}")


def _refuse(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], error: TypeError | None) -> None:
    from burnpy.hints.call_errors import method_error

    refusal = method_error(function, args, kwargs)
    if refusal is not None:
        raise refusal from error


def _renamed(copy: Any, method: Any, owner: type | None) -> Any:
    name = method.__name__
    copy.__name__, copy.__qualname__ = name, f"{owner.__name__}.{name}" if owner else method.__qualname__
    copy.__module__, copy.__doc__ = (owner or method).__module__, method.__doc__
    return copy
