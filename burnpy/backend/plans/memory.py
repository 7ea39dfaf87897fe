"""`Arena`: where the intermediate values of a plan lie in one block of memory, each place used again and again."""

from __future__ import annotations

import math
from bisect import insort

from burnpy.backend.primitives import DType, Shape

ALIGNMENT = 64


class Arena:
    """Assigns places in a block of memory, in the order in which values are computed."""

    def __init__(self) -> None:
        self.size = 0  #: the bytes of the block
        self.total = 0  #: the bytes that all values would need without sharing
        self._taken: list[tuple[int, int]] = []  # (start, stop) of the values that are needed, in order

    def take(self, shape: Shape, dtype: DType) -> tuple[int, int]:
        """Return start and stop of a free place, the first that is large enough."""
        need = max(ALIGNMENT, -(-math.prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT)
        start = 0
        for begin, end in self._taken:
            if begin - start >= need:
                break
            start = max(start, end)
        place = (start, start + need)
        insort(self._taken, place)
        self.size, self.total = max(self.size, place[1]), self.total + need
        return place

    def free(self, place: tuple[int, int]) -> None:
        """Give back a place whose value is needed no longer."""
        self._taken.remove(place)
