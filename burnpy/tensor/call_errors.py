"""Decorators for functions and methods, and a metaclass, whose errors explain a wrong argument.

Arguments are examined only after a call has failed, except flags, since any object is true or false.
"""

from __future__ import annotations

import re
import sys
from abc import ABCMeta
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import numpy as np

from burnpy.backend.errors import BACKENDS, ArgumentError, BurnpyError, CallError, DeviceError
from burnpy.backend.functions import copy_function
from burnpy.typevars import F

if TYPE_CHECKING:
    from inspect import Signature

C = TypeVar("C", bound=type)

UNEXPLAINED = (TypeError, AttributeError, ValueError, RuntimeError, IndexError, KeyError, OverflowError)
"""The errors of Python, NumPy and other libraries that a wrong argument may cause; subclasses of them say more."""
CO_VARARGS: Final = 4  # constants of `inspect`, which is slow to import
CO_VARKEYWORDS: Final = 8


FLAGS: Final = ("bool", "bool | None")
"""The annotations of flags. burnpy's modules evaluate no annotations, so that they are strings."""
FLAG: Final = (bool, np.bool_)
"""The types of a flag."""


def _is_own(owner: Any) -> bool:
    """Return whether a function or class is burnpy's."""
    return str(owner.__module__).partition(".")[0] in {"burnpy", *BACKENDS}


@lru_cache(maxsize=1024)
def flags_of(function: Any, skipped: int = 0) -> dict[str, int]:
    """Return the names and positions of burnpy's parameters that are True or False; none of another's function.

    Args:
        function: a function or a method.
        skipped: the number of its first parameters that a caller does not pass.
    """
    code = getattr(function, "__code__", None)
    if code is None or not _is_own(function):
        return {}
    kinds = function.__annotations__  # of others' functions Python 3.14 would evaluate them, which may fail
    names, positions = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], code.co_argcount
    return {
        name: place - skipped if place < positions else sys.maxsize
        for place, name in enumerate(names)
        if kinds.get(name) in FLAGS
    }


