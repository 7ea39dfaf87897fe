"""Matrix products, linear layers, dropout's scaling and cross entropy, computed in place on their temporaries."""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import float32, float64
from burnpy_array.activation import widened
from burnpy_array.array_base import ArrayBase, is_half
from burnpy_array.indexing import grid


class ArrayDense(ArrayBase):
    """Matrix products, linear layers, dropout's scaling and cross entropy; 16-bit floats are computed in float32."""

    def matmul(self, x: Any, y: Any) -> Any:
        if x.dtype is not y.dtype:
            x, y = self.promote(x, y)
        return self._call(product, self.xp, x, y)

    def linear(self, x: Any, weight: Any, bias: Any) -> Any:
        out = self.matmul(x, weight)
        if out.shape == () or is_half(out.dtype):
            return self.add(out, bias)
        return self._call(self.xp.add, out, bias, out)

    def masked_scale(self, x: Any, mask: Any, scale: float) -> Any:
        out = self.where(mask, x, 0.0)
        return (
            self.mul(out, scale)
            if x.shape == ()
            else self._call(self.xp.multiply, out, self._number(scale, x.dtype), out)
        )

    def cross_entropy(self, x: Any, index: Any, dim: int) -> tuple[Any, Any]:
        losses, total = self._call(_cross_entropy, self, x, index, dim)
        return losses, total

    def cross_entropy_backward(self, grad: Any, x: Any, logsumexp: Any, index: Any, dim: int) -> Any:
        return self._call(widened, _cross_entropy_backward, self, (index, dim), grad, x, logsumexp)


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


def product(xp: Any, x: Any, y: Any) -> Any:
    """Return the matrix product of two arrays of one dtype; 16-bit floats go through float32, which is 200 times
    faster.
    """
    if x.dtype is not float32 and x.dtype is not float64 and is_half(x.dtype):
        return product(xp, x.astype(float32), y.astype(float32)).astype(x.dtype)
    if y.ndim == 2:
        if x.ndim == 2:
            return x.dot(y)
        if x.size and x.flags.c_contiguous:  # one large product instead of many small ones
            return x.reshape((-1, x.shape[-1])).dot(y).reshape((*x.shape[:-1], y.shape[-1]))
    if x.ndim > 2 < y.ndim and x.shape[-1] == 1:  # outer products, in a sixth of the time
        return xp.multiply(x, y)
    return xp.matmul(x, y)
