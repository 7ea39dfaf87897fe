"""`Arena`: where the intermediate values of a plan lie in one block of memory, each place used again and again.

Places are assigned once it is known how long each value is needed: the largest first, each to the lowest gap that is
free for as long. So small values that are needed for long, such as gradients of biases, split no large gap.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence
from operator import attrgetter

from burnpy.backend.primitives import DType, Shape

ALIGNMENT = 64
_BY_SIZE = 512
"""The number of places, the largest ones, that are assigned by size; the time for it grows with its square."""
_start = attrgetter("start")


class Place:
    """A part of the block, for the time from one event to another."""

    __slots__ = ("begin", "end", "size", "start")

    def __init__(self, size: int, begin: int) -> None:
        self.size, self.begin = size, begin
        self.end: float = math.inf
        self.start = 0  #: the first byte, once the places are assigned

    def meets(self, other: Place) -> bool:
        """Return whether both are needed at some time."""
        return self.begin < other.end and other.begin < self.end


class Arena:
    """The places in a block of memory, which are taken and given back in the order in which values are computed."""

    def __init__(self) -> None:
        self.size = 0  #: the bytes of the block, once the places are assigned
        self.total = 0  #: the bytes that all values would need without sharing
        self._places: list[Place] = []
        self._events = 0

    def take(self, shape: Shape, dtype: DType) -> Place:
        """Return a place, which no other value has until it is given back."""
        size = max(ALIGNMENT, -(-math.prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT)
        self._events += 1
        place = Place(size, self._events)
        self._places.append(place)
        self.total += size
        return place

    def free(self, place: Place) -> None:
        """Give back a place whose value is needed no longer."""
        self._events += 1
        place.end = self._events

    def assign(self) -> None:
        """Assign all places: the largest by size, and the others above them in the order in which they are taken."""
        ranked = sorted(self._places, key=lambda place: -place.size)
        large: list[Place] = []
        for place in ranked[:_BY_SIZE]:
            self._assign(place, [other for other in large if other.meets(place)], 0)
            insort(large, place, key=_start)
        floor, alive = self.size, list[Place]()
        for place in sorted(ranked[_BY_SIZE:], key=attrgetter("begin")):
            alive = [other for other in alive if other.meets(place)]
            self._assign(place, alive, floor)
            insort(alive, place, key=_start)

    def _assign(self, place: Place, others: Sequence[Place], start: int) -> None:
        """Assign a place to the lowest gap between others, which are in order, from a byte on."""
        for other in others:
            if other.start - start >= place.size:
                break
            start = max(start, other.start + other.size)
        place.start = start
        self.size = max(self.size, start + place.size)
