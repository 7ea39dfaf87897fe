"""Pooling, one launch each."""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import int64
from burnpy.backend.operations.windows import Pair, window_counts
from burnpy.backend.primitives import DType, Shape
from burnpy_array import ArrayBackend
from burnpy_cupy.library import Kernels


class Pooling(ArrayBackend):
    """Pooling by gathering; sums of 16-bit floats are accumulated in float32."""

    _kernels: Kernels

    def max_pool2d(self, x: Any, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil_mode: bool) -> Any:
        size = window_counts(x.shape, kernel, stride, padding, dilation, ceil_mode)
        where = (*kernel, *stride, *padding, *dilation)
        return self._pooled("burnpy_max_pool", (x,), (*x.shape[:2], *size), x.dtype, x.shape, size, where)

    def max_pool2d_indices(
        self, x: Any, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil_mode: bool
    ) -> Any:
        size = window_counts(x.shape, kernel, stride, padding, dilation, ceil_mode)
        where = (*kernel, *stride, *padding, *dilation)
        return self._pooled("burnpy_max_pool_indices", (x,), (*x.shape[:2], *size), int64, x.shape, size, where)

    def max_pool2d_backward(
        self, grad: Any, x: Any, out: Any, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
    ) -> Any:
        where, given = (*kernel, *stride, *padding, *dilation), (grad, x, out)
        return self._pooled("burnpy_max_pool_backward", given, x.shape, x.dtype, x.shape, out.shape[2:], where)

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
        size = window_counts(x.shape, kernel, stride, padding, (1, 1), ceil_mode)
        where = (*kernel, *stride, *padding, count_include_pad, divisor or 0)
        return self._pooled("burnpy_avg_pool", (x,), (*x.shape[:2], *size), x.dtype, x.shape, size, where)

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
        where = (*kernel, *stride, *padding, count_include_pad, divisor or 0)
        return self._pooled("burnpy_avg_pool_backward", (grad,), shape, grad.dtype, shape, grad.shape[2:], where)

    def adaptive_avg_pool2d(self, x: Any, size: Pair) -> Any:
        if size == (1, 1):  # where one thread for each plane would add up much, and others nothing
            return super().adaptive_avg_pool2d(x, size)
        return self._pooled("burnpy_adaptive_avg_pool", (x,), (*x.shape[:2], *size), x.dtype, x.shape, size, ())

    def adaptive_avg_pool2d_backward(self, grad: Any, shape: Shape) -> Any:
        size = grad.shape[2:]
        return self._pooled("burnpy_adaptive_avg_pool_backward", (grad,), shape, grad.dtype, shape, size, ())

    def adaptive_max_pool2d_indices(self, x: Any, size: Pair) -> Any:
        return self._pooled("burnpy_adaptive_max_pool_indices", (x,), (*x.shape[:2], *size), int64, x.shape, size, ())

    def _pooled(
        self,
        name: str,
        given: tuple[Any, ...],
        shape: Shape,
        dtype: DType,
        image: Shape,
        size: Shape,
        where: tuple[int, ...],
    ) -> Any:
        """Launch a kernel for a result of a shape and dtype: of arrays, the shape of x, the number of windows along its
        last two dimensions, and the kernel's further arguments."""
        out = self._call(self.xp.empty, shape, dtype)
        self._call(self._kernels.counting(name, out, *given), *given, *image[1:], *size, *where, out)
        return out
