"""Weights as the kernels of convolutions, recurrences and products read them, kept in one store: `packed_weights`."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from burnpy_numpy.allocator import return_freed_memory

if TYPE_CHECKING:
    from burnpy_numpy.kernels.products.products import Product

_MAX_KEPT_BYTES = 256 << 20
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
        self._ready: dict[int, dict[Hashable, Any]] = {}
        self._used = 0
        self.changing: set[int] = set()  #: the ids of arrays that replays of plans are overwriting

    def find(self, weight: Any, how: Hashable) -> Any:
        """Return the packed form of a weight that is kept; None without one.

        Args:
            weight: the array.
            how: the way in which it was packed.
        """
        return self._packed.get((id(weight), how))

    def ready(self, weight: Any, call: Hashable) -> Any:
        """Return what `note` kept for a call with a weight; None without it."""
        kept = self._ready.get(id(weight))
        return None if kept is None else kept.get(call)

    def note(self, weight: Any, how: Hashable, call: Hashable, value: Any) -> None:
        """Keep what a call needs of a packed form, as long as this is kept."""
        if (id(weight), how) in self._packed:
            self._ready.setdefault(id(weight), {})[call] = value

    def keeps(self, weight: Any, how: Hashable, now: bool = False) -> bool:
        """Return whether to keep the packed form of a weight: if this was called for it before, nothing changes it, and
        there is room. With ``now`` the first call is enough.

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
        seen = now or key in self._seen
        self._seen.setdefault(key, ref(weight, lambda _: self._forget(key)))
        return seen

    def add(self, weight: Any, how: Hashable, packed: Any) -> None:
        """Keep the packed form of a weight for which `keeps` was true, and make the weight read-only."""
        if self._used + packed.nbytes > self._most:
            return
        if not self._packed:  # inference begins: what making the model took is not needed again
            return_freed_memory()
        weight.flags.writeable = False
        self._packed[id(weight), how] = packed
        self._used = sum(kept.nbytes for kept in [*self._packed.values()])

    def _forget(self, key: tuple[int, Hashable]) -> None:
        """Drop what belongs to an array that is gone."""
        self._seen.pop(key, None)
        self._ready.pop(key[0], None)
        if self._packed.pop(key, None) is not None:
            self._used = sum(kept.nbytes for kept in [*self._packed.values()])


packed_weights = PackedWeights(_MAX_KEPT_BYTES)
"""The weights that convolutions, recurrences and products keep in this process."""


def panels_of(matrix: Any, words: Any, chunk: int, shape: tuple[int, int, int, int], kept: Any) -> Any:
    """Return the panels of a matrix, and behind them what is added to its columns for each chunk; see
    `burnpy_numpy.kernels.products.copies.Words.shifts`.

    Args:
        matrix: the matrix.
        words: how it lies in words; None if it does not.
        chunk: the numbers of a column in a chunk.
        shape: the number of panels, their lines, the words of a line, and the numbers of a word.
        kept: the dtype of the numbers.
    """
    (k, n), (count, lines, lanes, together) = matrix.shape, shape
    starts = range(0, k, chunk)
    shifts = len(starts) * (words is not None and words.shifts(words.stored))
    memory = np.zeros(count * lanes * (lines + shifts) * together, kept)
    panels = memory[: math.prod(shape)].reshape(shape)
    whole = n // lanes * lanes
    for place in range(together):
        numbers = matrix[place::together]
        columns = numbers[:, :whole].reshape((len(numbers), n // lanes, lanes))
        panels[: n // lanes, : len(numbers), :, place] = columns.swapaxes(0, 1)
        panels[n // lanes :, : len(numbers), : n - whole, place] = numbers[None, :, whole:]
    sums = memory[panels.size :].view(np.int32).reshape((shifts, -1)) if shifts else ()
    for sum_of_chunk, start in zip(sums, starts, strict=False):
        matrix[start : start + chunk].sum(0, np.int32, sum_of_chunk[:n])
        sum_of_chunk *= -128 if kept.kind == "i" else 128
    return memory


def with_kept_panels(product: Product, b: Any, now: bool = False) -> tuple[Product, Any]:
    """Return a product with the panels of B that are kept, from now on or already; else as it is. With ``now`` they
    are kept from the first call on, as a plan reads B each time."""
    call = product.sizes, id(product.kernel)
    known: tuple[Product, Any] | None = packed_weights.ready(b, call)
    if known is not None:
        return known
    from burnpy_numpy.kernels.compiler.target import target
    from burnpy_numpy.kernels.products.copies import PACKED, VECTORS

    base, (_, n, k, _, row, *_) = b.base, product.sizes
    if type(base) is np.ndarray and base.size == b.size and base.T.strides == b.strides:
        matrix, owner = b, base  # a transposed matrix, whose view may be another one each time
    else:
        turned = b.shape != (k, n) or (k == n > 1 == row and b.flags.c_contiguous)  # stored as rows of columns
        matrix, owner = b.T if turned else b, b
    words = product.words
    together, lines, kept = (1, k, b.dtype) if words is None else (words.each, words.lines(k), words.kept(b.dtype))
    lanes = VECTORS * target().vector // (kept.itemsize * together)
    how = ("product", row == 1, lanes, together, lines)
    panels = packed_weights.find(owner, how)
    if panels is None:
        if not packed_weights.keeps(owner, how, now):
            return product, b
        panels = panels_of(matrix, words, product.sizes[6], (-(-n // lanes), lines, lanes, together), kept)
        packed_weights.add(owner, how, panels)
    first, last, wider = product.sizes[:4], product.sizes[6:-1], kept.itemsize // b.itemsize
    sizes = *first, lanes * wider, lines * together * wider, *last, PACKED
    ready = product._replace(sizes=sizes, keeps=False), panels
    if owner is b:
        packed_weights.note(b, how, call, ready)
    return ready
