"""Validation of sizes passed to layers."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, TypeAlias

from burnpy.backend.errors import ArgumentError
from burnpy.tensor.base import describe

Pair: TypeAlias = int | Sequence[int]
"""A size for height and width: one number for both, or two."""
Single: TypeAlias = int | Sequence[int]
"""A size for the length of sequences: a number, or a sequence of one."""
OutputPair: TypeAlias = int | Sequence[int | None]
"""A height and width of an output: one number for both, or two; None keeps the size of the input."""
Size: TypeAlias = Single | Pair
"""A size of a layer that is for sequences or for images."""

_MOST = 1 << 62


def positive(layer: str, **sizes: int) -> None:
    """Check that all sizes are positive ints.

    Raises:
        ArgumentError: one of them is not.
    """
    for name, size in sizes.items():
        if _int(size) is None or size < 1:
            raise ArgumentError(f"{layer}() got {name}={describe(size)}; expected a positive int")


def grouped(layer: str, in_channels: int, out_channels: int, groups: int) -> None:
    """Check the channels of a convolution and its groups, which divide both.

    Raises:
        ArgumentError: one of them is not a positive int, or the groups do not divide the channels.
    """
    positive(layer, in_channels=in_channels, out_channels=out_channels, groups=groups)
    if in_channels % groups or out_channels % groups:
        raise ArgumentError(
            f"{layer}() got groups={groups} for {in_channels} → {out_channels} channels; it must divide both"
        )


def last_dims(layer: str, normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of the last dimensions, over which a layer normalizes, as a tuple.

    Raises:
        ArgumentError: there are none, or one is not a positive int.
    """
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape:
        raise ArgumentError(f"{layer}() got normalized_shape=(); it has at least one size")
    for size in shape:
        positive(layer, normalized_shape=size)
    return shape


def whole(operation: str, name: str, value: int) -> int:
    """Convert an integer value to int.

    Raises:
        ArgumentError: the value is not an integer.
    """
    number = _int(value)
    if number is None:
        raise ArgumentError(f"{operation}() got {name}={describe(value)}; expected an int")
    return number


def pair(operation: str, name: str, value: Pair, least: int = 1) -> tuple[int, int]:
    """Convert a size for height and width to two ints of at least ``least``.

    Raises:
        ArgumentError: it is neither one int nor two, or one is too small.

    >>> pair("max_pool2d", "kernel_size", 2), pair("max_pool2d", "stride", (1, 2))
    ((2, 2), (1, 2))
    """
    sizes: Any = (value, value) if value.__class__ is int else value
    if sizes.__class__ is tuple and len(sizes) == 2:
        high, wide = sizes
        if high.__class__ is int and wide.__class__ is int and least <= high < _MOST and least <= wide < _MOST:
            return high, wide
    return _checked_pair(operation, name, value, least)


def output_pair(operation: str, value: OutputPair) -> tuple[int | None, int | None]:
    """Convert ``output_size`` to two positive ints, or None for the size of the input.

    Raises:
        ArgumentError: it is neither one int nor two, or one is too small.

    >>> output_pair("adaptive_avg_pool2d", 2), output_pair("adaptive_avg_pool2d", (None, 2))
    ((2, 2), (None, 2))
    """
    if isinstance(value, Sequence) and len(value) == 2 and None in value:
        high, wide = (None if n is None else single(operation, "output_size", n) for n in value)
        return high, wide
    size: Any = value
    return pair(operation, "output_size", size)


def single(operation: str, name: str, value: Single, least: int = 1) -> int:
    """Convert a size for the length of sequences to an int of at least ``least``.

    Raises:
        ArgumentError: it is neither an int nor a sequence of one, or is too small.

    >>> single("max_pool1d", "kernel_size", 2), single("max_pool1d", "stride", (3,))
    (2, 3)
    """
    size: Any = value[0] if isinstance(value, Sequence) and len(value) == 1 else value
    number = _int(size)
    if number is None or number < least:
        raise ArgumentError(f"{operation}() got {name}={describe(value)}; expected an int of at least {least}")
    return number


def row(operation: str, name: str, value: Single, least: int = 1) -> tuple[int, int]:
    """Convert a size for the length of sequences to the sizes for images of height 1.

    Raises:
        ArgumentError: as `single`.

    >>> row("max_pool1d", "kernel_size", 2), row("max_pool1d", "padding", (3,), 0)
    ((1, 2), (0, 3))
    """
    return least, single(operation, name, value, least)


def _checked_pair(operation: str, name: str, value: Any, least: int) -> tuple[int, int]:
    """The slow path of `pair`, for other sequences and integers, and for errors."""
    size = _int(value)
    sizes = (size, size) if size is not None else tuple(map(_int, value)) if isinstance(value, Sequence) else ()
    if len(sizes) != 2 or any(n is None or n < least for n in sizes):
        raise ArgumentError(
            f"{operation}() got {name}={describe(value)}; expected an int of at least {least}, or two of them: "
            "(height, width)"
        )
    return sizes  # type: ignore[return-value]  # two ints


def _int(value: Any) -> int | None:
    try:
        number = index(value)
    except TypeError:
        return None
    return number if -_MOST < number < _MOST else None
