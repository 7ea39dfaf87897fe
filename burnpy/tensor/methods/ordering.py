"""Methods that sort elements, find unique ones, and choose by order, by rank or by how often they occur."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from burnpy.tensor.dims import ALL, along, dim_of, need_bool, need_flag, scalar_dim, shaped
from burnpy.tensor.functions.ordering import (
    Extremes,
    as_numbers,
    element_at,
    in_kind_of,
    median_index,
    mode_index,
    rank,
    selection_of,
    unique_elements,
    unique_runs,
    unique_slices,
)
from burnpy.tensor.reduction import NumberReductions, Selection
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import IntTensor


class Ordering(TensorBase[B]):
    """Methods by the order of elements: False comes before True, and NaN after all other numbers."""

    __slots__ = ()

    def sort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> Selection[Self, IntTensor[B]]:
        """Return the elements sorted along ``dim``, and their indices in x. NaN counts as the largest.

        The gradient goes to the elements where they come from.

        Args:
            dim: the dimension to sort along.
            descending: whether the largest element comes first.
            stable: accepted for compatibility with PyTorch: equal elements always keep their order.

        >>> values, indices = Tensor[NumPy].from_data([[3.0, 1.0, 2.0]]).sort()
        >>> values.tolist(), indices.tolist()
        ([[1.0, 2.0, 3.0]], [[1, 2, 0]])
        """
        need_flag(descending, "descending", "sort")
        need_flag(stable, "stable", "sort")
        x = as_numbers(self)
        a = along(x, dim, "sort")
        values, index = x._backend.sort(a.primitive, a.dim, descending)
        ordered = x._like(shaped(x._backend, values, self.shape))
        return Selection(in_kind_of(self, ordered), self._int(shaped(self._device.discrete, index, self.shape)))

    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> IntTensor[B]:
        """Return the indices that sort x along ``dim``, int64; the arguments are those of `sort`.

        >>> IntTensor[NumPy].from_data([3, 1, 3, 2]).argsort(descending=True).tolist()
        [0, 2, 3, 1]
        """
        need_flag(descending, "descending", "argsort")
        need_flag(stable, "stable", "argsort")
        a = along(as_numbers(self), dim, "argsort")
        index = self._backend.argsort(a.primitive, a.dim, descending)
        return self._int(shaped(self._device.discrete, index, self.shape))

    def msort(self) -> Self:
        """Return the elements sorted along the first dimension: ``x.sort(dim=0).values``."""
        return self.sort(0).values

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
        for name, flag in (("sorted", sorted), ("return_inverse", return_inverse), ("return_counts", return_counts)):
            need_flag(flag, name, "unique")
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
        for name, flag in (("return_inverse", return_inverse), ("return_counts", return_counts)):
            need_flag(flag, name, "unique_consecutive")
        axis = None if dim is None else dim_of(dim, self.ndim, "unique_consecutive")
        found = unique_runs(self._backend, self._primitive, axis, return_inverse, return_counts)
        first = self._like(found[0])
        others = [self._int(index) for index in found[1:] if index is not None]
        return (first, *others) if others else first

    def mode(self, dim: int = -1, keepdim: bool = False) -> Selection[Self, IntTensor[B]]:
        """Return the most frequent element along ``dim``, the smallest of several, and the index of its last
        occurrence.

        Raises:
            ShapeError: there are no elements.

        >>> values, indices = IntTensor[NumPy].from_data([3, 7, 7, 3, 9]).mode()
        >>> values.item(), indices.item()
        (3, 3)
        """
        need_bool(keepdim, "mode")
        x = as_numbers(self)
        a = along(x, dim, "mode")
        if x.ndim:
            x._need_elements((a.dim,), "mode")
        index = mode_index(x._backend, a.primitive, a.dim)
        values, indices = element_at(x, a.primitive, a.dim, index, keepdim)
        return Selection(in_kind_of(self, values), indices)

    def cummax(self, dim: int) -> Selection[Self, IntTensor[B]]:
        """Return the largest element along ``dim`` up to each one, and its index: of equal ones the last. NaN
        propagates.

        >>> values, indices = Tensor[NumPy].from_data([1.0, 3.0, 2.0]).cummax(0)
        >>> values.tolist(), indices.tolist()
        ([1.0, 3.0, 3.0], [0, 1, 1])
        """
        x = as_numbers(self)
        a = along(x, dim, "cummax")
        values, indices = selection_of(x, *x._backend.cummax(a.primitive, a.dim))
        return Selection(in_kind_of(self, values), indices)

    def cummin(self, dim: int) -> Selection[Self, IntTensor[B]]:
        """Return the smallest element along ``dim`` up to each one, and its index: of equal ones the last. NaN
        propagates.
        """
        x = as_numbers(self)
        a = along(x, dim, "cummin")
        values, indices = selection_of(x, *x._backend.cummin(a.primitive, a.dim))
        return Selection(in_kind_of(self, values), indices)

    def aminmax(self, *, dim: int | None = None, keepdim: bool = False) -> Extremes[Self]:
        """Return a named tuple of the minimum and the maximum, as by `amin` and `amax`.

        Raises:
            ShapeError: there are no elements.

        >>> low, high = Tensor[NumPy].from_data([3.0, 1.0, 2.0]).aminmax()
        >>> low.item(), high.item()
        (1.0, 3.0)
        """
        need_bool(keepdim, "aminmax")
        if dim is None or not self.ndim:
            if dim is not None:
                scalar_dim(dim, "aminmax")
            dims = ALL[self.ndim]
        else:
            dims = (dim_of(dim, self.ndim, "aminmax"),)
        x = as_numbers(self)
        x._need_elements(dims, "aminmax")
        return Extremes(in_kind_of(self, x.amin(dims, keepdim)), in_kind_of(self, x.amax(dims, keepdim)))


class Ranking(NumberReductions[B]):
    """Methods by the rank of elements. NaN counts as the largest, and of equal elements the first comes first."""

    __slots__ = ()

    def topk(
        self,
        k: int,
        dim: int = -1,
        largest: bool = True,
        sorted: bool = True,  # PyTorch's name
    ) -> Selection[Self, IntTensor[B]]:
        """Return the ``k`` largest elements along ``dim``, the largest first, and their indices; NaN counts as the
        largest.

        Args:
            k: how many, from 0 to the size of the dimension.
            dim: the dimension along which elements are compared.
            largest: False for the smallest elements, the smallest first.
            sorted: accepted for compatibility with PyTorch: the elements are always sorted.

        Raises:
            ShapeError: the dimension has fewer elements.

        >>> values, indices = Tensor[NumPy].from_data([1.0, 5.0, 3.0]).topk(2)
        >>> values.tolist(), indices.tolist()
        ([5.0, 3.0], [1, 2])
        """
        need_flag(largest, "largest", "topk")
        need_flag(sorted, "sorted", "topk")
        a = along(self, dim, "topk")
        count = rank(k, 0, a.size, "topk")
        values, index = self._backend.topk(a.primitive, a.dim, count, largest)
        shape = a.shape(count)
        return Selection(
            self._like(shaped(self._backend, values, shape)), self._int(shaped(self._device.discrete, index, shape))
        )

    def kthvalue(self, k: int, dim: int = -1, keepdim: bool = False) -> Selection[Self, IntTensor[B]]:
        """Return the ``k``-th smallest element along ``dim``, counted from 1, and its index.

        Raises:
            ShapeError: the dimension has fewer elements, or k is less than 1.

        >>> Tensor[NumPy].from_data([4.0, 2.0, 9.0]).kthvalue(2).values.item()
        4.0
        """
        need_bool(keepdim, "kthvalue")
        a = along(self, dim, "kthvalue")
        values, index = self._backend.kthvalue(a.primitive, a.dim, rank(k, 1, a.size, "kthvalue"), keepdim)
        return selection_of(self, values, index)

    @overload
    def median(self) -> Self: ...
    @overload
    def median(self, dim: int, keepdim: bool = False) -> Selection[Self, IntTensor[B]]: ...
    def median(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """Return the median of all elements; with ``dim``, a named tuple of the medians along it and their indices.

        Of an even number of elements it is the lower of the two in the middle, as in PyTorch: use ``quantile(0.5)`` for
        their mean. It is NaN where an element is NaN, and of no floats. The gradient goes to the chosen element.

        Raises:
            ShapeError: there are no elements.

        >>> Tensor[NumPy].from_data([4.0, 1.0, 3.0, 2.0]).median().item()
        2.0
        """
        return self._middle("median", dim, keepdim)

    @overload
    def nanmedian(self) -> Self: ...
    @overload
    def nanmedian(self, dim: int, keepdim: bool = False) -> Selection[Self, IntTensor[B]]: ...
    def nanmedian(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """Return the `median` of the elements that are not NaN; NaN where all are.

        Raises:
            ShapeError: there are no elements.
        """
        return self._middle("nanmedian", dim, keepdim)

    def _middle(self, operation: str, dim: int | None, keepdim: bool) -> Any:
        """Return the median, with or without NaN."""
        need_bool(keepdim, operation)
        b, x = self._backend, self._primitive
        if dim is None:
            if 0 in x.shape and self.kind == "float":
                return self._like(b.full((), math.nan, x.dtype))
            self._need_elements(ALL[self.ndim], operation)
            flat = b.reshape(x, (math.prod(x.shape),))
            index = median_index(b, flat, 0, operation == "nanmedian")
            return self._like(b.reshape(b.gather(flat, 0, index), ()))
        a = along(self, dim, operation)
        if self.ndim:
            self._need_elements((a.dim,), operation)
        index = median_index(b, a.primitive, a.dim, operation == "nanmedian")
        return element_at(self, a.primitive, a.dim, index, keepdim)
