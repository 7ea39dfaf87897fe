"""The unique elements or slices of a primitive, their counts, and the inverse index."""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.dtypes import int64
from burnpy.backend.primitives import Int, Number, Value


def unique_elements(b: Any, numbers: Number, x: Value) -> tuple[Value, Int, Int]:
    """Return the unique elements of x, sorted; the index in them of each element of x; and how often each occurs.

    ``numbers`` are the elements of x in a kind that has an order. NaNs are all different.
    """
    count = math.prod(x.shape)
    flat, ordinal = b.reshape(x, (count,)), b.reshape(numbers, (count,))
    order = b.argsort(ordinal, 0, False)
    ordered = b.index_select(ordinal, 0, order)
    firsts, inverse, counts = _groups(b.discrete, order, _differs(b, ordered))
    return b.index_select(flat, 0, firsts), b.discrete.reshape(inverse, x.shape), counts


def unique_slices(b: Any, numbers: Number, x: Value, dim: int) -> tuple[Value, Int, Int]:
    """Return the unique slices of x along ``dim``, sorted lexicographically; the index of each; and their counts.

    The slices are sorted by each of their elements, from the last to the first: sorts are stable.
    """
    d = b.discrete
    size = x.shape[dim]
    others = tuple(k for k in range(len(x.shape)) if k != dim)
    width = math.prod(x.shape[k] for k in others)
    rows = b.reshape(b.permute(numbers, (dim, *others)), (size, width))
    order = d.arange(0, size, 1, int64)
    for column in reversed(range(width)):
        values = b.index_select(b.slice(rows, (slice(None), column)), 0, order)
        order = d.index_select(order, 0, b.argsort(values, 0, False))
    firsts, inverse, counts = _groups(d, order, _differs(b, b.index_select(rows, 0, order)))
    return b.index_select(x, dim, firsts), inverse, counts


def _differs(b: Any, ordered: Number) -> Any:
    """Return, for each slice of a sorted primitive but the first, whether it differs from the one before."""
    size, *rest = ordered.shape
    later, earlier = b.slice(ordered, (slice(1, None, 1),)), b.slice(ordered, (slice(0, max(size - 1, 0), 1),))
    return b.discrete.any(b.ne(later, earlier), tuple(range(1, len(rest) + 1)), False) if rest else b.ne(later, earlier)


def _groups(d: Any, order: Int, differs: Any) -> tuple[Int, Int, Int]:
    """Return the first index of each group of equal elements, the group of each element, and the sizes of groups."""
    count = order.shape[0]
    if not count:
        return order, order, order
    starts = d.cat([d.full((1,), True, differs.dtype), differs], 0)
    places = d.slice(d.nonzero(starts), (slice(None), 0))
    group = d.sub(d.cumsum(d.to_int(starts, int64), 0), 1)
    inverse = d.index_put(order, 0, order, group)
    stops = d.cat([d.slice(places, (slice(1, None, 1),)), d.full((1,), count, int64)], 0)
    return d.index_select(order, 0, places), inverse, d.sub(stops, places)
