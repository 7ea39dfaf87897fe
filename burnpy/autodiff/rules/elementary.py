"""Rules of trigonometric and hyperbolic functions, their inverses, powers of two and logarithms to other bases."""

from __future__ import annotations

import math
from typing import Any

from burnpy.autodiff.rules.algebra import pointwise
from burnpy.autodiff.rules.pointwise import one_minus, zeros
from burnpy.backend.backend import Backend
from burnpy.backend.primitives import Float


def arc(i: Any, g: Float, x: Float) -> Float:
    """g / √(1 - x²), infinite at ±1."""
    return i.div(g, i.sqrt(i.mul(one_minus(i, x), i.add(x, 1.0))))


pointwise(Backend.tan, lambda i, g, out: i.mul(g, i.add(i.mul(out, out), 1.0)))
pointwise(Backend.asin, arc)
pointwise(Backend.acos, lambda i, g, x: i.neg(arc(i, g, x)))
pointwise(Backend.atan, lambda i, g, x: i.div(g, i.add(i.mul(x, x), 1.0)))
pointwise(Backend.sinh, lambda i, g, x: i.mul(g, i.cosh(x)))
pointwise(Backend.cosh, lambda i, g, x: i.mul(g, i.sinh(x)))
pointwise(Backend.asinh, lambda i, g, x: i.div(g, i.hypot(x, 1.0)))
pointwise(Backend.acosh, lambda i, g, x: i.div(g, i.sqrt(i.add(i.mul(i.add(x, -1.0), i.add(x, 1.0)), 0.0))))  # not √-0
pointwise(Backend.atanh, lambda i, g, x: i.div(i.div(g, one_minus(i, x)), i.add(x, 1.0)))
pointwise(Backend.exp2, lambda i, g, out: i.mul(g, i.mul(out, math.log(2.0))))
pointwise(Backend.log2, lambda i, g, x: i.div(g, i.mul(x, math.log(2.0))))
pointwise(Backend.log10, lambda i, g, x: i.div(g, i.mul(x, math.log(10.0))))
pointwise(Backend.trunc, zeros)
