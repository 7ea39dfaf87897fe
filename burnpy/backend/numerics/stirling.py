"""Logarithms of gamma functions and of densities of large parameters, without differences of large numbers.

Source: C. Loader, Fast and Accurate Computation of Binomial Probabilities, 2000.
"""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.numerics.approximations import stirling_rest
from burnpy.backend.primitives import Float

HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)
_STIRLING = 8.0
"""From here on Stirling's series has all digits."""


def stirling_gap(b: Any, x: Float) -> Float:
    """Compute log Γ(x) - (x - ½) · log(x) + x - log(2π) / 2 for x > 0, which vanishes for large x.

    For small x it is the gap at x + 8 and (x + ½) · log(1 + 8 / x) - log((x + 1) … (x + 7) / (x + 8)⁷) - 8.
    """
    large = b.ge(x, _STIRLING)
    small = b.where(large, b.full((), _STIRLING, x.dtype), x)
    above = b.add(small, _STIRLING)
    inverse = b.reciprocal(above)
    product = b.mul(b.add(small, 1.0), inverse)
    for step in range(2, int(_STIRLING)):
        product = b.mul(product, b.mul(b.add(small, float(step)), inverse))
    ratio = b.mul(b.add(small, 0.5), b.log1p(b.div(b.full((), _STIRLING, x.dtype), small)))
    moved = b.add(b.sub(ratio, b.log(product)), -_STIRLING)
    return b.add(b.where(b.discrete.bitwise_not(large), moved, 0.0), stirling_rest(b, b.where(large, x, above)))


def deviance(b: Any, a: Float, y: Float, log_y: Float) -> Float:
    """Compute y - a - a · log(y / a) for a, y > 0, without cancellation where they are close."""
    excess = b.div(b.sub(y, a), a)
    close = b.le(b.abs(excess), 0.5)
    near, far = b.log1p(b.where(close, excess, 0.0)), b.sub(log_y, b.log(a))
    return b.mul(a, b.sub(excess, b.where(close, near, far)))


def log_split(b: Any, first: Float, second: Float, p: Float, q: Float, log_p: Float, log_q: Float) -> Float:
    """Compute log(pᵃ · qᶜ · Γ(a + c) / (Γ(a) · Γ(c))) - log(a · c / (2π · (a + c))) / 2 for a, c > 0 and q = 1 - p.

    The densities of the binomial and the beta distribution have it in common.
    """
    total = b.add(first, second)
    log_total = b.log(total)
    gaps = b.sub(stirling_gap(b, total), b.add(stirling_gap(b, first), stirling_gap(b, second)))
    ones = deviance(b, first, b.mul(total, p), b.add(log_total, log_p))
    return b.sub(gaps, b.add(ones, deviance(b, second, b.mul(total, q), b.add(log_total, log_q))))
