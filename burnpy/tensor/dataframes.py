"""Data frames and series of pandas and Polars as arrays. Their attributes tell them: neither package is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.errors import ArgumentError, CallError, DTypeError, KindError, a, counted

if TYPE_CHECKING:
    from numpy.typing import NDArray


def is_frame(value: object) -> bool:
    """Return whether a value is a frame: a table whose columns have names."""
    return hasattr(type(value), "columns") and hasattr(type(value), "dtypes")


def columns_of(frame: Any, owner: str) -> dict[str, NDArray[Any]]:
    """Return the columns of a frame by name."""
    if not is_frame(frame):
        raise CallError(f"{owner} got {a(type(frame).__name__)}; expected a frame, or arrays by name, as in x=images")
    columns = _columns(frame, f"{owner} got a frame")
    for name in columns:
        if not isinstance(name, str):
            raise ArgumentError(
                f"{owner} got a frame with the column {name!r:.80}, which is not a string; rename it, or name all "
                "columns together, as in x=frame"
            )
    return columns


def frame_array(value: Any, described: str) -> NDArray[Any] | None:
    """Return a frame as an array of shape (n, columns), a series as one of shape (n,), and None of another value.

    Args:
        value: any value.
        described: the begin of messages, as in "ArrayDataset() got x,".
    """
    if is_frame(value):
        return np.stack(list(_columns(value, f"{described} a frame").values()), axis=1)
    kind = type(value)
    if hasattr(kind, "isna") or hasattr(kind, "null_count"):
        return _numbers(value, f"{described} a series that")
    return None


def _columns(frame: Any, described: str) -> dict[Any, NDArray[Any]]:
    if hasattr(frame, "collect"):
        raise CallError(f"{described} that is lazy; write frame.collect()")
    names = list(frame.columns)
    if not names:
        raise ArgumentError(f"{described} without columns")
    if len({*names}) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        raise ArgumentError(f"{described} with {names.count(name)} columns called {name}; rename them")
    return {name: _numbers(frame[name], f"{described} whose column {name}") for name in names}


def _numbers(series: Any, described: str) -> NDArray[Any]:
    """Return the numbers or bools of a series."""
    missing = int(series.isna().sum()) if hasattr(series, "isna") else _nulls(series)
    if missing:
        raise DTypeError(
            f"{described} has {counted(missing, 'missing value')}, and tensors have none; fill or drop them, or "
            "pass .to_numpy() for NaN"
        )
    array: NDArray[Any] = series.to_numpy()
    if array.dtype.kind == "O" and hasattr(series.dtype, "numpy_dtype"):  # of nullable dtypes, before pandas 2.2
        array = array.astype(series.dtype.numpy_dtype)
    if array.dtype.kind not in "biuf":
        raise KindError(
            f"{described} has the dtype {series.dtype}, and tensors hold numbers and bools; encode it as numbers, or "
            "leave it out"
        )
    return array


def _nulls(series: Any) -> int:
    """Return the number of missing values of a series of Polars, those inside of its arrays included."""
    while not series.null_count() and hasattr(series.dtype, "inner"):
        series = series.explode()
    return int(series.null_count())
