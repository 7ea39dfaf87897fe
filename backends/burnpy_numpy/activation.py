"""Activation functions: kernels of their defaults, and ReLU by NumPy on all threads for large arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.error_origin import raised_by_other_code
from burnpy_array import ArrayBackend
from burnpy_numpy.calls import constant, quietly, run
from burnpy_numpy.kernels.kernel import (
    MANY,
    elementwise_kernel,
)
from burnpy_numpy.reduction import row
from burnpy_numpy.threads import shared

_SMALL = 4096
"""Arrays with fewer elements are computed in one call, with the least overhead."""
_TWO_CALLS = 64
"""The number of elements from which the gradient of ReLU is a kernel: below, two calls of NumPy need no compiler."""
_ZERO = {dtype: constant(0.0, dtype) for dtype in (float32, float64)}
_ZERO32 = _ZERO[float32]
_maximum: Any = np.maximum


class NumPyActivation(ArrayBackend):
    """Activation functions as kernels, one pass over the memory; ReLU in as few calls of NumPy as possible."""

    def relu(self, x: Any) -> Any:
        kernel = elementwise_kernel("relu", (), x) if x.size >= MANY else None
        if kernel is not None:
            return kernel.alike((x,))
        if x.size < _SMALL:
            try:
                return run(_maximum, x, _ZERO32 if x.dtype is float32 else _ZERO[x.dtype])
            except (RuntimeError, KeyError) as error:  # the context of `run` is in use; a 16-bit dtype
                if raised_by_other_code(error, ()):
                    raise
                return self.maximum(x, 0.0)
        if x.dtype in _ZERO and x.flags.c_contiguous:
            return self._call(_relu, x)
        return self.maximum(x, 0.0)

    def relu_backward(self, grad: Any, out: Any) -> Any:
        zero = _ZERO.get(out.dtype)
        if zero is None:
            return super().relu_backward(grad, out)
        kernel = elementwise_kernel("relu_backward", (), grad, out) if out.size >= _TWO_CALLS else None
        if kernel is not None:
            return kernel.alike((grad, out))
        if out.size >= _SMALL:
            return super().relu_backward(grad, out)
        try:
            return run(_where_nonzero, grad, out, zero)
        except RuntimeError:
            return quietly(_where_nonzero, grad, out, zero)

    def sigmoid(self, x: Any) -> Any:
        kernel = elementwise_kernel("sigmoid", (), x)
        return super().sigmoid(x) if kernel is None else kernel.alike((x,))

    def gelu(self, x: Any, approximate: bool) -> Any:
        kernel = elementwise_kernel("gelu", (approximate,), x)
        return super().gelu(x, approximate) if kernel is None else kernel.alike((x,))

    def gelu_backward(self, grad: Any, x: Any, approximate: bool) -> Any:
        kernel = elementwise_kernel("gelu_backward", (approximate,), grad, x)
        return super().gelu_backward(grad, x, approximate) if kernel is None else kernel.alike((grad, x))

    def silu(self, x: Any) -> Any:
        kernel = elementwise_kernel("silu", (), x)
        return super().silu(x) if kernel is None else kernel.alike((x,))

    def silu_backward(self, grad: Any, x: Any) -> Any:
        kernel = elementwise_kernel("silu_backward", (), grad, x)
        return super().silu_backward(grad, x) if kernel is None else kernel.alike((grad, x))

    def softplus(self, x: Any, beta: float) -> Any:
        kernel = elementwise_kernel("softplus", (beta,), x)
        return super().softplus(x, beta) if kernel is None else kernel.alike((x,))

    def leaky_relu(self, x: Any, negative_slope: float) -> Any:
        kernel = elementwise_kernel("leaky_relu", (negative_slope,), x)
        return super().leaky_relu(x, negative_slope) if kernel is None else kernel.alike((x,))

    def elu(self, x: Any, alpha: float, scale: float, input_scale: float) -> Any:
        kernel = elementwise_kernel("elu", (alpha, scale, input_scale), x)
        return super().elu(x, alpha, scale, input_scale) if kernel is None else kernel.alike((x,))

    def hardtanh(self, x: Any, low: float, high: float) -> Any:
        kernel = elementwise_kernel("hardtanh", (low, high), x)
        return super().hardtanh(x, low, high) if kernel is None else kernel.alike((x,))

    def hardswish(self, x: Any) -> Any:
        kernel = elementwise_kernel("hardswish", (), x)
        return super().hardswish(x) if kernel is None else kernel.alike((x,))

    def mish(self, x: Any) -> Any:
        kernel = elementwise_kernel("mish", (), x)
        return super().mish(x) if kernel is None else kernel.alike((x,))


def _relu(x: Any) -> Any:
    flat, zeros = x.reshape(-1), row(0, _SMALL, x.dtype)  # NumPy does not vectorise the maximum with a scalar
    out = np.empty(flat.shape, x.dtype)

    def work(begin: int, end: int) -> None:
        whole = end - (end - begin) % _SMALL
        _maximum(flat[begin:whole].reshape((-1, _SMALL)), zeros, out=out[begin:whole].reshape((-1, _SMALL)))
        _maximum(flat[whole:end], zeros[: end - whole], out=out[whole:end])

    shared(work, flat.size, 0.25)
    return out.reshape(x.shape)


def _where_nonzero(grad: Any, out: Any, zero: Any) -> Any:
    return np.where(np.not_equal(out, zero), grad, zero)
