"""Softmax, log-softmax and logsumexp, with their derivatives."""

from __future__ import annotations

import math
from math import prod
from typing import Any

from burnpy.backend.operations import OperationsBase
from burnpy.backend.operations.reduction import with_reduced_dims
from burnpy.backend.primitives import Dim, Dims, Float, Int
from burnpy.backend.rules import SHIFTED
from burnpy.backend.schema import GENERAL, derived


def weight(i: Any, x: Float, out: Float, dims: Dims, keepdim: bool) -> Float:
    """Return the softmax over ``dims``, which sums to 1 however logsumexp was rounded; 0 where all is minus
    infinity."""
    out = with_reduced_dims(i, i.detach(out), x.shape, dims, keepdim)
    e = i.exp(i.sub(x, i.where(i.ne(out, -math.inf), out, 0.0)))
    return i.div(e, i.where(i.isfinite(out), i.sum(e, dims, True), 1.0))


def logsumexp_vjp(i: Any, g: Float, x: Float, out: Float, dims: Dims, keepdim: bool) -> Float:
    """g times the softmax."""
    return i.mul(with_reduced_dims(i, g, x.shape, dims, keepdim), weight(i, x, out, dims, keepdim))


class Softmax(OperationsBase):
    """Operations shifted by the maximum, so that exp does not overflow."""

    @derived(
        GENERAL,
        flops=lambda x: 6 * prod(x),
        vjp=logsumexp_vjp,
        jvp=lambda i, t, x, out, dims, keepdim: i.sum(i.mul(t, weight(i, x, out, dims, keepdim)), dims, keepdim),
        batch=SHIFTED,
        onnx="reductions.reduce_logsumexp",
    )
    def logsumexp(self, x: Float, dims: Dims, keepdim: bool) -> Float:
        """Compute log(sum(exp(x))) over ``dims``, shifted by the maximum so that exp does not overflow."""
        shift = _shift(self, x, dims)
        shift = self.where(self.isfinite(shift), shift, 0.0)  # for infinities exp(x - x) would be NaN
        total = self.log(self.sum(self.exp(self.sub(x, shift)), dims, keepdim))
        return self.add(total, shift if keepdim else self.reshape(shift, total.shape))

    @derived(
        GENERAL,
        like="x",
        flops=lambda x: 7 * prod(x),
        vjp=lambda i, g, out, dim: i.softmax_backward(g, out, dim),
        symmetric=True,
        batch=SHIFTED,
        onnx="reductions.softmax",
    )
    def softmax(self, x: Float, dim: Dim) -> Float:
        """Softmax along ``dim``: exp(x) / sum(exp(x)), shifted by the maximum so that exp does not overflow."""
        e = self.exp(self.sub(x, _shift(self, x, (dim,))))
        return self.div(e, self.sum(e, (dim,), True))

    @derived(GENERAL, like="out", flops=lambda out: 4 * prod(out), batch=SHIFTED)
    def softmax_backward(self, grad: Float, out: Float, dim: Dim) -> Float:
        """Gradient of `softmax`: out · (grad - sum(grad · out)) along ``dim``."""
        weighted = self.mul(grad, out)
        return self.sub(weighted, self.mul(out, self.sum(weighted, (dim,), True)))

    @derived(
        GENERAL,
        like="x",
        flops=lambda x: 7 * prod(x),
        vjp=lambda i, g, out, dim: i.log_softmax_backward(g, out, dim),
        jvp=lambda i, t, out, dim: i.sub(t, i.sum(i.mul(i.exp(out), t), (dim,), True)),
        batch=SHIFTED,
        onnx="reductions.log_softmax",
    )
    def log_softmax(self, x: Float, dim: Dim) -> Float:
        """Logarithm of the softmax along ``dim``, accurate where softmax underflows."""
        shifted = self.sub(x, _shift(self, x, (dim,)))
        return self.sub(shifted, self.log(self.sum(self.exp(shifted), (dim,), True)))

    @derived(GENERAL, like="out", flops=lambda out: 6 * prod(out), batch=SHIFTED)
    def log_softmax_backward(self, grad: Float, out: Float, dim: Dim) -> Float:
        """Gradient of `log_softmax`: grad - exp(out) · sum(grad) along ``dim``."""
        return self.sub(grad, self.mul(self.exp(out), self.sum(grad, (dim,), True)))


def relative(b: Any, x: Float, dim: int, index: Int) -> Float:
    """Subtract from x its element at ``index`` along ``dim``; ``index`` has size 1 along ``dim``."""
    return b.sub(x, b.gather(x, dim, index))


def relative_softmax(b: Any, x: Float, dim: int) -> tuple[Float, Int]:
    """Return the softmax of x minus its maximum along ``dim``, and the index of that maximum. The maximum is subtracted
    differentiably. The derivative with respect to it is therefore a sum over the other elements, which stays accurate
    where the maximum has nearly all the weight and 1 - weight would cancel."""
    index = b.argmax(x, dim, True)
    return b.softmax(relative(b, x, dim, index), dim), index


def _shift(b: Softmax, x: Float, dims: Dims) -> Float:
    """Return the maximum over ``dims``, subtracted so that exp(x) stays in range; it cancels, so it is detached."""
    if 0 in x.shape:
        return b.full(tuple(1 if d in dims else n for d, n in enumerate(x.shape)), 0.0, x.dtype)
    return b.detach(b.amax(x, dims, True))
