"""Activation functions, softmax, logsumexp and their derivatives, computed in place on their temporaries."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from burnpy.backend.dtypes import float32
from burnpy.backend.primitives import Dims
from burnpy_array.array_base import ArrayBase, is_half
from burnpy_array.indexing import grid
from burnpy_array.pointwise import sigmoid

_ROOT = math.sqrt(2 / math.pi)
_CUBIC = 0.044715
_DENSITY_IS_ZERO = 40.0  # beyond which normal densities are 0


class ArrayActivation(ArrayBase):
    """Activation functions; 16-bit floats are computed in float32, so that they are rounded once."""

    def relu(self, x: Any) -> Any:
        return self._binary(self.xp.maximum, x, 0.0)

    def gelu(self, x: Any, approximate: bool) -> Any:
        return self._call(widened, _gelu, self, approximate, x)

    def gelu_backward(self, grad: Any, x: Any, approximate: bool) -> Any:
        return self._call(widened, _gelu_backward, self, approximate, grad, x)

    def silu(self, x: Any) -> Any:
        return self._call(widened, _silu, self, None, x)

    def silu_backward(self, grad: Any, x: Any) -> Any:
        return self._call(widened, _silu_backward, self, None, grad, x)


def _phi(b: ArrayBase, x: Any, approximate: bool) -> Any:
    """Return the normal distribution function, or its tanh approximation, ½(1 + tanh u) = sigmoid(2u)."""
    xp = b.xp
    if approximate:
        u = xp.asarray(xp.multiply(x, x))
        xp.multiply(u, 2 * _ROOT * _CUBIC, u)
        xp.add(u, 2 * _ROOT, u)
        return sigmoid(xp, xp.multiply(u, x, u))
    phi = xp.asarray(b._erf(xp.multiply(x, math.sqrt(0.5))))
    xp.add(phi, 1.0, phi)
    return xp.multiply(phi, 0.5, phi)


def _gelu(b: ArrayBase, approximate: bool, x: Any) -> Any:
    return b.xp.multiply(x, _phi(b, x, approximate))


def _gelu_backward(b: ArrayBase, approximate: bool, grad: Any, x: Any) -> Any:
    xp = b.xp
    x = xp.clip(x, -_DENSITY_IS_ZERO, _DENSITY_IS_ZERO)
    phi = _phi(b, x, approximate)
    density = xp.asarray(xp.multiply(x, x))
    if approximate:
        xp.multiply(density, 6 * _ROOT * _CUBIC, density)
        xp.add(density, 2 * _ROOT, density)
        xp.multiply(density, phi, density)
        xp.multiply(density, xp.subtract(1.0, phi), density)
    else:
        xp.multiply(density, -0.5, density)
        xp.exp(density, density)
        xp.multiply(density, 1 / math.sqrt(2 * math.pi), density)
    xp.multiply(density, x, density)
    xp.add(density, phi, density)
    return xp.multiply(density, grad, density)


def _silu(b: ArrayBase, _: None, x: Any) -> Any:
    return b.xp.multiply(x, sigmoid(b.xp, x))


def _silu_backward(b: ArrayBase, _: None, grad: Any, x: Any) -> Any:
    xp = b.xp
    s = sigmoid(xp, x)
    slope = xp.asarray(xp.subtract(1.0, s))
    xp.multiply(slope, x, slope)
    xp.add(slope, 1.0, slope)
    xp.multiply(slope, s, slope)
    return xp.multiply(slope, grad, slope)


class ArraySoftmax(ArrayBase):
    """Softmax, log-softmax, logsumexp and cross entropy; 16-bit floats are computed in float32."""

    def softmax(self, x: Any, dim: int) -> Any:
        return self._call(widened, _softmax, self, dim, x)

    def softmax_backward(self, grad: Any, out: Any, dim: int) -> Any:
        return self._call(widened, _softmax_backward, self, dim, grad, out)

    def log_softmax(self, x: Any, dim: int) -> Any:
        return self._call(widened, _log_softmax, self, dim, x)

    def log_softmax_backward(self, grad: Any, out: Any, dim: int) -> Any:
        return self._call(widened, _log_softmax_backward, self, dim, grad, out)

    def logsumexp(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        return self._call(widened, _logsumexp, self, (dims, keepdim), x)

    def cross_entropy(self, x: Any, index: Any, dim: int) -> tuple[Any, Any]:
        losses, total = self._call(_cross_entropy, self, x, index, dim)
        return losses, total

    def cross_entropy_backward(self, grad: Any, x: Any, logsumexp: Any, index: Any, dim: int) -> Any:
        return self._call(widened, _cross_entropy_backward, self, (index, dim), grad, x, logsumexp)


def widened(f: Callable[..., Any], b: ArrayBase, where: Any, x: Any, *rest: Any) -> Any:
    """Return f(b, where, x, *rest); if x is of 16-bit floats, cast x and rest to float32, and the result back."""
    if not is_half(x.dtype):
        return f(b, where, x, *rest)
    return f(b, where, x.astype(float32), *(r.astype(float32) for r in rest)).astype(x.dtype)


def _softmax(b: ArrayBase, dim: int, x: Any) -> Any:
    xp = b.xp
    if not x.size:
        return x.copy()
    e = xp.subtract(x, x.max(dim, None, True))
    xp.exp(e, e)
    return xp.divide(e, b._total(e, (dim,), True), e)


def _softmax_backward(b: ArrayBase, dim: int, grad: Any, out: Any) -> Any:
    xp = b.xp
    weighted = xp.multiply(grad, out)
    scaled = xp.multiply(out, b._total(weighted, (dim,), True))
    return xp.subtract(weighted, scaled, scaled)


def _log_softmax(b: ArrayBase, dim: int, x: Any) -> Any:
    xp = b.xp
    if not x.size:
        return x.copy()
    shifted = xp.subtract(x, x.max(dim, None, True))
    return xp.subtract(shifted, xp.log(b._total(xp.exp(shifted), (dim,), True)), shifted)


def _log_softmax_backward(b: ArrayBase, dim: int, grad: Any, out: Any) -> Any:
    xp = b.xp
    e = xp.exp(out)
    xp.multiply(e, b._total(grad, (dim,), True), e)
    return xp.subtract(grad, e, e)


def _logsumexp(b: ArrayBase, where: tuple[Dims, bool], x: Any) -> Any:
    xp = b.xp
    dims, keepdim = where
    if not x.size:
        return xp.log(b._total(x, dims, keepdim))  # -inf for an empty x
    shift = x.max(dims, None, True)
    shift = xp.where(xp.isfinite(shift), shift, x.dtype.type(0))  # inf - inf would be NaN
    out = xp.log(b._total(xp.exp(xp.subtract(x, shift)), dims, keepdim))
    return xp.add(out, shift.reshape(out.shape))


def _cross_entropy(b: ArrayBase, x: Any, index: Any, dim: int) -> tuple[Any, Any]:
    xp = b.xp
    if is_half(x.dtype):
        losses, total = _cross_entropy(b, x.astype(float32), index, dim)
        return losses.astype(x.dtype), total.astype(x.dtype)
    shape = (*x.shape[:dim], 1, *x.shape[dim + 1 :])
    if not x.size:
        return xp.zeros(index.shape, x.dtype), xp.full(shape, -xp.inf, x.dtype)
    shift = x.max(dim, None, True)
    shift = xp.where(xp.isfinite(shift), shift, x.dtype.type(0))
    shifted = xp.subtract(x, shift)
    picked = shifted[grid(xp, dim, index.reshape(shape))]
    xp.exp(shifted, shifted)
    total = xp.log(b._total(shifted, (dim,), True))
    return xp.subtract(total, picked).reshape(index.shape), xp.add(total, shift)


def _cross_entropy_backward(b: ArrayBase, where: tuple[Any, int], grad: Any, x: Any, logsumexp: Any) -> Any:
    xp = b.xp
    index, dim = where
    wide = grad.reshape(logsumexp.shape)
    out = xp.subtract(x, logsumexp)
    xp.exp(out, out)
    if out.size:  # normalize, as the rounding of logsumexp keeps the sum from being 1
        xp.multiply(out, xp.divide(wide, b._total(out, (dim,), True)), out)
    key = grid(xp, dim, index.reshape(logsumexp.shape))
    out[key] = xp.subtract(out[key], wide)
    return out
