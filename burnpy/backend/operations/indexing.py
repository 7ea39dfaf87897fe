"""Operations that pick or place elements by indices. Indices are int64, non-negative and in range."""

from __future__ import annotations

import math

from burnpy.backend.dtypes import int64
from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import Bool, Float, Int, Key, Number, Shape, Value
from burnpy.backend.schema import Algebra, derived, required

STRUCTURAL, LINEAR, GENERAL, NONE = Algebra.STRUCTURAL, Algebra.LINEAR, Algebra.GENERAL, Algebra.NONDIFFERENTIABLE


class Indexing(OperationsBase):
    """Whole slices by a 1-d index (``index_*``), single elements by an index of every element (gather, scatter)."""

    @required(STRUCTURAL)
    def index_select(self, x: Value, dim: int, index: Int) -> Value:
        """The slices of x along ``dim`` at a 1-d ``index``."""
        ...

    @required(STRUCTURAL)
    def index_put(self, x: Value, dim: int, index: Int, src: Value) -> Value:
        """A copy of x with the slices along ``dim`` at a 1-d ``index`` set to src's; the last of duplicates stays."""
        ...

    @required(LINEAR)
    def index_add(self, x: Value, dim: int, index: Int, src: Value) -> Value:
        """A copy of x with src's slices added along ``dim`` at a 1-d ``index``; duplicates add up."""
        ...

    @required(NONE)
    def nonzero(self, x: Bool) -> Int:
        """The indices of the true elements, row-major, int64 of shape (count, ndim)."""
        ...

    @derived(STRUCTURAL)
    def gather(self, x: Value, dim: int, index: Int) -> Value:
        """``out[i][j] = x[index[i][j]][j]`` for dim 0; index has x's ndim and is elsewhere no larger."""
        picked = self.index_select(self.reshape(x, (math.prod(x.shape),)), 0, self._flat(x.shape, dim, index))
        return self.reshape(picked, index.shape)

    @derived(STRUCTURAL)
    def scatter(self, x: Value, dim: int, index: Int, src: Value) -> Value:
        """A copy of x with ``x[index[i][j]][j] = src[i][j]`` for dim 0; the last of duplicates stays."""
        flat, count = self.reshape(x, (math.prod(x.shape),)), math.prod(index.shape)
        return self.reshape(
            self.index_put(flat, 0, self._flat(x.shape, dim, index), self.reshape(src, (count,))), x.shape
        )

    @derived(LINEAR)
    def scatter_add(self, x: Value, dim: int, index: Int, src: Value) -> Value:
        """A copy of x with ``x[index[i][j]][j] += src[i][j]`` for dim 0; duplicates add up. src has index's shape."""
        flat, count = self.reshape(x, (math.prod(x.shape),)), math.prod(index.shape)
        return self.reshape(
            self.index_add(flat, 0, self._flat(x.shape, dim, index), self.reshape(src, (count,))), x.shape
        )

    @derived(GENERAL)
    def index_reduce(self, x: Number, dim: int, index: Int, src: Number, reduce: str) -> Number:
        """A copy of x with each slice along ``dim`` at a 1-d ``index`` reduced with src's: "prod", "amin" or "amax".

        Duplicates are reduced together; NaN wins. The default sorts them, and reads no values on the CPU.
        """
        from burnpy.backend.operations.segments import running

        order = self.index_order(index, x.shape[dim])
        ordered = self.discrete.index_select(index, 0, order)
        combine = {"prod": self.mul, "amin": self.minimum, "amax": self.maximum}[reduce]
        neutral = 1 if reduce == "prod" else None
        totals = running(self, combine, neutral, self.index_select(src, dim, order), dim, ordered)
        combined = combine(self.index_select(x, dim, ordered), totals)
        return self.index_put(x, dim, ordered, combined)  # where the last of duplicates, the whole total, stays

    @derived(NONE)
    def index_order(self, index: Int, size: int) -> Int:
        """The positions of a 1-d index into ``size`` slices, sorted by index; those of duplicates stay in order.

        The default is a radix sort by bits, each of which splits the positions in two, in order.
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

    def _flat(self, shape: Shape, dim: int, index: Int) -> Int:
        """Where in the row-major elements of ``shape`` the elements are that ``index`` names along ``dim``; 1-d."""
        d = self.discrete
        total = d.mul(index, math.prod(shape[dim + 1 :]))
        for other, size in enumerate(index.shape):
            if other != dim:
                offset = d.mul(d.arange(0, size, 1, int64), math.prod(shape[other + 1 :]))
                total = d.add(total, d.reshape(offset, (size, *(1,) * (len(shape) - other - 1))))
        return d.reshape(total, (math.prod(index.shape),))

    @derived(NONE)
    def one_hot(self, index: Int, classes: int) -> Int:
        """1 at ``index`` of a new last dimension of size ``classes``, 0 elsewhere; int64."""
        d = self.discrete
        return d.to_int(d.eq(d.reshape(index, (*index.shape, 1)), d.arange(0, classes, 1, int64)), int64)

    @derived(LINEAR, elementwise=True)
    def accumulate(self, total: Float, grad: Float) -> Float:
        """total + grad of one shape and dtype; may reuse the memory of ``total``, which nobody else holds."""
        return self.add(total, grad)

    @derived(LINEAR)
    def accumulate_slice(self, total: Float, key: Key, grad: Float) -> Float:
        """total with grad added at ``total[key]``; may reuse the memory of ``total``, which nobody else holds."""
        return self.slice_scatter(total, key, self.add(self.slice(total, key), grad))

    @derived(LINEAR)
    def accumulate_index(self, total: Float, dim: int, index: Int, grad: Float) -> Float:
        """`index_add` that may reuse the memory of ``total``, which nobody else holds."""
        return self.index_add(total, dim, index, grad)
