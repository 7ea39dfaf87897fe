"""Scans of segments: the slices of one index, which stand together once they are sorted by it (`index_order`).

Made of operations of whole arrays, so that no value has to be known on the CPU, and differentiable at every order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.backend.primitives import Int, Number


def running(
    b: Any, combine: Callable[[Number, Number], Number], x: Number, dim: int, ordered: Int, *, reverse: bool = False
) -> Number:
    """Along ``dim``, each slice of x combined with all before it in its segment, or, in reverse, with all after it.

    Each step doubles how many slices are combined. Source: W. D. Hillis and G. L. Steele, Data Parallel Algorithms,
    Communications of the ACM 29, 1986.

    Args:
        b: the backend.
        combine: an associative and commutative binary operation.
        x: slices sorted by segment.
        dim: the dimension of x that they lie along.
        ordered: the segment of each slice, sorted; 1-d.
        reverse: whether from the last slice to the first.
    """
    count, step = x.shape[dim], 1
    while step < count:
        far, same = shifted(b, x, dim, ordered, -step if reverse else step)
        near = part(b, x, dim, 0, count - step) if reverse else part(b, x, dim, step, count)
        rest = part(b, x, dim, count - step, count) if reverse else part(b, x, dim, 0, step)
        joined = b.where(same, combine(near, far), near)
        x = b.cat([joined, rest] if reverse else [rest, joined], dim)
        step *= 2
    return x


def others(b: Any, x: Number, dim: int, ordered: Int) -> Number:
    """Along ``dim``, the product of all slices of a segment but each itself: exact with zeros, without division."""
    count = x.shape[dim]
    if not count:
        return x
    one = b.full((*x.shape[:dim], 1, *x.shape[dim + 1 :]), 1.0, x.dtype)
    before, same = shifted(b, running(b, b.mul, x, dim, ordered), dim, ordered, 1)
    after, _ = shifted(b, running(b, b.mul, x, dim, ordered, reverse=True), dim, ordered, -1)
    before, after = (b.where(same, side, 1.0) for side in (before, after))
    return b.mul(b.cat([one, before], dim), b.cat([after, one], dim))


def shifted(b: Any, x: Number, dim: int, ordered: Int, step: int) -> tuple[Number, Any]:
    """What stands ``step`` slices before each slice that has such, or after it for a negative step, and whether it is
    of the same segment, in a shape that broadcasts with it."""
    d, count, width = b.discrete, x.shape[dim], abs(step)
    same = d.eq(part(d, ordered, 0, 0, count - width), part(d, ordered, 0, width, count))
    same = d.reshape(same, (count - width, *(1,) * (len(x.shape) - dim - 1)))
    return (part(b, x, dim, 0, count - width) if step > 0 else part(b, x, dim, width, count)), same


def part(b: Any, x: Number, dim: int, start: int, stop: int) -> Number:
    """The slices of x along ``dim`` from ``start`` up to ``stop``."""
    return b.slice(x, (*(slice(None),) * dim, slice(start, stop, 1)))
