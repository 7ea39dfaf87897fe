"""Sizes that layers are given."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, TypeAlias

from burnpy.backend.errors import ArgumentError

Pair: TypeAlias = int | Sequence[int]
"""A size for height and width: one number for both, or two."""


def positive(layer: str, **sizes: int) -> None:
    """Refuse sizes that are no positive ints.

    Raises:
        ArgumentError: one is not.
    """
    for name, size in sizes.items():
        if _int(size) is None or size < 1:
            raise ArgumentError(f"{layer}() was given {name}={size!r}; it is a positive int")


def whole(operation: str, name: str, value: int) -> int:
    """A number as an int.

    Raises:
        ArgumentError: it is none.
    """
    found = _int(value)
    if found is None:
        raise ArgumentError(f"{operation}() was given {name}={value!r}; it is an int")
    return found


def pair(operation: str, name: str, value: Pair, least: int = 1) -> tuple[int, int]:
    """A size for height and width as two ints, at least ``least``.

    Raises:
        ArgumentError: it is not.

    >>> pair("max_pool2d", "kernel_size", 2), pair("max_pool2d", "stride", (1, 2))
    ((2, 2), (1, 2))
    """
    one = _int(value)
    found = (one, one) if one is not None else tuple(map(_int, value)) if isinstance(value, Sequence) else ()
    if len(found) != 2 or any(n is None or n < least for n in found):
        raise ArgumentError(
            f"{operation}() was given {name}={value!r}; it is an int of at least {least}, or two of them: (height, "
            "width)"
        )
    return found  # type: ignore[return-value]  # two ints


def _int(value: Any) -> int | None:
    try:
        return index(value)
    except TypeError:
        return None
