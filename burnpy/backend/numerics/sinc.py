"""The normalized sinc and its derivatives of all orders."""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.numerics.approximations import polynomial
from burnpy.backend.primitives import Float


def sinc(b: Any, x: Float) -> Float:
    """Compute sin(πx) / (πx), and 1 at 0."""
    angle = b.mul(x, math.pi)
    zero = b.eq(x, 0.0)
    one = b.full((), 1.0, x.dtype)
    return b.where(zero, one, b.div(b.sin(angle), b.where(zero, one, angle)))


def sinc_derivative(b: Any, x: Float, order: int) -> Float:
    """Compute sinc's n-th derivative by Taylor's series in [-1, 1], else from that derivative of x · sinc(x)."""
    small = b.clamp(x, -1.0, 1.0)
    first = (order + 1) // 2
    numbers = [math.pi ** (2 * k) / (2 * k + 1) / math.factorial(2 * k - order) for k in range(first, first + 18)]
    series = [-number if (first + k) % 2 else number for k, number in enumerate(numbers)]
    near = polynomial(b, b.mul(small, small), tuple(series[::-1]))
    near = b.mul(near, small) if order % 2 else near
    large = b.where(b.le(b.abs(x), 1.0), b.full((), 1.0, x.dtype), x)
    angle = b.mul(large, math.pi)
    waves = b.sin(angle), b.cos(angle)
    far = b.div(waves[0], angle)
    for n in range(1, order + 1):
        wave = b.mul(waves[n % 2], math.pi ** (n - 1) * (-1.0 if n % 4 > 1 else 1.0))
        far = b.div(b.sub(wave, b.mul(far, float(n))), large)
    return b.where(b.le(b.abs(x), 1.0), near, far)
