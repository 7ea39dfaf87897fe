"""Products of arrays, which are in the namespace itself and in its extension ``linalg``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnpy.array_api.arguments import NUMERIC, array, arrays
from burnpy.array_api.rewording import standard
from burnpy.backend.errors import ShapeError
from burnpy.tensor import einsum


@standard
def matmul(x1: Any, x2: Any, /) -> Any:
    """Return the matrix product."""
    first, second = arrays(array(x1), array(x2), kinds=NUMERIC)
    return first @ second


@standard
def matrix_transpose(x: Any, /) -> Any:
    """Transpose the matrices of the last two axes."""
    return array(x).mT


@standard
def tensordot(x1: Any, x2: Any, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Any:
    """Return the sum of products over some axes: the last of ``x1`` and first of ``x2``, or pairs of axes."""
    first, second = arrays(array(x1), array(x2), kinds=NUMERIC)
    return einsum.tensordot(first, second, axes)


@standard
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the sum of products along an axis; the other axes broadcast."""
    first, second = arrays(array(x1), array(x2), kinds=NUMERIC)
    if not -min(first.ndim, second.ndim) <= axis < 0 or first.shape[axis] != second.shape[axis]:
        raise ShapeError(
            f"array() got axis={axis} of shapes {first.shape} and {second.shape}; "
            "expected a negative axis, of the same size in both"
        )
    first, second = first.movedim(axis, -1), second.movedim(axis, -1)
    return (first.unsqueeze(-2) @ second.unsqueeze(-1)).squeeze((-2, -1))
