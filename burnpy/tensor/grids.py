"""Grids, products and combinations of the elements of vectors, and their powers."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import addressable, integer
from burnpy.tensor.joining import with_common_dtype
from burnpy.tensor.tensor_base import TensorBase, X, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import BoolTensor, ComplexTensor, IntTensor, Tensor


@overload
def meshgrid(*tensors: Tensor[B], indexing: Literal["ij", "xy"] = "ij") -> tuple[Tensor[B], ...]: ...
@overload
def meshgrid(*tensors: ComplexTensor[B], indexing: Literal["ij", "xy"] = "ij") -> tuple[ComplexTensor[B], ...]: ...
@overload
def meshgrid(*tensors: IntTensor[B], indexing: Literal["ij", "xy"] = "ij") -> tuple[IntTensor[B], ...]: ...
@overload
def meshgrid(*tensors: BoolTensor[B], indexing: Literal["ij", "xy"] = "ij") -> tuple[BoolTensor[B], ...]: ...
@explained
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Any, ...]:
    """Return the coordinates of a grid: each vector expanded to the shape of all their sizes.

    Args:
        tensors: vectors, or 0-d tensors, which are treated as such, of one kind and device; dtypes promote.
        indexing: ``"ij"``: dimension k belongs to vector k; ``"xy"``: the first two dimensions are swapped, as for
            images and plots, and as is NumPy's default.

    Raises:
        ShapeError: a tensor has more dimensions.
        ArgumentError: there are no tensors, or ``indexing`` is something else.

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
def cartesian_prod(*tensors: ComplexTensor[B]) -> ComplexTensor[B]: ...
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


@explained
def combinations(x: X, r: int = 2, with_replacement: bool = False) -> X:
    """All combinations of ``r`` elements of a vector, a row each, in the order of ``itertools.combinations``.

    Args:
        x: a vector of any kind.
        r: the number of elements of a combination; of 0 the result is empty, of shape (0,).
        with_replacement: whether an element may be repeated, as by ``itertools.combinations_with_replacement``.

    Raises:
        ShapeError: x is not a vector.
        ArgumentError: r is negative.

    >>> combinations(IntTensor[NumPy].from_data([1, 2, 3])).tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    given: Any = x
    if not isinstance(given, TensorBase) or given.ndim != 1:
        raise ShapeError(f"combinations() takes a vector, got {describe(given)}")
    count = integer(r, "number of elements", "combinations")
    if count < 0:
        raise ArgumentError(f"combinations() got r={count}; give 0 or more")
    every = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.fromiter(itertools.chain.from_iterable(every(range(x.shape[0]), count)), np.int64)
    b: Any = x._backend
    chosen = b.index_select(x._primitive, 0, x._device.discrete.from_numpy(places))
    return x._like(b.reshape(chosen, (places.size // count, count)) if count else chosen)


@overload
def vander(x: Tensor[B], N: int | None = None, increasing: bool = False) -> Tensor[B]: ...  # noqa: N803  # PyTorch's name
@overload
def vander(x: ComplexTensor[B], N: int | None = None, increasing: bool = False) -> ComplexTensor[B]: ...  # noqa: N803  # as above
@overload
def vander(x: IntTensor[B], N: int | None = None, increasing: bool = False) -> IntTensor[B]: ...  # noqa: N803  # as above
@explained
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:  # noqa: N803  # as above
    """Return the Vandermonde matrix of a vector: column j has the powers of its elements with exponent N - 1 - j.

    Args:
        x: a vector of n floats or ints; of ints the matrix is int64.
        N: the number of columns; None for n.
        increasing: whether the exponents ascend, as in `linalg.vander`.

    Raises:
        ShapeError: x is not a vector.
        ArgumentError: N is negative.

    >>> vander(Tensor[NumPy].from_data([2.0, 3.0]), 3).tolist()
    [[4.0, 2.0, 1.0], [9.0, 3.0, 1.0]]
    """
    if not isinstance(x, TensorBase) or x.kind == "bool":
        raise KindError(f"vander() takes a vector of floats or ints, got {describe(x)}")
    if x.ndim != 1:
        raise ShapeError(f"vander() takes a vector, got shape {x.shape}")
    powers = ascending_powers(x, N)
    return powers if increasing else powers.flip(1)


def ascending_powers(x: Any, count: int | None) -> Any:
    """Return the powers of each element with exponents from 0 to ``count - 1``, along a new last dimension."""
    columns = x.shape[-1] if count is None else integer(count, "number of columns N", "vander")
    if columns < 0:
        raise ArgumentError(f"vander() got N={columns} columns; give 0 or more")
    b: Any = x._backend
    raised = b.expand(b.reshape(x._primitive, (*x.shape, 1)), (*x.shape, max(columns - 1, 0)))
    factors = b.cat([b.full((*x.shape, min(columns, 1)), 1, x.dtype), raised], x.ndim)
    return x._like(b.cumprod(factors, x.ndim))


def _vectors(operation: str, tensors: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    """Return the first tensor, and the primitives of all as vectors of a common dtype."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    first, values = with_common_dtype(operation, tensors)
    for k, value in enumerate(values):
        if len(value.shape) > 1:
            raise ShapeError(f"{operation}() got shape {value.shape} as number {k + 1}; expected vectors")
    b: Any = first._backend
    return first, [value if value.shape else b.reshape(value, (1,)) for value in values]
