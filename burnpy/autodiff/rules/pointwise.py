"""Rules of arithmetic and of elementwise functions."""

from __future__ import annotations

import math
from typing import Any

from burnpy.autodiff.graph import identity
from burnpy.autodiff.rules.algebra import bilinear, linear, pointwise
from burnpy.backend.backend import Backend
from burnpy.backend.primitives import Bool, Float


def pow_base(i: Any, g: Float, x: Float, y: Any) -> Float:
    """g · y · x^(y-1), which is 0 at y = 0 for every x, where the formula may say 0 · ∞ or 0 · NaN.

    Where `pow_exponent` is 0 whatever x and y, this does not depend on y, so that second derivatives are symmetric.
    """
    if isinstance(y, (int, float)):
        return zeros(i, g) if y == 0 else i.mul(g, i.mul(i.pow(x, y - 1), y))
    d = i.discrete
    lost = d.bitwise_and(i.eq(y, 0.0), d.bitwise_not(i.isfinite(i.reciprocal(i.detach(x)))))
    moves = d.bitwise_not(d.bitwise_or(lost, no_slope(i, x, y)))
    y = i.where(moves, y, i.detach(y))
    base = i.where(d.bitwise_not(lost), x, 1.0)
    return i.mul(g, i.mul(y, i.pow(base, i.sub(y, 1.0))))


def pow_exponent(i: Any, g: Float, x: Float, y: Float, out: Float) -> Float:
    """g · x^y · log(x), which is 0 at x = 0 for y >= 0, where the formula would say 0 · -∞."""
    return i.mul(g, i.mul(out, i.log(i.where(i.discrete.bitwise_not(no_slope(i, x, y)), x, 1.0))))


def no_slope(i: Any, x: Float, y: Float) -> Bool:
    """A mask of the elements where x^y is taken not to depend on y."""
    return i.discrete.bitwise_and(i.eq(x, 0.0), i.ge(y, 0.0))


def larger(i: Any, g: Float, x: Float, y: Any) -> Float:
    """g where x > y, half of it where they are equal, 0 where x < y."""
    return i.where(i.discrete.bitwise_not(i.lt(x, y)), i.where(i.eq(x, y), i.mul(g, 0.5), g), 0.0)


def smaller(i: Any, g: Float, x: Float, y: Any) -> Float:
    """g where x < y, half of it where they are equal, 0 where x > y."""
    return i.where(i.discrete.bitwise_not(i.gt(x, y)), i.where(i.eq(x, y), i.mul(g, 0.5), g), 0.0)


def inside(i: Any, g: Float, x: Float, low: float | None, high: float | None) -> Float:
    """g where low <= x <= high, else 0."""
    if low is not None:
        g = i.where(i.ge(x, low), g, 0.0)
    return g if high is None else i.where(i.le(x, high), g, 0.0)


def not_below(i: Any, g: Float, x: Float, y: Any) -> Float:
    """g where x >= y, else 0."""
    return i.where(i.ge(x, y), g, 0.0)


def below(i: Any, g: Float, x: Float, y: Float) -> Float:
    """g where x < y, else 0."""
    return i.where(i.lt(x, y), g, 0.0)


def not_above(i: Any, g: Float, x: Float, y: Any) -> Float:
    """g where x <= y, else 0."""
    return i.where(i.le(x, y), g, 0.0)


def above(i: Any, g: Float, x: Float, y: Float) -> Float:
    """g where x > y, else 0."""
    return i.where(i.gt(x, y), g, 0.0)


def between(i: Any, g: Float, x: Float, low: Float, high: Float) -> Float:
    """For ``clamp_between`` g where x is within the bounds, else 0."""
    return i.where(i.discrete.bitwise_and(i.ge(x, low), i.le(x, high)), g, 0.0)


def at_low(i: Any, g: Float, x: Float, low: Float, high: Float) -> Float:
    """g where x was raised to the lower bound, else 0."""
    return i.where(i.discrete.bitwise_and(i.lt(x, low), i.lt(low, high)), g, 0.0)


