"""Scans along a dimension: cumulative sums, products, extremes, logarithms of sums, linear recurrences, and the
segmented scans that defaults are made of. NaN counts as the largest value.

The defaults are composed of operations on whole arrays, so that no value is copied to the CPU, and are differentiable
at every order.

Each step of a scan doubles the number of elements that are combined.
Source: W. D. Hillis and G. L. Steele, Data Parallel Algorithms, Communications of the ACM 29, 1986.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from burnpy.backend.dtypes import int64, is_inexact
from burnpy.backend.operations import OperationsBase
from burnpy.backend.operations.shape import part
from burnpy.backend.primitives import Dim, Float, Inexact, Int, Number, Real
from burnpy.backend.rules import SHIFTED
from burnpy.backend.schema import GENERAL, LINEAR, NONDIFFERENTIABLE, derived, required


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
    """Return the slice ``step`` places before each slice, or after it if ``step`` is negative; ``instead`` for slices
    of another segment, which contribute neither to a result nor to a derivative. Slices without one are left out."""
    d, count, width = b.discrete, x.shape[dim], abs(step)
    same = d.eq(part(d, ordered, 0, 0, count - width), part(d, ordered, 0, width, count))
    same = d.reshape(same, (count - width, *(1,) * (len(x.shape) - dim - 1)))
    far = part(b, x, dim, 0, count - width) if step > 0 else part(b, x, dim, width, count)
    return b.where(same, far, instead)


def cumprod_vjp(i: Any, g: Float, x: Float, out: Float, dim: int) -> Float:
    """Return the product of the elements before, times the sum of each later g with the product of those between."""
    return i.mul(shifted(i, out, dim, 1.0), i.reverse_recurrence(x, g, dim))


def cumprod_jvp(i: Any, t: Float, x: Float, out: Float, dim: int) -> Float:
    """Return the product rule, step by step."""
    return i.recurrence(x, i.mul(t, shifted(i, out, dim, 1.0)), dim)


def logcumsumexp_weights(i: Any, x: Float, dim: int) -> tuple[Float, Float]:
    """Compute the weight of each element in its sum of exponentials, and the weight of the sum before it. They sum to 1
    however the logarithm of the sum is rounded, since the sums are accumulated again, relative to the largest element
    so far. The weight of an empty sum is 0. If the sum before an element is infinite, it has all the weight."""
    most = i.gather(i.detach(x), dim, i.cummax_index(x, dim))
    before, infinite = shifted(i, most, dim, -math.inf), i.eq(most, math.inf)
    shift = i.where(i.isfinite(most), most, 0.0)
    own, factor = i.exp(i.sub(x, shift)), i.exp(i.sub(before, shift))
    total = i.recurrence(factor, own, dim)
    carried = i.mul(factor, shifted(i, total, dim, 0.0))
    total = i.where(i.ne(total, 0.0), total, 1.0)
    own = i.where(infinite, i.exp(i.sub(x, most)), i.div(own, total))
    return own, i.where(infinite, i.to_float(i.eq(before, most), x.dtype), i.div(carried, total))


def logcumsumexp_vjp(i: Any, g: Float, x: Float, dim: int) -> Float:
    """Return the sum of each later g, by the weight of the element in its sum."""
    own, before = logcumsumexp_weights(i, x, dim)
    return i.mul(own, i.reverse_recurrence(before, g, dim))


def logcumsumexp_jvp(i: Any, t: Float, x: Float, dim: int) -> Float:
    """Return the mean of the tangents so far, by their weights."""
    own, before = logcumsumexp_weights(i, x, dim)
    return i.recurrence(before, i.mul(t, own), dim)


def times_previous(i: Any, x: Float, out: Float, dim: int) -> Float:
    """Return the product of x and the element of ``out`` before it; 0 for the first, whatever x is there."""
    count = x.shape[dim]
    if count < 2:
        return i.full(x.shape, 0.0, x.dtype)
    rest = i.mul(part(i, x, dim, 1, count), part(i, out, dim, 0, count - 1))
    return i.cat([i.full((*x.shape[:dim], 1, *x.shape[dim + 1 :]), 0.0, x.dtype), rest], dim)


def recurrence_factor_vjp(i: Any, g: Float, factor: Float, out: Float, dim: int) -> Float:
    """Return the sum of each later g, by the factors between, times the element before."""
    return times_previous(i, i.reverse_recurrence(factor, g, dim), out, dim)


def reverse_recurrence_factor_vjp(i: Any, g: Float, factor: Float, out: Float, dim: int) -> Float:
    """Return the sum of each earlier g, by the factors between, times the element."""
    return times_previous(i, out, i.recurrence(factor, g, dim), dim)


def reverse_recurrence_factor_jvp(i: Any, t: Float, factor: Float, out: Float, dim: int) -> Float:
    """Return the recurrence of the tangent of each factor times the element that it multiplies."""
    one = min(t.shape[dim], 1)  # or none
    later = part(i, i.mul(t, out), dim, one, t.shape[dim])
    last = i.full((*t.shape[:dim], one, *t.shape[dim + 1 :]), 0.0, t.dtype)
    return i.reverse_recurrence(factor, i.cat([later, last], dim), dim)


class Scans(OperationsBase):
    """Cumulative operations."""

    @required(
        LINEAR,
        like="x",
        flops=lambda x: prod(x),
        vjp=lambda i, g, dim: i.reverse_cumsum(g, dim),
        batch=SHIFTED,
        onnx="reductions.cumsum",
    )
    def cumsum(self, x: Number, dim: Dim) -> Number:
        """Cumulative sum along ``dim``; int64 for ints."""
        ...

    @derived(GENERAL, like="x", flops=lambda x: prod(x), vjp=cumprod_vjp, jvp=cumprod_jvp, batch=SHIFTED)
    def cumprod(self, x: Number, dim: Dim) -> Number:
        """Cumulative product along ``dim``; int64 for ints."""
        return prefix(self, self.mul, x if is_inexact(x.dtype) else self.cast(x, int64), dim)

    @derived(GENERAL, like="x", flops=lambda x: 9 * prod(x), vjp=logcumsumexp_vjp, jvp=logcumsumexp_jvp, batch=SHIFTED)
    def logcumsumexp(self, x: Float, dim: Dim) -> Float:
        """Cumulative log(sum(exp(x))) along ``dim``, without overflow."""
        return prefix(self, lambda x, y: _log_of_sum(self, x, y), x, dim)

    @derived(NONDIFFERENTIABLE, like="x", flops=lambda x: prod(x), batch=SHIFTED)
    def cummax_index(self, x: Real, dim: Dim) -> Int:
        """Index of the largest element along ``dim`` up to each element; of equal ones, and of NaNs, the last."""
        return _last_equal(self, x, prefix(self, self.maximum, x, dim), dim)

    @derived(NONDIFFERENTIABLE, like="x", flops=lambda x: prod(x), batch=SHIFTED)
    def cummin_index(self, x: Real, dim: Dim) -> Int:
        """Index of the smallest element along ``dim`` up to each element; of equal ones, and of NaNs, the last."""
        return _last_equal(self, x, prefix(self, self.minimum, x, dim), dim)

    @derived(GENERAL, flops=lambda x: prod(x), batch=SHIFTED)
    def cummax(self, x: Real, dim: Dim) -> tuple[Real, Int]:
        """Return the largest element along ``dim`` up to each element, and its index: see `cummax_index`."""
        index = self.cummax_index(x, dim)
        return self.gather(x, dim, index), index

    @derived(GENERAL, flops=lambda x: prod(x), batch=SHIFTED)
    def cummin(self, x: Real, dim: Dim) -> tuple[Real, Int]:
        """Return the smallest element along ``dim`` up to each element, and its index: see `cummin_index`."""
        index = self.cummin_index(x, dim)
        return self.gather(x, dim, index), index

    @derived(
        GENERAL,
        like="x",
        flops=lambda x: 2 * prod(x),
        vjp=(recurrence_factor_vjp, lambda i, g, factor, dim: i.reverse_recurrence(factor, g, dim)),
        jvp=(
            lambda i, t, factor, out, dim: i.recurrence(factor, times_previous(i, t, out, dim), dim),
            lambda i, t, factor, dim: i.recurrence(factor, t, dim),
        ),
        batch=SHIFTED,
    )
    def recurrence(self, factor: Inexact, x: Inexact, dim: Dim) -> Inexact:
        """Solve ``y[k] = x[k] + factor[k] · y[k - 1]`` along ``dim``, from 0; the first factor is not used.

        ``factor`` has the shape and dtype of x. Two steps of the recurrence are one of the same form, so that the
        default is a scan.
        Source: G. E. Blelloch, Prefix Sums and Their Applications, 1990.
        """
        count, step = x.shape[dim], 1
        if count < 2:
            return self.cat([x], dim)  # new memory
        while step < count:
            by = part(self, factor, dim, step, count)
            joined = self.add(part(self, x, dim, step, count), self.mul(by, part(self, x, dim, 0, count - step)))
            x = self.cat([part(self, x, dim, 0, step), joined], dim)
            factor = self.cat(
                [part(self, factor, dim, 0, step), self.mul(by, part(self, factor, dim, 0, count - step))], dim
            )
            step *= 2
        return x

    @derived(
        GENERAL,
        like="x",
        flops=lambda x: 2 * prod(x),
        vjp=(reverse_recurrence_factor_vjp, lambda i, g, factor, dim: i.recurrence(factor, g, dim)),
        jvp=(reverse_recurrence_factor_jvp, lambda i, t, factor, dim: i.reverse_recurrence(factor, t, dim)),
        batch=SHIFTED,
    )
    def reverse_recurrence(self, factor: Inexact, x: Inexact, dim: Dim) -> Inexact:
        """Solve ``y[k] = x[k] + factor[k + 1] · y[k + 1]`` along ``dim``, from the end; the first factor is not used.

        ``factor`` has the shape and dtype of x.
        """
        factor, x = self.flip(factor, (dim,)), self.flip(x, (dim,))
        return self.flip(self.recurrence(shifted(self, factor, dim, 1.0), x, dim), (dim,))

    @derived(LINEAR, like="x", flops=lambda x: prod(x), vjp=lambda i, g, dim: i.cumsum(g, dim), batch=SHIFTED)
    def reverse_cumsum(self, x: Number, dim: Dim) -> Number:
        """Cumulative sum along ``dim`` from the end; int64 for ints. The gradient of `cumsum`."""
        return self.flip(self.cumsum(self.flip(x, (dim,)), dim), (dim,))


def prefix(b: Any, combine: Callable[[Number, Number], Number], x: Number, dim: int) -> Number:
    """Inclusive scan: combine each element with all before it along ``dim``, by an associative operation."""
    count, step = x.shape[dim], 1
    if count < 2:
        return b.cat([x], dim)  # new memory
    while step < count:
        joined = combine(part(b, x, dim, 0, count - step), part(b, x, dim, step, count))
        x = b.cat([part(b, x, dim, 0, step), joined], dim)
        step *= 2
    return x


def shifted(b: Any, x: Float, dim: int, first: float) -> Float:
    """Move elements along ``dim`` by one place: ``first``, then all but the last."""
    if not x.shape[dim]:
        return x
    start = b.full((*x.shape[:dim], 1, *x.shape[dim + 1 :]), first, x.dtype)
    return b.cat([start, part(b, x, dim, 0, x.shape[dim] - 1)], dim)


def _last_equal(b: Any, x: Number, extreme: Number, dim: int) -> Int:
    """Index, up to each element along ``dim``, of the last that equals the extreme up to it; NaN equals NaN."""
    d, count = b.discrete, x.shape[dim]
    equal = d.bitwise_or(b.eq(x, extreme), b.ne(x, x))
    place = d.reshape(d.arange(0, count, 1, int64), (count, *(1,) * (len(x.shape) - dim - 1)))
    return prefix(d, d.maximum, d.where(equal, d.expand(place, x.shape), 0), dim)


def _log_of_sum(b: Any, x: Float, y: Float) -> Float:
    """log(exp(x) + exp(y)), by the larger: infinities of one sign stay, and NaN propagates."""
    most = b.maximum(x, y)
    shift = b.where(b.isfinite(most), most, 0.0)
    total = b.log(b.add(b.exp(b.sub(x, shift)), b.exp(b.sub(y, shift))))
    return b.add(total, shift)
