"""`CompiledPooling`: max and average pooling and their gradients, by kernels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.pooling import window_shares
from burnpy.backend.operations.windows import Pair, padded_shape, window_counts
from burnpy.backend.primitives import Shape
from burnpy_array import ArrayBackend
from burnpy_numpy.compiled.operations import MANY, block_width, template_kernel

if TYPE_CHECKING:
    from burnpy_numpy.compiled.kernel import NamedKernel

_MOST = 64
"""The number of elements of a window up to which a kernel is made for it."""
_BYTES = 64
"""The size of a vector of windows side by side."""
_TILED_COST = 0.125
"""The time for an element of windows side by side, of which a vector is computed at a time, relative to others."""


class CompiledPooling(ArrayBackend):
    """Max pooling and average pooling, and their gradients."""

    def max_pool2d(self, x: Any, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil_mode: bool) -> Any:
        counts = window_counts(x.shape, kernel, stride, padding, dilation, ceil_mode)
        pool = _Pool(x.shape, x.dtype, counts, kernel, stride, padding, dilation)
        compiled = pool.kernel_of("max_pool") if pool.tiled else None
        if compiled is None:
            return super().max_pool2d(x, kernel, stride, padding, dilation, ceil_mode)
        out = pool.new_windows()
        pool.run(compiled, x, out)
        return out

    def max_pool2d_backward(
        self, grad: Any, x: Any, out: Any, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
    ) -> Any:
        pool = _Pool(x.shape, x.dtype, out.shape[2:], kernel, stride, padding, dilation)
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
        pool = _Pool(x.shape, x.dtype, counts, kernel, stride, padding, (1, 1))
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
        pool = _Pool(shape, grad.dtype, grad.shape[2:], kernel, stride, padding, (1, 1))
        compiled = pool.kernel_of("avg_pool_backward")
        if compiled is None:
            return super().avg_pool2d_backward(grad, shape, kernel, stride, padding, count_include_pad, divisor)
        total = pool.new_gradient()
        pool.run(compiled, grad, pool.shares(count_include_pad, divisor), total)
        return total


class _Pool(NamedTuple):
    """The windows of a pooling operation over x (N, C, H, W)."""

    shape: Shape  #: the shape of x
    dtype: Any
    counts: Pair  #: the numbers of windows in a column and in a row
    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair

    @property
    def tiled(self) -> bool:
        """True if windows touch, do not overlap, and lie within x."""
        return (
            self.stride == self.kernel
            and self.padding == (0, 0)
            and self.dilation == (1, 1)
            and self.counts[0] * self.kernel[0] <= self.shape[2]
            and self.counts[1] * self.kernel[1] <= self.shape[3]
        )

    def kernel_of(self, name: str) -> NamedKernel | None:
        """Return the kernel of an operation.

        None if x is small or of another dtype, windows are large, or kernels are off.

        Args:
            name: the name of a template of `pooling_kernels`, and of `tiled_pooling_kernels` after "tiled_".
        """
        if (
            math.prod(self.shape) < MANY
            or not math.prod(self.counts)
            or math.prod(self.kernel) > _MOST
            or not (self.dtype is float32 or self.dtype is float64)
        ):
            return None
        if self.tiled:
            width = block_width(self.counts[1], _BYTES // self.dtype.itemsize)
            return template_kernel("tiled_pooling_kernels", f"tiled_{name}", self.dtype.name, *self.kernel, width)
        padded = padded_shape(self.shape, self.kernel, self.stride, self.padding, self.dilation, self.counts)
        return template_kernel("pooling_kernels", name, self.dtype.name, *self.kernel, padded != self.shape)

    def run(self, kernel: NamedKernel, *arrays: Any) -> None:
        """Run a kernel for all planes; the last array is the result."""
        used = [np.ascontiguousarray(a) for a in arrays]
        sizes = (*self.shape[2:], *self.counts)
        cost = _TILED_COST
        if not self.tiled:
            sizes += (*self.stride, *self.padding, *self.dilation)
            cost = 1
        kernel.run(used, sizes, math.prod(self.shape[:2]), math.prod(self.shape[2:]) * cost)

    def new_windows(self) -> Any:
        """Return memory for a number for each window."""
        return np.empty((*self.shape[:2], *self.counts), self.dtype)

    def new_gradient(self) -> Any:
        """Return memory for the gradient by x: zeros, unless a kernel writes all of it."""
        covered = self.counts[0] * self.kernel[0] == self.shape[2] and self.counts[1] * self.kernel[1] == self.shape[3]
        return (np.empty if self.tiled and covered else np.zeros)(self.shape, self.dtype)

    def shares(self, count_include_pad: bool, divisor: int | None) -> Any:
        """Return the factors of the windows of a plane in average pooling."""
        out = np.empty(self.counts, self.dtype)
        out[...] = window_shares(
            self.shape, self.kernel, self.stride, self.padding, self.counts, count_include_pad, divisor
        )
        return out
