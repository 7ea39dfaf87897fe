"""Vector norms, and the distances between the rows of two matrices."""

from __future__ import annotations

import math
from math import prod
from typing import Any

from burnpy.backend.operations import OperationsBase
from burnpy.backend.operations.reduction import ties, with_reduced_dims
from burnpy.backend.primitives import Dims, Float
from burnpy.backend.rules import SHIFTED
from burnpy.backend.schema import GENERAL, derived


def slope(i: Any, x: Float, out: Float, p: float, dims: Dims, keepdim: bool) -> Float:
    """Return the derivative of the norm with respect to each element: sign(x) · (|x| / out)^(p - 1).

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
    """Return the sum of each tangent times the slope."""
    return i.sum(i.mul(t, slope(i, x, out, p, dims, keepdim)), dims, keepdim)


class Norms(OperationsBase):
    """Norms over dimensions, which are as in `Reduction`."""

    @derived(GENERAL, flops=lambda x: 4 * prod(x), vjp=norm_vjp, jvp=norm_jvp, batch=SHIFTED)
    def vector_norm(self, x: Float, p: float, dims: Dims, keepdim: bool) -> Float:
        """Return the p-norm over ``dims``, (Σ |x|ᵖ)^(1/p), without overflow or underflow; its gradient where it is 0 is
        0.

        For ∞ it is the largest magnitude, for -∞ the smallest, and for 0 the number of elements that are not 0. It is 0
        of no elements, for p ≥ 0; of the others, the dims must not be empty.
        """
        if p == 0:
            return self.sum(self.abs(self.sign(self.where(self.eq(x, x), x, 1.0))), dims, keepdim)
        size = self.abs(x)
        empty = any(x.shape[d] == 0 for d in dims)
        if p == 1 or (empty and p > 0):
            return self.sum(size, dims, keepdim)
        if math.isinf(p):
            return self.amax(size, dims, keepdim) if p > 0 else self.amin(size, dims, keepdim)
        if 0 in x.shape:
            return self.sum(size, dims, keepdim)
        # The scale is a constant, as the derivative with respect to it is 0 whatever its value.
        scale = self.detach(self.amax(size, dims, True) if p > 0 else self.amin(size, dims, True))
        usual = self.discrete.bitwise_and(self.gt(scale, 0.0), self.isfinite(scale))
        scale = self.where(usual, scale, 1.0)
        part = self.div(size, scale)
        if p == 2:
            powers = self.square(part)
        elif p > 0 and p == int(p):
            powers = self.pow(part, p)
        else:  # some derivative of a power of 0 is infinite, so that it is a constant
            positive = self.ne(part, 0.0)
            powers = self.pow(self.where(positive, part, 1.0), p)
            powers = self.where(positive, powers, 0.0 if p > 0 else math.inf)
        total = self.sum(powers, dims, True)
        regular = self.discrete.bitwise_and(self.ne(total, 0.0), self.ne(total, math.inf))
        inside = self.where(regular, total, 1.0)
        root = self.sqrt(inside) if p == 2 else self.pow(inside, 1 / p)
        root = self.where(regular, self.mul(root, scale), 0.0)
        root = self.where(self.ne(total, math.inf if p > 0 else 0.0), root, math.inf)
        return root if keepdim else self.reshape(root, tuple(n for d, n in enumerate(x.shape) if d not in dims))


def cdist_x_jvp(i: Any, t: Float, x: Float, y: Float, out: Float, p: float) -> Float:
    """Return the sum of the tangent of each element of a row of x times the slope."""
    *outer, n, k = t.shape
    return i.sum(i.mul(i.reshape(t, (*outer, n, 1, k)), slopes(i, x, y, out, p)), (len(x.shape),), False)


def cdist_y_jvp(i: Any, t: Float, x: Float, y: Float, out: Float, p: float) -> Float:
    """Return the same of y, whose slopes have the other sign."""
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
        """Return the p-norms, for p = 1, 2 and ∞, of the differences of all rows of x and y, (…, n, m); see
        `vector_norm`."""
        return self.vector_norm(differences(self, x, y), p, (len(x.shape),), False)

    @derived(GENERAL, flops=lambda grad, x: 3 * prod(grad) * x[-1])
    def cdist_backward(self, grad: Float, x: Float, y: Float, out: Float, p: float) -> Float:
        """Gradient of `cdist` with respect to x; for y, swap x and y, and transpose ``grad`` and ``out``."""
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
    if math.isinf(p):
        return slope(b, difference, out, p, (len(x.shape),), False)
    distance = at_end(b, out)
    regular = b.discrete.bitwise_and(b.ne(distance, 0.0), b.ne(distance, math.inf))
    return b.where(regular, b.div(difference, b.where(regular, distance, 1.0)), 0.0)
