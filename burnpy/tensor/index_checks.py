"""Checks of index tensors: kind, device and range, with conversion to non-negative int64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.backend.dtypes import int64, uint64
from burnpy.backend.errors import IndexRangeError, KindError
from burnpy.backend.primitives import Bool, Int, Shape
from burnpy.backend.value_range import value_range
from burnpy.tensor.base import TensorBase, describe
from burnpy.tensor.operands import together

MOST_INT = (1 << 63) - 1


def index_of(x: TensorBase[Any], index: Any, operation: str) -> Int:
    """Return the primitive of a tensor of indices into ``x``.

    Raises:
        KindError: ``index`` is not an int tensor.
        DeviceError: it is on another device than ``x``.
    """
    if not isinstance(index, TensorBase) or index.kind != "int":
        what = describe(index)
        raise KindError(f"{operation}() takes its indices as an IntTensor, got {what}")
    together(operation, x, index)  # ints are the same on every level
    return index._primitive


def in_range(
    device: Any,
    index: Int,
    size: int,
    negative: bool,
    operation: str,
    dim: int,
    shape: Shape,
    ignored: int | None = None,
) -> Int:
    """Return an index into ``dim`` of ``shape`` as non-negative int64, after checking its range.

    If ``negative`` is True, negative indices count from the end. The values are checked at once on devices that can do
    so without synchronization (`Backend.eager_checks`). On others, an index out of range is reported at the next
    synchronization, and until then replaced by one that is in range. An index that is ``ignored`` becomes 0, unchecked.

    Raises:
        IndexRangeError: an index is out of range.
    """
    d = device.discrete
    low, high = (-size if negative else 0), size - 1
    if ignored is not None and (d.eager_checks or not size):
        index = d.where(d.ne(index, ignored), index, 0)
    if d.eager_checks or not size:
        values = d.to_numpy(index)
        least, most = value_range(values) if values.size else (0, -1)
        if most > high or least < low:
            raise out_of_range(most if most > high else least, size, negative, operation, dim, shape)
        negative = least < 0
    elif 0 not in index.shape:
        refused = lambda value: out_of_range(value, size, negative, operation, dim, shape)  # noqa: E731
        index = _bounded(d, index, low, high, refused, ignored)
    if index.dtype != int64:
        index = d.cast(index, int64)
    return d.where(d.lt(index, 0), d.add(index, size), index) if negative else index


def _bounded(
    d: Any, index: Int, low: int, high: int, error: Callable[[int], IndexRangeError], ignored: int | None
) -> Int:
    """Return ``index`` as int64, limited to ``low`` … ``high``; the device raises the error for others later."""
    if index.dtype == uint64:
        index = d.minimum(index, MOST_INT)  # larger values would become negative
    if index.dtype != int64:
        index = d.cast(index, int64)
    return d.bounded(index, low, high, error, ignored)


def refuse_unless(device: Any, truth: Bool, error: Exception) -> None:
    """Raise ``error`` if an element of ``truth`` is False: at once, or at the next synchronization as in `in_range`."""
    d = device.discrete
    if not d.eager_checks:
        d.defer_check((d.all(truth, tuple(range(len(truth.shape))), False),), lambda fine: None if fine else error)
    elif not d.to_numpy(truth).all():
        raise error


def out_of_range(index: int, size: int, negative: bool, operation: str, dim: int, shape: Shape) -> IndexRangeError:
    """Return the error for an index out of range."""
    valid = f"expected an index from {-size if negative else 0} to {size - 1}" if size else "it has no elements"
    return IndexRangeError(
        f"{operation} got index {describe(index)} along dim {dim}, of size {size}, of shape {shape}; {valid}"
    )
