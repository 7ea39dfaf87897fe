"""The next number of a float dtype in a direction, made of a backend's operations."""

from __future__ import annotations

from typing import Any

from burnpy.backend.primitives import DType, Float

FORMATS = {"float16": (11, -24), "bfloat16": (8, -133), "float32": (24, -149), "float64": (53, -1074)}
"""For each dtype the number of bits of the significand, and the exponent of the smallest subnormal number."""


def neighbour(b: Any, x: Float, y: Float) -> Float:
    """Return the next number after x in the direction of y, of one dtype; exact if operations round to nearest.

    Source: Rump, Zimmermann, Boldo and Melquiond, Computing Predecessor and Successor in Rounding to Nearest, 2009,
    algorithm 2.
    """
    bits, lowest = FORMATS[x.dtype.name]
    unit, least = 2.0**-bits, 2.0**lowest
    size = b.abs(x)
    tiny = b.lt(size, least / unit)
    small = b.discrete.bitwise_and(b.lt(size, least / unit**2 / 2), b.discrete.bitwise_not(tiny))
    scaled = b.where(small, b.mul(x, 1.0 / unit), x)  # its distance to the next number would be subnormal
    step = b.mul(b.abs(scaled), unit * (1.0 + 2.0 * unit))
    step = b.where(tiny, b.full((), least, x.dtype), step)
    moved = b.add(scaled, b.where(b.gt(y, x), step, b.neg(step)))
    moved = b.where(small, b.mul(moved, unit), moved)
    moved = b.where(b.isinf(x), b.full((), largest(x.dtype), x.dtype), moved)
    moved = b.where(b.eq(x, 0.0), moved, b.copysign(moved, x))
    same = b.discrete.bitwise_or(b.eq(x, y), b.discrete.bitwise_or(b.isnan(x), b.isnan(y)))
    return b.where(same, b.where(b.eq(x, y), y, b.add(x, y)), moved)


def largest(dtype: DType) -> float:
    """Return the largest finite number of a float dtype."""
    bits, lowest = FORMATS[dtype.name]
    return (2.0 - 2.0 ** (1 - bits)) * 2.0 ** (2 - bits - lowest)
