"""`CompiledChannels`: normalization over all dimensions but the channels, as kernels on the planes of the channels.

A plane is a row of a kernel. What belongs to a channel is a number for each of its planes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.primitives import Dims
from burnpy_array import ArrayBackend
from burnpy_numpy.compiled.operations import LEAST, kernel_of
from burnpy_numpy.normalization import are_channels


class CompiledChannels(ArrayBackend):
    """Batch norm of images, forward and backward."""

    def _normalize(self, x: Any, weight: Any, bias: Any, dims: Dims, eps: float) -> tuple[Any, Any, Any]:
        sums = squares = scaled = None
        if x.size >= LEAST and are_channels(x, weight, dims) and bias.shape == weight.shape:
            sums = kernel_of("sum_of_rows", ("full",), x.dtype, ())
            squares = kernel_of("squares_of_rows", ("full", "column"), x.dtype, ())
            scaled = kernel_of("scaled_rows", ("full", "column", "column", "column"), x.dtype, ())
        if sums is None or squares is None or scaled is None:
            return super()._normalize(x, weight, bias, dims, eps)
        planes = _Planes(x)
        mean = planes.by_channel(sums([planes.x], (), *planes.shape)[0]) / planes.count
        means = planes.by_plane(mean)
        var = planes.by_channel(squares([planes.x, means], (), *planes.shape)[0]) / planes.count
        scale = np.reciprocal(np.sqrt(var + eps)) * weight.reshape(-1)
        numbers = [means, planes.by_plane(scale), planes.by_plane(bias.reshape(-1))]
        (out,) = scaled([planes.x, *numbers], (), *planes.shape)
        small = tuple(1 if d in dims else k for d, k in enumerate(x.shape))
        return out.reshape(x.shape), mean.reshape(small), var.reshape(small)

    def _normalize_backward(
        self, grad: Any, x: Any, weight: Any, mean: Any, var: Any, dims: Dims, eps: float
    ) -> tuple[Any, Any, Any]:
        products = combined = None
        if x.size >= LEAST and are_channels(x, weight, dims) and (grad.shape, grad.dtype) == (x.shape, x.dtype):
            products = kernel_of("products_of_rows", ("full", "full", "column"), x.dtype, ())
            combined = kernel_of("combined_rows", ("full", "full", *("column",) * 4), x.dtype, ())
        if products is None or combined is None:
            return super()._normalize_backward(grad, x, weight, mean, var, dims, eps)
        planes, grads = _Planes(x), _Planes(grad).x
        means = planes.by_plane(mean.reshape(-1))
        scale = np.reciprocal(np.sqrt(var.reshape(-1) + eps))
        along, level = map(planes.by_channel, products([grads, planes.x, means], (), *planes.shape))
        grad_weight = along * scale
        numbers = (grad_weight * scale / planes.count, level / planes.count, scale * weight.reshape(-1))
        (out,) = combined([grads, planes.x, means, *map(planes.by_plane, numbers)], (), *planes.shape)
        return out.reshape(x.shape), grad_weight.reshape(weight.shape), level.reshape(weight.shape)


class _Planes:
    """An array (N, C, …) as a matrix of its planes, of shape (N · C, size)."""

    def __init__(self, x: Any) -> None:
        self.members, self.channels = x.shape[:2]
        self.x = x.reshape((self.members * self.channels, -1))
        self.shape = self.x.shape
        self.count = self.members * self.shape[1]
        """The number of elements of a channel."""

    def by_channel(self, sums: Any) -> Any:
        """Add up a number of each plane by channel."""
        return sums.reshape((self.members, self.channels)).sum(0)

    def by_plane(self, numbers: Any) -> Any:
        """Repeat a number of each channel for each of its planes."""
        out = np.empty((self.members, self.channels), self.x.dtype)
        out[...] = numbers
        return out.reshape((-1, 1))
