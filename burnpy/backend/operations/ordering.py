"""Sorts, selection by rank, and search in sorted sequences. NaN counts as the largest value, and equal elements keep
their order."""

from __future__ import annotations

from math import prod
from typing import Any

from burnpy.backend.dtypes import int64
from burnpy.backend.operations import OperationsBase
from burnpy.backend.operations.shape import part
from burnpy.backend.primitives import Bool, Dim, Int, Real
from burnpy.backend.rules import SHIFTED
from burnpy.backend.schema import GENERAL, NONDIFFERENTIABLE, derived, required


class Ordering(OperationsBase):
    """Sorting, selection by rank, and search in sorted sequences. Values are gathered at the indices that an operation
    without a derivative finds, so that gradients of every order go to the elements that were chosen."""

    @required(
        NONDIFFERENTIABLE,
        like="x",
        flops=lambda x: prod(x) * max(x, default=1).bit_length(),
        batch=SHIFTED,
        onnx="reductions.argsort",
    )
    def argsort(self, x: Real, dim: Dim, descending: bool) -> Int:
        """Return indices that sort x along ``dim``, int64: equal elements keep their order, NaN is the largest."""
        ...

    @derived(GENERAL, flops=lambda x: prod(x) * max(x, default=1).bit_length(), batch=SHIFTED)
    def sort(self, x: Real, dim: Dim, descending: bool) -> tuple[Real, Int]:
        """Elements of x sorted along ``dim``, and their indices: see `argsort`."""
        index = self.argsort(x, dim, descending)
        return self.gather(x, dim, index), index

    @derived(NONDIFFERENTIABLE, flops=lambda x: prod(x), batch=SHIFTED)
    def topk_index(self, x: Real, dim: Dim, k: int, largest: bool) -> Int:
        """Return indices of the ``k`` largest or smallest elements along ``dim``, in order; of equal ones the first."""
        return part(self.discrete, self.argsort(x, dim, largest), dim, 0, k)

    @derived(GENERAL, flops=lambda x: prod(x), batch=SHIFTED, onnx="reductions.topk")
    def topk(self, x: Real, dim: Dim, k: int, largest: bool) -> tuple[Real, Int]:
        """Return the ``k`` largest or smallest elements along ``dim``, in order, and their indices: see
        `topk_index`."""
        index = self.topk_index(x, dim, k, largest)
        return self.gather(x, dim, index), index

    @derived(NONDIFFERENTIABLE, flops=lambda x: prod(x), batch=SHIFTED)
    def kthvalue_index(self, x: Real, dim: Dim, k: int) -> Int:
        """Return the index of the ``k``-th smallest element along ``dim``, which stays with size 1."""
        return part(self.discrete, self.argsort(x, dim, False), dim, k - 1, k)

    @derived(GENERAL, flops=lambda x: prod(x), batch=SHIFTED)
    def kthvalue(self, x: Real, dim: Dim, k: int, keepdim: bool) -> tuple[Real, Int]:
        """Return the ``k``-th smallest element along ``dim``, counted from 1, and its index."""
        chosen: tuple[Real, Int] = self._picked(x, dim, keepdim, self.kthvalue_index(x, dim, k))
        return chosen

    @derived(NONDIFFERENTIABLE, like="values", flops=lambda values: 4 * prod(values))
    def searchsorted(self, sequence: Real, values: Real, right: bool) -> Int:
        """Positions at which ``values`` keep the ascending ``sequence`` sorted: before or after equal elements.

        Both have the same sizes before the last dimension, along which the sequences lie. The default is a binary
        search of all values at once.
        """
        d, last, count = self.discrete, len(values.shape) - 1, sequence.shape[-1]
        position = d.full(values.shape, 0, int64)
        for bit in reversed(range(count.bit_length())):
            further = d.add(position, 1 << bit)
            element = self.gather(sequence, last, d.sub(d.minimum(further, count), 1))
            passed = d.bitwise_not(_before(self, values, element)) if right else _before(self, element, values)
            position = d.where(d.bitwise_and(passed, d.le(further, count)), further, position)
        return position


def _before(b: Any, x: Real, y: Real) -> Bool:
    """Test whether x comes before y in sorted order: it is smaller, or y alone is NaN."""
    d = b.discrete
    return d.bitwise_or(b.lt(x, y), d.bitwise_and(b.ne(y, y), b.eq(x, x)))
