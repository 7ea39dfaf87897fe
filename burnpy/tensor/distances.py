"""Distances and similarities of vectors. Where two are equal, the gradient of their distance is 0, at every order."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from burnpy.backend.backend import Backend
from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.tensor.base import describe
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dims import dim_of
from burnpy.tensor.int_tensor import IntTensor
from burnpy.tensor.matrices import alike, expanded, floating
from burnpy.tensor.operands import broadcast_shape
from burnpy.tensor.tensor import Tensor

__all__ = ["cdist", "cosine_similarity", "pairwise_distance", "pdist"]

B = TypeVar("B", bound=Backend)


@explained
def cdist(x1: Tensor[B], x2: Tensor[B], p: float = 2.0) -> Tensor[B]:
    """The distance of each row of x1 to each row of x2, in the p-norm.

    It is computed from the differences, which are exact for rows that are close, and take the memory of (…, n, m, k).

    Args:
        x1: shape (…, n, k).
        x2: shape (…, m, k); the other dimensions broadcast.
        p: from 0 (the number of elements that differ) to inf (the largest difference).

    Returns:
        Shape (…, n, m).

    Raises:
        ShapeError: the shapes do not match.

    >>> from burnpy import Tensor, cdist
    >>> from burnpy.backend import NumPy
    >>> x = Tensor[NumPy].from_data([[0.0, 0.0], [3.0, 4.0]])
    >>> cdist(x, x).tolist()
    [[0.0, 5.0], [5.0, 0.0]]
    """
    x1, x2 = alike("cdist", x1, x2)
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(f"cdist() takes shapes (…, n, k) and (…, m, k), got {x1.shape} and {x2.shape}")
    x1, x2 = expanded("cdist", x1, x2)
    if p in (1, 2) and not isinstance(p, bool):
        return x1._like(x1._backend.cdist(x1._primitive, x2._primitive, float(p)))
    return _norm("cdist", x1.unsqueeze(-2) - x2.unsqueeze(-3), p)  # type: ignore[no-any-return]  # a Tensor


@explained
def pdist(x: Tensor[B], p: float = 2.0) -> Tensor[B]:
    """Compute the distances between all pairs of rows, in the p-norm. Each pair is listed once.

    Args:
        x: shape (n, k).
        p: see `cdist`.

    Returns:
        Shape (n · (n - 1) / 2,): for rows 0 and 1, 0 and 2, … 1 and 2 ….

    Raises:
        ShapeError: x is not a matrix.

    >>> from burnpy import Tensor, pdist
    >>> from burnpy.backend import NumPy
    >>> pdist(Tensor[NumPy].from_data([[0.0], [1.0], [4.0]])).tolist()
    [1.0, 4.0, 3.0]
    """
    x = floating("pdist", x, "rows")
    if x.ndim != 2:
        raise ShapeError(f"pdist() takes shape (n, k), got shape {x.shape}")
    first, second = (IntTensor.from_data(rows, device=x.device) for rows in np.triu_indices(x.shape[0], 1))
    return _norm("pdist", x.index_select(0, first) - x.index_select(0, second), p)  # type: ignore[no-any-return]  # a Tensor


@explained
def pairwise_distance(
    x1: Tensor[B], x2: Tensor[B], p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor[B]:
    """The p-norm of x1 - x2 + eps over the last dimension; shapes broadcast.

    Raises:
        ShapeError: the shapes do not broadcast, or both are 0-d.

    >>> from burnpy import Tensor, pairwise_distance
    >>> from burnpy.backend import NumPy
    >>> x = Tensor[NumPy].from_data([[3.0, 4.0]])
    >>> pairwise_distance(x, x * 0.0, eps=0.0).tolist()
    [5.0]
    """
    x1, x2 = alike("pairwise_distance", x1, x2)
    shape = broadcast_shape(x1.shape, x2.shape)
    if not shape:
        raise ShapeError(
            f"pairwise_distance() got shapes {x1.shape} and {x2.shape}, which must broadcast to one dimension or more"
        )
    return _norm("pairwise_distance", x1 - x2 + eps, p, keepdim)  # type: ignore[no-any-return]  # a Tensor


@explained
def cosine_similarity(x1: Tensor[B], x2: Tensor[B], dim: int = 1, eps: float = 1e-8) -> Tensor[B]:
    """The cosine of the angle of vectors along ``dim``: their product over both norms, which are eps at least.

    Args:
        x1: any shape.
        x2: a shape that broadcasts with it.
        dim: the dimension, of the broadcast shape.
        eps: the least norm.

    Raises:
        ShapeError: the shapes do not broadcast.
        DimError: there is no such dimension.

    >>> from burnpy import Tensor, cosine_similarity
    >>> from burnpy.backend import NumPy
    >>> x = Tensor[NumPy].from_data([[1.0, 0.0], [0.0, 2.0]])
    >>> cosine_similarity(x, Tensor[NumPy].from_data([[0.0, 1.0], [0.0, 3.0]])).tolist()
    [0.0, 1.0]
    """
    x1, x2 = alike("cosine_similarity", x1, x2)
    shape = broadcast_shape(x1.shape, x2.shape)
    if shape is None:
        raise ShapeError(f"cosine_similarity() got shapes {x1.shape} and {x2.shape}, which do not broadcast")
    place = dim_of(dim, len(shape), "cosine_similarity")
    x1, x2 = (x if x.shape == shape else x.expand(shape) for x in (x1, x2))
    b: Any = x1._backend

    def unit(x: Any) -> Any:
        return x / x._like(b.vector_norm(x._primitive, 2.0, (place,), True)).clamp_min(eps)

    return (unit(x1) * unit(x2)).sum(place)  # type: ignore[no-any-return]  # a Tensor


def _norm(operation: str, differences: Any, p: Any, keepdim: bool = False) -> Any:
    """Return the p-norm over the last dimension; 0 of no elements.

    Raises:
        ArgumentError: p is no number from 0 up.
    """
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not p >= 0:
        raise ArgumentError(f"{operation}() got p={describe(p)}; expected a number of at least 0")
    x = differences
    last = (x.ndim - 1,)
    return x._like(x._backend.vector_norm(x._primitive, float(p), last, keepdim))
