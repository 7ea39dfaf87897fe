"""Softmax, its relatives and their derivatives, with temporaries that are written over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.backend.dtypes import float32
from burnpy.backend.primitives import Dims
from burnpy_array.base import ArrayBase, is_half


class Softmax(ArrayBase):
    """16-bit floats are computed in float32."""

    def softmax(self, x: Any, dim: int) -> Any:
        return self._call(_widened, _softmax, self.xp, dim, x)

    def softmax_backward(self, grad: Any, out: Any, dim: int) -> Any:
        return self._call(_widened, _softmax_backward, self.xp, dim, grad, out)

    def log_softmax(self, x: Any, dim: int) -> Any:
        return self._call(_widened, _log_softmax, self.xp, dim, x)

    def log_softmax_backward(self, grad: Any, out: Any, dim: int) -> Any:
        return self._call(_widened, _log_softmax_backward, self.xp, dim, grad, out)

    def logsumexp(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        return self._call(_widened, _logsumexp, self.xp, (dims, keepdim), x)


def _widened(f: Callable[..., Any], xp: Any, where: Any, x: Any, *rest: Any) -> Any:
    if not is_half(x.dtype):
        return f(xp, where, x, *rest)
    return f(xp, where, x.astype(float32), *(r.astype(float32) for r in rest)).astype(x.dtype)


def _softmax(xp: Any, dim: int, x: Any) -> Any:
    if not x.size:
        return x.copy()
    e = xp.subtract(x, x.max(dim, None, True))
    xp.exp(e, e)
    return xp.divide(e, e.sum(dim, None, None, True), e)


def _softmax_backward(xp: Any, dim: int, grad: Any, out: Any) -> Any:
    weighted = xp.multiply(grad, out)
    scaled = xp.multiply(out, weighted.sum(dim, None, None, True))
    return xp.subtract(weighted, scaled, scaled)


def _log_softmax(xp: Any, dim: int, x: Any) -> Any:
    if not x.size:
        return x.copy()
    shifted = xp.subtract(x, x.max(dim, None, True))
    return xp.subtract(shifted, xp.log(xp.exp(shifted).sum(dim, None, None, True)), shifted)


def _log_softmax_backward(xp: Any, dim: int, grad: Any, out: Any) -> Any:
    e = xp.exp(out)
    xp.multiply(e, grad.sum(dim, None, None, True), e)
    return xp.subtract(grad, e, e)


def _logsumexp(xp: Any, where: tuple[Dims, bool], x: Any) -> Any:
    dims, keepdim = where
    if not x.size:
        return xp.log(x.sum(dims, None, None, keepdim))  # -inf, of nothing
    shift = x.max(dims, None, True)
    shift = xp.where(xp.isfinite(shift), shift, x.dtype.type(0))  # of infinities exp(x - x) would be NaN
    out = xp.log(xp.exp(xp.subtract(x, shift)).sum(dims, None, None, keepdim))
    return xp.add(out, shift.reshape(out.shape))
