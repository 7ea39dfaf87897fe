"""Embedding: a lookup of rows in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError
from burnpy.nn.argument_checks import exact_dims, floats
from burnpy.tensor.call_errors import explained
from burnpy.tensor.operands import in_range, index_of, together
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import Ints


@explained
def embedding(index: Ints[B], weight: Tensor[B], *, padding_idx: int | None = None) -> Tensor[B]:
    """Look up the rows of ``weight`` at ``index``.

    Args:
        index: of any shape, from 0 to count - 1.
        weight: shape (count, size).
        padding_idx: the index of a row that gets no gradient; negative indices count from the end.

    Returns:
        Shape (*index.shape, size).

    Raises:
        KindError: ``index`` is not an `IntTensor`.
        IndexRangeError: an index is out of range.
        ArgumentError: ``padding_idx`` is out of range.

    >>> from burnpy import IntTensor, Tensor
    >>> from burnpy.backend import NumPy
    >>> embedding(IntTensor[NumPy].from_data([1, 0]), Tensor[NumPy].from_data([[0.0, 1.0], [2.0, 3.0]])).tolist()
    [[2.0, 3.0], [0.0, 1.0]]
    """
    (weight,) = floats("embedding", 1, weight=weight)
    exact_dims("embedding", "weight", weight.shape, 2, "(count, size)")
    count = weight.shape[0]
    indices = index_of(weight, index, "embedding")
    weight = together("embedding", weight, index)[0]
    device: Any = weight.device
    rows = in_range(device, indices, count, False, "embedding()", 0, weight.shape)
    return weight._like(device.embedding(weight._primitive, rows, padding_row(count, padding_idx)))


def padding_row(count: int, padding_idx: int | None) -> int | None:
    """Return ``padding_idx`` as a non-negative row index, or None.

    Raises:
        ArgumentError: it is out of range.
    """
    if padding_idx is None:
        return None
    if not -count <= padding_idx < count:
        raise ArgumentError(f"embedding() got padding_idx={padding_idx} for {count} rows")
    return padding_idx % count
