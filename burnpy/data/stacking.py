"""Stacking of samples into columns, and the errors for samples that do not fit together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.errors import ArgumentError, DTypeError, KindError, ShapeError, a

if TYPE_CHECKING:
    from numpy.typing import NDArray


def stacked(samples: Sequence[Any], indices: Sequence[int]) -> dict[str, Any]:
    """Return the columns of samples that are mappings: arrays of shape (n, …), or tuples for values other than numbers.

    Python floats become float32, as in `Tensor.from_data`; arrays keep their dtype.

    Raises:
        ShapeError: the shapes of a column differ; the message names two samples.
        DTypeError: the dtypes differ in kind.
        ArgumentError: the names differ.
        KindError: a sample is no mapping.
    """
    return {name: stacked_column(name, values, indices) for name, values in by_name(samples, indices).items()}


def by_name(samples: Sequence[Any], indices: Sequence[int]) -> dict[str, list[Any]]:
    """Return the values of samples by name, a list of n for each."""
    for sample, i in zip(samples, indices, strict=True):
        if not isinstance(sample, Mapping):
            raise KindError(
                f"sample {i} is {a(type(sample).__name__)}, and a batch is made of mappings from names; write "
                'data.map(lambda s: {"x": s[0], "y": s[1]}), or from_sequence(data, names=("x", "y"))'
            )
        if sample.keys() != samples[0].keys():
            raise ArgumentError(
                f"sample {indices[0]} has {', '.join(samples[0])}, and sample {i} has {', '.join(sample)}; the samples "
                "of a batch have the same names"
            )
    return {name: [sample[name] for sample in samples] for name in samples[0]}


def stacked_column(name: str, values: Sequence[Any], indices: Sequence[int]) -> NDArray[Any] | tuple[Any, ...]:
    """Return one column; see `stacked`."""
    arrays = [as_array(value) for value in values]
    if any(x is None for x in arrays):
        if all(x is None for x in arrays):
            return tuple(values)
        j = next(j for j, x in enumerate(arrays) if (x is None) != (arrays[0] is None))
        raise KindError(
            f"{name} is {a(type(values[0]).__name__)} in sample {indices[0]} and {a(type(values[j]).__name__)} in "
            f"sample {indices[j]}; the samples of a batch have the same types"
        )
    numbers: list[NDArray[Any]] = [x for x in arrays if x is not None]
    refuse_mixed(name, numbers, indices)
    shape = numbers[0].shape
    for x, i in zip(numbers, indices, strict=True):
        if x.shape != shape:
            raise ShapeError(
                f"{name} has shape {shape} in sample {indices[0]} and {x.shape} in sample {i}, which do not stack; "
                "crop or resize them in data.map(...), or pad them with burnpy.data.pad_collate(...)"
            )
    return np.stack(numbers)


def refuse_mixed(name: str, arrays: Sequence[NDArray[Any]], indices: Sequence[int]) -> None:
    """Check that arrays are of one kind: all floats, all ints or all bools.

    Raises:
        DTypeError: they are not.
    """
    for x, i in zip(arrays, indices, strict=True):
        if x.dtype != arrays[0].dtype and _kind(x) != _kind(arrays[0]):
            raise DTypeError(
                f"{name} is {arrays[0].dtype} in sample {indices[0]} and {x.dtype} in sample {i}; convert it in "
                "data.map(...)"
            )


def as_array(value: Any) -> NDArray[Any] | None:
    """Return a number, a list of numbers, an array or a tensor as an array; None for anything else, such as text."""
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        return array if array.dtype.kind in "biuf" or array.dtype.kind == "V" else None
    if isinstance(value, bool | int):
        return np.asarray(value)
    if isinstance(value, float):
        return np.asarray(value, np.float32)
    if isinstance(value, (list, tuple)):
        try:
            array = np.array(value)
        except ValueError:
            return None
        if array.dtype.kind not in "biuf":
            return None
        typed = hasattr(_first(value), "dtype")
        return array.astype(np.float32) if array.dtype.kind == "f" and not typed else array
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        return array if array.dtype.kind in "biufV" else None
    return None


def _first(value: Any) -> Any:
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return value


def _kind(x: NDArray[Any]) -> str:
    return {"i": "int", "u": "int", "b": "bool"}.get(x.dtype.kind, "float")
