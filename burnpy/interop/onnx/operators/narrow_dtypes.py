"""Dtypes of 2 to 8 bits that tensors do not have: their numbers are float32, int8 or uint8 tensors, rounded or cut."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from burnpy.backend.dtypes import dtype_of
from burnpy.interop.onnx.operators.table import DTYPES, NARROW, Value, cast, onnx_dtype, tensor
from burnpy.tensor.functions.ordering import searchsorted
from burnpy.tensor.joining import where

INTS = {21: (0, 15), 22: (-8, 7), 25: (0, 3), 26: (-2, 1)}
"""The limits of UINT4, INT4, UINT2 and INT2."""

POWERS = 24
"""FLOAT8E8M0, whose numbers are powers of two, without a sign."""


def is_narrow(number: int) -> bool:
    """Return whether tensors lack the dtype of a number of ``TensorProto.DataType``."""
    return number in NARROW and number not in DTYPES


def narrowed(x: Value, number: int, saturate: bool = True, round_mode: str = "up") -> Value:
    """Convert numbers to a dtype of ``TensorProto.DataType``, as the operator Cast does.

    Args:
        x: a tensor.
        number: of the dtype.
        saturate: whether numbers beyond the largest one become it, and not infinity or NaN.
        round_mode: of FLOAT8E8M0, whose numbers are powers of two: ``up``, ``down`` or ``nearest``.
    """
    if not is_narrow(number):
        return cast(x, onnx_dtype(number))
    if number in INTS:
        low, high = INTS[number]
        return cast((cast(x, "int64") - low).remainder(high - low + 1) + low, NARROW[number].wide)
    return _rounded(cast(x, "float32"), number, saturate, round_mode)


def _rounded(x: Value, number: int, saturate: bool, round_mode: str) -> Value:
    values, bounds, beyond = _table(number, round_mode)
    size = x.abs()
    places = searchsorted(tensor(bounds, x.device), size.reshape(-1), right=True).reshape(*x.shape)
    nearest = tensor(values, x.device).index_select(0, places.reshape(-1)).reshape(*x.shape)
    if not saturate:
        nearest = where(size >= float(beyond[0]), float(beyond[1]), nearest)
    missing = float(np.float32(np.nan).astype(NARROW[number].name).astype(np.float32))  # FLOAT4E2M1 has no NaN
    return where(x.isnan(), missing, nearest if number == POWERS else where(x < 0, -nearest, nearest))


@cache
def _table(number: int, round_mode: str) -> tuple[Any, Any, tuple[float, float]]:
    """Return the numbers of a dtype from 0 on, the least float32 that rounds to each but the first, and the least one
    beyond the largest, with what it becomes without saturation.
    """
    dtype = np.dtype(NARROW[number].name)
    count = 16 if "float4" in dtype.name else 256
    every = np.arange(count, dtype=np.uint8).view(dtype).astype(np.float32)
    values = np.unique(np.abs(every[np.isfinite(every)]))
    low, high = values[:-1], values[1:]
    if number == POWERS:
        middle = {"up": np.nextafter(low, high), "down": high, "nearest": low * 1.5}[round_mode]
        return values, middle.astype(np.float32), (np.inf, np.nan)
    middle = ((low.astype(np.float64) + high) / 2).astype(np.float32)
    goes_down = middle.astype(dtype).astype(np.float32) == low
    step = values[-1] - values[-2]
    tie = np.float32(values[-1] + step / 2)
    beyond = tie if len(values) % 2 == 0 else np.nextafter(tie, np.float32(np.inf))
    largest = np.float32(1e30).astype(dtype).astype(np.float32)
    return values, np.where(goes_down, np.nextafter(middle, high), middle), (float(beyond), float(largest))


def wide_dtype(number: int) -> Any:
    """Return the dtype of the tensor that holds numbers of a dtype of ``TensorProto.DataType``."""
    return dtype_of(NARROW[number].wide) if is_narrow(number) else onnx_dtype(number)
