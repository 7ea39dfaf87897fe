"""Softmax of rows: kernels of its default, and few NumPy calls for small vectors and matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import divide, exp, log, subtract

from burnpy.backend.dtypes import float32, float64
from burnpy_array import ArrayBackend
from burnpy_numpy.calls import quietly, run
from burnpy_numpy.kernels.kernel import (
    LONGEST,
    elementwise_kernel,
)
from burnpy_numpy.reduction import row

if TYPE_CHECKING:
    from burnpy_numpy.kernels.launch import Kernel


_SMALL = 512
"""The number of elements from which the arithmetic takes longer than the calls."""

_largest: Any = np.maximum.reduce


class NumPySoftmax(ArrayBackend):
    """Softmax of rows by kernels, and of few small rows by few calls; others as in `burnpy_array`."""

    def softmax(self, x: Any, dim: int) -> Any:
        kernel = _row_kernel("softmax", dim, x)
        if kernel is not None:
            return kernel.alike((x,))
        if not _few(x, dim):
            return super().softmax(x, dim)
        try:
            return run(_softmax, x)
        except RuntimeError:
            return quietly(_softmax, x)

    def softmax_backward(self, grad: Any, out: Any, dim: int) -> Any:
        kernel = _row_kernel("softmax_backward", dim, grad, out)
        return super().softmax_backward(grad, out, dim) if kernel is None else kernel.alike((grad, out))

    def log_softmax(self, x: Any, dim: int) -> Any:
        kernel = _row_kernel("log_softmax", dim, x)
        if kernel is not None:
            return kernel.alike((x,))
        if not _few(x, dim):
            return super().log_softmax(x, dim)
        try:
            return run(_log_softmax, x)
        except RuntimeError:
            return quietly(_log_softmax, x)

    def log_softmax_backward(self, grad: Any, out: Any, dim: int) -> Any:
        kernel = _row_kernel("log_softmax_backward", dim, grad, out)
        return super().log_softmax_backward(grad, out, dim) if kernel is None else kernel.alike((grad, out))


def _row_kernel(name: str, dim: int, x: Any, y: Any = None) -> Kernel | None:
    """Return the kernel of an operation along the last dimension."""
    shape = x.shape
    return elementwise_kernel(name, (1,), x, y) if dim == len(shape) - 1 and shape[dim] <= LONGEST else None


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
