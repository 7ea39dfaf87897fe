"""Segmented scans. A segment is the slices with one index, adjacent once they are sorted by index (`index_order`).

The scans are composed of operations on whole arrays, so that no value is copied to the CPU, and are differentiable at
every order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

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
    """Inclusive segmented scan: combine each slice of x along ``dim`` with all before it in its segment.

    With ``reverse``, with all after it. Each step doubles the number of combined slices.
    Source: W. D. Hillis and G. L. Steele, Data Parallel Algorithms, Communications of the ACM 29, 1986.

    Args:
        b: the backend.
        combine: an associative and commutative binary operation.
        neutral: the neutral element of ``combine``; None if ``combine`` is idempotent.
        x: slices sorted by segment.
        dim: the dimension of x along which the slices lie.
        ordered: the segment of each slice, sorted; 1-d.
        reverse: whether to scan from the last slice to the first.
    """
    count, step, longest = x.shape[dim], 1, _longest(b.discrete, ordered)
    while step < longest:
        near = part(b, x, dim, 0, count - step) if reverse else part(b, x, dim, step, count)
        rest = part(b, x, dim, count - step, count) if reverse else part(b, x, dim, 0, step)
        joined = combine(
            near, other(b, x, dim, ordered, -step if reverse else step, near if neutral is None else neutral)
        )
        x = b.cat([joined, rest] if reverse else [rest, joined], dim)
        step *= 2
    return x


def _longest(d: Any, ordered: Int) -> int:
    """Return the size of the largest segment; where to know it would be to wait for a GPU, the number of all slices."""
    count: int = ordered.shape[0]
    if not (d.eager_checks and count):
        return count
    values = d.to_numpy(ordered)
    starts = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1], [True])))
    return int(np.diff(starts).max())


def others(b: Any, x: Number, dim: int, ordered: Int) -> Number:
    """Product of all other slices of each slice's segment along ``dim``, without division: exact with zeros."""
    if not x.shape[dim]:
        return x
    one = b.full((*x.shape[:dim], 1, *x.shape[dim + 1 :]), 1.0, x.dtype)
    before = other(b, running(b, b.mul, 1.0, x, dim, ordered), dim, ordered, 1, 1.0)
    after = other(b, running(b, b.mul, 1.0, x, dim, ordered, reverse=True), dim, ordered, -1, 1.0)
    return b.mul(b.cat([one, before], dim), b.cat([after, one], dim))


def other(b: Any, x: Number, dim: int, ordered: Int, step: int, instead: Number | float) -> Number:
    """Return the slice ``step`` places before each slice (after it, if negative), and ``instead`` where that is in
    another segment, so that it contributes neither to a result nor to a derivative. Slices without one are left out."""
    d, count, width = b.discrete, x.shape[dim], abs(step)
    same = d.eq(part(d, ordered, 0, 0, count - width), part(d, ordered, 0, width, count))
    same = d.reshape(same, (count - width, *(1,) * (len(x.shape) - dim - 1)))
    far = part(b, x, dim, 0, count - width) if step > 0 else part(b, x, dim, width, count)
    return b.where(same, far, instead)


def part(b: Any, x: Number, dim: int, start: int, stop: int) -> Number:
    """Return the slices of x along ``dim`` from ``start`` up to ``stop``, excluded."""
    return b.slice(x, (*(slice(None),) * dim, slice(start, stop, 1)))