def with_flags(
    name: str, function: Any, flags: Mapping[str, int], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """Return the positional arguments of a call, with its flags as Python's; those in ``kwargs`` are replaced there.

    Args:
        name: the name of the call; for ``__init__`` the errors name the class of the first argument.
        function: the function or ``__init__``.
        flags: its `flags_of`.
        args: the positional arguments.
        kwargs: the keyword arguments.

    Raises:
        ArgumentError: a flag is neither True nor False. Every string would be true, and even an array has a truth.
    """
    for flag, place in flags.items():
        value = kwargs[flag] if flag in kwargs else args[place] if place < len(args) else True
        if value is True or value is False:
            continue
        may_be_none = function.__annotations__[flag] != "bool"
        if value is None and may_be_none:
            continue
        if not isinstance(value, FLAG) and function.__name__ != "__init__":
            _refuse(function, args, kwargs, None)  # a call that passes something else in its place
        checked = need_flag(value, flag, type(args[0]).__name__ if name == "__init__" else name, may_be_none)
        if flag in kwargs:
            kwargs[flag] = checked
        else:
            args = (*args[:place], checked, *args[place + 1 :])
    return args


def need_flag(value: object, name: str, operation: str, may_be_none: bool = False) -> bool:
    """Return an option that is True or False; the error says whether it may be None."""
    if isinstance(value, FLAG):
        return bool(value)
    from burnpy.hints.wrong_calls import shown

    hint = "; several dims are one argument, as in dim=(0, 1)" if name == "keepdim" else ""
    words = "True, False or None" if may_be_none else "True or False"
    raise ArgumentError(f"{operation}() got {name}={shown(value)}; expected {words}{hint}")


def explained(function: F, owner: type | None = None, *, flags: bool = True) -> F:
    """Wrap a function so that its errors name it. Wrong arguments raise a `CallError` that explains them, and a failed
    allocation of NumPy an `OutOfMemoryError`.

    Flags are checked before the call. The wrapper adds a tenth of a microsecond. Functions that take little longer
    themselves collect unknown arguments instead, and call `refuse`.

    Args:
        function: a function or a method.
        owner: the class whose method the result is.
        flags: whether to check them.
    """
    places = flags_of(function) if flags else {}
    first = min(places.values(), default=sys.maxsize)  # calls with fewer arguments give none

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            if len(args) > first or (kwargs and places):
                args = with_flags(function.__name__, function, places, args, kwargs)
            return function(*args, **kwargs)
        except TypeError as error:
            trace = error.__traceback__
            if trace is None or trace.tb_next is None:  # raised by the call itself, not inside the function
                _refuse(function, args, kwargs, error)
            if isinstance(error, DeviceError):
                lifted: Any = getattr(error, "lifted", None)  # of an `OutsideError`
                if lifted is not None:
                    return function(*lifted(args), **dict(zip(kwargs, lifted(kwargs.values()), strict=True)))
                _name_arguments(error, function, args, kwargs)
            _name_call(error, function)
            _refuse_types(function.__name__, function, args, kwargs, error)
            raise
        except MemoryError as error:
            if hasattr(error, "shape"):  # NumPy's, of an array that it could not allocate
                _refuse_memory(function.__name__, args, error)
            raise
        except BurnpyError as error:
            _name_call(error, function)
            raise
        except UNEXPLAINED as error:
            _refuse_types(function.__name__, function, args, kwargs, error)
            raise

    wrapper.__wrapped__ = function  # type: ignore[attr-defined]  # for its signature
    return _renamed(wrapper, function, owner)  # type: ignore[no-any-return]  # it has the function's signature


def next_value(function: F) -> F:
    """Wrap a method that returns the next value of its object, as `explained` does it. A statement that drops the
    result has no effect, and warns."""
    checked = explained(function)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        from burnpy.backend.call_origin import warn_if_dropped

        result = checked(*args, **kwargs)
        caller: Any = sys._getframe(1)
        while caller.f_globals is globals():  # another wrapper
            caller = caller.f_back
        warn_if_dropped(
            caller,
            lambda: (
                f"{function.__name__}() changes nothing but returns the next {type(result).__name__}, which this "
                "statement drops; assign the result to a name"
            ),
        )
        return result

    wrapper.__wrapped__ = function  # type: ignore[attr-defined]  # for its signature
    return _renamed(wrapper, function, None)  # type: ignore[no-any-return]  # it has the function's signature


_HOOKS: Final = ("_repr_html_", "_abc_impl")
"""The private names that any class may define."""


def own_methods(cls: type[Any], namespace: Mapping[str, Any], refusal: type[BurnpyError] = CallError) -> frozenset[str]:
    """Return the private methods and properties that a class of other code inherits from classes of burnpy.

    Args:
        cls: the new class; for one of burnpy's the result is empty.
        namespace: the names that its body defines.
        refusal: the class of the error.

    Raises:
        CallError: the class, or one that comes before burnpy's in the order of methods, hides a private name, which
            burnpy's methods would then use.
    """
    if _is_own(cls) or "__dataclass_fields__" in namespace:  # a dataclass with slots is a copy of a checked class
        return frozenset()
    hiding: dict[str, type[Any]] = {}
    methods: set[str] = set()
    for base in cls.__mro__:
        names = namespace if base is cls else vars(base)
        private = {name for name in (*names, *names.get("__annotations__", ())) if re.match("_[^_]", name)}
        private.difference_update(_HOOKS)
        if not _is_own(base):
            if base is cls or not isinstance(base, type(cls)):  # another one was checked when it was defined
                hiding = dict.fromkeys(private, base) | hiding
            continue
        for name in sorted(private):
            value = names.get(name)
            if name in hiding and not getattr(value, "__isabstractmethod__", False):
                raise refusal(_taken(hiding[name], name))
            if isinstance(value, (FunctionType, classmethod, staticmethod, property)):
                methods.add(name)
    return frozenset(methods)


def _taken(cls: type[Any], name: str) -> str:
    return f"{cls.__name__}.{name}: its base class, which is burnpy's, has a private {name}; choose another name"


class Explaining(ABCMeta):
    """A metaclass that explains wrong constructor arguments with a `CallError`, and fields of a wrong type.

    A class of other code that hides a private name of its bases is refused; see `own_methods`.
    """

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **keywords: Any) -> None:
        super().__init__(name, bases, namespace, **keywords)
        cls.__own_methods = own_methods(cls, namespace)

    if not TYPE_CHECKING:  # type checkers read the signature of __init__

        def __call__(cls, *args, **kwargs):
            """Create an instance."""
            flags = flags_of(cls.__init__, 1)
            if flags:
                args = with_flags(cls.__name__, cls.__init__, flags, args, kwargs)
            try:
                made = super().__call__(*args, **kwargs)
            except UNEXPLAINED as error:
                refuse_construction(cls, args, kwargs, error)
                raise
            for name in cls.__own_methods.intersection(getattr(made, "__dict__", ())):
                raise CallError(_taken(cls, name))
            return made

        @property
        def __signature__(cls):
            """The signature of ``__init__``, for `inspect.signature`."""
            return signature_of(cls)


def signature_of(cls: type[Any]) -> Signature:
    """Return the signature of a class: its ``__init__``'s without ``self``."""
    import inspect

    from burnpy.backend.functions import signature

    if cls.__init__ is object.__init__:
        return inspect.Signature()
    own = signature(cls.__init__)
    return own.replace(parameters=[*own.parameters.values()][1:], return_annotation=inspect.Signature.empty)


