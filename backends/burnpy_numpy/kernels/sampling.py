"""`CompiledSampling`: sums of elements at given places, times weights, and their gradients, as kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, int64
from burnpy_array import ArrayBackend
from burnpy_numpy.kernels.operations import block_starts, block_width, template_kernel

_MIN_PRODUCTS = 512
"""The number of products from which kernels are used."""
_POINTS = 8
"""The number of points of a vector."""
_CHANNELS = 4
"""The number of channels for which places are read once."""


class CompiledSampling(ArrayBackend):
    """Sampling of float32 and float64."""

    def weighted_gather(self, x: Any, places: Any, weights: Any) -> Any:
        kernel, width, block = None, block_width(places.shape[2], _POINTS), block_width(x.shape[1], _CHANNELS)
        if _suits(x, places, weights) and x.shape[2]:
            kernel = template_kernel("sampling_kernels", "weighted_gather", x.dtype.name, width, block)
        if kernel is None:
            return super().weighted_gather(x, places, weights)
        (n, channels, elements), (_, taps, points) = x.shape, places.shape
        firsts, starts = block_starts(channels, block), block_starts(points, width)
        out = np.empty((n, channels, points), x.dtype)
        arrays = [*map(np.ascontiguousarray, (x, places, weights)), out, firsts, starts]
        sizes = (len(firsts), channels, elements, taps, points, len(starts))
        kernel.run(arrays, sizes, n * len(firsts), block * taps * points)
        return out

    def weighted_scatter(self, grad: Any, places: Any, weights: Any, size: int) -> Any:
        kernel = None
        if _suits(grad, places, weights) and size:
            kernel = template_kernel("sampling_kernels", "weighted_scatter", grad.dtype.name)
        if kernel is None:
            return super().weighted_scatter(grad, places, weights, size)
        (n, channels, points), taps = grad.shape, places.shape[1]
        out = np.zeros((n, channels, size), grad.dtype)
        arrays = [*map(np.ascontiguousarray, (grad, places, weights)), out]
        kernel.run(arrays, (channels, size, taps, points), n * channels, taps * points)
        return out

    def gathered_products(self, grad: Any, x: Any, places: Any) -> Any:
        kernel, width = None, block_width(places.shape[2], _POINTS)
        if _suits(grad, places, x) and x.shape[2]:
            kernel = template_kernel("sampling_kernels", "gathered_products", x.dtype.name, width)
        if kernel is None:
            return super().gathered_products(grad, x, places)
        (n, channels, elements), (_, taps, points) = x.shape, places.shape
        out, starts = np.empty(places.shape, x.dtype), block_starts(points, width)
        arrays = [np.ascontiguousarray(x), np.ascontiguousarray(places), np.ascontiguousarray(grad), out, starts]
        kernel.run(arrays, (channels, elements, taps, points, len(starts)), n, channels * taps * points)
        return out


def _suits(x: Any, places: Any, y: Any) -> bool:
    """Return whether kernels are used for two arrays of the usual dtypes and these places."""
    return (
        places.size * x.shape[1] >= _MIN_PRODUCTS
        and (x.dtype is float32 or x.dtype is float64)
        and y.dtype is x.dtype
        and places.dtype is int64
    )
