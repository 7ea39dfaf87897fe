"""`CompiledDistances`: distances of rows, and their gradients, as kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy_array import ArrayBackend
from burnpy_array.reduction import SAFE
from burnpy_numpy.kernels.operations import MANY, block_starts, block_width, template_kernel

_BYTES = 256
"""The size of the parts of rows that are computed at a time."""
_LONGEST = 4096
"""The longest sum: a longer one would be less exact than NumPy's."""


class CompiledDistances(ArrayBackend):
    """Distances of float32 and float64 rows."""

    def cdist(self, x: Any, y: Any, p: float) -> Any:
        width = block_width(y.shape[-2], _BYTES // x.dtype.itemsize)
        kernel = (
            template_kernel("distance_kernels", "distance_sums", x.dtype.name, p == 2, width) if _suits(x, y) else None
        )
        if kernel is None:
            return super().cdist(x, y, p)
        (*outer, n, k), m = x.shape, y.shape[-2]
        out, starts = np.empty((*outer, n, m), x.dtype), block_starts(m, width)
        arrays = (np.ascontiguousarray(x), np.ascontiguousarray(y.swapaxes(-1, -2)), out, starts)
        kernel.run(arrays, (n, m, k, len(starts)), math.prod(outer) * n, m * k)
        return self._call(_roots, self, out, x, y) if p == 2 else out

    def cdist_backward(self, grad: Any, x: Any, y: Any, out: Any, p: float) -> Any:
        k, kernel = x.shape[-1], None
        width = block_width(k, _BYTES // x.dtype.itemsize)
        if _suits(x, y) and grad.dtype is x.dtype and (p == 1 or np.isfinite(out).all()):
            kernel = template_kernel("distance_kernels", "weighted_differences", x.dtype.name, p == 1, width)
        if kernel is None:
            return super().cdist_backward(grad, x, y, out, p)
        if p == 2:
            grad = self._call(_shares, grad, out)
        total, starts = np.empty(x.shape, x.dtype), block_starts(k, width)
        arrays = (np.ascontiguousarray(x), np.ascontiguousarray(y), np.ascontiguousarray(grad), total, starts)
        n, m = x.shape[-2], y.shape[-2]
        kernel.run(arrays, (n, m, k, len(starts)), x.size // k, m * k)
        return total


def _suits(x: Any, y: Any) -> bool:
    """Return whether kernels are used for rows."""
    dtype, k, m = x.dtype, x.shape[-1], y.shape[-2]
    return (dtype is float32 or dtype is float64) and y.dtype is dtype and x.size * m >= MANY and max(k, m) <= _LONGEST


def _shares(grad: Any, out: Any) -> Any:
    """Return grad over the distances; 0 where these are 0."""
    return np.divide(grad, out, out=np.zeros(out.shape, out.dtype), where=out != 0)


def _roots(b: CompiledDistances, total: Any, x: Any, y: Any) -> Any:
    """Return the roots of sums of squares; those that may have over- or underflowed are computed again, scaled."""
    least, most = SAFE[total.dtype]
    safe = np.logical_and(np.greater(total, least), np.less(total, most))
    out = np.sqrt(total, total)
    if not safe.all():
        *outer, row, column = np.nonzero(np.logical_not(safe))
        difference = x[(*outer, row)] - y[(*outer, column)]
        out[(*outer, row, column)] = b.vector_norm(difference, 2.0, (1,), False)
    return out
