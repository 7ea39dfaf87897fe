"""Resampling block by block, on all threads for large inputs, and sums of elements at places by kernels.

The elements at a tap's places are taken, weighed and added while they are in the cache.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, int64
from burnpy.backend.operations.resampling import Sampling, Taps, taps, transposed_taps
from burnpy.backend.primitives import Shape
from burnpy_array import ArrayBackend
from burnpy_array.array_base import is_half
from burnpy_numpy.cpu_threads import BLOCK, shared
from burnpy_numpy.kernels.kernel import family_kernels

_MIN_PRODUCTS = 16
"""The least number of products for which kernels are used."""


class NumPyResampling(ArrayBackend):
    """Resampling in blocks, and sums of elements at places, times weights, by kernels; 16-bit floats in float32."""

    def resample(self, x: Any, dim: int, size: int, how: Sampling) -> Any:
        return self._taken(x, dim, taps(x.shape[dim], size, how))

    def resample_backward(self, grad: Any, dim: int, size: int, how: Sampling) -> Any:
        return self._taken(grad, dim, transposed_taps(size, grad.shape[dim], how))

    def _taken(self, x: Any, dim: int, table: Taps) -> Any:
        if is_half(x.dtype) and table.weights is not None:
            return self._in_float32(self._taken, x, dim, table)[0]
        return self._call(_resampled, x, dim, table)

    def weighted_gather(self, x: Any, places: Any, weights: Any) -> Any:
        out = None
        if _suits(x, places, weights) and x.shape[2] and (kernels := family_kernels("resampling")):
            out = kernels.run_weighted_gather(x, places, weights)
        return super().weighted_gather(x, places, weights) if out is None else out

    def weighted_scatter(self, grad: Any, places: Any, weights: Any, size: int) -> Any:
        out = None
        if _suits(grad, places, weights) and size and (kernels := family_kernels("resampling")):
            out = kernels.run_weighted_scatter(grad, places, weights, size)
        return super().weighted_scatter(grad, places, weights, size) if out is None else out

    def gathered_products(self, grad: Any, x: Any, places: Any) -> Any:
        out = None
        if _suits(grad, places, x) and x.shape[2] and (kernels := family_kernels("resampling")):
            out = kernels.run_gathered_products(grad, x, places)
        return super().gathered_products(grad, x, places) if out is None else out


def _suits(x: Any, places: Any, y: Any) -> bool:
    """Return whether kernels are used for two arrays of the usual dtypes and these places."""
    return (
        places.size * x.shape[1] >= _MIN_PRODUCTS
        and (x.dtype is float32 or x.dtype is float64)
        and y.dtype is x.dtype
        and places.dtype is int64
    )


def _resampled(x: Any, dim: int, table: Taps) -> Any:
    places, weights = table
    shape: Shape = (*x.shape[:dim], places.shape[1], *x.shape[dim + 1 :])
    if weights is None:
        return x.take(places[0], dim)
    outer, inner = math.prod(shape[:dim]), math.prod(shape[dim + 1 :])
    planes = np.ascontiguousarray(x).reshape((outer, x.shape[dim], inner))
    out = np.empty((outer, shape[dim], inner), x.dtype)
    if inner == 1:  # of runs of one element, taking from the last dim of a matrix is faster
        planes, out = planes[:, :, 0], out[:, :, 0]
    factors = [w.astype(x.dtype).reshape((-1, *(1,) * (planes.ndim - 2))) for w in weights]
    step = max(1, BLOCK // max(1, shape[dim] * inner))

    def work(begin: int, end: int) -> None:
        memory = np.empty((min(step, end - begin), *out.shape[1:]), x.dtype)
        for start in range(begin, end, step):
            block = slice(start, min(start + step, end))
            part, total = planes[block], out[block]
            more = memory[: len(part)]
            part.take(places[0], 1, total, "clip")
            np.multiply(total, factors[0], total)
            for index, factor in zip(places[1:], factors[1:], strict=True):
                part.take(index, 1, more, "clip")
                np.multiply(more, factor, more)
                np.add(total, more, total)

    shared(work, outer, shape[dim] * inner * len(places))
    return out.reshape(shape)
