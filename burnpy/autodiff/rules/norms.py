"""Rules of norms."""

from __future__ import annotations

import math
from typing import Any

from burnpy.autodiff.rules.algebra import general
from burnpy.autodiff.rules.reduction import ties, with_reduced_dims
from burnpy.backend.backend import Backend
from burnpy.backend.primitives import Dims, Float


def slope(i: Any, x: Float, out: Float, p: float, dims: Dims, keepdim: bool) -> Float:
    """The derivative of the norm by each element: sign(x) · (|x| / out)^(p - 1).

    It is 0 by an element that is 0, and where the norm is 0 or infinite; for p = ±∞, divided by the number of ties.
    """
    if p == 0:
        return i.full(x.shape, 0.0, x.dtype)
    if p == 1:
        return i.sign(x)
    if math.isinf(p):
        extreme, count = ties(i, i.abs(x), out, dims, keepdim)
        return i.where(extreme, i.div(i.sign(x), count), 0.0)
    out = with_reduced_dims(i, out, x.shape, dims, keepdim)
    d = i.discrete
    regular = d.bitwise_and(i.ne(out, 0.0), i.ne(out, math.inf))
    if p == 2:
        return i.where(regular, i.div(x, i.where(regular, out, 1.0)), 0.0)
    regular = d.bitwise_and(regular, i.ne(x, 0.0))
    share = i.div(i.where(regular, x, 1.0), i.where(regular, out, 1.0))
    return i.where(regular, i.mul(i.sign(x), i.pow(i.abs(share), p - 1)), 0.0)


def norm_vjp(i: Any, g: Float, x: Float, out: Float, p: float, dims: Dims, keepdim: bool) -> Float:
    """g times the slope."""
    return i.mul(with_reduced_dims(i, g, x.shape, dims, keepdim), slope(i, x, out, p, dims, keepdim))


def norm_jvp(i: Any, t: Float, x: Float, out: Float, p: float, dims: Dims, keepdim: bool) -> Float:
    """The sum of each tangent times the slope."""
    return i.sum(i.mul(t, slope(i, x, out, p, dims, keepdim)), dims, keepdim)


general(Backend.vector_norm, vjps=(norm_vjp,), jvps=(norm_jvp,))
