"""Activation functions and softmax by kernels of their defaults; ReLU and few rows in as few calls as possible."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import divide, exp, log, subtract

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.errors import raised_by_other_code
from burnpy.backend.primitives import Dims
from burnpy_array import ArrayBackend
from burnpy_array.array_base import is_half
from burnpy_numpy.cpu_threads import shared
from burnpy_numpy.kernels.kernel import LONGEST, MANY, TRANSPOSED, contiguous, elementwise_kernel, kernel_of_numbers
from burnpy_numpy.numpy_calls import constant, quietly, run
from burnpy_numpy.programs import row_plan
from burnpy_numpy.reduction import row

_ONE_BLOCK = 4096
"""Arrays with fewer elements are computed in one call, with the least overhead."""
_TWO_CALLS = 64
"""The least number of elements for which ReLU's gradient is a kernel: below, two calls of NumPy need no compiler."""
_ZERO = {dtype: constant(0.0, dtype) for dtype in (float32, float64)}
_ZERO32 = _ZERO[float32]
_maximum: Any = np.maximum


class NumPyActivation(ArrayBackend):
    """Activation functions as kernels, one pass over the memory; ReLU in as few calls of NumPy as possible."""

    def relu(self, x: Any) -> Any:
        kernel = elementwise_kernel("relu", (), x) if x.size >= MANY else None
        if kernel is not None:
            return kernel.alike((x,))
        if x.size < _ONE_BLOCK:
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
        kernel = elementwise_kernel("relu_backward", (), grad, out) if out.size >= _TWO_CALLS else None
        if kernel is not None:
            return kernel.alike((grad, out))
        zero = _ZERO.get(out.dtype)
        if zero is None or out.size >= _ONE_BLOCK:
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
        kernel = kernel_of_numbers("softplus", x, 1)
        return super().softplus(x, beta) if kernel is None else kernel.alike((x,), (beta,))

    def leaky_relu(self, x: Any, negative_slope: float) -> Any:
        kernel = kernel_of_numbers("leaky_relu", x, 1)
        return super().leaky_relu(x, negative_slope) if kernel is None else kernel.alike((x,), (negative_slope,))

    def elu(self, x: Any, alpha: float, scale: float, input_scale: float) -> Any:
        kernel = kernel_of_numbers("weighted_elu", x, 3)
        if kernel is None:
            return super().elu(x, alpha, scale, input_scale)
        return kernel.alike((x,), (alpha * scale, scale, input_scale))

    def hardswish(self, x: Any) -> Any:
        kernel = elementwise_kernel("hardswish", (), x)
        return super().hardswish(x) if kernel is None else kernel.alike((x,))

    def mish(self, x: Any) -> Any:
        kernel = elementwise_kernel("mish", (), x)
        return super().mish(x) if kernel is None else kernel.alike((x,))


def _relu(x: Any) -> Any:
    flat, zeros = x.reshape(-1), row(0, _ONE_BLOCK, x.dtype)  # NumPy does not vectorise the maximum with a scalar
    out = np.empty(flat.shape, x.dtype)

    def work(begin: int, end: int) -> None:
        whole = end - (end - begin) % _ONE_BLOCK
        _maximum(flat[begin:whole].reshape((-1, _ONE_BLOCK)), zeros, out=out[begin:whole].reshape((-1, _ONE_BLOCK)))
        _maximum(flat[whole:end], zeros[: end - whole], out=out[whole:end])

    shared(work, flat.size, 0.25)
    return out.reshape(x.shape)


def _where_nonzero(grad: Any, out: Any, zero: Any) -> Any:
    return np.where(np.not_equal(out, zero), grad, zero)


_LEAST_FOR_KERNEL = 512
"""The least number of elements for which the arithmetic takes longer than the calls."""

_INNER = 16
"""The most elements of the dimensions after another one than the last for which arrays are transposed."""
_largest: Any = np.maximum.reduce


