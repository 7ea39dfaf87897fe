"""Creating methods from a template, for forty operations that differ only in the function that they call."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, cast

from burnpy.backend.backend import Backend


def specialised(
    template: Callable[..., Any], name: str, function: str, names: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """Return a copy of ``template`` called ``name``, with ``FUNCTION`` replaced by ``function`` in its names.

    A closure would look up a cell at every call, and would need the function before the array module is imported; a
    wrapper costs a frame. Here the code object itself is copied with another name in it, so the method runs as fast as
    one written by hand.

    Args:
        template: a function that uses ``FUNCTION``, or names that contain it, as globals or attributes.
        name: the name of the operation.
        function: the name that replaces ``FUNCTION``.
        names: the globals of the copy; None for those of the template.
    """
    original = cast(FunctionType, template)
    code = original.__code__
    code = code.replace(
        co_names=tuple(n.replace("FUNCTION", function) for n in code.co_names), co_name=name, co_qualname=name
    )
    method = FunctionType(code, original.__globals__ if names is None else names, name, original.__defaults__)
    method.__doc__ = getattr(Backend, name).__doc__
    method.__module__ = original.__module__
    return method
