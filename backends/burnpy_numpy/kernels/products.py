"""`CompiledProducts`: products of rows, and of everything, as kernels; NumPy multiplies one element after the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.primitives import Dims
from burnpy_array import ArrayBackend
from burnpy_numpy.kernels.operations import MANY, template_kernel
from burnpy_numpy.row_sums import row_products

_BYTES = 64
"""The size of the parts of rows that are multiplied at a time."""
_PART = 1 << 10
"""The length of the rows into which an array is divided to multiply all its elements."""
_WIDE = 256
"""The number of columns from which NumPy takes less time for rows that are divided."""


class CompiledProducts(ArrayBackend):
    """Products of float32 and float64 over the last dimensions."""

    def prod(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        if not dims or x.size < MANY or not (x.dtype is float32 or x.dtype is float64):
            return super().prod(x, dims, keepdim)
        count, kernel = math.prod([x.shape[d] for d in dims]), None
        if count == x.size and count % _PART == 0:
            count = _PART
        shape = [1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims]
        if count > 1 and dims[0] == x.ndim - len(dims):
            kernel = template_kernel("product_kernels", "row_products", x.dtype.name, _BYTES // x.dtype.itemsize)
        if kernel is not None:
            rows = x.size // count
            out = np.empty(rows, x.dtype)
            kernel.run((np.ascontiguousarray(x), out), (count,), rows, count)
            return (out if math.prod(shape) == rows else self._call(out.prod)).reshape(shape)
        if dims == (x.ndim - 1,) and x.shape[-1] >= _WIDE:
            return self._call(row_products, x.reshape((-1, x.shape[-1]))).reshape(shape)
        return super().prod(x, dims, keepdim)