class NumPySoftmax(ArrayBackend):
    """Softmax of rows by kernels, and of few small rows by few calls; others as in `burnpy_array`."""

    def softmax(self, x: Any, dim: int) -> Any:
        out = _by_rows("softmax", dim, x)
        if out is not None:
            return out
        if x.size >= MANY and is_half(x.dtype):
            return self._in_float32(self.softmax, x, dim)[0]
        if not _few(x, dim):
            return super().softmax(x, dim)
        try:
            return run(_softmax, x)
        except RuntimeError:
            return quietly(_softmax, x)

    def softmax_backward(self, grad: Any, out: Any, dim: int) -> Any:
        found = _by_rows("softmax_backward", dim, grad, out)
        return super().softmax_backward(grad, out, dim) if found is None else found

    def log_softmax(self, x: Any, dim: int) -> Any:
        out = _by_rows("log_softmax", dim, x)
        if out is not None:
            return out
        if x.size >= MANY and is_half(x.dtype):
            return self._in_float32(self.log_softmax, x, dim)[0]
        if not _few(x, dim):
            return super().log_softmax(x, dim)
        try:
            return run(_log_softmax, x)
        except RuntimeError:
            return quietly(_log_softmax, x)

    def logsumexp(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        if x.size < MANY:
            return super().logsumexp(x, dims, keepdim)
        if is_half(x.dtype):
            return self.cast(self.logsumexp(self.cast(x, float32), dims, keepdim), x.dtype)
        shape = x.shape
        plan = row_plan(("logsumexp", ("full",), ((1,), True), dims, shape, x.dtype))
        if plan is None:
            return super().logsumexp(x, dims, keepdim)
        kernel, rows, columns, kept = plan
        (out,) = kernel.outputs((x,), (kept if keepdim else shape[: dims[0]],), rows, columns)
        return out

    def log_softmax_backward(self, grad: Any, out: Any, dim: int) -> Any:
        found = _by_rows("log_softmax_backward", dim, grad, out)
        return super().log_softmax_backward(grad, out, dim) if found is None else found


def _by_rows(name: str, dim: int, x: Any, y: Any = None) -> Any:
    """Return an operation along a dimension; None without a kernel. Of few elements, or short inner loops of NumPy, the
    rows of transposed copies are computed."""
    shape, count = x.shape, x.shape[dim]
    last = dim == len(shape) - 1
    if count > LONGEST or not (last or x.size < TRANSPOSED or math.prod(shape[dim + 1 :]) <= min(count, _INNER)):
        return None
    kernel = elementwise_kernel(name, (1,), x, y)
    if kernel is None:
        return None
    xs = (x,) if y is None else (x, y)
    if last:
        return kernel.alike(xs)
    return contiguous(kernel.alike([contiguous(each.swapaxes(dim, -1)) for each in xs]).swapaxes(dim, -1))


def _few(x: Any, dim: int) -> bool:
    dtype = x.dtype
    return (
        (dtype is float32 or dtype is float64)
        and 0 < x.size < _LEAST_FOR_KERNEL
        and (x.ndim == 1 or (x.ndim == 2 and dim == 1))
    )


def _shifted(x: Any) -> Any:
    """Subtract the maximum of each row, which is NaN if the row contains NaN."""
    if x.ndim == 1:
        return subtract(x, x[x.argmax()])
    return subtract(x, _largest(x, 1, None, None, True))


def _sums(e: Any) -> Any:
    """Return the sum of each row, in a shape that broadcasts against the rows."""
    shape = e.shape
    out = e.dot(row(1, shape[-1], e.dtype))
    return out if len(shape) == 1 else out.reshape((shape[0], 1))


def _softmax(x: Any) -> Any:
    e = _shifted(x)
    exp(e, e)
    return divide(e, _sums(e), e)


def _log_softmax(x: Any) -> Any:
    shifted = _shifted(x)
    return subtract(shifted, log(_sums(exp(shifted))), shifted)
