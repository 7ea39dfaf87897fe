"""The errors for wrong calls of modules and for missing attributes of modules, variables and optimizers."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import CallError

if TYPE_CHECKING:
    from inspect import Signature


class Explaining(ABCMeta):
    """A metaclass that explains wrong constructor arguments with a `CallError`."""

    if not TYPE_CHECKING:  # type checkers read the signature of __init__

        def __call__(cls, *args, **kwargs):
            """Create an instance."""
            try:
                return super().__call__(*args, **kwargs)
            except TypeError as error:
                refusal = call_error(cls, args, kwargs)
                if refusal is None:
                    raise
                raise refusal from error

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
    """Return the error that explains why ``cls(*args, **kwargs)`` does not fit ``__init__``, or None if it does."""
    from burnpy.hints import wrong_calls
    from burnpy.hints.wrong_calls import arguments_of

    if cls.__init__ is object.__init__ and args and not kwargs:
        return CallError(f"{cls.__name__}() got {len(args)} values, and has no __init__ that takes any")
    return wrong_calls.call_error(
        cls.__name__, [*signature_of(cls).parameters.values()], args, kwargs, arguments_of(cls)
    )


def refuse_call(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any], error: TypeError) -> None:
    """Raise the error that explains why a call of ``module.forward`` was refused; the caller has caught ``error``.

    Nothing is raised if the error comes from inside of ``forward``.
    """
    trace = error.__traceback__
    if trace is not None and trace.tb_next is not None:
        return
    from burnpy.backend.functions import signature
    from burnpy.hints import wrong_calls

    name, parameters = f"{type(module).__name__}.forward", [*signature(module.forward).parameters.values()]
    refusal = wrong_calls.call_error(name, parameters, args, kwargs)
    if refusal is not None:
        raise refusal from error


def missing_attribute(owner: Any, kind: str, name: str) -> AttributeError:
    """Return the AttributeError for a missing attribute, with a hint at the equivalent name in burnpy.

    Args:
        owner: the object without the attribute: a module, an optimizer or a variable.
        kind: the key of the table of PyTorch's methods to look the name up in, such as "Module".
        name: the missing attribute.
    """
    if name.startswith("_"):  # `copy`, `pickle` and NumPy probe for such names
        return AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}", name=name, obj=owner)
    from burnpy.hints.missing import of_object

    return of_object(owner, kind, name)
