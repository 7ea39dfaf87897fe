"""Indices as values: of the right kind and device, int64, not negative, and in range."""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import int64
from burnpy.backend.errors import IndexRangeError, KindError
from burnpy.backend.primitives import Int, Shape
from burnpy.tensor.base import TensorBase
from burnpy.tensor.operands import together


def index_of(x: TensorBase[Any], index: Any, operation: str) -> Int:
    """The primitive of a tensor of indices into ``x``.

    Raises:
        KindError: it is no int tensor.
        DeviceError: it is on another device than ``x``.
    """
    if not isinstance(index, TensorBase) or index.kind != "int":
        what = f"a {type(index).__name__} of dtype {index.dtype}" if isinstance(index, TensorBase) else repr(index)
        raise KindError(f"{operation}() takes its indices as an IntTensor, and was given {what}")
    together(operation, x, index)  # ints are the same on every level
    return index._primitive


def in_range(device: Any, index: Int, size: int, negative: bool, operation: str, dim: int, shape: Shape) -> Int:
    """``index`` into ``dim`` of ``shape``, as int64, and, where ``negative`` ones are allowed, with them counted up.

    The values are looked at on devices where that means no waiting (`Backend.eager_checks`); others report an index
    out of range themselves.

    Raises:
        IndexRangeError: an index is out of range.
    """
    d = device.discrete
    if d.eager_checks:
        values = d.to_numpy(index)
        low, high = (int(values.min()), int(values.max())) if values.size else (0, -1)
        if high >= size or low < (-size if negative else 0):
            raise out_of_range(high if high >= size else low, size, negative, operation, dim, shape)
        negative = low < 0
    if index.dtype != int64:
        index = d.cast(index, int64)
    return d.where(d.lt(index, 0), d.add(index, size), index) if negative else index


def out_of_range(index: int, size: int, negative: bool, operation: str, dim: int, shape: Shape) -> IndexRangeError:
    """The error for an index out of range."""
    valid = f"it can be from {-size if negative else 0} to {size - 1}" if size else "it has no elements"
    return IndexRangeError(
        f"{operation} was asked for index {index} along dim {dim}, of size {size}, of shape {shape}; {valid}"
    )
