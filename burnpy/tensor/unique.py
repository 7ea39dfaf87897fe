"""Unique elements, slices and runs, found by sorting."""

from __future__ import annotations

import math
from typing import Any, Literal, Self, overload

from burnpy.backend.dtypes import int64
from burnpy.backend.primitives import Bool, Int, Number, Value
from burnpy.tensor.dim_checks import dim_of
from burnpy.tensor.ordering import as_numbers
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import B


class Unique(TensorBase[B]):
    """Unique elements, slices and runs."""

    __slots__ = ()

    @overload
    def unique(
        self,
        sorted: bool = True,  # PyTorch's name
        return_inverse: Literal[False] = False,
        return_counts: Literal[False] = False,
        dim: int | None = None,
    ) -> Self: ...
    @overload
    def unique(
        self,
        sorted: bool = True,  # PyTorch's name
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Any: ...
    def unique(
        self,
        sorted: bool = True,  # PyTorch's name
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Any:
        """Return the different elements in ascending order; with ``dim``, the different slices along it.

        The number of elements of the result depends on the values, so that a GPU is waited for. Every NaN differs from
        every other. The gradient goes to the first of equal elements.

        Args:
            sorted: accepted for compatibility with PyTorch: the result is always sorted, slices by their first
                element that differs.
            return_inverse: whether to return also the index in the result of each element (or slice) of x.
            return_counts: whether to return also how often each one occurs.
            dim: the dimension along which slices are compared; None to compare all elements.

        >>> values, counts = IntTensor[NumPy].from_data([3, 1, 3]).unique(return_counts=True)
        >>> values.tolist(), counts.tolist()
        ([1, 3], [1, 2])
        """
        b, x, numbers = self._backend, self._primitive, as_numbers(self)._primitive
        if dim is None:
            found = unique_elements(b, numbers, x, return_inverse, return_counts)
        else:
            axis = dim_of(dim, self.ndim, "unique")
            found = unique_slices(b, numbers, x, axis, return_inverse, return_counts)
        first = self._like(found[0])
        others = [self._int(index) for index in found[1:] if index is not None]
        return (first, *others) if others else first

    @overload
    def unique_consecutive(
        self, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: int | None = None
    ) -> Self: ...
    @overload
    def unique_consecutive(
        self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Any: ...
    def unique_consecutive(
        self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Any:
        """Return the elements in row-major order that differ from the one before; with ``dim``, the slices along it.

        The number of elements of the result depends on the values, so that a GPU is waited for. The gradient goes to
        the first of equal neighbours.

        Args:
            return_inverse: whether to return also the index in the result of each element (or slice) of x.
            return_counts: whether to return also how many equal neighbours each one stands for.
            dim: the dimension along which slices are compared; None to compare all elements.

        >>> values, counts = IntTensor[NumPy].from_data([3, 3, 1, 3]).unique_consecutive(return_counts=True)
        >>> values.tolist(), counts.tolist()
        ([3, 1, 3], [2, 1, 1])
        """
        axis = None if dim is None else dim_of(dim, self.ndim, "unique_consecutive")
        found = unique_runs(self._backend, self._primitive, axis, return_inverse, return_counts)
        first = self._like(found[0])
        others = [self._int(index) for index in found[1:] if index is not None]
        return (first, *others) if others else first


def unique_elements(
    b: Any, numbers: Number, x: Value, inverse: bool, counts: bool
) -> tuple[Value, Int | None, Int | None]:
    """Return the unique elements of x, sorted; the index in them of each element of x; and how often each occurs.
    ``numbers`` are the elements of x in a kind that has an order. NaNs are all different. The index and the counts are
    None unless they are wanted."""
    count = math.prod(x.shape)
    flat, ordinal = b.reshape(x, (count,)), b.reshape(numbers, (count,))
    order = b.argsort(ordinal, 0, False)
    ordered = b.index_select(ordinal, 0, order)
    groups = _Groups(b.discrete, order, _differs(b, ordered), count)
    index = b.discrete.reshape(groups.inverse(), x.shape) if inverse else None
    return b.index_select(flat, 0, groups.firsts), index, groups.counts() if counts else None


def unique_slices(
    b: Any, numbers: Number, x: Value, dim: int, inverse: bool, counts: bool
) -> tuple[Value, Int | None, Int | None]:
    """Return the unique slices of x along ``dim``, sorted lexicographically; the index of each; and their counts.

    The index and the counts are None unless they are wanted.

    The slices are sorted by each of their elements, from the last to the first: sorts are stable.
    """
    d = b.discrete
    rows = _rows(b, numbers, dim)
    order = d.arange(0, x.shape[dim], 1, int64)
    for column in reversed(range(rows.shape[1])):
        values = b.index_select(b.slice(rows, (slice(None), column)), 0, order)
        order = d.index_select(order, 0, b.argsort(values, 0, False))
    groups = _Groups(d, order, _differs(b, b.index_select(rows, 0, order)), x.shape[dim])
    index = groups.inverse() if inverse else None
    return b.index_select(x, dim, groups.firsts), index, groups.counts() if counts else None


def unique_runs(b: Any, x: Value, dim: int | None, inverse: bool, counts: bool) -> tuple[Value, Int | None, Int | None]:
    """Return the first of each run of equal neighbours, elements or slices along ``dim``; the run of each; and lengths.
    The index and the lengths are None unless they are wanted."""
    d = b.discrete
    if dim is None:
        x, dim, shape = b.reshape(x, (math.prod(x.shape),)), 0, x.shape
    else:
        shape = (x.shape[dim],)
    rows = _rows(b, x, dim) if len(x.shape) > 1 else x
    groups = _Groups(d, None, _differs(b, rows), x.shape[dim])
    index = d.reshape(groups.inverse(), shape) if inverse else None
    return b.index_select(x, dim, groups.firsts), index, groups.counts() if counts else None


def _rows(b: Any, x: Value, dim: int) -> Value:
    """Return the slices of x along ``dim`` as rows of a matrix."""
    others = tuple(k for k in range(len(x.shape)) if k != dim)
    return b.reshape(b.permute(x, (dim, *others)), (x.shape[dim], math.prod([x.shape[k] for k in others])))


def _differs(b: Any, ordered: Number) -> Any:
    """Return, for each slice of a sorted primitive but the first, whether it differs from the one before."""
    size, *rest = ordered.shape
    later, earlier = b.slice(ordered, (slice(1, None, 1),)), b.slice(ordered, (slice(0, max(size - 1, 0), 1),))
    return b.discrete.any(b.ne(later, earlier), tuple(range(1, len(rest) + 1)), False) if rest else b.ne(later, earlier)


class _Groups:
    """Groups of equal elements among ``count``, in an order; None for the order that they have."""

    def __init__(self, d: Any, order: Int | None, differs: Bool, count: int) -> None:
        self._d, self._order, self._count = d, order, count
        self._starts = d.cat([d.full((min(count, 1),), True, differs.dtype), differs], 0)
        self._places = d.slice(d.nonzero(self._starts), (slice(None), 0))
        #: the first index of each group
        self.firsts: Int = self._places if order is None else d.index_select(order, 0, self._places)

    def inverse(self) -> Int:
        """Return the group of each element."""
        d = self._d
        group = d.sub(d.cumsum(d.to_int(self._starts, int64), 0), 1)
        return group if self._order is None else d.index_put(self._order, 0, self._order, group)

    def counts(self) -> Int:
        """Return the sizes of the groups."""
        d, count = self._d, self._count
        if not count:
            return self._places
        stops = d.cat([d.slice(self._places, (slice(1, None, 1),)), d.full((1,), count, int64)], 0)
        return d.sub(stops, self._places)
