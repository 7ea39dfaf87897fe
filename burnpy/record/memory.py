"""Bytes of files as memory of arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.errors import RecordError

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK = 1 << 22
"""How many bytes are read, hashed or written at a time: they are still in the cache for the next of these."""
LARGEST = (1 << 63) - 1
"""No size, place or number of bytes is larger than this."""


def chunks(view: memoryview) -> Iterator[memoryview]:
    """Memory, part by part."""
    for start in range(0, len(view), CHUNK):
        yield view[start : start + CHUNK]


def fill(view: memoryview, readinto: Callable[[memoryview], int | None], source: str) -> None:
    """Fill memory with what comes from a file.

    Raises:
        RecordError: there is less of it.
    """
    while view:
        count = readinto(view)
        if not count:
            raise damaged(source, "it ends too early")
        view = view[count:]


def new_bytes(size: int) -> NDArray[Any]:
    """Memory to be filled."""
    return np.empty(size, np.uint8)


def raw(x: NDArray[Any]) -> memoryview:
    """The memory of an array of bytes."""
    buffer: Any = x
    return memoryview(buffer)


def as_little_endian(x: NDArray[Any]) -> memoryview:
    """The bytes of an array in C order, little-endian; a copy only where they are not so in its own memory."""
    flat = np.asarray(x, order="C").reshape(-1)
    if sys.byteorder == "big" and x.dtype.itemsize > 1:
        flat = flat.byteswap()
    return raw(flat.view(np.uint8))


def swapped(data: NDArray[Any], width: int) -> NDArray[Any]:
    """Bytes that nobody else holds, with those of each ``width`` of them in the other order, in place."""
    if width > 1:
        data.view(f"u{width}").byteswap(inplace=True)
    return data


def refuse_no_bools(data: NDArray[Any], name: str, source: str) -> None:
    """Refuse bytes that are to be bools and are none.

    Raises:
        RecordError: some are neither 0 nor 1.
    """
    if data.max(initial=0) > 1:
        raise damaged(source, f"{brief(name)} of dtype bool has bytes that are neither 0 nor 1")


def brief(text: str, most: int = 80) -> str:
    """A name out of a file as a message shows it: no longer than that."""
    return text if len(text) <= most else f"{text[:most]}…"


def damaged(source: str, what: str) -> RecordError:
    """The error that a file is not as it should be."""
    return RecordError(f"{source} is damaged, and nothing was loaded: {what}")