def at_high(i: Any, g: Float, x: Float, low: Float, high: Float) -> Float:
    """g where x was lowered to the upper bound, or the upper bound is below the lower one, else 0."""
    return i.where(i.discrete.bitwise_or(i.gt(x, high), i.lt(high, low)), g, 0.0)


def zeros(i: Any, g: Float) -> Float:
    """No gradient: the operation is constant wherever it has a derivative."""
    return i.full(g.shape, 0.0, g.dtype)


def one_minus(i: Any, x: Float) -> Float:
    """1 - x."""
    return i.add(i.neg(x), 1.0)


linear(Backend.add, identity, lambda i, g: g)
linear(Backend.sub, identity, lambda i, g: i.neg(g))
linear(Backend.neg, lambda i, g: i.neg(g))
bilinear(Backend.mul, lambda i, g, y: i.mul(g, y), lambda i, g, x: i.mul(g, x))
pointwise(Backend.div, lambda i, g, y: i.div(g, y), lambda i, g, y, out: i.neg(i.div(i.mul(g, out), y)))
pointwise(Backend.pow, pow_base, pow_exponent)
pointwise(Backend.maximum, larger, lambda i, g, x, y: larger(i, g, y, x))
pointwise(Backend.minimum, smaller, lambda i, g, x, y: smaller(i, g, y, x))
pointwise(Backend.clamp_min, not_below, below)
pointwise(Backend.clamp_max, not_above, above)
pointwise(Backend.clamp_between, between, at_low, at_high)
pointwise(Backend.floor_divide, zeros, lambda i, g: zeros(i, g))
pointwise(Backend.remainder, identity, lambda i, g, x, y: i.neg(i.mul(g, i.floor_divide(x, y))))
pointwise(Backend.clamp, inside)

pointwise(Backend.abs, lambda i, g, x: i.mul(g, i.sign(x)))
pointwise(Backend.sign, zeros)
pointwise(Backend.floor, zeros)
pointwise(Backend.ceil, zeros)
pointwise(Backend.round, zeros)
pointwise(Backend.exp, lambda i, g, out: i.mul(g, out))
pointwise(Backend.expm1, lambda i, g, out: i.mul(g, i.add(out, 1.0)))
pointwise(Backend.log, lambda i, g, x: i.div(g, x))
pointwise(Backend.log1p, lambda i, g, x: i.div(g, i.add(x, 1.0)))
pointwise(Backend.sqrt, lambda i, g, out: i.div(i.mul(g, 0.5), out))
pointwise(Backend.rsqrt, lambda i, g, out: i.mul(i.mul(g, -0.5), i.mul(i.mul(out, out), out)))
pointwise(Backend.reciprocal, lambda i, g, out: i.neg(i.mul(g, i.mul(out, out))))
pointwise(Backend.square, lambda i, g, x: i.mul(g, i.mul(x, 2.0)))
pointwise(Backend.sin, lambda i, g, x: i.mul(g, i.cos(x)))
pointwise(Backend.cos, lambda i, g, x: i.neg(i.mul(g, i.sin(x))))
pointwise(Backend.tanh, lambda i, g, out: i.mul(g, one_minus(i, i.mul(out, out))))
pointwise(Backend.erf, lambda i, g, x: i.mul(g, i.mul(i.exp(i.neg(i.mul(x, x))), 2 / math.sqrt(math.pi))))

pointwise(Backend.sigmoid, lambda i, g, out: i.mul(g, i.mul(out, one_minus(i, out))))
pointwise(Backend.relu, lambda i, g, out: i.relu_backward(g, out))
pointwise(Backend.gelu, lambda i, g, x, approximate: i.gelu_backward(g, x, approximate))
pointwise(Backend.silu, lambda i, g, x: i.silu_backward(g, x))
pointwise(Backend.softplus, lambda i, g, x, beta: i.mul(g, i.sigmoid(i.mul(x, beta))))
linear(
    Backend.where,
    lambda i, g, condition: i.where(condition, g, 0.0),
    lambda i, g, condition: i.where(i.discrete.bitwise_not(condition), g, 0.0),
)
