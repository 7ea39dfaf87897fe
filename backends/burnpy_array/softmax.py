"""ArraySoftmax, log-softmax, logsumexp and their derivatives, computed in place on their temporaries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.backend.dtypes import float32
from burnpy.backend.primitives import Dims
from burnpy_array.base import ArrayBase, is_half


class ArraySoftmax(ArrayBase):
    """ArraySoftmax, log-softmax and logsumexp; 16-bit floats are computed in float32."""

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
