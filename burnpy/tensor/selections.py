"""Elements that were chosen along a dimension, with their indices, as tensors."""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import int64
from burnpy.backend.primitives import Int, Value
from burnpy.tensor.along import shaped
from burnpy.tensor.reductions import Selection


def chosen(x: Any, values: Value, index: Int) -> Selection[Any, Any]:
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
    return chosen(x, values, index)


def as_numbers(x: Any) -> Any:
    """Return a tensor of bools as zeros and ones, another as it is."""
    return x.int("uint8") if x.kind == "bool" else x


def in_kind_of(x: Any, numbers: Any) -> Any:
    """Return numbers that `as_numbers` of x gave in the kind of x."""
    return numbers.bool() if x.kind == "bool" else numbers
