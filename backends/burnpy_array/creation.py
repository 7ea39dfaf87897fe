"""Making arrays and converting them."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Literal

import numpy as np

from burnpy.backend.dtypes import float64, kind_of
from burnpy.backend.primitives import DType, Scalar, Shape
from burnpy_array.base import ArrayBase


def canonical(array: np.ndarray[Any, Any], copy: bool | None, order: Literal["C", "K"]) -> np.ndarray[Any, Any]:
    """`numpy.array` in native byte order, with the one dtype object that `is` finds equal.

    C's long and long long may both be int64; NumPy holds them for one dtype, but they are two objects.
    """
    dtype = _named(array.dtype)
    out = np.array(array, dtype, copy=copy, order=order)
    return out if out.dtype is dtype else out.view(dtype)


@cache
def _named(dtype: DType) -> DType:
    return np.dtype(dtype.name)


class Creation(ArrayBase):
    """Creation and conversion; what crosses between host and device is each backend's own."""

    def full(self, shape: Shape, value: Scalar, dtype: DType) -> Any:
        return self._call(_full, self.xp, shape, value, dtype)

    def arange(self, start: Scalar, stop: Scalar, step: Scalar, dtype: DType) -> Any:
        return self._call(_arange, self.xp, start, stop, step, dtype)

    def cast(self, x: Any, dtype: DType) -> Any:
        return self._call(x.astype, dtype)


def _full(xp: Any, shape: Shape, value: Scalar, dtype: DType) -> Any:
    if value == 0 and math.copysign(1.0, value) > 0:
        return xp.zeros(shape, dtype)  # memory that the system has cleared already
    out = xp.empty(shape, dtype)
    out.fill(value)
    return out


def _arange(xp: Any, start: Scalar, stop: Scalar, step: Scalar, dtype: DType) -> Any:
    if kind_of(dtype) == "int":
        return xp.arange(start, stop, step, dtype)
    return xp.arange(start, stop, step, float64).astype(dtype)  # in a narrow dtype the steps' errors would add up
