"""Methods made from one template: forty operations differ in nothing but the name of the function that they call."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, cast

from burnpy.backend.backend import Backend


def specialised(
    template: Callable[..., Any], name: str, function: str, names: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """A copy of ``template``, called ``name``, in whose names ``FUNCTION`` reads ``function``.

    A closure would do the same with a cell to look in at every call, and could not be told before the array module is
    there what to hold; a wrapper costs a frame. Here the code object itself is copied with another name in it, so the
    method runs as if it had been written out by hand.

    Args:
        template: a function written with the name ``FUNCTION``, or names that contain it, as globals or attributes.
        name: the operation's.
        function: what ``FUNCTION`` becomes.
        names: the globals of the copy; None for those of the template.
    """
    written = cast(FunctionType, template)
    code = written.__code__
    code = code.replace(
        co_names=tuple(n.replace("FUNCTION", function) for n in code.co_names), co_name=name, co_qualname=name
    )
    made = FunctionType(code, written.__globals__ if names is None else names, name, written.__defaults__)
    made.__doc__ = getattr(Backend, name).__doc__
    made.__module__ = written.__module__
    return made
