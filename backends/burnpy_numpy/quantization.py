"""Products with quantized matrices, and of them: few rows of floats by a kernel of their own, others by the kernel of
products."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, int32, uint8
from burnpy_array import ArrayBackend
from burnpy_numpy.kernels.kernel import family_kernels, lookup
from burnpy_numpy.matmul import kernel_product

_FEW = 8
"""The number of rows up to which the matrix is converted in registers."""
_BLOCK = 1 << 19
"""The number of elements of the matrix that are converted at a time, so that they stay in the second cache."""
_known: dict[tuple[Any, ...], Any] = lookup()


class NumPyQuantization(ArrayBackend):
    """Products of float32 and float64, and of ints; 16-bit floats are computed by default."""

    def integer_matmul(self, x: Any, y: Any) -> Any:
        rows = x.reshape((-1, x.shape[-1])) if y.ndim == 2 < x.ndim and x.size else x
        out = kernel_product(rows, y, dtype=int32)
        if out is None:
            return super().integer_matmul(x, y)
        return out if rows is x else out.reshape((*x.shape[:-1], y.shape[-1]))

    def quantized_matmul(self, x: Any, weight: Any, scale: Any) -> Any:
        if not (x.dtype is float32 or x.dtype is float64) or scale.dtype is not x.dtype or 0 in x.shape:
            return super().quantized_matmul(x, weight, scale)
        x, *others = map(np.ascontiguousarray, (x, weight, scale))
        matrix = x.reshape((-1, x.shape[-1]))
        out = None
        if len(matrix) <= _FEW and (kernels := family_kernels("quantization")):
            out = kernels.run_quantized_product(matrix, *others)
        if out is None:
            out = _kernel_product(matrix, *others)
        if out is None:
            out = self._call(_product_in_blocks, matrix, *others)
        return out.reshape((*x.shape[:-1], len(scale)))


def _kernel_product(x: Any, weight: Any, scale: Any) -> Any:
    """Return x times the transposed matrix; None if no kernel computes it."""
    key = (x.itemsize, len(x), weight.shape, weight.dtype is uint8, scale.shape[1])
    try:
        found = _known[key]
    except KeyError:
        kernels = family_kernels("products.products")
        found = None if kernels is None else kernels.quantized_product_of(x, weight, scale)
        _known[key] = found
    if found is None:
        return None
    out = np.empty(found.shape, x.dtype)
    found.run(x, weight, out, arrays=scale)
    return out


def _product_in_blocks(x: Any, weight: Any, scale: Any) -> Any:
    """Return x times the transposed matrix, whose rows are converted to floats a block at a time."""
    (rows, columns), outputs = x.shape, len(scale)
    step = max(1, _BLOCK // columns)
    out, block = np.empty((rows, outputs), x.dtype), np.empty((step, columns), x.dtype)
    for start in range(0, outputs, step):
        some = weight[start : start + step], scale[start : start + step], block[: outputs - start]
        convert(*some)
        np.matmul(x, some[2].T, out[:, start : start + step])
    return out


def convert(weight: Any, scale: Any, out: Any) -> None:
    """Write rows of a quantized matrix as floats into a C-contiguous matrix."""
    shape = (*scale.shape, weight.shape[1] // scale.shape[1])
    packed, floats = weight.reshape(shape), out.reshape((*scale.shape, out.shape[1] // scale.shape[1]))
    if weight.dtype is uint8:
        floats[:, :, : shape[2]] = packed & 15
        floats[:, :, shape[2] :] = packed >> 4
        floats -= 8
    else:
        floats[...] = packed
    floats *= scale[:, :, None]
