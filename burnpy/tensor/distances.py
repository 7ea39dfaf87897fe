"""Norms, distances and similarities of vectors.

Where two vectors are equal, the gradient of their distance is 0, at every order.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, Self

from burnpy.backend.dtypes import dtype_of, int64
from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.backend.primitives import Float, Int
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import DimsLike, dim_of, dims_of, scalar_dim
from burnpy.tensor.linalg import alike, at_least_float32, expanded, floating
from burnpy.tensor.operand_checks import broadcast_shape, number
from burnpy.tensor.reduction import FloatReductions
from burnpy.tensor.tensor import ComplexTensor, Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B

__all__ = ["cdist", "cosine_similarity", "pairwise_distance", "pdist"]


@explained
def cdist(x1: Tensor[B], x2: Tensor[B], p: float = 2.0) -> Tensor[B]:
    """Return the distance of each row of x1 to each row of x2, in the p-norm.

    It is computed from the differences: exact for rows that are close, in memory for (…, n, m, k) elements.

    Args:
        x1: shape (…, n, k).
        x2: shape (…, m, k); the other dimensions broadcast.
        p: from 0 (the number of elements that differ) to inf (the largest difference).

    Returns:
        Shape (…, n, m).

    Raises:
        ShapeError: the shapes do not match.

    >>> x = Tensor[NumPy].from_data([[0.0, 0.0], [3.0, 4.0]])
    >>> cdist(x, x).tolist()
    [[0.0, 5.0], [5.0, 0.0]]
    """
    x1, x2 = alike("cdist", x1, x2, take=floating)
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(f"cdist() takes shapes (…, n, k) and (…, m, k), got {x1.shape} and {x2.shape}")
    x1, x2 = expanded("cdist", x1, x2)
    if p in (1, 2, math.inf) and not isinstance(p, bool):
        return x1._like(x1._backend.cdist(x1._primitive, x2._primitive, float(p)))
    return _distance("cdist", x1.unsqueeze(-2) - x2.unsqueeze(-3), p)  # type: ignore[no-any-return]  # a Tensor


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

    >>> pdist(Tensor[NumPy].from_data([[0.0], [1.0], [4.0]])).tolist()
    [1.0, 4.0, 3.0]
    """
    x = floating("pdist", x, "rows")
    if x.ndim != 2:
        raise ShapeError(f"pdist() takes shape (n, k), got shape {x.shape}")
    b: Any = x._backend
    n, (rows, others) = x.shape[0], _pairs(b.discrete, x.shape[0])
    if p in (1, 2, math.inf) and not isinstance(p, bool):
        places = b.discrete.add(b.discrete.mul(rows, n), others)
        return x._like(b.index_select(b.reshape(b.cdist(x._primitive, x._primitive, float(p)), (n * n,)), 0, places))
    first, second = (b.index_select(x._primitive, 0, each) for each in (rows, others))
    return _distance("pdist", x._like(b.sub(first, second)), p)  # type: ignore[no-any-return]  # a Tensor


@explained
def pairwise_distance(
    x1: Tensor[B] | ComplexTensor[B],
    x2: Tensor[B] | ComplexTensor[B],
    p: float = 2.0,
    eps: float = 1e-6,
    keepdim: bool = False,
) -> Tensor[B]:
    """Return the p-norm of x1 - x2 + eps over the last dimension; shapes broadcast, and p may be negative.

    Vectors may be complex, both.

    Raises:
        ShapeError: the shapes do not broadcast, both are 0-d, or p is negative and there are no elements.

    >>> x = Tensor[NumPy].from_data([[3.0, 4.0]])
    >>> pairwise_distance(x, x * 0.0, eps=0.0).tolist()
    [5.0]
    """
    x, y = alike("pairwise_distance", x1, x2)
    if not broadcast_shape(x.shape, y.shape):
        raise ShapeError(
            f"pairwise_distance() got shapes {x.shape} and {y.shape}, which must broadcast to one dimension or more"
        )
    difference = x - y + eps
    if difference.kind == "complex":
        if p == 2:
            return difference.norm(2.0, -1, keepdim)  # type: ignore[no-any-return]  # a Tensor
        difference = difference.abs()
    return vector_norm("pairwise_distance", difference, p, -1, keepdim)  # type: ignore[no-any-return]  # a Tensor


