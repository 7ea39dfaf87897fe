"""`PackedWeights`: weights of convolutions that were reordered to blocks of channels, kept while their arrays live.

Reordering a weight takes as long as multiplying it by some fifty pixels. A weight that is used a second time, as in
inference, is kept; one that an optimizer replaces after each step is not.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any
from weakref import ref

_MOST = 256 << 20
"""The most memory of kept weights, in bytes."""


class PackedWeights:
    """Packed weights by the array that they were made from.

    An array whose packed form is kept becomes read-only: what is kept would not follow a change. Only arrays that own
    their memory are kept, as others could change through their owner.

    Args:
        most: the most memory to use, in bytes. The weights that were added first are dropped first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen: dict[tuple[int, Hashable], ref[Any]] = {}
        self._packed: dict[tuple[int, Hashable], Any] = {}

    def find(self, weight: Any, how: Hashable) -> Any:
        """Return the packed form of a weight that is kept; None without one.

        Args:
            weight: the array.
            how: the way in which it was packed.
        """
        return self._packed.get((id(weight), how))

    def keeps(self, weight: Any, how: Hashable) -> bool:
        """Return whether to keep the packed form of a weight: if this was called for it before, and it is no view.

        In training each array is packed once for the convolution and once for its gradient, and is not kept.
        """
        if weight.base is not None:
            return False
        key = id(weight), how
        if key in self._seen:
            return True
        self._seen[key] = ref(weight, lambda _: self._forget(key))
        return False

    def add(self, weight: Any, how: Hashable, packed: Any) -> None:
        """Keep the packed form of a weight for which `keeps` was true, and make the weight read-only."""
        if packed.nbytes > self._most:
            return
        weight.flags.writeable = False
        self._packed[id(weight), how] = packed
        while sum(kept.nbytes for kept in [*self._packed.values()]) > self._most:
            self._packed.pop(next(iter(self._packed)), None)

    def _forget(self, key: tuple[int, Hashable]) -> None:
        """Drop what belongs to an array that is gone."""
        self._seen.pop(key, None)
        self._packed.pop(key, None)


packed_weights = PackedWeights(_MOST)
"""The weights that convolutions keep in this process."""
