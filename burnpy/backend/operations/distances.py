"""Distances of each row of a matrix to each row of another."""

from __future__ import annotations

import math
from math import prod
from typing import Any

from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import Float
from burnpy.backend.schema import GENERAL, derived


def cdist_x_jvp(i: Any, t: Float, x: Float, y: Float, out: Float, p: float) -> Float:
    """The sum of the tangent of each element of a row of x times the slope."""
    *outer, n, k = t.shape
    return i.sum(i.mul(i.reshape(t, (*outer, n, 1, k)), slopes(i, x, y, out, p)), (len(x.shape),), False)


def cdist_y_jvp(i: Any, t: Float, x: Float, y: Float, out: Float, p: float) -> Float:
    """The same of y, whose slopes have the other sign."""
    *outer, m, k = t.shape
    return i.neg(i.sum(i.mul(i.reshape(t, (*outer, 1, m, k)), slopes(i, x, y, out, p)), (len(x.shape),), False))


class Distances(OperationsBase):
    """Distances of rows x (…, n, k) and y (…, m, k), whose other dimensions and dtypes are the same."""

    @derived(
        GENERAL,
        flops=lambda x, out: 3 * prod(out) * x[-1],
        vjp=(
            lambda i, g, x, y, out, p: i.cdist_backward(g, x, y, out, p),
            lambda i, g, x, y, out, p: i.cdist_backward(i.mT(g), y, x, i.mT(out), p),
        ),
        jvp=(cdist_x_jvp, cdist_y_jvp),
    )
    def cdist(self, x: Float, y: Float, p: float) -> Float:
        """The p-norms, for p = 1 and 2, of the differences of all rows of x and y, (…, n, m); see `vector_norm`."""
        return self.vector_norm(differences(self, x, y), p, (len(x.shape),), False)

    @derived(GENERAL, flops=lambda grad, x: 3 * prod(grad) * x[-1])
    def cdist_backward(self, grad: Float, x: Float, y: Float, out: Float, p: float) -> Float:
        """Gradient of `cdist` by x; that by y is it with x and y swapped, and ``grad`` and ``out`` transposed."""
        each = self.mul(at_end(self, grad), slopes(self, x, y, out, p))
        return self.sum(each, (len(x.shape) - 1,), False)


def differences(b: Any, x: Float, y: Float) -> Float:
    """Return the differences of all rows, (…, n, m, k)."""
    *outer, n, k = x.shape
    return b.sub(b.reshape(x, (*outer, n, 1, k)), b.reshape(y, (*outer, 1, y.shape[-2], k)))


def at_end(b: Any, x: Float) -> Float:
    """Return x with a dimension of size 1 at the end."""
    return b.reshape(x, (*x.shape, 1))


def slopes(b: Any, x: Float, y: Float, out: Float, p: float) -> Float:
    """Return the derivatives of the distances ``out`` by each difference, 0 where a distance is 0 or infinite."""
    difference = differences(b, x, y)
    if p == 1:
        return b.sign(difference)
    distance = at_end(b, out)
    regular = b.discrete.bitwise_and(b.ne(distance, 0.0), b.ne(distance, math.inf))
    return b.where(regular, b.div(difference, b.where(regular, distance, 1.0)), 0.0)