@explained
def cosine_similarity(x1: Tensor[B], x2: Tensor[B], dim: int = 1, eps: float = 1e-8) -> Tensor[B]:
    """Return the cosine of the angle of vectors along ``dim``: their product over both norms, which are eps at least.

    16-bit floats are computed in float32.

    Args:
        x1: any shape.
        x2: a shape that broadcasts with it.
        dim: the dimension, of the broadcast shape.
        eps: the least norm.

    Raises:
        ShapeError: the shapes do not broadcast.
        DimError: there is no such dimension.

    >>> x = Tensor[NumPy].from_data([[1.0, 0.0], [0.0, 2.0]])
    >>> cosine_similarity(x, Tensor[NumPy].from_data([[0.0, 1.0], [0.0, 3.0]])).tolist()
    [0.0, 1.0]
    """
    x1, x2 = alike("cosine_similarity", x1, x2, take=floating)
    shape = broadcast_shape(x1.shape, x2.shape)
    if shape is None:
        raise ShapeError(f"cosine_similarity() got shapes {x1.shape} and {x2.shape}, which do not broadcast")
    if not shape:
        scalar_dim(dim, "cosine_similarity")
        x1, x2, shape, dim = x1.reshape(1), x2.reshape(1), (1,), 0
    place, least = dim_of(dim, len(shape), "cosine_similarity"), float(number(x1, eps, "cosine_similarity"))
    sides: list[Any] = []  # each of the vectors' length, not broadcast further
    for x in (x1, x2):
        x = at_least_float32(x if x.ndim == len(shape) else x.reshape((1,) * (len(shape) - x.ndim) + x.shape))
        if x.shape[place] != shape[place]:
            x = x.expand(*x.shape[:place], shape[place], *x.shape[place + 1 :])
        sides.append(x)
    norms = [vector_norm("cosine_similarity", x, 2.0, place, True) for x in sides]
    (terms,) = x1._backend.fused(_product_of_units, [x._primitive for x in (*sides, *norms)], (least,))
    return sides[0]._like(terms).sum(place).to_dtype(x1.dtype)  # type: ignore[no-any-return]  # a Tensor


def _product_of_units(b: Any, x: Float, y: Float, x_norm: Float, y_norm: Float, least: Any) -> tuple[Float]:
    return (b.mul(b.div(x, b.clamp_min(x_norm, least)), b.div(y, b.clamp_min(y_norm, least))),)


def vector_norm(operation: str, x: Any, p: Any, dim: DimsLike, keepdim: bool) -> Any:
    """Return the p-norm over ``dim``, for p of any sign; 0 of no elements.

    Raises:
        ArgumentError: p is not a number.
        ShapeError: p is negative, and there are no elements.
    """
    if isinstance(p, bool) or not isinstance(p, (int, float)) or p != p:
        raise ArgumentError(f"{operation}(): p must be a number, got {describe(p)}")
    dims = dims_of(dim, x.ndim, operation)
    if p < 0 and any(x.shape[d] == 0 for d in dims):
        raise ShapeError(f"{operation}(): the norm of no elements, of shape {x.shape}, is undefined for p={p!r}")
    return x._like(x._backend.vector_norm(x._primitive, float(number(x, p, operation)), dims, keepdim))


