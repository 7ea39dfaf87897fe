"""`CompiledPooling`: average pooling, and the gradients of average and max pooling, by kernels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.pooling import window_shares
from burnpy.backend.operations.windows import Pair, padded_shape, window_counts
from burnpy.backend.primitives import Shape
from burnpy_array import ArrayBackend
from burnpy_numpy.compiled.operations import MANY
from burnpy_numpy.threads import shared

if TYPE_CHECKING:
    from burnpy_numpy.compiled.kernel import NamedKernel

_MOST = 64
"""The number of elements of a window up to which a kernel is made for it."""


class CompiledPooling(ArrayBackend):
    """Average pooling, and the gradients of average and max pooling."""

    def max_pool2d_backward(
        self, grad: Any, x: Any, out: Any, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
    ) -> Any:
        compiled = None
        if grad.dtype is out.dtype is x.dtype:
            compiled = _kernel("max_pool_backward", x.shape, x.dtype, out.shape, (kernel, stride, padding, dilation))
        if compiled is None:
            return super().max_pool2d_backward(grad, x, out, kernel, stride, padding, dilation)
        total = np.zeros(x.shape, x.dtype)
        _run(compiled, (grad, out, x, total), x.shape, out.shape, (stride, padding, dilation))
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
        shape = (*x.shape[:2], *window_counts(x.shape, kernel, stride, padding, (1, 1), ceil_mode))
        compiled = _kernel("avg_pool", x.shape, x.dtype, shape, (kernel, stride, padding, (1, 1)))
        if compiled is None:
            return super().avg_pool2d(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor)
        shares = window_shares(x.shape, kernel, stride, padding, shape[2:], count_include_pad, divisor)
        out = np.empty(shape, x.dtype)
        _run(compiled, (x, _filled(shares, shape, x.dtype), out), x.shape, shape, (stride, padding, (1, 1)))
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
        compiled = _kernel("avg_pool_backward", shape, grad.dtype, grad.shape, (kernel, stride, padding, (1, 1)))
        if compiled is None:
            return super().avg_pool2d_backward(grad, shape, kernel, stride, padding, count_include_pad, divisor)
        shares = window_shares(shape, kernel, stride, padding, grad.shape[2:], count_include_pad, divisor)
        total = np.zeros(shape, grad.dtype)
        arrays = (grad, _filled(shares, grad.shape, grad.dtype), total)
        _run(compiled, arrays, shape, grad.shape, (stride, padding, (1, 1)))
        return total


def _filled(shares: Any, shape: Shape, dtype: Any) -> Any:
    """Return the factors of the windows of a plane as an array."""
    out = np.empty(shape[2:], dtype)
    out[...] = shares
    return out


def _kernel(
    name: str, shape: Shape, dtype: Any, windows: Shape, how: tuple[Pair, Pair, Pair, Pair]
) -> NamedKernel | None:
    """Return the kernel for x of a shape and dtype; None if it is small, or kernels are off.

    Args:
        name: the name of a template of `pooling_kernels`.
        shape: the shape of x.
        dtype: the dtype of x.
        windows: the shape of the result of pooling.
        how: kernel, stride, padding and dilation.
    """
    if (
        math.prod(shape) < MANY
        or not math.prod(windows)
        or math.prod(how[0]) > _MOST
        or not (dtype is float32 or dtype is float64)
    ):
        return None
    from burnpy_numpy.compiled import pooling_kernels  # not imported before the first large pool
    from burnpy_numpy.compiled.kernel import named_kernel

    padded = padded_shape(shape, *how, (windows[2], windows[3])) != shape
    return named_kernel(getattr(pooling_kernels, name), "float32" if dtype is float32 else "float64", *how[0], padded)


def _run(kernel: NamedKernel, arrays: tuple[Any, ...], shape: Shape, windows: Shape, how: tuple[Pair, ...]) -> None:
    """Run a kernel for all planes; the last array, the result, is contiguous."""
    used = [np.ascontiguousarray(a) for a in arrays]
    addresses = [a.ctypes.data for a in used]
    sizes = (*shape[2:], *windows[2:], *[n for pair in how for n in pair])
    shared(lambda begin, end: kernel(addresses, sizes, begin, end), math.prod(shape[:2]), math.prod(shape[2:]))
    kernel.note()
