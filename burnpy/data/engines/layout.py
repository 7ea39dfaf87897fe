"""Python objects in shared memory: the pickle, followed by the arrays, which are used without a copy."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from io import BytesIO
from itertools import accumulate
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

_ALIGNMENT = 64
_COMPARED = 1 << 20
"""The number of bytes that are compared at once, so that the result of the comparison takes no memory to speak of."""


class Packed:
    """An object that is ready to be written into shared memory.

    Raises:
        Exception: it cannot be pickled.
    """

    def __init__(self, value: object) -> None:
        file, buffers = BytesIO(), list[memoryview]()
        _Pickler(file, buffers).dump(value)
        # Not getbuffer(), a view that keeps the file from closing: its finalizer fails if a cycle is collected.
        self._parts = [memoryview(file.getvalue()), *buffers]

    @property
    def sizes(self) -> list[int]:
        """The number of bytes of each part, which `unpacked` needs."""
        return [part.nbytes for part in self._parts]

    @property
    def size(self) -> int:
        """The number of bytes that it takes."""
        return _starts(self.sizes)[-1]

    def is_in(self, memory: Any, sizes: Sequence[int]) -> bool:
        """Return whether it equals the beginning of a memory, in parts of these sizes."""
        if self.sizes != sizes:
            return False
        for start, part in zip(_starts(sizes), self._parts, strict=False):
            mine, its = np.frombuffer(part, np.uint8), np.frombuffer(memory, np.uint8, part.nbytes, start)
            for place in range(0, len(mine), _COMPARED):
                if not np.array_equal(mine[place : place + _COMPARED], its[place : place + _COMPARED]):
                    return False
        return True

    def write(self, memory: Any) -> None:
        """Copy it to the beginning of a writable memory."""
        for start, part in zip(_starts(self.sizes), self._parts, strict=False):
            memory[start : start + part.nbytes] = part


def unpacked(memory: Any, sizes: Sequence[int]) -> Any:
    """Return an object that was written into a memory. Its arrays are views of the memory."""
    parts = [memory[start : start + size] for start, size in zip(_starts(sizes), sizes, strict=False)]
    return pickle.loads(parts[0], buffers=parts[1:])


def _starts(sizes: Sequence[int]) -> list[int]:
    """Return where parts of some sizes begin, and where the last one ends."""
    return [*accumulate((-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes), initial=0)]


class _Pickler(ForkingPickler):
    """A pickler that keeps the memory of arrays out of the pickle, and stores memory maps of files as their paths."""

    def __init__(self, file: BytesIO, buffers: list[memoryview]) -> None:
        super().__init__(file, 5, True, lambda buffer: buffers.append(buffer.raw()))

    def reducer_override(self, obj: Any) -> Any:
        """Return how a memory map is opened again."""
        if type(obj) is np.memmap and not isinstance(obj.base, np.ndarray) and obj.mode == "r" and obj.filename:
            order = "F" if obj.flags.f_contiguous and obj.ndim > 1 else "C"
            return np.memmap, (obj.filename, obj.dtype, "r", obj.offset, obj.shape, order)
        return NotImplemented
