"""Search in sorted sequences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, overload

from burnpy.backend.dtypes import int32
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.tensor.along import need_flag
from burnpy.tensor.base import TensorBase, describe
from burnpy.tensor.call_errors import explained
from burnpy.tensor.operands import number, operands
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.discrete import Ints
    from burnpy.tensor.int_tensor import IntTensor
    from burnpy.tensor.tensor import Tensor


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
    """The positions at which ``values`` would keep a sequence sorted, int64 of the shape of ``values``.

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

    >>> from burnpy import Tensor, searchsorted
    >>> from burnpy.backend import NumPy
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
    """The number of the interval between 1-d ``boundaries`` that each element of ``input`` is in, int64.

    Interval k is above boundary k - 1, up to and including boundary k; with ``right``, from boundary k - 1 on, and
    below boundary k. It is ``searchsorted(boundaries, input)``.

    >>> from burnpy import Tensor, bucketize
    >>> from burnpy.backend import NumPy
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
