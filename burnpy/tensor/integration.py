"""Integrals of samples by the trapezoidal rule."""

from __future__ import annotations

from typing import Any

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.backend.operations.scans import part
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dims import dim_of
from burnpy.tensor.int_tensor import IntTensor
from burnpy.tensor.operands import broadcast_shape, need_floats, number, operands
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B


@explained
def trapezoid(
    y: Tensor[B] | IntTensor[B], x: Tensor[B] | IntTensor[B] | None = None, *, dx: float | None = None, dim: int = -1
) -> Tensor[B]:
    """The integral of samples ``y`` along ``dim``, by the trapezoidal rule; 0 for less than two samples.

    Args:
        y: the samples; ints are taken as float32, as those of x.
        x: where they were taken, of y's shape or 1-d; None if they are equally spaced.
        dx: their distance, by default 1; not with x.
        dim: the dimension to integrate along.

    Raises:
        ArgumentError: both x and dx are given.
        ShapeError: the shapes do not broadcast.

    >>> from burnpy import Tensor, trapezoid
    >>> from burnpy.backend import NumPy
    >>> y, x = Tensor[NumPy].from_data([1.0, 2.0, 4.0]), Tensor[NumPy].from_data([0.0, 1.0, 3.0])
    >>> trapezoid(y).item(), trapezoid(y, x).item()
    (4.5, 7.5)
    """
    if x is None:
        samples, resolved, width = _equally_spaced("trapezoid", y, dx, dim)
        return samples._like(_integral(samples._backend, samples._primitive, resolved, width))
    samples, areas, resolved = _areas("trapezoid", y, x, dx, dim)
    return samples._like(samples._backend.sum(areas, (resolved,), False))


@explained
def cumulative_trapezoid(
    y: Tensor[B] | IntTensor[B], x: Tensor[B] | IntTensor[B] | None = None, *, dx: float | None = None, dim: int = -1
) -> Tensor[B]:
    """The integral of samples ``y`` up to each but the first, by the trapezoidal rule: see `trapezoid`.

    >>> from burnpy import Tensor, cumulative_trapezoid
    >>> from burnpy.backend import NumPy
    >>> cumulative_trapezoid(Tensor[NumPy].from_data([1.0, 2.0, 4.0])).tolist()
    [1.5, 4.5]
    """
    samples, areas, resolved = _areas("cumulative_trapezoid", y, x, dx, dim)
    return samples._like(samples._backend.cumsum(areas, resolved))


def _equally_spaced(operation: str, y: Any, dx: float | None, dim: int) -> tuple[Tensor[Any], int, Any]:
    """Return y as floats, the dim, and the width as a number."""
    y = y.float() if isinstance(y, IntTensor) else y
    need_floats(operation, y)
    if not y.ndim:
        raise ShapeError(f"{operation}() got a 0-d tensor; samples lie along a dimension")
    return y, dim_of(dim, y.ndim, operation), number(y, 1.0 if dx is None else dx, operation)


def _integral(b: Any, value: Any, dim: int, width: Any) -> Any:
    """Return the sum of the samples times the width; the first and the last sample count half."""
    last = value.shape[dim] - 1
    if last < 1:
        return b.mul(b.sum(part(b, value, dim, 0, 0), (dim,), False), width)
    ends = b.sum(b.add(part(b, value, dim, 0, 1), part(b, value, dim, last, last + 1)), (dim,), False)
    return b.mul(b.add(b.sum(part(b, value, dim, 1, last), (dim,), False), b.mul(ends, 0.5)), width)


def _areas(operation: str, y: Any, x: Any, dx: float | None, dim: int) -> tuple[Tensor[Any], Any, int]:
    """Return y as floats, the areas between its neighbours, and the dim."""
    if x is not None and dx is not None:
        raise ArgumentError(f"{operation}() got x and dx={dx!r:.80}; give one of them")
    y, resolved, width = _equally_spaced(operation, y, dx, dim)
    if x is None:
        return y, _halves(y, resolved, width), resolved
    x = x.float() if isinstance(x, IntTensor) else x
    need_floats(operation, x)
    if x.ndim == 1 and x.shape[0] != y.shape[resolved]:
        raise ShapeError(
            f"{operation}() got {y.shape[resolved]} samples along dim {resolved} of shape {y.shape}, taken at "
            f"{x.shape[0]} places"
        )
    y, places = operands(y, x, operation)
    b = y._backend
    at = y.ndim - resolved
    if x.ndim == 1:
        places = b.reshape(places, (x.shape[0], *(1,) * (at - 1)))
    along = len(places.shape) - at
    if along < 0 or broadcast_shape(places.shape, y.shape) is None:
        raise ShapeError(f"{operation}() got shape {y.shape} with x of shape {x.shape}; they must broadcast")
    size = places.shape[along]
    widths = b.sub(part(b, places, along, 1, size), part(b, places, along, 0, max(size - 1, 0)))
    areas = _halves(y, resolved, widths)
    return y, areas, len(areas.shape) - at


def _halves(y: Any, dim: int, width: Any) -> Any:
    """Return the means of neighbours along ``dim``, times the width."""
    b, value = y._backend, y._primitive
    size = value.shape[dim]
    total = b.add(part(b, value, dim, 1, size), part(b, value, dim, 0, max(size - 1, 0)))
    return b.mul(total, 0.5 * width) if isinstance(width, (int, float)) else b.mul(b.mul(total, width), 0.5)
