"""ReLU, and GELU of float32, computed block by block, on all threads for large arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.error_origin import raised_by_other_code
from burnpy_array import ArrayBackend
from burnpy_array.softmax import widened
from burnpy_numpy.compiled.operations import MANY, elementwise_kernel
from burnpy_numpy.constants import constant
from burnpy_numpy.errstate import quietly, run
from burnpy_numpy.row_sums import row
from burnpy_numpy.special import HALF, ONE, PHI, constants, tanh_of
from burnpy_numpy.threads import BLOCK, shared
from burnpy_numpy.where import BITS

_ROOT, _CUBIC = math.sqrt(2 / math.pi), 0.044715
_CURVES = {False: PHI, True: constants(_ROOT * _CUBIC, _ROOT)}
"""Polynomials p with 2Φ(x) = 1 + tanh(x · p(x²)) for the normal distribution function Φ, by ``approximate``: accurate
to float32 (False), and GELU's tanh approximation (True)."""
_SLOPE, _START = constants(3 * _ROOT * _CUBIC, _ROOT)
_TOP, _MINUS_HALF = constants(_ROOT, -0.5)


_SMALL = 4096
"""Arrays with fewer elements are computed in one call, with the least overhead."""
_ROW = _SMALL
_TWO_CALLS = 64
"""The number of elements from which the gradient of ReLU is a kernel: below, two calls of NumPy need no compiler."""
_ZERO = {dtype: constant(0.0, dtype) for dtype in (float32, float64)}
_ZERO32 = _ZERO[float32]

_maximum: Any = np.maximum


class Activation(ArrayBackend):
    """Activation functions for NumPy.

    GELU of 16-bit floats is computed in float32; float64 uses the exact implementation of `burnpy_array`.
    """

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
            return self._call(_relu_backward, grad, out, zero)
        try:
            return run(_where_nonzero, grad, out, zero)
        except RuntimeError:
            return quietly(_where_nonzero, grad, out, zero)

    def gelu(self, x: Any, approximate: bool) -> Any:
        if x.dtype is float64:
            return super().gelu(x, approximate)
        return self._call(widened, _gelu, self, approximate, x)

    def gelu_backward(self, grad: Any, x: Any, approximate: bool) -> Any:
        if x.dtype is float64:
            return super().gelu_backward(grad, x, approximate)
        return self._call(widened, _gelu_backward, self, approximate, grad, x)


def _relu(x: Any) -> Any:
    flat, zeros = x.reshape(-1), row(0, _ROW, x.dtype)  # NumPy does not vectorise the maximum with a scalar
    out = np.empty(flat.shape, x.dtype)

    def work(begin: int, end: int) -> None:
        whole = end - (end - begin) % _ROW
        _maximum(flat[begin:whole].reshape((-1, _ROW)), zeros, out=out[begin:whole].reshape((-1, _ROW)))
        _maximum(flat[whole:end], zeros[: end - whole], out=out[whole:end])

    shared(work, flat.size, 0.25)
    return out.reshape(x.shape)


def _relu_backward(grad: Any, out: Any, zero: Any) -> Any:
    bits = BITS[out.dtype.itemsize]
    flat, grads = out.reshape(-1), np.ascontiguousarray(grad).reshape(-1)
    result = np.empty(flat.shape, out.dtype)

    def work(begin: int, end: int) -> None:
        spare = np.empty(min(BLOCK, end - begin), np.bool_)
        for start in range(begin, end, BLOCK):
            stop = min(start + BLOCK, end)
            passed = spare[: stop - start]
            np.not_equal(flat[start:stop], zero, passed)
            np.multiply(grads[start:stop].view(bits), passed, result[start:stop].view(bits))  # as `where.kept`

    shared(work, flat.size, 0.5)
    return result.reshape(out.shape)


def _where_nonzero(grad: Any, out: Any, zero: Any) -> Any:
    return np.where(np.not_equal(out, zero), grad, zero)


def _gelu(_: Any, approximate: bool, x: Any) -> Any:
    flat = x.reshape(-1)
    out = np.empty(flat.shape, x.dtype)

    def work(begin: int, end: int) -> None:
        spare = np.empty(min(BLOCK, end - begin), x.dtype)
        for start in range(begin, end, BLOCK):
            part, out_part = flat[start : min(start + BLOCK, end)], out[start : min(start + BLOCK, end)]
            half = spare[: part.size]
            tanh_of(part, _CURVES[approximate], half, out_part)
            np.add(out_part, ONE, out_part)
            np.multiply(part, HALF, half)  # halve x and not the product, which could overflow
            np.multiply(out_part, half, out_part)

    shared(work, flat.size)
    return out.reshape(x.shape)


def _gelu_backward(_: Any, approximate: bool, grad: Any, x: Any) -> Any:
    flat, grads = x.reshape(-1), grad.reshape(-1)
    out = np.empty(flat.shape, x.dtype)

    def work(begin: int, end: int) -> None:
        spare = np.empty((1 + approximate, min(BLOCK, end - begin)), x.dtype)
        for start in range(begin, end, BLOCK):
            stop = min(start + BLOCK, end)
            out_part = out[start:stop]
            _slope(flat[start:stop], approximate, out_part, spare[:, : stop - start])
            np.multiply(out_part, grads[start:stop], out_part)

    shared(work, flat.size)
    return out.reshape(x.shape)


def _slope(x: Any, approximate: bool, out: Any, spare: Any) -> None:
    """Write GELU's derivative, ½ (2Φ(x) + 2x · φ(x)) with φ = Φ', to ``out``; ``spare`` is memory for the factors."""
    density = spare[0]
    tanh_of(x, _CURVES[approximate], density, out)  # density: x² first
    if approximate:
        np.multiply(density, _SLOPE, density)
        np.add(density, _START, density)
        np.subtract(ONE, out, spare[1])
        np.multiply(density, spare[1], density)
        np.add(out, ONE, out)
        np.multiply(density, out, density)
    else:
        np.add(out, ONE, out)
        np.multiply(density, _MINUS_HALF, density)
        np.exp(density, density)
        np.multiply(density, _TOP, density)
    np.multiply(density, x, density)
    np.add(out, density, out)
    np.multiply(out, HALF, out)
