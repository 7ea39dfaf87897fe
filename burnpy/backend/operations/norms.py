"""Norms of vectors."""

from __future__ import annotations

import math
from math import prod

from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import Dims, Float
from burnpy.backend.schema import Algebra, derived


class Norms(OperationsBase):
    """Norms over dimensions, which are as in `Reduction`."""

    @derived(Algebra.GENERAL, flops=lambda x: 4 * prod(x))
    def vector_norm(self, x: Float, p: float, dims: Dims, keepdim: bool) -> Float:
        """The p-norm over ``dims``, (Σ |x|ᵖ)^(1/p), without overflow or underflow; its gradient where it is 0 is 0.

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
        # The scale is a constant, as the derivative by it is 0 whatever its value.
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
