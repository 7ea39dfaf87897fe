"""Differences, gradients and integrals of functions that are given by samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self, overload

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.backend.operations.shape import part
from burnpy.backend.primitives import Dims
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import ALL, DimsLike, dim_of, distinct, integer, integers
from burnpy.tensor.joining import cat
from burnpy.tensor.operand_checks import broadcast_shape, need_floats, number, operands, together
from burnpy.tensor.tensor import ComplexTensor, IntTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B


class Differences(TensorBase[B]):
    """Differences of neighbours."""

    __slots__ = ()

    def diff(self, n: int = 1, dim: int = -1, prepend: Self | None = None, append: Self | None = None) -> Self:
        """Return the differences of neighbours along ``dim``, taken ``n`` times; of bools, whether they differ.

        Args:
            n: how often.
            dim: the dimension along which each element is subtracted from the next one.
            prepend: a tensor of x's kind to put before x, of its shape but for ``dim``; unused if n is 0.
            append: a tensor to put after x, likewise.

        Raises:
            ArgumentError: n is negative.
            ShapeError: x is 0-d, or the shapes do not fit.

        >>> Tensor[NumPy].from_data([1.0, 4.0, 9.0, 16.0]).diff(2).tolist()
        [2.0, 2.0]
        """
        times = integer(n, "n", "diff")
        if times < 0:
            raise ArgumentError(f"diff() got n={times} differences; n can be 0 or more")
        if not self.ndim:
            raise ShapeError("diff() got a 0-d tensor, which has no neighbours; it needs at least 1 dimension")
        resolved = dim_of(dim, self.ndim, "diff")
        pieces: list[Any] = [each for each in (prepend, self, append) if each is not None]
        joined: Any = cat(pieces, resolved) if len(pieces) > 1 else self
        x = joined if times else self
        b, out = x._backend, x._primitive
        subtract = b.ne if self.kind == "bool" else b.sub
        for _ in range(min(times, out.shape[resolved])):
            size = out.shape[resolved]
            out = subtract(part(b, out, resolved, 1, size), part(b, out, resolved, 0, max(size - 1, 0)))
        return x._like(out)


@overload
def gradient(
    x: Tensor[B],
    *,
    spacing: float | Sequence[float] | Sequence[Tensor[B]] = 1.0,
    dim: DimsLike = None,
    edge_order: int = 1,
) -> tuple[Tensor[B], ...]: ...
@overload
def gradient(
    x: ComplexTensor[B],
    *,
    spacing: float | Sequence[float] | Sequence[Tensor[B] | ComplexTensor[B]] = 1.0,
    dim: DimsLike = None,
    edge_order: int = 1,
) -> tuple[ComplexTensor[B], ...]: ...
@explained
def gradient(x: Any, *, spacing: Any = 1.0, dim: DimsLike = None, edge_order: int = 1) -> Any:
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

    >>> x = Tensor[NumPy].from_data([0.0, 1.0, 4.0, 9.0])
    >>> gradient(x)[0].tolist(), gradient(x, edge_order=2)[0].tolist()
    ([1.0, 2.0, 4.0, 5.0], [0.0, 2.0, 4.0, 6.0])
    """
    need_floats("gradient", x, also_complex=True)
    order = integer(edge_order, "edge_order", "gradient")
    if order not in (1, 2):
        raise ArgumentError(f"gradient() got edge_order={order}; expected 1 or 2")
    dims: Dims = ALL[x.ndim] if dim is None else distinct(integers((dim,), "dim", "gradient"), x.ndim, "gradient")
    for d in dims:
        if x.shape[d] <= order:
            raise ShapeError(
                f"gradient() got shape {x.shape}, of size {x.shape[d]} along dim {d}; edge_order={order} needs "
                f"{order + 1} or more"
            )
    x, spaces = _spaces(x, spacing, dims)
    return tuple([_along(x, d, space, order) for d, space in zip(dims, spaces, strict=True)])


def _spaces(x: Any, spacing: Any, dims: Dims) -> tuple[Any, list[Any]]:
    """Return x on the level of all coordinates, and for each dim the distance of neighbours: a number, or a vector."""
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
        if isinstance(x, ComplexTensor) and isinstance(space, Tensor):
            space = space.complex()
        operands(x, space, "gradient")  # raises an error if they cannot be combined
        x, space = together("gradient", x, space)
        if space.shape != (x.shape[d],):
            raise ShapeError(
                f"gradient() got coordinates of shape {space.shape} along dim {d} of shape {x.shape}; expected "
                f"({x.shape[d]},)"
            )
        coordinates: Any = space
        spaces.append(coordinates.diff())
    return x, spaces


def _along(x: Any, dim: int, space: Any, order: int) -> Any:
    """Return the derivative along one dimension; ``space`` is a number or the distances of neighbours. All formulas are
    means of the slopes between neighbours."""
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


