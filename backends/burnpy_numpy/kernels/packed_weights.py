"""Weights as the kernels of convolutions, recurrences and products read them, kept in one store: `packed_weights`."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any
from weakref import ref

import numpy as np

_MOST = 256 << 20
"""The most memory of kept weights, in bytes."""


class PackedWeights:
    """Packed weights by the array that they were made from.

    An array whose packed form is kept becomes read-only: what is kept would not follow a change. Only arrays that own
    their memory are kept, and views of read-only arrays, such as those of a file: others could change through their
    owner.

    Args:
        most: the most memory to use, in bytes. Weights for which there is no room are not kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen: dict[tuple[int, Hashable], ref[Any]] = {}
        self._packed: dict[tuple[int, Hashable], Any] = {}
        self._used = 0
        self.changing: set[int] = set()  #: the ids of arrays that replays of plans are overwriting

    def find(self, weight: Any, how: Hashable) -> Any:
        """Return the packed form of a weight that is kept; None without one.

        Args:
            weight: the array.
            how: the way in which it was packed.
        """
        return self._packed.get((id(weight), how))

    def keeps(self, weight: Any, how: Hashable) -> bool:
        """Return whether to keep the packed form of a weight: if this was called for it before, nothing changes it, and
        there is room.

        In training each array is packed once for its operation and once for the gradient, and is not kept. A plan may
        overwrite an array after its kernels have read it: making it read-only then would come too late.
        """
        if self._used + weight.nbytes > self._most or id(weight) in self.changing:
            return False
        base = weight.base
        while isinstance(base, np.ndarray) and not base.flags.writeable:
            base = base.base
        if not (base is None or isinstance(base, bytes)):
            return False
        key = id(weight), how
        if key in self._seen:
            return True
        self._seen[key] = ref(weight, lambda _: self._forget(key))
        return False

    def add(self, weight: Any, how: Hashable, packed: Any) -> None:
        """Keep the packed form of a weight for which `keeps` was true, and make the weight read-only."""
        if self._used + packed.nbytes > self._most:
            return
        weight.flags.writeable = False
        self._packed[id(weight), how] = packed
        self._used = sum(kept.nbytes for kept in [*self._packed.values()])

    def _forget(self, key: tuple[int, Hashable]) -> None:
        """Drop what belongs to an array that is gone."""
        self._seen.pop(key, None)
        if self._packed.pop(key, None) is not None:
            self._used = sum(kept.nbytes for kept in [*self._packed.values()])


packed_weights = PackedWeights(_MOST)
"""The weights that convolutions, recurrences and products keep in this process."""
