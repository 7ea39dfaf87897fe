"""Functions that create arrays, and those that move elements: shapes, joining, repeating, selection by indices.

Without ``device``, created arrays are on the device of the namespace; see `burnpy.array_api`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from burnpy.array_api.data_types import array, astype, copied, dtype_from, number_kind, standard
from burnpy.array_api.data_types import arrays as promoted
from burnpy.backend.devices import device_of
from burnpy.backend.dtypes import DEFAULT, float32, kind_of
from burnpy.backend.errors import ArgumentError, DimError, KindError, ShapeError
from burnpy.backend.primitives import KindName, Shape
from burnpy.tensor import creation, grids
from burnpy.tensor.dim_checks import dim_of, integers
from burnpy.tensor.joining import cat
from burnpy.tensor.joining import stack as joined
from burnpy.tensor.operand_checks import broadcast_shape
from burnpy.tensor.tensor import IntTensor
from burnpy.tensor.tensor_base import TensorBase, describe

Axes = int | Sequence[int]


def default_device() -> Any:
    """Return the device of the namespace ``burnpy.array_api`` itself: ``NumPy()``."""
    from burnpy.backend.devices import load

    return load("NumPy")()


def _placed(device: Any) -> Any:
    return default_device() if device is None else device_of(device)


def _class_of(dtype: Any) -> Any:
    return TensorBase.kinds[kind_of(dtype)]


@standard
def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:
    """Make an array of an array, a number, nested sequences of numbers and arrays, or a buffer.

    Memory of tensors never changes, so with ``copy=True``, too, the result for a tensor shares its memory.

    Raises:
        ArgumentError: ``copy=False``, and the dtype or device differs or ``obj`` is not a tensor.
        KindError: ``obj`` is not an array.

    >>> from burnpy import array_api as xp
    >>> xp.asarray([1, 2]).dtype, xp.asarray([1, 2.5]).dtype, xp.asarray([True]).dtype
    (dtype('int64'), dtype('float32'), dtype('bool'))
    """
    target = None if dtype is None else dtype_from(dtype)
    if copy is False and not isinstance(obj, TensorBase):
        raise ArgumentError(f"array() with copy=False takes a tensor, got {describe(obj)}; tensors own their memory")
    if isinstance(obj, (list, tuple)) and _has_tensors(obj):
        obj = joined(promoted(*[asarray(each, device=device) for each in obj]))
    if isinstance(obj, TensorBase):
        out = astype(obj, obj.dtype if target is None else target, device=device)
        if copy is False and out._primitive is not obj._primitive:
            raise ArgumentError(
                f"array() with copy=False got {describe(obj)}, whose dtype or device would change; pass copy=None"
            )
        return copied(out) if copy else out
    if hasattr(obj, "__dlpack__") and not isinstance(obj, (np.ndarray, np.generic)):
        return astype(from_dlpack(obj, device=_placed(device)), target or _dtype_name(obj))
    try:
        values = np.asarray(obj)
    except ValueError:
        raise ArgumentError(f"array() got {describe(obj)}, whose rows differ in length") from None
    if values.dtype.kind not in "biufcV":
        raise KindError(f"array() got {describe(obj)}; expected an array, a number or nested sequences of numbers")
    if target is None:
        target = values.dtype if hasattr(obj, "dtype") else DEFAULT[kind_of(values.dtype)]
    if kind_of(target) != kind_of(values.dtype):
        values = values.astype(target)
    return creation.from_data(_class_of(target), values, target, _placed(device), True)


def _has_tensors(values: Any) -> bool:
    return any(isinstance(x, TensorBase) or (isinstance(x, (list, tuple)) and _has_tensors(x)) for x in values)


@standard
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """Make an array of another library's, which exports it by DLPack; the memory is copied.

    Raises:
        ArgumentError: ``x`` has no ``__dlpack__``; or ``copy=False``, and it is not a tensor.
    """
    if isinstance(x, TensorBase):
        return asarray(x, device=device, copy=copy)
    if copy is False:
        raise ArgumentError(f"array() with copy=False got {describe(x)}; tensors own their memory")
    if not hasattr(x, "__dlpack__"):
        raise ArgumentError(f"array() takes an array that has __dlpack__, got {describe(x)}; use asarray(x)")
    return creation.from_dlpack(_class_of(dtype_from(_dtype_name(x))), x, _placed(device))


def _dtype_name(x: Any) -> str:
    """Return the name of the dtype of another library's array: "float32" of ``torch.float32``."""
    return str(x.dtype).rpartition(".")[2]


