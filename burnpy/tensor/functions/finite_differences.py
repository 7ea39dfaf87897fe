"""Numerical derivatives: the gradient of sampled values by differences of neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.backend.primitives import Dims
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dims import ALL, DimsLike, distinct, integer
from burnpy.tensor.operands import need_floats, number, operands
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B


@explained
def gradient(
    x: Tensor[B],
    *,
    spacing: float | Sequence[float] | Sequence[Tensor[B]] = 1.0,
    dim: DimsLike = None,
    edge_order: int = 1,
) -> tuple[Tensor[B], ...]:
    """Estimate the derivative of a function along each dimension from its values on a grid, by central differences.

    Inside, the error is of second order in the spacing, also where the points are not evenly spaced. This is not the
    gradient of a computation, which is ``loss.backward()``; the estimate itself is differentiable.

    Args:
        x: the values.
        spacing: the distance of neighbours, one number for all dimensions or a sequence of one for each; or a sequence
            of vectors with the coordinates of the points along each.
        dim: the dimensions along which to derive, in the order of the results; None for all.
        edge_order: 1 for differences of first order at both ends, 2 for second order.

    Returns:
        A tensor of x's shape for each dimension.

    Raises:
        ShapeError: a dimension has fewer than ``edge_order + 1`` elements, or coordinates have another number.
        ArgumentError: ``edge_order`` is neither 1 nor 2, or ``spacing`` is not one of these.

    Source: Fornberg, Generation of Finite Difference Formulas on Arbitrarily Spaced Grids, 1988.

    >>> from burnpy import gradient
    >>> x = Tensor[NumPy].from_data([0.0, 1.0, 4.0, 9.0])
    >>> gradient(x)[0].tolist(), gradient(x, edge_order=2)[0].tolist()
    ([1.0, 2.0, 4.0, 5.0], [0.0, 2.0, 4.0, 6.0])
    """
    need_floats("gradient", x)
    order = integer(edge_order, "edge_order", "gradient")
    if order not in (1, 2):
        raise ArgumentError(f"gradient() got edge_order={order}; expected 1 or 2")
    dims: Dims = ALL[x.ndim] if dim is None else distinct((dim,) if isinstance(dim, int) else dim, x.ndim, "gradient")
    for d in dims:
        if x.shape[d] <= order:
            raise ShapeError(
                f"gradient() got shape {x.shape}, of size {x.shape[d]} along dim {d}; edge_order={order} needs "
                f"{order + 1} or more"
            )
    spaces = _spaces(x, spacing, dims)
    return tuple([_along(x, d, space, order) for d, space in zip(dims, spaces, strict=True)])


def _spaces(x: Any, spacing: Any, dims: Dims) -> list[Any]:
    """Return for each dim the distance of neighbours: a number, or a vector.

    Raises:
        ArgumentError: there are not as many as dims, or one is 0.
        ShapeError: coordinates are not a vector of the size of x along the dim.
    """
    if isinstance(spacing, TensorBase) or (isinstance(spacing, (list, tuple)) and len(spacing) != len(dims)):
        raise ArgumentError(
            f"gradient() got spacing={describe(spacing)} along dims {dims}; give a number, or a sequence of one number "
            "or vector for each"
        )
    spaces: list[Any] = []
    for d, space in zip(dims, spacing if isinstance(spacing, (list, tuple)) else [spacing] * len(dims), strict=True):
        if not isinstance(space, TensorBase):
            spaces.append(float(number(x, space, "gradient")))
            continue
        operands(x, space, "gradient")  # raises an error if they cannot be combined
        if space.shape != (x.shape[d],):
            raise ShapeError(
                f"gradient() got coordinates of shape {space.shape} along dim {d} of shape {x.shape}; expected "
                f"({x.shape[d]},)"
            )
        coordinates: Any = space
        spaces.append(coordinates.diff())
    return spaces


def _along(x: Any, dim: int, space: Any, order: int) -> Any:
    """Return the derivative along one dimension; ``space`` is a number or the distances of neighbours.

    All formulas are means of the slopes between neighbours.
    """
    size, even = x.shape[dim], isinstance(space, float)
    rises = x.narrow(dim, 1, size - 1) - x.narrow(dim, 0, size - 1)
    slopes = rises / (space if even else _across(space, x, dim))

    def slope(place: int) -> Any:
        return slopes.narrow(dim, place, 1)

    first, last = slope(0), slope(size - 2)
    if size == 2:
        return x._like(x._backend.cat([first._primitive, last._primitive], dim))
    if order == 2:
        first = first + (first - slope(1)) * (0.5 if even else space[0] / (space[0] + space[1]))
        last = last + (last - slope(size - 3)) * (0.5 if even else space[-1] / (space[-1] + space[-2]))
    before, after = slopes.narrow(dim, 0, size - 2), slopes.narrow(dim, 1, size - 2)
    if even:
        inner = (before + after) * 0.5
    else:
        left, right = _across(space[:-1], x, dim), _across(space[1:], x, dim)
        inner = (before * right + after * left) / (left + right)
    return x._like(x._backend.cat([each._primitive for each in (first, inner, last)], dim))


def _across(space: Any, x: Any, dim: int) -> Any:
    """Return distances as a tensor that broadcasts along a dimension of x."""
    return space.reshape(-1, *(1,) * (x.ndim - dim - 1))
