"""Making arrays and converting them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend import dtypes
from burnpy.backend.dtypes import float64, kind_of
from burnpy.backend.primitives import DType, Scalar, Shape
from burnpy_array.base import ArrayBase

_CANONICAL: dict[DType, DType] = {
    dtype: dtype for dtype in vars(dtypes).values() if isinstance(dtype, np.dtype)
}  # C's long and long long may both be int64, and equal, but operations compare dtypes by `is`


def contiguous(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A C-contiguous copy in the canonical dtype: native byte order, and one object for equal dtypes."""
    native = array.dtype.newbyteorder("=")
    return np.array(array, dtype=_CANONICAL.get(native, native), order="C")


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
