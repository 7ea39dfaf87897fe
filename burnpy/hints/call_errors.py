"""The errors for calls with arguments that a function, a method or a class does not accept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any

from burnpy.backend.errors import CallError
from burnpy.hints.arguments import METHODS, MISSING, OURS, SENTENCES
from burnpy.hints.signatures import signature
from burnpy.hints.spelling import meant


def call_error(
    name: str,
    parameters: Sequence[Parameter],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    hints: Mapping[str, str] | None = None,
) -> CallError | None:
    """Return the error for a call that does not match the parameters; None if it matches.

    Args:
        name: the name of the function.
        parameters: its parameters, without ``self``.
        args: the positional arguments of the call.
        kwargs: the keyword arguments of the call.
        hints: suggestions by argument name, in addition to those for PyTorch and NumPy; under "" the one for too many
            positional arguments, and under `MISSING` the one for missing arguments.
    """
    try:
        Signature(parameters).bind(*args, **kwargs)
    except TypeError:
        return CallError(f"{name}() {_mistake(parameters, args, kwargs, hints or {})}")
    return None


def method_error(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> CallError | None:
    """Return the `call_error` of a function, or of a method, whose first argument is the tensor."""
    parameters = [*signature(function).parameters.values()]
    if parameters and parameters[0].name in ("self", "cls"):
        parameters, args = parameters[1:], args[1:]
    taken, name = [p for p in parameters if p.kind is not p.VAR_KEYWORD], function.__name__
    if name == "__init__":
        name = function.__qualname__.rpartition(".")[0]
    return call_error(name, taken, args, kwargs, METHODS.get(name))


def _mistake(
    parameters: Sequence[Parameter], args: Sequence[Any], kwargs: Mapping[str, Any], hints: Mapping[str, str]
) -> str:
    in_order = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    unknown = [key for key in kwargs if key not in names]
    our_names = [_called(key, names) for key in unknown]
    if len(unknown) > 1 and all(our_names):
        return f"does not take {', '.join(unknown)}; they are called {', '.join(filter(None, our_names))} here"
    if unknown:
        return f"does not take {unknown[0]}; {hints.get(unknown[0]) or _instead(unknown[0], parameters, names)}"
    if len(args) > len(in_order) and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        by_name = [f"{key}=" for key in names if key not in in_order]
        others = f"; pass the others by name: {', '.join(by_name)}" if by_name else ""
        hint = f"; {hints['']}" if "" in hints else others
        got = f"{len(args)} value{'s' * (len(args) != 1)}"
        return f"takes {', '.join(in_order) or 'nothing'} by position, but got {got}{hint}"
    twice = [key for key in in_order[: len(args)] if key in kwargs]
    if twice:
        return f"got {twice[0]} twice, by position and by name; pass it once"
    passed = {*in_order[: len(args)], *kwargs}
    missing = [p.name for p in parameters if p.default is p.empty and p.name in names and p.name not in passed]
    device_hint = "; device= says where it is: NumPy, or Autodiff[NumPy] to train it" if "device" in missing else ""
    hint_for_missing = device_hint or (f"; {hints[MISSING]}" if MISSING in hints else "")
    return f"is missing the argument{'s' * (len(missing) > 1)} {', '.join(missing)}{hint_for_missing}"


def _called(key: str, names: Sequence[str]) -> str | None:
    """Return the name here of an argument ``key`` of PyTorch or NumPy; None if there is none."""
    return next((ours for ours in OURS.get(key, ()) if ours in names), None)


def _instead(key: str, parameters: Sequence[Parameter], names: Sequence[str]) -> str:
    """Return the suggestion for an argument that is not accepted."""
    ours = _called(key, names)
    if ours:
        return f"it is called {ours} here"
    several = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL]
    if several and (key in several or several[0] in OURS.get(key, ())):
        return f"pass it by position, as *{several[0]}"
    suggestion = meant(key, names)
    accepted = [*(f"*{p.name}" for p in parameters if p.kind is p.VAR_POSITIONAL), *names]
    return SENTENCES.get(key) or (
        f"did you mean {suggestion}?" if suggestion else f"it takes {', '.join(accepted) or 'no arguments'}"
    )
