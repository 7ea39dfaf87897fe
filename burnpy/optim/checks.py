"""Numbers that come from users, checked once, where they come in."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.errors import ArgumentError, a


def number(value: Any, what: str) -> float:
    """A Python number.

    Raises:
        ArgumentError: it is none, or NaN.
    """
    if isinstance(value, (np.floating, np.integer)):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        hint = "; of a tensor, give x.item()" if hasattr(value, "item") else ""
        if hasattr(value, "named_params"):
            hint = "; the rate comes first: model = optim.step(1e-3, model, grads)"
        if hasattr(value, "at"):
            hint = "; of a schedule, give that of a step: schedule(step)"
        shown = (
            f"{value!r:.80}"
            if isinstance(value, (str, bool, complex, bytes, type(None)))
            else f"{a(type(value).__name__)}"
        )
        raise ArgumentError(f"{what} is a number, and was given as {shown}{hint}")
    if math.isnan(value):
        raise ArgumentError(f"{what} was given as NaN, of which nothing can be made")
    return value


def at_least_zero(value: Any, what: str) -> float:
    """A number that is finite and not negative.

    Raises:
        ArgumentError: it is something else.
    """
    found = number(value, what)
    if not 0 <= found < math.inf:
        raise ArgumentError(f"{what} was given as {value!r}; it is finite and not negative")
    return found


def fraction(value: Any, what: str) -> float:
    """A number in [0, 1).

    Raises:
        ArgumentError: it is something else.
    """
    found = number(value, what)
    if not 0 <= found < 1:
        raise ArgumentError(f"{what} was given as {value!r}; it is at least 0 and less than 1")
    return found


def count(value: Any, what: str, *, least: int = 1) -> int:
    """An int that is large enough.

    Raises:
        ArgumentError: it is something else.
    """
    if isinstance(value, np.integer):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(f"{what} was given as {value!r:.80}; it is an int of {least} or more")
    return value
