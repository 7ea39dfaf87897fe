"""Sorting, selection by order or rank, and search in sorted sequences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, overload

from burnpy.backend.dtypes import int32, int64
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.backend.operations.shape import part
from burnpy.backend.primitives import Int, Number, Value
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import ALL, along, dim_of, integer, scalar_dim, shaped
from burnpy.tensor.operand_checks import number, operands
from burnpy.tensor.reduction import Selection
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B, V

if TYPE_CHECKING:
    from burnpy.tensor.tensor import IntTensor, Tensor
    from burnpy.tensor.tensor_types import Ints


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
        a = along(as_numbers(self), dim, "argsort")
        index = self._backend.argsort(a.primitive, a.dim, descending)
        return self._int(shaped(self._device.discrete, index, self.shape))

    def msort(self) -> Self:
        """Return the elements sorted along the first dimension: ``x.sort(dim=0).values``."""
        return self.sort(0).values

    def mode(self, dim: int = -1, keepdim: bool = False) -> Selection[Self, IntTensor[B]]:
        """Return the most frequent element along ``dim``, the smallest of several, and the index of its last
        occurrence.

        Raises:
            ShapeError: there are no elements.

        >>> values, indices = IntTensor[NumPy].from_data([3, 7, 7, 3, 9]).mode()
        >>> values.item(), indices.item()
        (3, 3)
        """
        x = as_numbers(self)
        a = along(x, dim, "mode")
        if x.ndim:
            x._need_elements((a.dim,), "mode")
        index = mode_index(x._backend, a.primitive, a.dim)
        values, indices = element_at(x, a.primitive, a.dim, index, keepdim)
        return Selection(in_kind_of(self, values), indices)

    def aminmax(self, *, dim: int | None = None, keepdim: bool = False) -> Extremes[Self]:
        """Return a named tuple of the minimum and the maximum, as by `amin` and `amax`.

        Raises:
            ShapeError: there are no elements.

        >>> low, high = Tensor[NumPy].from_data([3.0, 1.0, 2.0]).aminmax()
        >>> low.item(), high.item()
        (1.0, 3.0)
        """
        if dim is None or not self.ndim:
            if dim is not None:
                scalar_dim(dim, "aminmax")
            dims = ALL[self.ndim]
        else:
            dims = (dim_of(dim, self.ndim, "aminmax"),)
        x = as_numbers(self)
        x._need_elements(dims, "aminmax")
        return Extremes(in_kind_of(self, x.amin(dims, keepdim)), in_kind_of(self, x.amax(dims, keepdim)))


class Ranking(TensorBase[B]):
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
        a = along(self, dim, "kthvalue")
        values, index = self._backend.kthvalue(a.primitive, a.dim, rank(k, 1, a.size, "kthvalue"), keepdim)
        return selection_of(self, values, index)


@overload
def searchsorted(
    sorted_sequence: Tensor[B],
    values: Tensor[B] | float,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Ints[B] | None = None,
) -> IntTensor[B]: ...
@overload
def searchsorted(
    sorted_sequence: IntTensor[B],
    values: IntTensor[B] | int,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Ints[B] | None = None,
) -> IntTensor[B]: ...
@explained
def searchsorted(
    sorted_sequence: Any,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """Return the positions at which ``values`` would keep a sequence sorted, int64 of the shape of ``values``.

    Args:
        sorted_sequence: ascending along its last dimension, with NaN last, as by `sort`.
        values: a number or a tensor of the same kind. If the sequence has several dimensions, the values have the same
            sizes before the last one, and each row is searched in its own sequence.
        out_int32: whether the result is int32.
        right: whether the position after equal elements is meant, not the one before.
        side: "right" or "left", which means the same.
        sorter: the indices that sort the sequence, if it is not sorted.

    Raises:
        KindError: the kinds differ, or one is bool.
        ShapeError: the shapes do not fit.
        ArgumentError: ``side`` is another word, or contradicts ``right``.

    >>> edges = Tensor[NumPy].from_data([1.0, 3.0, 5.0])
    >>> searchsorted(edges, Tensor[NumPy].from_data([3.0, 4.0, 9.0])).tolist()
    [1, 2, 3]
    """
    return _search("searchsorted", sorted_sequence, values, out_int32, _side(right, side), sorter)


@overload
def bucketize(
    input: Tensor[B] | float, boundaries: Tensor[B], *, out_int32: bool = False, right: bool = False
) -> IntTensor[B]: ...
@overload
def bucketize(
    input: IntTensor[B] | int, boundaries: IntTensor[B], *, out_int32: bool = False, right: bool = False
) -> IntTensor[B]: ...
@explained
def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:  # PyTorch's
    """Return the number of the interval between 1-d ``boundaries`` that each element of ``input`` is in, int64.

    Interval k is above boundary k - 1, up to and including boundary k; with ``right``, from boundary k - 1 on, and
    below boundary k. It is ``searchsorted(boundaries, input)``.

    >>> x, edges = Tensor[NumPy].from_data([0.0, 1.0, 2.5]), Tensor[NumPy].from_data([1.0, 2.0])
    >>> bucketize(x, edges).tolist(), bucketize(x, edges, right=True).tolist()
    ([0, 0, 2], [0, 1, 2])
    """
    if isinstance(boundaries, TensorBase) and boundaries.ndim != 1:
        raise ShapeError(f"bucketize() got boundaries of shape {boundaries.shape}; expected 1-d")
    return _search("bucketize", boundaries, input, out_int32, right, None)


def _side(right: bool, side: object) -> bool:
    if side not in (None, "left", "right"):
        raise ArgumentError(f"searchsorted() got side={describe(side)}; expected 'left' or 'right'")
    if side == "left" and right:
        raise ArgumentError("searchsorted() got right=True and side='left'; give one of them")
    return right or side == "right"


def _search(operation: str, sequence: Any, values: Any, narrow: bool, right: bool, sorter: Any) -> Any:
    if not isinstance(sequence, TensorBase) or sequence.kind in ("bool", "complex"):
        raise KindError(f"{operation}() searches in a Tensor or an IntTensor, got {describe(sequence)}")
    if not sequence.ndim:
        raise ShapeError(f"{operation}() cannot search in a 0-d tensor; a sequence has at least 1 dimension")
    x: Any = sequence
    if sorter is not None:
        x = x.gather(-1, sorter)
    if isinstance(values, TensorBase):
        x, sought = operands(x, values, operation)
    else:
        sought = x._backend.full((), number(x, values, operation), x.dtype)
    b, shape = x._backend, sought.shape
    if x.ndim == 1:
        sought = b.reshape(sought, (math.prod(shape),))
    elif shape[:-1] != x.shape[:-1] or not shape:
        raise ShapeError(
            f"{operation}() got values of shape {shape} in sequences of shape {x.shape}; the sizes before "
            "the last must be equal, or the sequence 1-d"
        )
    d = x.device.discrete
    indices = d.reshape(b.searchsorted(x._primitive, sought, right), shape)
    return x._int(d.cast(indices, int32) if narrow else indices)


def rank(k: object, least: int, size: int, operation: str) -> int:
    """Return a number ``k`` of elements along a dimension of ``size``.

    Raises:
        ArgumentError: it is not an int.
        ShapeError: there are fewer elements, or it is less than ``least``.
    """
    number = integer(k, "k", operation)
    if not least <= number <= size:
        raise ShapeError(
            f"{operation}() got k={number} along a dimension of size {size}; k can be from {least} to {size}"
        )
    return number


class Extremes(NamedTuple, Generic[V]):
    """The result of ``x.aminmax()``."""

    min: V
    """The smallest elements."""
    max: V
    """The largest elements."""


def mode_index(b: Any, x: Number, dim: int) -> Int:
    """Index of the last occurrence of the most frequent element along ``dim``, which stays with size 1. In sorted
    order, each element is counted from the first that equals it; the first of the highest counts belongs to the
    smallest of the most frequent elements, and is its last occurrence."""
    d, count = b.discrete, x.shape[dim]
    values, order = b.sort(x, dim, False)
    place = d.expand(d.reshape(d.arange(0, count, 1, int64), (count, *(1,) * (len(x.shape) - dim - 1))), x.shape)
    differs = b.ne(part(b, values, dim, 1, count), part(b, values, dim, 0, count - 1))
    starts = d.where(differs, part(d, place, dim, 1, count), 0)
    first = d.cummax(d.cat([part(d, place, dim, 0, 1), starts], dim), dim)[0]
    return d.gather(order, dim, d.argmax(d.sub(place, first), dim, True))


def selection_of(x: Any, values: Value, index: Int) -> Selection[Any, Any]:
    """Return elements of x and their indices; of a 0-d tensor, both are 0-d."""
    if not x.ndim:
        d = x._device.discrete
        return Selection(x._like(shaped(x._backend, values, ())), x._int(d.full((), 0, int64)))
    return Selection(x._like(values), x._int(index))


def element_at(x: Any, primitive: Value, dim: int, index: Int, keepdim: bool) -> Selection[Any, Any]:
    """Return the elements at an index of size 1 along ``dim``; ``primitive`` is x's, with at least one dim."""
    values = x._backend.gather(primitive, dim, index)
    if not keepdim:
        shape = primitive.shape[:dim] + primitive.shape[dim + 1 :]
        values, index = x._backend.reshape(values, shape), x._device.discrete.reshape(index, shape)
    return selection_of(x, values, index)


def as_numbers(x: Any) -> Any:
    """Return a tensor of bools as zeros and ones, another as it is."""
    return x.int("uint8") if x.kind == "bool" else x


def in_kind_of(x: Any, numbers: Any) -> Any:
    """Return numbers that `as_numbers` of x gave in the kind of x."""
    return numbers.bool() if x.kind == "bool" else numbers
