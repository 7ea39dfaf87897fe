"""Softmax of small vectors and of the rows of small matrices, in as few NumPy calls as possible."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import divide, exp, log, subtract

from burnpy.backend.dtypes import float32, float64
from burnpy_array import ArrayBackend
from burnpy_numpy.errstate import quietly, run
from burnpy_numpy.row_sums import row

_SMALL = 512
"""The number of elements from which the arithmetic takes longer than the calls."""

_largest: Any = np.maximum.reduce


class Softmax(ArrayBackend):
    """Softmax for NumPy; larger inputs and other dimensions use the implementation of `burnpy_array`."""

    def softmax(self, x: Any, dim: int) -> Any:
        if not _few(x, dim):
            return super().softmax(x, dim)
        try:
            return run(_softmax, x)
        except RuntimeError:
            return quietly(_softmax, x)

    def log_softmax(self, x: Any, dim: int) -> Any:
        if not _few(x, dim):
            return super().log_softmax(x, dim)
        try:
            return run(_log_softmax, x)
        except RuntimeError:
            return quietly(_log_softmax, x)


def _few(x: Any, dim: int) -> bool:
    dtype = x.dtype
    return (
        (dtype is float32 or dtype is float64) and 0 < x.size < _SMALL and (x.ndim == 1 or (x.ndim == 2 and dim == 1))
    )


def _shifted(x: Any) -> Any:
    """Subtract the maximum of each row, which is NaN if the row contains NaN."""
    if x.ndim == 1:
        return subtract(x, x[x.argmax()])
    return subtract(x, _largest(x, 1, None, None, True))


def _sums(e: Any) -> Any:
    """The sum of each row, in a shape that broadcasts against the rows."""
    shape = e.shape
    out = e.dot(row(1, shape[-1], e.dtype))
    return out if len(shape) == 1 else out.reshape((shape[0], 1))


def _softmax(x: Any) -> Any:
    e = _shifted(x)
    exp(e, e)
    return divide(e, _sums(e), e)


def _log_softmax(x: Any) -> Any:
    shifted = _shifted(x)
    return subtract(shifted, log(_sums(exp(shifted))), shifted)
