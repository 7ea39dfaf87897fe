"""The weighted sum of a bucket over ranks: large gradients one by one, while they are in the cache, others together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from burnpy.optim.layout import Entry, Layout, Place, wire_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burnpy.distributed.calls import Alone
    from burnpy.optim.grads_params import GradientsParams

LARGE = 1 << 18
"""The number of bytes from which on a gradient is summed by itself."""

_SEGMENT = 1 << 14
"""The smallest number of bytes of each rank's part of such a sum."""


class Run(NamedTuple):
    """Neighbours in a bucket that are summed together: one large gradient, or small ones."""

    large: bool
    start: int
    stop: int
    entries: tuple[tuple[Entry, Place], ...]


@lru_cache(64)
def runs_of(layout: Layout[Any], size: int) -> tuple[tuple[Run, ...], ...]:
    """Return the runs of each bucket, which depend on the layout and the number of ranks alone."""
    limit = max(LARGE, _SEGMENT * size)
    buckets: list[tuple[Run, ...]] = []
    for row in layout.by_bucket:
        runs: list[Run] = []
        for entry, place in row:
            nbytes = (place.stop - place.start) * entry.dtype.itemsize
            large = entry.kind == "gradient" and entry.dtype == wire_dtype(entry.dtype) and nbytes >= limit
            if runs and not large and not runs[-1].large:
                last = runs.pop()
                runs.append(Run(False, last.start, place.stop, (*last.entries, (entry, place))))
            else:
                runs.append(Run(large, place.start, place.stop, ((entry, place),)))
        buckets.append(tuple(runs))
    return tuple(buckets)


def sum_bucket(
    calls: Alone,
    layout: Layout[Any],
    index: int,
    grads: GradientsParams[Any] | None,
    array: NDArray[Any],
    factors: Sequence[float],
) -> None:
    """Fill an array with the sum over the ranks of a bucket of gradients, each multiplied by the rank's factor.

    Args:
        calls: of the group.
        layout: that all ranks have agreed on.
        index: of the bucket.
        grads: this rank's, or None.
        array: of the bucket's dtype and size.
        factors: of all ranks.
    """
    staged = layout.stage(index, grads, array)
    for large, start, stop, entries in runs_of(layout, calls.size)[index]:
        target = array[start:stop]
        if large:
            source = target if staged else layout.source(entries[0][0], grads, target.dtype)
            if source is None:
                target.fill(0)
                source = target
            calls.weighted_sum(source, target, factors)
            continue
        for entry, place in entries:
            part = array[place.start : place.stop]
            layout.write_entry(entry, grads, part, factors[calls.rank], staged=staged)
        calls.sum(target)
