"""Operations that read or write elements at indices. Indices are int64, non-negative and in range."""

from __future__ import annotations

import math
from math import prod

from burnpy.backend.dtypes import int64
from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import Bool, Float, Int, Key, Number, Shape, Value
from burnpy.backend.schema import Algebra, derived, required

STRUCTURAL, LINEAR, GENERAL, NONE = Algebra.STRUCTURAL, Algebra.LINEAR, Algebra.GENERAL, Algebra.NONDIFFERENTIABLE


class Indexing(OperationsBase):
    """Indexing of whole slices with a 1-d index (``index_*``), and of single elements (gather, scatter)."""

    @required(STRUCTURAL, indexed="x")
    def index_select(self, x: Value, dim: int, index: Int) -> Value:
        """Select slices of x along ``dim`` with a 1-d ``index``."""
        ...

    @required(STRUCTURAL, like="x")
    def index_put(self, x: Value, dim: int, index: Int, src: Value) -> Value:
        """Return a copy of x with the slices at a 1-d ``index`` along ``dim`` set to src; the last duplicate wins."""
        ...

    @required(LINEAR, like="x", flops=lambda src: prod(src))
    def index_add(self, x: Value, dim: int, index: Int, src: Value) -> Value:
        """Return a copy of x with src added to the slices at a 1-d ``index`` along ``dim``; duplicates accumulate."""
        ...

    @required(NONE)
    def nonzero(self, x: Bool) -> Int:
        """Indices of the true elements in row-major order, int64 of shape (count, ndim)."""
        ...

    @derived(STRUCTURAL, indexed="x")
    def gather(self, x: Value, dim: int, index: Int) -> Value:
        """Gather elements along ``dim``: ``out[i][j] = x[index[i][j]][j]`` for a 2-d x and dim 0.

        ``index`` has as many dimensions as x, and is no larger than x in the dimensions other than ``dim``.
        """
        picked = self.index_select(
            self.reshape(x, (math.prod(x.shape),)), 0, flat_index(self.discrete, x.shape, dim, index)
        )
        return self.reshape(picked, index.shape)

    @derived(STRUCTURAL, like="x")
    def scatter(self, x: Value, dim: int, index: Int, src: Value) -> Value:
        """Return a copy of x with ``x[index[i][j]][j] = src[i][j]`` (2-d x, dim 0); the last duplicate wins."""
        flat, count = self.reshape(x, (math.prod(x.shape),)), math.prod(index.shape)
        return self.reshape(
            self.index_put(flat, 0, flat_index(self.discrete, x.shape, dim, index), self.reshape(src, (count,))),
            x.shape,
        )

    @derived(LINEAR, like="x", flops=lambda src: prod(src))
    def scatter_add(self, x: Value, dim: int, index: Int, src: Value) -> Value:
        """Return a copy of x with ``x[index[i][j]][j] += src[i][j]`` (2-d x, dim 0); duplicates accumulate.

        ``src`` has the shape of ``index``.
        """
        flat, count = self.reshape(x, (math.prod(x.shape),)), math.prod(index.shape)
        return self.reshape(
            self.index_add(flat, 0, flat_index(self.discrete, x.shape, dim, index), self.reshape(src, (count,))),
            x.shape,
        )

    @derived(GENERAL, like="x", flops=lambda src: prod(src))
    def index_reduce(self, x: Number, dim: int, index: Int, src: Number, reduce: str) -> Number:
        """Return a copy of x with src reduced ("prod", "amin", "amax") into the slices at a 1-d ``index`` of ``dim``.

        Duplicates are reduced together; NaN propagates. The default sorts by index, and copies no values to the CPU.
        """
        from burnpy.backend.operations.segments import running

        order = self.index_order(index, x.shape[dim])
        ordered = self.discrete.index_select(index, 0, order)
        combine = {"prod": self.mul, "amin": self.minimum, "amax": self.maximum}[reduce]
        neutral = 1 if reduce == "prod" else None
        totals = running(self, combine, neutral, self.index_select(src, dim, order), dim, ordered)
        combined = combine(self.index_select(x, dim, ordered), totals)
        return self.index_put(x, dim, ordered, combined)  # the last duplicate, which holds the whole total, wins

    @derived(NONE)
    def index_order(self, index: Int, size: int) -> Int:
        """Stable argsort of a 1-d ``index`` with values in [0, size).

        The default is a binary radix sort: a stable partition of the positions by each bit.
        Source: G. E. Blelloch, Prefix Sums and Their Applications, 1990.
        """
        d = self.discrete
        count = index.shape[0]
        positions = order = d.arange(0, count, 1, int64)
        for bit in range(max(size - 1, 0).bit_length() if count else 0):
            digit = d.bitwise_and(d.floor_divide(d.index_select(index, 0, order), 1 << bit), 1)
            ones = d.cumsum(digit, 0)
            zeros = d.sub(d.full((), count, int64), d.slice(ones, (count - 1,)))
            place = d.where(d.eq(digit, 1), d.add(d.sub(ones, 1), zeros), d.sub(positions, ones))
            order = d.index_put(order, 0, place, order)
        return order

    @derived(NONE)
    def one_hot(self, index: Int, classes: int) -> Int:
        """One-hot encoding, int64: 1 at ``index`` of a new last dimension of size ``classes``, 0 elsewhere."""
        d = self.discrete
        return d.to_int(d.eq(d.reshape(index, (*index.shape, 1)), d.arange(0, classes, 1, int64)), int64)

    @derived(LINEAR, like="total", consumes="total", flops=1)
    def accumulate(self, total: Float, grad: Float) -> Float:
        """Compute total + grad, of the same shape and dtype; may reuse the memory of ``total``."""
        return self.add(total, grad)

    @derived(LINEAR, like="total", consumes="total", indexed="total", flops=lambda grad: prod(grad))
    def accumulate_slice(self, total: Float, key: Key, grad: Float) -> Float:
        """Add grad to ``total[key]`` and return total; may reuse the memory of ``total``."""
        return self.slice_scatter(total, key, self.add(self.slice(total, key), grad))

    @derived(LINEAR, like="total", consumes="total", indexed="total", flops=lambda grad: prod(grad))
    def accumulate_index(self, total: Float, dim: int, index: Int, grad: Float) -> Float:
        """Compute ``index_add(total, dim, index, grad)``; may reuse the memory of ``total``."""
        return self.index_add(total, dim, index, grad)


def flat_index(d: OperationsBase, shape: Shape, dim: int, index: Int) -> Int:
    """Return the 1-d row-major offsets, in ``shape``, of the elements that ``index`` selects along ``dim``."""
    total = d.mul(index, math.prod(shape[dim + 1 :]))
    for other, size in enumerate(index.shape):
        if other != dim:
            offset = d.mul(d.arange(0, size, 1, int64), math.prod(shape[other + 1 :]))
            total = d.add(total, d.reshape(offset, (size, *(1,) * (len(shape) - other - 1))))
    return d.reshape(total, (math.prod(index.shape),))
