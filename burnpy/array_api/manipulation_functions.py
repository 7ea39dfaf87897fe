"""Functions that move elements: shapes, joining, repeating, and selection by indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnpy.array_api.data_types import array, standard
from burnpy.array_api.data_types import arrays as promoted
from burnpy.backend.errors import ArgumentError, DimError, ShapeError
from burnpy.backend.primitives import Shape
from burnpy.tensor.dim_checks import dim_of, integers
from burnpy.tensor.joining import cat
from burnpy.tensor.joining import stack as joined
from burnpy.tensor.operand_checks import broadcast_shape

Axes = int | Sequence[int]


@standard
def broadcast_shapes(*shapes: Shape) -> Shape:
    """Return the shape that several shapes broadcast to."""
    shape = broadcast_shape((), *map(tuple, shapes))
    if shape is None:
        raise ShapeError(f"array() got shapes {', '.join(map(str, shapes))}, which do not broadcast")
    return shape


@standard
def broadcast_arrays(*arrays: Any) -> tuple[Any, ...]:
    """Expand arrays to the shape that they broadcast to."""
    shape = broadcast_shapes(*[array(x).shape for x in arrays])
    return tuple(x.broadcast_to(shape) for x in arrays)


@standard
def broadcast_to(x: Any, /, shape: Shape) -> Any:
    """Expand an array to a shape."""
    return array(x).broadcast_to(shape)


@standard
def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Any:
    """Join arrays along an axis; with None, all elements of all arrays. Dtypes promote."""
    tensors = promoted(*arrays)
    return cat([x.reshape(-1) for x in tensors] if axis is None else tensors, 0 if axis is None else axis)


@standard
def stack(arrays: Sequence[Any], /, *, axis: int = 0) -> Any:
    """Join arrays of one shape along a new axis. Dtypes promote."""
    return joined(promoted(*arrays), axis)


@standard
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Return the slices of an array along an axis."""
    return tuple(array(x).unbind(axis))


@standard
def expand_dims(x: Any, /, axis: Axes = 0) -> Any:
    """Insert axes of size 1 at the positions that they have in the result."""
    x = array(x)
    axes = integers((axis,), "axis", "expand_dims")
    ndim = x.ndim + len(axes)
    places = {at + ndim if at < 0 else at for at in axes}
    if len(places) < len(axes) or not places <= {*range(ndim)}:
        valid = f"expected different ones from {-ndim} to {ndim - 1}"
        raise DimError(f"array() got axis={axis} for shape {x.shape}; {valid}")
    sizes = iter(x.shape)
    return x.reshape(tuple([1 if at in places else next(sizes) for at in range(ndim)]))


@standard
def squeeze(x: Any, /, axis: Axes) -> Any:
    """Remove axes of size 1.

    Raises:
        ShapeError: an axis is of another size.
    """
    x = array(x)
    shape = x.shape
    out = x.squeeze(axis)
    axes = integers((axis,), "axis", "squeeze")
    if any(shape[at] != 1 for at in axes):
        raise ShapeError(f"array() got axis={axis} for shape {shape}; only axes of size 1 can be removed")
    return out


@standard
def reshape(x: Any, /, shape: Shape, *, copy: bool | None = None) -> Any:
    """Return the elements in another shape; one size may be -1. Tensors are immutable: ``copy`` makes no difference."""
    return array(x).reshape(shape)


@standard
def flip(x: Any, /, *, axis: Axes | None = None) -> Any:
    """Reverse the order of the elements along axes, by default all."""
    x = array(x)
    return x.flip(tuple(range(x.ndim)) if axis is None else axis)


@standard
def roll(x: Any, /, shift: Axes, *, axis: Axes | None = None) -> Any:
    """Move elements along axes; those that leave at the end return at the beginning."""
    return array(x).roll(shift, axis)


@standard
def permute_dims(x: Any, /, axes: Sequence[int]) -> Any:
    """Reorder the axes."""
    return array(x).permute(tuple(axes))


@standard
def moveaxis(x: Any, source: Axes, destination: Axes, /) -> Any:
    """Move axes to other positions."""
    return array(x).movedim(source, destination)


@standard
def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Repeat each element, or each slice along an axis."""
    return array(x).repeat_interleave(repeats, axis)


@standard
def tile(x: Any, repetitions: Sequence[int], /) -> Any:
    """Repeat an array along its axes."""
    return array(x).tile(tuple(repetitions))


@standard
def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """Select slices along an axis, which may be left out for 1-d arrays; negative indices count from the end."""
    x = array(x)
    if axis is None and x.ndim != 1:
        raise ArgumentError(f"array() of shape {x.shape} needs an axis; only 1-d arrays do without")
    return x[(slice(None),) * dim_of(axis or 0, x.ndim, "array") + (array(indices, ("int",)),)]


@standard
def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    """Select elements along an axis; the other axes of both arrays broadcast."""
    return array(x).take_along_dim(array(indices, ("int",)), axis)