@overload
def trapezoid(
    y: Tensor[B] | IntTensor[B], x: Tensor[B] | IntTensor[B] | None = None, *, dx: float | None = None, dim: int = -1
) -> Tensor[B]: ...
@overload
def trapezoid(
    y: ComplexTensor[B],
    x: Tensor[B] | IntTensor[B] | ComplexTensor[B] | None = None,
    *,
    dx: float | None = None,
    dim: int = -1,
) -> ComplexTensor[B]: ...
@explained
def trapezoid(y: Any, x: Any = None, *, dx: float | None = None, dim: int = -1) -> Any:
    """Return the integral of samples ``y`` along ``dim``, by the trapezoidal rule; 0 for less than two samples.

    Args:
        y: the samples; ints are converted to float32, as those of x.
        x: where they were taken, of y's shape or 1-d; None if they are equally spaced.
        dx: their distance, by default 1; not with x.
        dim: the dimension to integrate along.

    Raises:
        ArgumentError: both x and dx are given.
        ShapeError: the shapes do not broadcast.

    >>> y, x = Tensor[NumPy].from_data([1.0, 2.0, 4.0]), Tensor[NumPy].from_data([0.0, 1.0, 3.0])
    >>> trapezoid(y).item(), trapezoid(y, x).item()
    (4.5, 7.5)
    """
    samples, widths, resolved = _samples("trapezoid", y, x, dx, dim)
    b, value = samples._backend, samples._primitive
    if value.shape[resolved] > 1 and (isinstance(widths, (int, float)) or len(widths.shape) == 1):
        return samples._like(_integral(b, value, resolved, widths))
    areas, along = _areas(b, value, resolved, widths)
    return samples._like(b.sum(areas, (along,), False))


@overload
def cumulative_trapezoid(
    y: Tensor[B] | IntTensor[B], x: Tensor[B] | IntTensor[B] | None = None, *, dx: float | None = None, dim: int = -1
) -> Tensor[B]: ...
@overload
def cumulative_trapezoid(
    y: ComplexTensor[B],
    x: Tensor[B] | IntTensor[B] | ComplexTensor[B] | None = None,
    *,
    dx: float | None = None,
    dim: int = -1,
) -> ComplexTensor[B]: ...
@explained
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: float | None = None, dim: int = -1) -> Any:
    """Return the integral of samples ``y`` up to each but the first, by the trapezoidal rule: see `trapezoid`.

    >>> cumulative_trapezoid(Tensor[NumPy].from_data([1.0, 2.0, 4.0])).tolist()
    [1.5, 4.5]
    """
    samples, widths, resolved = _samples("cumulative_trapezoid", y, x, dx, dim)
    areas, along = _areas(samples._backend, samples._primitive, resolved, widths)
    return samples._like(samples._backend.cumsum(areas, along))


_MANY_SAMPLES = 8192
"""The number of samples up to which they are summed by a product, whose error grows with it."""


def _samples(operation: str, y: Any, x: Any, dx: float | None, dim: int) -> tuple[Any, Any, int]:
    """Return y as floats, its dim, and the widths between neighbours: a number, 1-d, or broadcasting to y."""
    if x is not None and dx is not None:
        raise ArgumentError(f"{operation}() got x and dx={dx!r:.80}; give one of them")
    y = y.float() if isinstance(y, IntTensor) else y
    need_floats(operation, y, also_complex=True)
    if not y.ndim:
        raise ShapeError(f"{operation}() got a 0-d tensor; samples lie along a dimension")
    resolved = dim_of(dim, y.ndim, operation)
    if x is None:
        return y, number(y, 1.0 if dx is None else dx, operation), resolved
    x = x.float() if isinstance(x, IntTensor) else x
    need_floats(operation, x, also_complex=True)
    x = x.complex() if isinstance(y, ComplexTensor) else x
    vector = x.ndim == 1
    along = 0 if vector else x.ndim - y.ndim + resolved
    if along < 0 or not (vector or broadcast_shape(x.shape, y.shape)):
        raise ShapeError(f"{operation}() got shape {y.shape} with x of shape {x.shape}; they must broadcast")
    size = x.shape[along]
    if size != y.shape[resolved]:
        raise ShapeError(
            f"{operation}() got {y.shape[resolved]} samples along dim {resolved} of shape {y.shape}, taken at "
            f"{size} places"
        )
    samples, places = operands(y, x, operation)
    b = samples._backend
    value, places = b.promote(samples._primitive, places)
    widths = b.sub(part(b, places, along, 1, size), part(b, places, along, 0, max(size - 1, 0)))
    return samples._like(value), widths, resolved


def _integral(b: Any, value: Any, dim: int, width: Any) -> Any:
    """Return the sum of at least two samples times the width; the first and the last sample count half."""
    count, dtype = value.shape[dim], value.dtype
    if isinstance(width, (int, float)):
        end = b.full((1,), 0.5 * width, dtype)
        weights = b.cat([end, b.full((count - 2,), width, dtype), end], 0)
    else:
        nothing = b.full((1,), 0.0, dtype)
        weights = b.mul(b.add(b.cat([nothing, width], 0), b.cat([width, nothing], 0)), 0.5)
    outer, inner = math.prod(value.shape[:dim]), math.prod(value.shape[dim + 1 :])
    if count > _MANY_SAMPLES:
        weights = b.reshape(weights, (count, *(1,) * (len(value.shape) - dim - 1)))
        return b.sum(b.mul(value, weights), (dim,), False)
    others = (*value.shape[:dim], *value.shape[dim + 1 :])
    if inner == 1:
        return b.reshape(b.matmul(b.reshape(value, (outer, count)), weights), others)
    return b.reshape(b.matmul(weights, b.reshape(value, (outer, count, inner))), others)


def _areas(b: Any, value: Any, dim: int, widths: Any) -> tuple[Any, int]:
    """Return the means of neighbouring samples times the widths, and the dimension along which they lie."""
    size, at = value.shape[dim], len(value.shape) - dim
    total = b.add(part(b, value, dim, 1, size), part(b, value, dim, 0, max(size - 1, 0)))
    if isinstance(widths, (int, float)):
        return b.mul(total, 0.5 * widths), dim
    if len(widths.shape) == 1:
        widths = b.reshape(widths, (*widths.shape, *(1,) * (at - 1)))
    areas = b.mul(b.mul(total, widths), 0.5)
    return areas, len(areas.shape) - at
