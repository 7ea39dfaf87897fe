"""Moving bytes between files and the memory of arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.errors import RecordError

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK = 1 << 22
"""The number of bytes read, hashed or written at a time, so that they stay in the cache between these steps."""
LARGEST = (1 << 63) - 1
"""The maximum of a size, an offset or a number of bytes."""


def chunks(view: memoryview) -> Iterator[memoryview]:
    """Yield a buffer in chunks of `CHUNK` bytes."""
    for start in range(0, len(view), CHUNK):
        yield view[start : start + CHUNK]


def fill(view: memoryview, readinto: Callable[[memoryview], int | None], source: str) -> None:
    """Fill a buffer from a file.

    Raises:
        RecordError: the file ends before the buffer is full.
    """
    while view:
        count = readinto(view)
        if not count:
            raise damaged(source, "it ends too early")
        view = view[count:]


def new_bytes(size: int) -> NDArray[Any]:
    """Return an uninitialized array of ``size`` bytes."""
    return np.empty(size, np.uint8)


def raw(x: NDArray[Any]) -> memoryview:
    """Return a memoryview of an array of bytes."""
    buffer: Any = x
    return memoryview(buffer)


def as_little_endian(x: NDArray[Any]) -> memoryview:
    """Return the bytes of an array in C order, little-endian; a copy only if its memory is laid out otherwise."""
    flat = np.asarray(x, order="C").reshape(-1)
    if sys.byteorder == "big" and x.dtype.itemsize > 1:
        flat = flat.byteswap()
    return raw(flat.view(np.uint8))


def swapped(data: NDArray[Any], width: int) -> NDArray[Any]:
    """Reverse each group of ``width`` bytes in place and return the array; no other reference to it may exist."""
    if width > 1:
        data.view(f"u{width}").byteswap(inplace=True)
    return data


def refuse_no_bools(data: NDArray[Any], name: str, source: str) -> None:
    """Raise an error unless all bytes of a bool tensor are 0 or 1.

    Raises:
        RecordError: a byte is neither 0 nor 1.
    """
    if data.max(initial=0) > 1:
        raise damaged(source, f"{brief(name)} of dtype bool has bytes that are neither 0 nor 1")


def brief(text: str, most: int = 80) -> str:
    """Truncate text from a file for a message to ``most`` characters."""
    return text if len(text) <= most else f"{text[:most]}…"


def damaged(source: str, what: str) -> RecordError:
    """Return the error for a damaged file."""
    return RecordError(f"{source} is damaged, and nothing was loaded: {what}")
