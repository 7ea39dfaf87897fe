"""Search in sorted sequences, and the indices of medians, modes and unique elements, found by sorting."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, overload

from burnpy.backend.dtypes import int32, int64
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.backend.operations.scans import part
from burnpy.backend.primitives import Bool, Int, Number, Value
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dims import integer, need_flag, shaped
from burnpy.tensor.operands import number, operands
from burnpy.tensor.reduction import Selection
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B, V

if TYPE_CHECKING:
    from burnpy.tensor.tensor import IntTensor, Tensor
    from burnpy.tensor.tensor_types import Ints


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

    >>> from burnpy import searchsorted
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

    >>> from burnpy import bucketize
    >>> x, edges = Tensor[NumPy].from_data([0.0, 1.0, 2.5]), Tensor[NumPy].from_data([1.0, 2.0])
    >>> bucketize(x, edges).tolist(), bucketize(x, edges, right=True).tolist()
    ([0, 0, 2], [0, 1, 2])
    """
    need_flag(right, "right", "bucketize")
    if isinstance(boundaries, TensorBase) and boundaries.ndim != 1:
        raise ShapeError(f"bucketize() got boundaries of shape {boundaries.shape}; expected 1-d")
    return _search("bucketize", boundaries, input, out_int32, right, None)


def _side(right: bool, side: object) -> bool:
    need_flag(right, "right", "searchsorted")
    if side not in (None, "left", "right"):
        raise ArgumentError(f"searchsorted() got side={describe(side)}; expected 'left' or 'right'")
    if side == "left" and right:
        raise ArgumentError("searchsorted() got right=True and side='left'; give one of them")
    return right or side == "right"


def _search(operation: str, sequence: Any, values: Any, narrow: bool, right: bool, sorter: Any) -> Any:
    need_flag(narrow, "out_int32", operation)
    if not isinstance(sequence, TensorBase) or sequence.kind == "bool":
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


def median_index(b: Any, x: Number, dim: int, skip_nan: bool) -> Int:
    """Index of the lower median along ``dim``, which stays with size 1; of the first NaN, unless ``skip_nan``."""
    d, count = b.discrete, x.shape[dim]
    order = b.argsort(x, dim, False)
    valid = d.sum(d.to_int(b.eq(x, x), int64), (dim,), True)
    place = d.maximum(d.floor_divide(d.sub(valid, 1), 2), 0)
    if not skip_nan:
        place = d.where(d.lt(valid, count), valid, place)
    return d.gather(order, dim, place)


def mode_index(b: Any, x: Number, dim: int) -> Int:
    """Index of the last occurrence of the most frequent element along ``dim``, which stays with size 1.

    In sorted order, each element is counted from the first that equals it; the first of the highest counts belongs to
    the smallest of the most frequent elements, and is its last occurrence.
    """
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


def unique_elements(
    b: Any, numbers: Number, x: Value, inverse: bool = True, counts: bool = True
) -> tuple[Value, Int | None, Int | None]:
    """Return the unique elements of x, sorted; the index in them of each element of x; and how often each occurs.

    ``numbers`` are the elements of x in a kind that has an order. NaNs are all different. The index and the counts are
    None unless they are wanted.
    """
    count = math.prod(x.shape)
    flat, ordinal = b.reshape(x, (count,)), b.reshape(numbers, (count,))
    order = b.argsort(ordinal, 0, False)
    ordered = b.index_select(ordinal, 0, order)
    groups = _Groups(b.discrete, order, _differs(b, ordered))
    index = b.discrete.reshape(groups.inverse(), x.shape) if inverse else None
    return b.index_select(flat, 0, groups.firsts), index, groups.counts() if counts else None


def unique_slices(
    b: Any, numbers: Number, x: Value, dim: int, inverse: bool = True, counts: bool = True
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
    groups = _Groups(d, order, _differs(b, b.index_select(rows, 0, order)))
    index = groups.inverse() if inverse else None
    return b.index_select(x, dim, groups.firsts), index, groups.counts() if counts else None


def unique_runs(
    b: Any, x: Value, dim: int | None, inverse: bool = True, counts: bool = True
) -> tuple[Value, Int | None, Int | None]:
    """Return the first of each run of equal neighbours, elements or slices along ``dim``; the run of each; and lengths.

    The index and the lengths are None unless they are wanted.
    """
    d = b.discrete
    if dim is None:
        x, dim, shape = b.reshape(x, (math.prod(x.shape),)), 0, x.shape
    else:
        shape = (x.shape[dim],)
    groups = _Groups(d, d.arange(0, x.shape[dim], 1, int64), _differs(b, _rows(b, x, dim)))
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
    """Groups of equal elements.

    Args:
        d: the device of ints.
        order: the indices of the elements in ascending order.
        differs: whether each element but the first, in order, differs from the one before.
    """

    def __init__(self, d: Any, order: Int, differs: Bool) -> None:
        self._d, self._order = d, order
        self._starts = d.cat([d.full((min(order.shape[0], 1),), True, differs.dtype), differs], 0)
        self._places = d.slice(d.nonzero(self._starts), (slice(None), 0))
        self.firsts: Int = d.index_select(order, 0, self._places)  #: the first index of each group

    def inverse(self) -> Int:
        """Return the group of each element."""
        d = self._d
        group = d.sub(d.cumsum(d.to_int(self._starts, int64), 0), 1)
        return d.index_put(self._order, 0, self._order, group)

    def counts(self) -> Int:
        """Return the sizes of the groups."""
        d, count = self._d, self._order.shape[0]
        if not count:
            return self._order
        stops = d.cat([d.slice(self._places, (slice(1, None, 1),)), d.full((1,), count, int64)], 0)
        return d.sub(stops, self._places)
