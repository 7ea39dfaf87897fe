"""Rules of cumulative operations, by linear recurrences: without division, and differentiable themselves."""

from __future__ import annotations

import math
from typing import Any

from burnpy.autodiff.rules.algebra import general
from burnpy.backend.backend import Backend
from burnpy.backend.operations.scans import shifted
from burnpy.backend.operations.segments import part
from burnpy.backend.primitives import Float


def reversed_recurrence(i: Any, factor: Float, g: Float, dim: int) -> Float:
    """Solve ``y[k] = g[k] + factor[k + 1] · y[k + 1]`` along ``dim``, from the end."""
    factor, g = i.flip(factor, (dim,)), i.flip(g, (dim,))
    return i.flip(i.recurrence(shifted(i, factor, dim, 1.0), g, dim), (dim,))


def cumprod_vjp(i: Any, g: Float, x: Float, out: Float, dim: int) -> Float:
    """The product of the elements before, times the sum of each later g with the product of those between."""
    return i.mul(shifted(i, out, dim, 1.0), reversed_recurrence(i, x, g, dim))


def cumprod_jvp(i: Any, t: Float, x: Float, out: Float, dim: int) -> Float:
    """The product rule, step by step."""
    return i.recurrence(x, i.mul(t, shifted(i, out, dim, 1.0)), dim)


def weights(i: Any, x: Float, out: Float, dim: int) -> tuple[Float, Float]:
    """The weight of each element in its sum, exp(x - out), and that of the sum before it.

    A sum of nothing gives no weight, and an infinite sum all of it to another before it.
    """
    before, finite = shifted(i, out, dim, -math.inf), i.isfinite(out)
    share = i.exp(i.sub(i.where(finite, before, 0.0), i.where(finite, out, 0.0)))
    share = i.where(finite, share, i.to_float(i.eq(before, out), out.dtype))
    return i.exp(i.sub(x, i.where(i.ne(out, -math.inf), out, 0.0))), share


def logcumsumexp_vjp(i: Any, g: Float, x: Float, out: Float, dim: int) -> Float:
    """The sum of each later g, by the weight of the element in its sum."""
    own, before = weights(i, x, out, dim)
    return i.mul(own, reversed_recurrence(i, before, g, dim))


def logcumsumexp_jvp(i: Any, t: Float, x: Float, out: Float, dim: int) -> Float:
    """The mean of the tangents so far, by their weights."""
    own, before = weights(i, x, out, dim)
    return i.recurrence(before, i.mul(t, own), dim)


def after_first(i: Any, x: Float, out: Float, dim: int) -> Float:
    """The product of x and the element of ``out`` before it; 0 for the first, whatever x is there."""
    count = x.shape[dim]
    if count < 2:
        return i.full(x.shape, 0.0, x.dtype)
    rest = i.mul(part(i, x, dim, 1, count), part(i, out, dim, 0, count - 1))
    return i.cat([i.full((*x.shape[:dim], 1, *x.shape[dim + 1 :]), 0.0, x.dtype), rest], dim)


def recurrence_by_factor(i: Any, g: Float, factor: Float, out: Float, dim: int) -> Float:
    """The sum of each later g, by the factors between, times the element before."""
    return after_first(i, reversed_recurrence(i, factor, g, dim), out, dim)


general(
    Backend.recurrence,
    vjps=(recurrence_by_factor, lambda i, g, factor, dim: reversed_recurrence(i, factor, g, dim)),
    jvps=(
        lambda i, t, factor, out, dim: i.recurrence(factor, after_first(i, t, out, dim), dim),
        lambda i, t, factor, dim: i.recurrence(factor, t, dim),
    ),
)
general(Backend.cumprod, vjps=(cumprod_vjp,), jvps=(cumprod_jvp,))
general(Backend.logcumsumexp, vjps=(logcumsumexp_vjp,), jvps=(logcumsumexp_jvp,))
