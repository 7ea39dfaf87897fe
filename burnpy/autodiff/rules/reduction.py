"""Rules of reductions."""

from __future__ import annotations

import math
from typing import Any

from burnpy.autodiff.rules.algebra import general, linear, symmetric
from burnpy.backend.backend import Backend
from burnpy.backend.operations.reduction import divisor
from burnpy.backend.primitives import Bool, Dims, Float, Shape


def with_reduced_dims(i: Any, reduced: Float, shape: Shape, dims: Dims, keepdim: bool) -> Float:
    """A reduction's result, or a gradient of that shape, with the reduced dimensions as size 1."""
    return reduced if keepdim else i.reshape(reduced, tuple(1 if d in dims else n for d, n in enumerate(shape)))


def spread(i: Any, g: Float, x_shape: Shape, dims: Dims, keepdim: bool) -> Float:
    """The gradient of a sum: g repeated over the summed dimensions."""
    if len(dims) == len(x_shape):
        return i.expand(g, x_shape)
    return i.expand(with_reduced_dims(i, g, x_shape, dims, keepdim), x_shape)


def spread_mean(i: Any, g: Float, x_shape: Shape, dims: Dims, keepdim: bool) -> Float:
    """The gradient of a mean: g divided by the number of elements, and repeated over the dimensions."""
    count = math.prod([x_shape[d] for d in dims])
    return spread(i, i.mul(g, 1 / count) if count else g, x_shape, dims, keepdim)


def nansum_vjp(i: Any, g: Float, x: Float, dims: Dims, keepdim: bool) -> Float:
    """g, and 0 by NaN."""
    return i.where(i.eq(x, x), spread(i, g, x.shape, dims, keepdim), 0.0)


def nansum_jvp(i: Any, t: Float, x: Float, dims: Dims, keepdim: bool) -> Float:
    """The sum of the tangents of what is not NaN."""
    return i.sum(i.where(i.eq(x, x), t, 0.0), dims, keepdim)


def ties(i: Any, x: Float, out: Float, dims: Dims, keepdim: bool) -> tuple[Bool, Float]:
    """The ties of amax and amin: a mask of the elements equal to the extreme, or NaN; and their number."""
    extreme = i.discrete.bitwise_or(i.eq(x, with_reduced_dims(i, out, x.shape, dims, keepdim)), i.isnan(x))
    return extreme, i.sum(i.to_float(extreme, x.dtype), dims, True)


def extreme_vjp(i: Any, g: Float, x: Float, out: Float, dims: Dims, keepdim: bool) -> Float:
    """g split evenly among the ties."""
    extreme, count = ties(i, x, out, dims, keepdim)
    return i.where(extreme, i.div(with_reduced_dims(i, g, x.shape, dims, keepdim), count), 0.0)


def extreme_jvp(i: Any, t: Float, x: Float, out: Float, dims: Dims, keepdim: bool) -> Float:
    """The mean of the tangents of the ties."""
    extreme, count = ties(i, x, out, dims, keepdim)
    total = i.sum(i.where(extreme, t, 0.0), dims, True)
    return i.reshape(i.div(total, count), out.shape)


def others(i: Any, x: Float, dims: Dims) -> Float:
    """For each element the product of the others over ``dims``: exact with zeros, and so are its own derivatives.

    It is computed without division: products of halves upward in a tree, then downward each half times the product of
    all elements outside of both.
    """
    rest = tuple(d for d in range(len(x.shape)) if d not in dims)
    order = rest + dims
    rows, count = math.prod(x.shape[d] for d in rest), math.prod(x.shape[d] for d in dims)
    levels = [i.reshape(i.permute(x, order), (rows, count))]
    while levels[-1].shape[1] > 1:
        low, high, odd = halves(i, levels[-1])
        levels.append(i.cat([i.mul(low, high), *odd], 1))
    outside = i.full((rows, min(count, 1)), 1.0, x.dtype)
    for level in reversed(levels[:-1]):
        low, high, odd = halves(i, level)
        around, half = outside, low.shape[1]
        if odd:
            whole = slice(0, rows, 1)
            around = i.slice(outside, (whole, slice(0, half, 1)))
            odd = [i.slice(outside, (whole, slice(half, half + 1, 1)))]
        outside = i.cat([i.mul(around, high), i.mul(around, low), *odd], 1)
    back = i.reshape(outside, tuple(x.shape[d] for d in order))
    return i.permute(back, tuple(order.index(d) for d in range(len(order))))


def halves(i: Any, x: Float) -> tuple[Float, Float, list[Float]]:
    """The first and second half of the columns of a matrix, and the last column where their number is odd."""
    rows, count = x.shape
    whole, half = slice(0, rows, 1), count // 2
    odd = [i.slice(x, (whole, slice(count - 1, count, 1)))] if count % 2 else []
    return i.slice(x, (whole, slice(0, half, 1))), i.slice(x, (whole, slice(half, 2 * half, 1))), odd


def prod_vjp(i: Any, g: Float, x: Float, dims: Dims, keepdim: bool) -> Float:
    """g times the product of the others."""
    return i.mul(with_reduced_dims(i, g, x.shape, dims, keepdim), others(i, x, dims))