@standard
def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Make an array of one value; the dtype is by default the default one of the value's kind."""
    if getattr(fill_value, "shape", None) == () and isinstance(fill_value, TensorBase):  # SciPy passes these too
        scalar = astype(fill_value, fill_value.dtype if dtype is None else dtype, device=device)
        return scalar.broadcast_to((shape,) if isinstance(shape, int) else shape)
    kind = number_kind(fill_value)
    if kind is None:
        raise KindError(f"array() takes a number, got {describe(fill_value)}; of an array use broadcast_to(x, shape)")
    target = DEFAULT[kind] if dtype is None else dtype_from(dtype)
    value = bool(fill_value) if kind_of(target) == "bool" else int(fill_value) if kind == "bool" else fill_value
    return creation.full(_class_of(target), shape, value, target, _placed(device))


@standard
def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Make an array of zeros, by default float32."""
    return full(shape, 0, dtype=float32 if dtype is None else dtype, device=device)


@standard
def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Make an array of ones, by default float32."""
    return full(shape, 1, dtype=float32 if dtype is None else dtype, device=device)


@standard
def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Make an array; its elements are zeros, as nothing could be written into it later."""
    return zeros(shape, dtype=dtype, device=device)


@standard
def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Make an array of one value, of the shape, dtype and device of another array."""
    x = array(x)
    on = x.device if device is None else device
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=on)


@standard
def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Make an array of zeros, of the shape, dtype and device of another array."""
    return full_like(x, 0, dtype=dtype, device=device)


@standard
def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Make an array of ones, of the shape, dtype and device of another array."""
    return full_like(x, 1, dtype=dtype, device=device)


@standard
def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Make an array of zeros, of the shape, dtype and device of another array."""
    return full_like(x, 0, dtype=dtype, device=device)


@standard
def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Any:
    """Make a 1-d array of start, start + step, …, excluding ``stop``; empty if ``stop`` is not in that direction."""
    start, stop = (0, start) if stop is None else (start, stop)
    whole = all(number_kind(x) == "int" for x in (start, stop, step))
    target = DEFAULT["int" if whole else "float"] if dtype is None else dtype_from(dtype)
    if kind_of(target) == "int" and not whole:
        values = start + np.arange(max(0, math.ceil((stop - start) / step))) * step
        return asarray(values.astype(target), device=device)
    stop = start if step and (stop - start) / step < 0 else stop
    return creation.arange(_class_of(target), start, stop, step, target, _placed(device))


@standard
def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Any:
    """Make a 1-d array of ``num`` evenly spaced numbers from ``start`` to ``stop``, which ``endpoint`` includes."""
    kind: KindName = "complex" if "complex" in map(number_kind, (start, stop)) else "float"
    target = DEFAULT[kind] if dtype is None else dtype_from(dtype)
    values = np.linspace(start, stop, num, endpoint=endpoint)
    return asarray(values.astype(target), device=device)


@standard
def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Any:
    """Make a matrix with ones on a diagonal, by default the main one, and zeros elsewhere."""
    rows = creation.arange(IntTensor, k, n_rows + k, 1, None, _placed(device)).unsqueeze(1)
    columns = creation.arange(IntTensor, n_rows if n_cols is None else n_cols, None, 1, None, _placed(device))
    return astype(rows == columns, float32 if dtype is None else dtype)


@standard
def meshgrid(*arrays: Any, indexing: Literal["xy", "ij"] = "xy") -> tuple[Any, ...]:
    """Return the coordinates of a grid: each vector expanded to the shape of all their sizes."""
    return grids.meshgrid(*map(array, arrays), indexing=indexing) if arrays else ()


@standard
def tril(x: Any, /, *, k: int = 0) -> Any:
    """Return the lower triangles of matrices, up to diagonal ``k``."""
    return array(x).tril(k)


@standard
def triu(x: Any, /, *, k: int = 0) -> Any:
    """Return the upper triangles of matrices, from diagonal ``k`` on."""
    return array(x).triu(k)


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
