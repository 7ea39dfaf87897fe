"""`CompiledPooling`: the gradient of max pooling, by a kernel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.windows import Pair, padded_shape
from burnpy_array import ArrayBackend
from burnpy_numpy.compiled.operations import LEAST
from burnpy_numpy.threads import shared

_MOST = 64
"""The number of elements of a window up to which a kernel is made for it."""


class CompiledPooling(ArrayBackend):
    """The gradient of max pooling."""

    def max_pool2d_backward(
        self, grad: Any, x: Any, out: Any, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
    ) -> Any:
        dtype = x.dtype
        suits = x.size >= LEAST and out.size and math.prod(kernel) <= _MOST and (dtype is float32 or dtype is float64)
        if suits and grad.dtype is dtype and out.dtype is dtype:
            gradient = _backward(grad, x, out, kernel, stride, padding, dilation)
            if gradient is not None:
                return gradient
        return super().max_pool2d_backward(grad, x, out, kernel, stride, padding, dilation)


def _backward(grad: Any, x: Any, out: Any, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair) -> Any:
    """Return the gradient of max pooling; None if kernels are off."""
    from burnpy_numpy.compiled.kernel import named_kernel  # not imported before the first large gradient
    from burnpy_numpy.compiled.pooling_kernels import max_pool_backward

    counts: Pair = out.shape[2:]
    padded = padded_shape(x.shape, kernel, stride, padding, dilation, counts) != x.shape
    compiled = named_kernel(max_pool_backward, x.dtype.name, *kernel, padded)
    if compiled is None:
        return None
    total = np.zeros(x.shape, x.dtype)
    arrays = [np.ascontiguousarray(a) for a in (grad, out, x)]
    addresses = [a.ctypes.data for a in (*arrays, total)]
    sizes = (*x.shape[2:], *counts, *stride, *padding, *dilation)
    shared(lambda begin, end: compiled(addresses, sizes, begin, end), math.prod(x.shape[:2]), math.prod(x.shape[2:]))
    compiled.note()
    return total