def call_error(cls: type[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> CallError | None:
    """Return the error that explains why ``cls(*args, **kwargs)`` makes no object, or None if the arguments fit."""
    from burnpy.hints import wrong_calls
    from burnpy.hints.wrong_calls import arguments_of

    if unwritten := getattr(cls, "__abstractmethods__", None):
        return CallError(f"{cls.__name__} is abstract; make a subclass of it, with {', '.join(sorted(unwritten))}")
    if cls.__init__ is object.__init__ and args and not kwargs:
        return CallError(f"{cls.__name__}() got {len(args)} values, and has no __init__ that takes any")
    return wrong_calls.call_error(
        cls.__name__, [*signature_of(cls).parameters.values()], args, kwargs, arguments_of(cls)
    )


def refuse_construction(cls: type[Any], args: Sequence[Any], kwargs: Mapping[str, Any], error: Exception) -> None:
    """Raise the error that explains why ``cls(*args, **kwargs)`` was refused; nothing if the reason is another."""
    refusal = call_error(cls, args, kwargs) if type(error) is TypeError else None  # no explanation yet
    if refusal is not None:
        raise refusal from error
    _refuse_types(cls.__name__, cls, args, kwargs, error)


def refuse_call(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any], error: Exception) -> None:
    """Raise the error that explains why a call of ``module.forward`` was refused; the caller has caught ``error``.
    Nothing is raised if ``forward`` takes such arguments, and the error comes from inside of it."""
    name, trace = f"{type(module).__name__}.forward", error.__traceback__
    if trace is not None and trace.tb_next is not None:
        _refuse_types(name, module.forward, args, kwargs, error)
        return
    from burnpy.backend.functions import signature
    from burnpy.hints import wrong_calls

    refusal = wrong_calls.call_error(name, [*signature(module.forward).parameters.values()], args, kwargs)
    if refusal is not None:
        raise refusal from error


def refuse_attribute(owner: Any, name: str) -> NoReturn:
    """Raise the AttributeError for a missing attribute, with a hint at the equivalent name: a ``__getattr__``."""
    if isinstance(getattr(type(owner), name, None), (property, cached_property)):
        object.__getattribute__(owner, name)  # the attribute that is missing is one that the property reads
    if name.startswith("_"):  # `copy`, `pickle` and NumPy probe for such names
        raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}", name=name, obj=owner)
    from burnpy.hints.missing_names import of_object

    raise of_object(owner, name)


def copy_method(method: Any, owner: type, namespace: dict[str, Any]) -> Any:
    """Return a copy of a method as a method of class ``owner``, with other globals."""
    copy = copy_function(method, f"{owner.__name__}.{method.__name__}", namespace=namespace)
    copy.__module__ = owner.__module__
    return copy


def inherit_method(method: Any, owner: type) -> Any:
    """Return a copy of a method as a method of class ``owner``, wrapped by `explained` if it takes arguments."""
    if type(method) is classmethod:
        return classmethod(explained(method.__func__, owner))
    code = method.__code__
    several = code.co_argcount + code.co_kwonlyargcount > 1 or code.co_flags & CO_VARARGS
    if several and not code.co_flags & CO_VARKEYWORDS:
        return explained(method, owner)
    return copy_method(method, owner, method.__globals__)


def inherit_methods(owner: C) -> C:
    """Decorate a class: its inherited public methods are copied into it, so that errors name the class users know. The
    copies are wrapped by `explained`."""
    for part in owner.__mro__[1:]:
        for name, method in vars(part).items():
            if name.startswith("_") or name in vars(owner):
                continue
            if type(method) is FunctionType:
                setattr(owner, name, explained(method, owner))
            elif type(method) is classmethod:
                setattr(owner, name, classmethod(explained(method.__func__, owner)))
    return owner


def refuse(tensor: object, operation: str, unknown: Mapping[str, object], *args: object) -> NoReturn:
    """Raise the error for unknown arguments of a tensor method, or for the wrong number of ``args``."""
    _refuse(getattr(type(tensor), operation), (tensor, *args), unknown, None)
    raise AssertionError(f"{operation}() takes {', '.join(unknown)}")


def refuse_option(tensor: object, operation: str, **options: object) -> NoReturn:
    """Raise the error for unknown options of a tensor method; ``options`` that are None were not passed."""
    refuse(tensor, operation, {name: value for name, value in options.items() if value is not None})


def _refuse(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], error: TypeError | None) -> None:
    from burnpy.hints.wrong_calls import method_error

    refusal = method_error(function, args, kwargs)
    if refusal is not None:
        raise refusal from error


def _refuse_types(name: str, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], error: Exception) -> None:
    if type(error) in UNEXPLAINED:
        from burnpy.backend.functions import signature
        from burnpy.hints.wrong_calls import type_error

        own = signature_of(function) if isinstance(function, type) else signature(function)
        refusal = type_error(name, own, args, kwargs, error, function.__module__)
        if refusal is not None:
            raise refusal from error


def _name_arguments(error: DeviceError, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    from burnpy.hints.wrong_calls import name_arguments

    name_arguments(error, function, args, kwargs)


def _name_call(error: Exception, function: Any) -> None:
    from burnpy.hints.wrong_calls import name_call

    name_call(error, function)


def _refuse_memory(operation: str, args: tuple[Any, ...], error: MemoryError) -> NoReturn:
    from burnpy.backend.device_memory import not_allocated

    raise not_allocated(f"{operation}()", args, error) from error


def _renamed(copy: Any, method: Any, owner: type | None) -> Any:
    name = method.__name__
    copy.__name__, copy.__qualname__ = name, f"{owner.__name__}.{name}" if owner else method.__qualname__
    copy.__module__, copy.__doc__ = (owner or method).__module__, method.__doc__
    return copy