def prod_jvp(i: Any, t: Float, x: Float, dims: Dims, keepdim: bool) -> Float:
    """The sum of each tangent times the product of the others."""
    return i.sum(i.mul(t, others(i, x, dims)), dims, keepdim)


def cumsum_vjp(i: Any, g: Float, dim: int) -> Float:
    """The running sum from the other end."""
    return i.flip(i.cumsum(i.flip(g, (dim,)), dim), (dim,))


def slope(i: Any, x: Float, dims: Dims, correction: float) -> Float:
    """The derivative of the variance by each element: 2 (x - mean) / (count - correction)."""
    return i.div(i.mul(i.center(x, dims), 2.0), divisor(x.shape, dims, correction))


def var_vjp(i: Any, g: Float, x: Float, dims: Dims, keepdim: bool, correction: float) -> Float:
    """g times the slope."""
    return i.mul(with_reduced_dims(i, g, x.shape, dims, keepdim), slope(i, x, dims, correction))


def var_jvp(i: Any, t: Float, x: Float, dims: Dims, keepdim: bool, correction: float) -> Float:
    """The sum of each tangent times the slope."""
    return i.sum(i.mul(t, slope(i, x, dims, correction)), dims, keepdim)


def normal(i: Any, x: Float, out: Float, dims: Dims) -> tuple[Float, Bool]:
    """(x - mean) over the standard deviation ``out``, or over 1 where that is 0; and where it is not."""
    spreads = i.ne(out, 0.0)
    return i.div(i.center(x, dims), i.where(spreads, out, 1.0)), spreads


def std_vjp(i: Any, g: Float, x: Float, out: Float, dims: Dims, keepdim: bool, correction: float) -> Float:
    """g (x - mean) / (count - correction) / out; where that is 0, 0 at every order."""
    g, out = (with_reduced_dims(i, a, x.shape, dims, keepdim) for a in (g, out))
    normalized, spreads = normal(i, x, out, dims)
    return i.mul(normalized, i.where(spreads, i.div(g, divisor(x.shape, dims, correction)), 0.0))


def std_jvp(i: Any, t: Float, x: Float, out: Float, dims: Dims, keepdim: bool, correction: float) -> Float:
    """The sum of each tangent times (x - mean) / (count - correction) / out; likewise 0."""
    normalized, spreads = normal(i, x, with_reduced_dims(i, out, x.shape, dims, keepdim), dims)
    total = i.div(i.sum(i.mul(t, normalized), dims, True), divisor(x.shape, dims, correction))
    return i.reshape(i.where(spreads, total, 0.0), out.shape)


def weight(i: Any, x: Float, out: Float, dims: Dims, keepdim: bool) -> Float:
    """The softmax over ``dims``, which sums to 1 however logsumexp was rounded; 0 where all is minus infinity."""
    out = with_reduced_dims(i, i.detach(out), x.shape, dims, keepdim)
    e = i.exp(i.sub(x, i.where(i.ne(out, -math.inf), out, 0.0)))
    return i.div(e, i.where(i.isfinite(out), i.sum(e, dims, True), 1.0))


def logsumexp_vjp(i: Any, g: Float, x: Float, out: Float, dims: Dims, keepdim: bool) -> Float:
    """g times the softmax."""
    return i.mul(with_reduced_dims(i, g, x.shape, dims, keepdim), weight(i, x, out, dims, keepdim))


def logsumexp_jvp(i: Any, t: Float, x: Float, out: Float, dims: Dims, keepdim: bool) -> Float:
    """The mean of the tangents, weighted by the softmax."""
    return i.sum(i.mul(t, weight(i, x, out, dims, keepdim)), dims, keepdim)


def log_softmax_jvp(i: Any, t: Float, out: Float, dim: int) -> Float:
    """t less its mean, weighted by the softmax."""
    return i.sub(t, i.sum(i.mul(i.exp(out), t), (dim,), True))


linear(Backend.sum, spread)
linear(Backend.mean, spread_mean)
general(Backend.nansum, vjps=(nansum_vjp,), jvps=(nansum_jvp,))
linear(Backend.cumsum, cumsum_vjp)
linear(Backend.sum_to, lambda i, g, x_shape: i.expand(g, x_shape))
general(Backend.prod, vjps=(prod_vjp,), jvps=(prod_jvp,))
general(Backend.amax, vjps=(extreme_vjp,), jvps=(extreme_jvp,))
general(Backend.amin, vjps=(extreme_vjp,), jvps=(extreme_jvp,))
linear(Backend.center, lambda i, g, dims: i.center(g, dims))
general(Backend.var, vjps=(var_vjp,), jvps=(var_jvp,))
general(Backend.std, vjps=(std_vjp,), jvps=(std_jvp,))
general(Backend.logsumexp, vjps=(logsumexp_vjp,), jvps=(logsumexp_jvp,))
symmetric(Backend.softmax, lambda i, g, out, dim: i.softmax_backward(g, out, dim))
general(
    Backend.log_softmax,
    vjps=(lambda i, g, out, dim: i.log_softmax_backward(g, out, dim),),
    jvps=(log_softmax_jvp,),
)