def _pairs(d: Any, n: int) -> tuple[Int, Int]:
    """Return the first and the second row of each pair of n rows, computed on the device from the pair's number."""
    rows = d.arange(0, n, 1, int64)
    starts = d.floor_divide(d.mul(rows, d.add(d.neg(rows), 2 * n - 1)), 2)  # the number of each row's first pair
    pairs = d.arange(0, n * (n - 1) // 2, 1, int64)
    first = d.sub(d.searchsorted(starts, pairs, True), 1)
    return first, d.add(d.sub(pairs, d.index_select(starts, 0, first)), d.add(first, 1))


def _distance(operation: str, differences: Any, p: Any) -> Any:
    """Return the p-norm over the last dimension; 0 of no elements."""
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not p >= 0:
        raise ArgumentError(f"{operation}() got p={describe(p)}; expected a number of at least 0")
    return vector_norm(operation, differences, p, -1, False)


def renormed(x: Any, p: Any, dim: Any, maxnorm: Any) -> Any:
    """Return the primitive of x with slices along ``dim`` scaled down to a p-norm: see `Tensor.renorm`."""
    is_complex, dtype, x = x.kind == "complex", x.dtype, at_least_float32(x)
    sizes = x.abs() if is_complex else x
    order, limit = float(number(sizes, p, "renorm")), float(number(sizes, maxnorm, "renorm"))
    if not order > 0 or not limit >= 0:
        raise ArgumentError(f"renorm() got p={p!r:.80}, maxnorm={maxnorm!r:.80}; give p above 0 and a norm from 0")
    place = dim_of(dim, x.ndim, "renorm")
    b = x._backend
    norms = b.vector_norm(sizes._primitive, order, tuple([d for d in range(x.ndim) if d != place]), True)
    factors = b.where(b.gt(norms, limit), b.mul(b.reciprocal(b.add(norms, 1e-7)), limit), 1.0)
    out = b.mul(x._primitive, b.complex(factors, b.mul(factors, 0.0)) if is_complex else factors)
    return out if out.dtype == dtype else b.cast(out, dtype)


class Norms(FloatReductions[B]):
    """Norms of vectors, slices and differences."""

    __slots__ = ()

    def norm(
        self, p: float | str | None = "fro", dim: DimsLike = None, keepdim: bool = False, dtype: Any = None
    ) -> Self:
        """Return the p-norm over ``dim``, (Σ |x|ᵖ)^(1/p), of the elements as one vector, without overflow or underflow.

        Its gradient is 0 where it is 0, at every order.

        Args:
            p: the exponent; ∞ for the largest magnitude, -∞ for the smallest, 0 for the number of elements that are not
                0; "fro" is 2.
            dim: an int, several ints, or None for all dimensions.
            keepdim: whether reduced dimensions stay, with size 1.
            dtype: a float dtype that x is cast to first.

        Raises:
            ArgumentError: p is "nuc", the nuclear norm, or another word.
            ShapeError: there are no elements, and p is ∞ or negative.

        >>> x = Tensor[NumPy].from_data([[3.0, -4.0], [0.0, 1.0]])
        >>> x.norm(dim=1).tolist(), x.norm(float("inf")).item()
        ([5.0, 1.0], 4.0)
        """
        order = 2.0 if p is None or p == "fro" else p
        if not isinstance(order, (int, float, Real)) or isinstance(order, bool) or order != order:
            raise ArgumentError(f"norm() got p={describe(p)}; expected a number or 'fro', of one vector")
        x: Self = self if dtype is None else self.to_dtype(dtype_of(dtype, "float"))  # type: ignore[attr-defined]  # FloatConversion's
        dims = dims_of(dim, self.ndim, "norm")
        if order < 0 or order == math.inf:
            self._need_elements(dims, "norm")
        return x._like(x._backend.vector_norm(x._primitive, float(number(x, order, "norm")), dims, keepdim))

    def renorm(self, p: float, dim: int, maxnorm: float) -> Self:
        """Return the slices along ``dim``, those whose p-norm is above ``maxnorm`` scaled down to it.

        The factor is maxnorm / (norm + 1e-7), as in PyTorch. 16-bit floats are computed in float32.

        Raises:
            ArgumentError: p is not above 0, or ``maxnorm`` is negative.

        >>> x = Tensor[NumPy].from_data([[3.0, 4.0], [0.5, 0.0]])
        >>> x.renorm(2.0, 0, 1.0).round(decimals=4).tolist()
        [[0.6000000238418579, 0.800000011920929], [0.5, 0.0]]
        """
        return self._like(renormed(self, p, dim, maxnorm))

    def dist(self, other: Self, p: float = 2.0) -> Self:
        """Return the p-norm of ``x - other``, 0-d; shapes broadcast. Its gradient where they are equal is 0.

        >>> Tensor[NumPy].from_data([3.0, 0.0]).dist(Tensor[NumPy].from_data([0.0, 4.0])).item()
        5.0
        """
        difference: Any = self.sub(other)  # type: ignore[attr-defined]  # Arithmetic's
        return difference.norm(p)  # type: ignore[no-any-return]  # of that class
