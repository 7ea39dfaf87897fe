"""`CompiledMatrices`: triangular equations and Cholesky's factors of batches of small matrices, as kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, int64
from burnpy_array import ArrayBackend
from burnpy_numpy.kernels.operations import block_starts, block_width, template_kernel

_TRIANGULAR, _FACTORED = 48, 32
"""The numbers of rows from which LAPACK takes less time for triangular equations, and for factors."""
_COLUMNS = 8
"""The number of columns that are solved at a time."""


class CompiledMatrices(ArrayBackend):
    """Small matrices of float32 and float64."""

    def solve_triangular(self, a: Any, b: Any, upper: bool, unitriangular: bool) -> Any:
        kernel, columns = None, b.shape[-1]
        width = block_width(columns, _COLUMNS)
        if _suits(a, _TRIANGULAR) and b.size and b.dtype is a.dtype and b.shape[:-2] == a.shape[:-2]:
            kernel = template_kernel("matrix_kernels", "substitution", a.dtype.name, upper, unitriangular, width)
        if kernel is None:
            return super().solve_triangular(a, b, upper, unitriangular)
        n, out, starts = a.shape[-1], np.empty(b.shape, b.dtype), block_starts(columns, width)
        arrays = (np.ascontiguousarray(a), np.ascontiguousarray(b), out, starts)
        kernel.run(arrays, (n, columns, len(starts)), math.prod(a.shape[:-2]), n * n * columns)
        return out

    def cholesky(self, x: Any) -> Any:
        kernel = template_kernel("matrix_kernels", "cholesky_factor", x.dtype.name) if _suits(x, _FACTORED) else None
        if kernel is None:
            return super().cholesky(x)
        n, out, wrong = x.shape[-1], np.empty(x.shape, x.dtype), np.zeros(1, int64)
        kernel.run((np.ascontiguousarray(x), out, wrong), (n,), math.prod(x.shape[:-2]), n * n * n / 3)
        return super().cholesky(x) if wrong[0] else out  # which says which matrix is not positive definite


def _suits(x: Any, most: int) -> bool:
    """Return whether kernels are used for matrices, which are of fewer than ``most`` rows."""
    return x.shape[-1] < most and x.size > 0 and (x.dtype is float32 or x.dtype is float64)
