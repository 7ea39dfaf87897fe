"""Rules of distances of rows."""

from __future__ import annotations

from typing import Any

from burnpy.autodiff.rules.algebra import general
from burnpy.backend.backend import Backend
from burnpy.backend.operations.distances import slopes
from burnpy.backend.primitives import Float


def by_x(i: Any, t: Float, x: Float, y: Float, out: Float, p: float) -> Float:
    """The sum of the tangent of each element of a row of x times the slope."""
    *outer, n, k = t.shape
    return i.sum(i.mul(i.reshape(t, (*outer, n, 1, k)), slopes(i, x, y, out, p)), (len(x.shape),), False)


def by_y(i: Any, t: Float, x: Float, y: Float, out: Float, p: float) -> Float:
    """The same of y, whose slopes have the other sign."""
    *outer, m, k = t.shape
    return i.neg(i.sum(i.mul(i.reshape(t, (*outer, 1, m, k)), slopes(i, x, y, out, p)), (len(x.shape),), False))


general(
    Backend.cdist,
    vjps=(
        lambda i, g, x, y, out, p: i.cdist_backward(g, x, y, out, p),
        lambda i, g, x, y, out, p: i.cdist_backward(i.mT(g), y, x, i.mT(out), p),
    ),
    jvps=(by_x, by_y),
)
