"""Rules of elementwise functions of two arguments."""

from __future__ import annotations

from typing import Any

from burnpy.autodiff.graph import identity
from burnpy.autodiff.rules.algebra import pointwise
from burnpy.autodiff.rules.pointwise import zeros
from burnpy.backend.backend import Backend
from burnpy.backend.primitives import Bool, Float


def share(i: Any, part: Float, length: Float) -> Float:
    """part / length, which is 0 where the length is 0, at every order."""
    none = i.eq(length, 0.0)
    ratio = i.div(part, i.where(none, i.full((), 1.0, length.dtype), length))
    return i.where(i.discrete.bitwise_not(none), ratio, 0.0)


def operand(i: Any, x: Float, y: Any) -> Float:
    """The second operand as a primitive."""
    return i.full((), y, x.dtype) if isinstance(y, (int, float)) else y


def hypot_by_x(i: Any, g: Float, x: Float, out: Float) -> Float:
    """g · x / √(x² + y²)."""
    return i.mul(g, share(i, x, out))


def hypot_by_y(i: Any, g: Float, y: Float, out: Float) -> Float:
    """g · y / √(x² + y²)."""
    return i.mul(g, share(i, y, out))


def atan2_by_x(i: Any, g: Float, x: Float, y: Any) -> Float:
    """g · y / (x² + y²), by way of the length, whose square may overflow."""
    length = i.hypot(x, y)
    return share(i, i.mul(g, share(i, operand(i, x, y), length)), length)


def atan2_by_y(i: Any, g: Float, x: Float, y: Float) -> Float:
    """-g · x / (x² + y²)."""
    length = i.hypot(x, y)
    return i.neg(share(i, i.mul(g, share(i, x, length)), length))


def with_sign(i: Any, g: Float, x: Float, y: Any) -> Float:
    """g where x and y have one sign, -g where they have two, 0 where x is 0."""
    moved = i.where(i.discrete.bitwise_xor(i.signbit(x), i.signbit(operand(i, x, y))), i.neg(g), g)
    return i.where(i.ne(x, 0.0), moved, 0.0)


def fmod_by_y(i: Any, g: Float, x: Float, y: Float) -> Float:
    """-g times the quotient rounded toward 0."""
    quotient = i.floor_divide(i.abs(x), i.abs(y))
    return i.neg(i.mul(g, i.mul(quotient, i.mul(i.sign(x), i.sign(y)))))


def first_is_largest(i: Any, x: Float, y: Any) -> Bool:
    """Return the mask of the elements that fmax takes from x: x >= y, or y is NaN."""
    y = operand(i, x, y)
    return i.discrete.bitwise_or(i.ge(x, y), i.isnan(y))


def first_is_least(i: Any, x: Float, y: Any) -> Bool:
    """Return the mask of the elements that fmin takes from x: x <= y, or y is NaN."""
    y = operand(i, x, y)
    return i.discrete.bitwise_or(i.le(x, y), i.isnan(y))


def part_of_sum(i: Any, x: Float, y: Any) -> Float:
    """eˣ / (eˣ + eʸ), of which small values are exact; a half for two equal infinities."""
    x, y = i.promote(x, operand(i, x, y))
    tied = i.discrete.bitwise_and(i.eq(x, y), i.isinf(x))
    return i.exp(i.neg(i.softplus(i.where(i.discrete.bitwise_not(tied), i.sub(y, x), 0.0), 1.0)))


def xlogy_by_x(i: Any, g: Float, x: Float, y: Any) -> Float:
    """g · log(y), which is 0 at x = 0 for y <= 0."""
    y = operand(i, x, y)
    none = i.discrete.bitwise_and(i.eq(x, 0.0), i.le(y, 0.0))
    return i.mul(g, i.log(i.where(none, i.full((), 1.0, y.dtype), y)))


def xlogy_by_y(i: Any, g: Float, x: Float, y: Float) -> Float:
    """g · x / y, which is 0 at x = y = 0."""
    none = i.discrete.bitwise_and(i.eq(x, 0.0), i.eq(y, 0.0))
    return i.mul(g, i.div(x, i.where(none, i.full((), 1.0, y.dtype), y)))


pointwise(Backend.atan2, atan2_by_x, atan2_by_y)
pointwise(Backend.hypot, hypot_by_x, hypot_by_y)
pointwise(Backend.copysign, with_sign, zeros)
pointwise(Backend.fmod, identity, fmod_by_y)
pointwise(
    Backend.fmax,
    lambda i, g, x, y: i.where(first_is_largest(i, x, y), g, 0.0),
    lambda i, g, x, y: i.where(i.discrete.bitwise_not(first_is_largest(i, x, y)), g, 0.0),
)
pointwise(
    Backend.fmin,
    lambda i, g, x, y: i.where(first_is_least(i, x, y), g, 0.0),
    lambda i, g, x, y: i.where(i.discrete.bitwise_not(first_is_least(i, x, y)), g, 0.0),
)
pointwise(
    Backend.logaddexp,
    lambda i, g, x, y: i.mul(g, part_of_sum(i, x, y)),
    lambda i, g, x, y: i.mul(g, part_of_sum(i, y, x)),
)
pointwise(Backend.xlogy, xlogy_by_x, xlogy_by_y)
