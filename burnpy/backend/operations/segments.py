"""Scans of segments: the slices of one index, which stand together once they are sorted by it (`index_order`).

Made of operations of whole arrays, so that no value has to be known on the CPU, and differentiable at every order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.backend.primitives import Int, Number


def running(
    b: Any,
    combine: Callable[[Number, Number], Number],
    neutral: float | None,
    x: Number,
    dim: int,
    ordered: Int,
    *,
    reverse: bool = False,
) -> Number:
    """Along ``dim``, each slice of x combined with all before it in its segment, or, in reverse, with all after it.

    Each step doubles how many slices are combined. Source: W. D. Hillis and G. L. Steele, Data Parallel Algorithms,
    Communications of the ACM 29, 1986.

    Args:
        b: the backend.
        combine: an associative and commutative binary operation.
        neutral: what it leaves everything as it is with; None where a number does so with itself.
        x: slices sorted by segment.
        dim: the dimension of x that they lie along.
        ordered: the segment of each slice, sorted; 1-d.
        reverse: whether from the last slice to the first.
    """
    count, step = x.shape[dim], 1
    while step < count:
        near = part(b, x, dim, 0, count - step) if reverse else part(b, x, dim, step, count)
        rest = part(b, x, dim, count - step, count) if reverse else part(b, x, dim, 0, step)
        joined = combine(
            near, other(b, x, dim, ordered, -step if reverse else step, near if neutral is None else neutral)
        )
        x = b.cat([joined, rest] if reverse else [rest, joined], dim)
        step *= 2
    return x


def others(b: Any, x: Number, dim: int, ordered: Int) -> Number:
    """Along ``dim``, the product of all slices of a segment but each itself: exact with zeros, without division."""
    if not x.shape[dim]:
        return x
    one = b.full((*x.shape[:dim], 1, *x.shape[dim + 1 :]), 1.0, x.dtype)
    before = other(b, running(b, b.mul, 1.0, x, dim, ordered), dim, ordered, 1, 1.0)
    after = other(b, running(b, b.mul, 1.0, x, dim, ordered, reverse=True), dim, ordered, -1, 1.0)
    return b.mul(b.cat([one, before], dim), b.cat([after, one], dim))


def other(b: Any, x: Number, dim: int, ordered: Int, step: int, instead: Number | float) -> Number:
    """What stands ``step`` slices before each slice that has such, or after it for a negative step; ``instead`` where
    that is of another segment, so that nothing of it gets into a result, nor into a derivative."""
    d, count, width = b.discrete, x.shape[dim], abs(step)
    same = d.eq(part(d, ordered, 0, 0, count - width), part(d, ordered, 0, width, count))
    same = d.reshape(same, (count - width, *(1,) * (len(x.shape) - dim - 1)))
    far = part(b, x, dim, 0, count - width) if step > 0 else part(b, x, dim, width, count)
    return b.where(same, far, instead)


def part(b: Any, x: Number, dim: int, start: int, stop: int) -> Number:
    """The slices of x along ``dim`` from ``start`` up to ``stop``."""
    return b.slice(x, (*(slice(None),) * dim, slice(start, stop, 1)))
