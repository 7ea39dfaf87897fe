"""Checks of the settings of solvers, which are numbers."""

from __future__ import annotations

from operator import index
from typing import Any

from burnpy.backend.errors import ArgumentError, KindError


def positive(api: str, name: str, value: Any) -> float:
    """Return a positive, finite number as a float.

    Raises:
        ArgumentError: it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 < value < float("inf"):
        raise ArgumentError(f"{api}() got {name}={value!r:.60}; expected a positive number")
    return float(value)


def count(api: str, name: str, value: Any, least: int = 1) -> int:
    """Return a number of steps or the like as an int.

    Raises:
        KindError: it is no int.
        ArgumentError: it is less than ``least``.
    """
    try:
        number = index(value)
    except TypeError:
        raise KindError(f"{api}() takes an int as {name}, got {value!r:.60}") from None
    if number < least:
        raise ArgumentError(f"{api}() got {name}={number}; expected at least {least}")
    return number
