"""The indices of medians and modes along a dimension, found by sorting; and the result of ``aminmax``."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple

from burnpy.backend.dtypes import int64
from burnpy.backend.operations.scans import part
from burnpy.backend.primitives import Int, Number
from burnpy.typevars import V


class Extremes(NamedTuple, Generic[V]):
    """The result of ``x.aminmax()``."""

    min: V
    """The smallest elements."""
    max: V
    """The largest elements."""


def median_index(b: Any, x: Number, dim: int, skip_nan: bool) -> Int:
    """Index of the lower median along ``dim``, which stays with size 1; of the first NaN, unless ``skip_nan``."""
    d, count = b.discrete, x.shape[dim]
    order = b.argsort(x, dim, False)
    valid = d.sum(d.to_int(b.eq(x, x), int64), (dim,), True)
    place = d.maximum(d.floor_divide(d.sub(valid, 1), 2), 0)
    if not skip_nan:
        place = d.where(d.lt(valid, count), valid, place)
    return d.gather(order, dim, place)


def mode_index(b: Any, x: Number, dim: int) -> Int:
    """Index of the last occurrence of the most frequent element along ``dim``, which stays with size 1.

    In sorted order, each element is counted from the first that equals it; the first of the highest counts belongs to
    the smallest of the most frequent elements, and is its last occurrence.
    """
    d, count = b.discrete, x.shape[dim]
    values, order = b.sort(x, dim, False)
    place = d.expand(d.reshape(d.arange(0, count, 1, int64), (count, *(1,) * (len(x.shape) - dim - 1))), x.shape)
    differs = b.ne(part(b, values, dim, 1, count), part(b, values, dim, 0, count - 1))
    starts = d.where(differs, part(d, place, dim, 1, count), 0)
    first = d.cummax(d.cat([part(d, place, dim, 0, 1), starts], dim), dim)[0]
    return d.gather(order, dim, d.argmax(d.sub(place, first), dim, True))
