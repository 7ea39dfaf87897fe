"""Functions that combine all elements of several vectors: grids and Cartesian products."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, overload

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.tensor.base import describe
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dims import addressable
from burnpy.tensor.joining import with_common_dtype
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.bool_tensor import BoolTensor
    from burnpy.tensor.int_tensor import IntTensor
    from burnpy.tensor.tensor import Tensor

__all__ = ["cartesian_prod", "meshgrid"]


@overload
def meshgrid(*tensors: Tensor[B], indexing: Literal["ij", "xy"] = "ij") -> tuple[Tensor[B], ...]: ...
@overload
def meshgrid(*tensors: IntTensor[B], indexing: Literal["ij", "xy"] = "ij") -> tuple[IntTensor[B], ...]: ...
@overload
def meshgrid(*tensors: BoolTensor[B], indexing: Literal["ij", "xy"] = "ij") -> tuple[BoolTensor[B], ...]: ...
@explained
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Any, ...]:
    """The coordinates of a grid: each vector expanded to the shape of all their sizes.

    Args:
        tensors: vectors, or 0-d tensors, which are treated as such, of one kind and device; dtypes promote.
        indexing: ``"ij"``: dimension k belongs to vector k; ``"xy"``: the first two dimensions are swapped, as for
            images and plots, and as is NumPy's default.

    Raises:
        ShapeError: a tensor has more dimensions.
        ArgumentError: there are no tensors, or ``indexing`` is something else.

    >>> from burnpy import IntTensor, meshgrid
    >>> from burnpy.backend import NumPy
    >>> rows, columns = meshgrid(IntTensor[NumPy].from_data([1, 2]), IntTensor[NumPy].from_data([3, 4, 5]))
    >>> rows.tolist(), columns.tolist()
    ([[1, 1, 1], [2, 2, 2]], [[3, 4, 5], [3, 4, 5]])
    """
    if indexing not in ("ij", "xy"):
        raise ArgumentError(f"meshgrid() got indexing={describe(indexing)}; expected 'ij' or 'xy'")
    first, values = _vectors("meshgrid", tensors)
    b: Any = first._backend
    count = len(values)
    order = [1, 0, *range(2, count)] if indexing == "xy" and count > 1 else [*range(count)]
    shape = addressable(tuple([values[k].shape[0] for k in order]), "meshgrid")
    grids = []
    for k, value in enumerate(values):
        place = order.index(k)
        raised = b.reshape(value, (1,) * place + value.shape + (1,) * (count - place - 1))
        grids.append(first._like(b.expand(raised, shape)))
    return tuple(grids)


@overload
def cartesian_prod(*tensors: Tensor[B]) -> Tensor[B]: ...
@overload
def cartesian_prod(*tensors: IntTensor[B]) -> IntTensor[B]: ...
@overload
def cartesian_prod(*tensors: BoolTensor[B]) -> BoolTensor[B]: ...
@explained
def cartesian_prod(*tensors: Any) -> Any:
    """All combinations of the elements of vectors, a row each, in the order of ``itertools.product``.

    A single vector is returned as it is.

    Raises:
        ShapeError: a tensor has more than one dimension.
        ArgumentError: there are no tensors.

    >>> from burnpy import IntTensor, cartesian_prod
    >>> from burnpy.backend import NumPy
    >>> cartesian_prod(IntTensor[NumPy].from_data([1, 2]), IntTensor[NumPy].from_data([3, 4])).tolist()
    [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    first, values = _vectors("cartesian_prod", tensors)
    if len(values) == 1:
        return first._like(values[0])
    b: Any = first._backend
    grids = [grid._primitive for grid in meshgrid(*[first._like(value) for value in values])]
    shape = (*grids[0].shape, 1)
    joined = b.cat([b.reshape(grid, shape) for grid in grids], len(values))
    return first._like(b.reshape(joined, (math.prod(grids[0].shape), len(values))))


def _vectors(operation: str, tensors: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    """Return the first tensor, and the primitives of all as vectors of a common dtype.

    Raises:
        ShapeError: a tensor has more than one dimension.
    """
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    first, values = with_common_dtype(operation, tensors)
    for k, value in enumerate(values):
        if len(value.shape) > 1:
            raise ShapeError(f"{operation}() got shape {value.shape} as number {k + 1}; expected vectors")
    b: Any = first._backend
    return first, [value if value.shape else b.reshape(value, (1,)) for value in values]
