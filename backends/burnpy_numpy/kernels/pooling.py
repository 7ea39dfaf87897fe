"""`CompiledPooling`: max and average pooling and their gradients, by kernels."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.pooling import window_shares
from burnpy.backend.operations.windows import Pair, padded_shape, window_counts
from burnpy.backend.primitives import Shape
from burnpy_array import ArrayBackend
from burnpy_numpy.kernels.operations import MANY, block_width, template_kernel

if TYPE_CHECKING:
    from burnpy_numpy.kernels.kernel import NamedKernel

_MOST = 64
"""The number of elements of a window up to which a kernel is made for it."""
_BYTES = 64
"""The size of a vector of windows side by side."""
_TILED_COST = 0.125
"""The time for an element of windows side by side, computed as vectors, relative to other windows."""


class CompiledPooling(ArrayBackend):
    """Max pooling and average pooling, and their gradients."""

    def max_pool2d(self, x: Any, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil_mode: bool) -> Any:
        counts = window_counts(x.shape, kernel, stride, padding, dilation, ceil_mode)
        pool = _pool(x.shape, x.dtype, counts, kernel, stride, padding, dilation)
        compiled = pool.kernel_of("max_pool") if pool.tiled else None
        if compiled is None:
            return super().max_pool2d(x, kernel, stride, padding, dilation, ceil_mode)
        out = pool.new_windows()
        pool.run(compiled, x, out)
        return out

    def max_pool2d_backward(
        self, grad: Any, x: Any, out: Any, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
    ) -> Any:
        pool = _pool(x.shape, x.dtype, out.shape[2:], kernel, stride, padding, dilation)
        compiled = pool.kernel_of("max_pool_backward") if grad.dtype is out.dtype is x.dtype else None
        if compiled is None:
            return super().max_pool2d_backward(grad, x, out, kernel, stride, padding, dilation)
        total = pool.new_gradient()
        pool.run(compiled, grad, out, x, total)
        return total

    def avg_pool2d(
        self,
        x: Any,
        kernel: Pair,
        stride: Pair,
        padding: Pair,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor: int | None,
    ) -> Any:
        counts = window_counts(x.shape, kernel, stride, padding, (1, 1), ceil_mode)
        pool = _pool(x.shape, x.dtype, counts, kernel, stride, padding, (1, 1))
        compiled = pool.kernel_of("avg_pool")
        if compiled is None:
            return super().avg_pool2d(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor)
        out = pool.new_windows()
        pool.run(compiled, x, pool.shares(count_include_pad, divisor), out)
        return out

    def avg_pool2d_backward(
        self,
        grad: Any,
        shape: Shape,
        kernel: Pair,
        stride: Pair,
        padding: Pair,
        count_include_pad: bool,
        divisor: int | None,
    ) -> Any:
        pool = _pool(shape, grad.dtype, grad.shape[2:], kernel, stride, padding, (1, 1))
        compiled = pool.kernel_of("avg_pool_backward")
        if compiled is None:
            return super().avg_pool2d_backward(grad, shape, kernel, stride, padding, count_include_pad, divisor)
        total = pool.new_gradient()
        pool.run(compiled, grad, pool.shares(count_include_pad, divisor), total)
        return total


class _Pool:
    """The windows of a pooling operation, and how its kernels are called.

    Args:
        shape: the shape of x, (N, C, H, W).
        dtype: the dtype of x.
        counts: the numbers of windows in a column and in a row.
        kernel: the size of a window.
        stride: the distance of windows.
        padding: the padding of x.
        dilation: the distance of the elements of a window.
    """

    def __init__(
        self, shape: Shape, dtype: Any, counts: Pair, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
    ) -> None:
        self._shape, self._dtype, self._counts = shape, dtype, counts
        self._windows = (kernel, stride, padding)
        self._large = (
            math.prod(shape) >= MANY
            and math.prod(counts) > 0
            and math.prod(kernel) <= _MOST
            and (dtype is float32 or dtype is float64)
        )
        covered = (counts[0] * kernel[0], counts[1] * kernel[1])
        # windows that touch, do not overlap, and lie within x
        inside = covered[0] <= shape[2] and covered[1] <= shape[3]
        self.tiled = stride == kernel and padding == (0, 0) and dilation == (1, 1) and inside
        self._empty = np.empty if self.tiled and covered == shape[2:] else np.zeros
        self._planes, self._elements = math.prod(shape[:2]), float(math.prod(shape[2:]))
        if self.tiled:
            width = block_width(counts[1], _BYTES // dtype.itemsize)
            self._template = ("tiled_pooling_kernels", "tiled_", (dtype.name, *kernel, width))
            self._sizes = (*shape[2:], *counts)
            self._elements *= _TILED_COST
        else:
            padded = padded_shape(shape, kernel, stride, padding, dilation, counts) != shape
            self._template = ("pooling_kernels", "", (dtype.name, *kernel, padded))
            self._sizes = (*shape[2:], *counts, *stride, *padding, *dilation)

    def kernel_of(self, name: str) -> NamedKernel | None:
        """Return the kernel of an operation.

        None if x is small or of another dtype, windows are large, or kernels are off.

        Args:
            name: the name of a template of `pooling_kernels`, and of `tiled_pooling_kernels` after "tiled_".
        """
        module, prefix, parameters = self._template
        return template_kernel(module, prefix + name, *parameters) if self._large else None

    def run(self, kernel: NamedKernel, *arrays: Any) -> None:
        """Run a kernel for all planes; the last array is the result."""
        kernel.run([*map(np.ascontiguousarray, arrays)], self._sizes, self._planes, self._elements)

    def new_windows(self) -> Any:
        """Return memory for a number for each window."""
        return np.empty((*self._shape[:2], *self._counts), self._dtype)

    def new_gradient(self) -> Any:
        """Return memory for the gradient by x: zeros, unless a kernel writes all of it."""
        return self._empty(self._shape, self._dtype)

    def shares(self, count_include_pad: bool, divisor: int | None) -> Any:
        """Return the factors of the windows of a plane in average pooling."""
        out = np.empty(self._counts, self._dtype)
        out[...] = window_shares(self._shape, *self._windows, self._counts, count_include_pad, divisor)
        return out


_pool = lru_cache(256)(_Pool)
