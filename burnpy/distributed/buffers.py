"""Memory for buckets that is used again once no gradient refers to it."""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burnpy.backend.primitives import DType

_KEPT = 64
"""The number of memories that a pool keeps for one size."""


class BufferPool:
    """Lends arrays, and takes their memory back when the array and all views of it are gone.

    Gradients in a bucket are views of it. So memory that a gradient still refers to is never lent again, and in a loop
    that keeps the gradients of one step at a time, two sets of buckets take turns.

    >>> pool = BufferPool()
    >>> first = pool.take(np.dtype("float32"), 3)
    >>> view, address = first[1:], first.ctypes.data
    >>> del first
    >>> pool.take(np.dtype("float32"), 3).ctypes.data == address
    False
    >>> del view
    >>> pool.take(np.dtype("float32"), 3).ctypes.data == address
    True
    """

    def __init__(self) -> None:
        self._free: dict[int, deque[memoryview]] = {}

    def take(self, dtype: DType, size: int) -> NDArray[Any]:
        """Return a 1-d array of undefined values."""
        nbytes = dtype.itemsize * size
        free = self._free.setdefault(nbytes, deque(maxlen=_KEPT))
        try:
            memory = free.pop()
        except IndexError:
            owner: Any = np.empty(nbytes, np.uint8)
            memory = memoryview(owner)
        array = np.frombuffer(memory, dtype, size)  # views of it refer to it, as its own memory is no array
        weakref.finalize(array, free.append, memory).atexit = False
        return array
