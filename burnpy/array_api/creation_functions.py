"""Functions that create arrays. Without ``device``, they are on the device of the namespace; see `burnpy.array_api`."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from burnpy.array_api.data_types import array, arrays, astype, copied, dtype_from, number_kind, standard
from burnpy.backend.devices import device_of
from burnpy.backend.dtypes import DEFAULT, float32, kind_of
from burnpy.backend.errors import ArgumentError, KindError
from burnpy.backend.primitives import KindName
from burnpy.tensor import creation, grids
from burnpy.tensor.joining import stack
from burnpy.tensor.tensor import IntTensor
from burnpy.tensor.tensor_base import TensorBase, describe


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
        obj = stack(arrays(*[asarray(each, device=device) for each in obj]))
    if isinstance(obj, TensorBase):
        out = astype(obj, obj.dtype if target is None else target, device=device)
        if copy is False and out._primitive is not obj._primitive:
            raise ArgumentError(f"array() with copy=False got {describe(obj)}, whose dtype or device would change")
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
