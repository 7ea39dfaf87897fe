"""Read-only views that stay read-only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def readonly(array: NDArray[Any]) -> NDArray[Any]:
    """The same memory as an array that cannot be made writable.

    ``setflags(write=True)`` opens a read-only view of a writable array again, but not an array over a read-only buffer.

    >>> readonly(np.zeros(3)).flags.writeable
    False
    """
    buffer: Any = array
    try:
        return np.asarray(memoryview(buffer).toreadonly())
    except ValueError:  # bfloat16 is no dtype of Python's buffers; the bits of it are
        return np.asarray(memoryview(buffer.view(np.uint16)).toreadonly()).view(array.dtype)
