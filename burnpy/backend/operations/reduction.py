"""Operations that reduce dimensions. ``dims`` are non-negative, ascending, without repeats; () reduces nothing."""

from __future__ import annotations

import math
from math import prod
from typing import Any

from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import Bool, Dims, Float, Int, Number, Shape, Value
from burnpy.backend.schema import Algebra, derived, required

LINEAR, GENERAL, NONE = Algebra.LINEAR, Algebra.GENERAL, Algebra.NONDIFFERENTIABLE


class Reduction(OperationsBase):
    """Sums, products, extremes and operations derived from them. Sums of ints and bools are int64."""

    @required(LINEAR, flops=lambda x: prod(x))
    def sum(self, x: Value, dims: Dims, keepdim: bool) -> Number:
        """Sum over ``dims``; 0 for no elements."""
        ...

    @derived(GENERAL, flops=lambda x: 2 * prod(x))
    def nansum(self, x: Float, dims: Dims, keepdim: bool) -> Float:
        """Sum of the elements over ``dims`` that are not NaN; 0 for none."""
        (numbers,) = self.fused(_numbers, (x,))
        return self.sum(numbers, dims, keepdim)

    @required(GENERAL, flops=lambda x: prod(x))
    def prod(self, x: Number, dims: Dims, keepdim: bool) -> Number:
        """Product over ``dims``; 1 for no elements."""
        ...

    @required(GENERAL, flops=lambda x: prod(x))
    def amax(self, x: Number, dims: Dims, keepdim: bool) -> Number:
        """Maximum over ``dims``, which must not be empty; NaN if any element is NaN."""
        ...

    @required(GENERAL, flops=lambda x: prod(x))
    def amin(self, x: Number, dims: Dims, keepdim: bool) -> Number:
        """Minimum over ``dims``, which must not be empty; NaN if any element is NaN."""
        ...

    @required(NONE, flops=lambda x: prod(x))
    def argmax(self, x: Number, dim: int, keepdim: bool) -> Int:
        """Index of the first maximum along ``dim``, int64; NaN counts as the largest value."""
        ...

    @required(NONE, flops=lambda x: prod(x))
    def argmin(self, x: Number, dim: int, keepdim: bool) -> Int:
        """Index of the first minimum along ``dim``, int64; NaN counts as the smallest value."""
        ...

    @required(NONE, flops=lambda x: prod(x))
    def any(self, x: Bool, dims: Dims, keepdim: bool) -> Bool:
        """Test whether any element over ``dims`` is true."""
        ...

    @required(NONE, flops=lambda x: prod(x))
    def all(self, x: Bool, dims: Dims, keepdim: bool) -> Bool:
        """Test whether all elements over ``dims`` are true."""
        ...

    @required(LINEAR, like="x", flops=lambda x: prod(x))
    def cumsum(self, x: Number, dim: int) -> Number:
        """Cumulative sum along ``dim``; int64 for ints."""
        ...

    @derived(LINEAR, flops=lambda x: prod(x))
    def mean(self, x: Float, dims: Dims, keepdim: bool) -> Float:
        """Mean over ``dims``; NaN for no elements."""
        count = math.prod(x.shape[d] for d in dims)
        total = self.sum(x, dims, keepdim)
        return self.mul(total, 1 / count) if count else self.mul(total, math.nan)

    @derived(LINEAR, like="x", flops=lambda x: 2 * prod(x))
    def center(self, x: Float, dims: Dims) -> Float:
        """Subtract the mean over ``dims``: x - mean(x).

        The result is exactly 0 where all elements are equal and finite, even if the mean is rounded.
        """
        deviation = self.sub(x, self.mean(x, dims, True))
        if 0 in x.shape:
            return deviation
        first = self.slice(x, tuple(slice(0, 1 if d in dims else n, 1) for d, n in enumerate(x.shape)))
        d = self.discrete
        same = d.bitwise_and(d.all(self.eq(x, first), dims, True), self.isfinite(first))
        return self.where(d.bitwise_not(same), deviation, 0.0)

    @derived(GENERAL, flops=lambda x: 4 * prod(x))
    def var(self, x: Float, dims: Dims, keepdim: bool, correction: float) -> Float:
        """Variance over ``dims``: sum((x - mean(x))²) / max(count - correction, 0)."""
        total = self.sum(self.square(self.center(x, dims)), dims, keepdim)
        return self.div(total, divisor(x.shape, dims, correction))

    @derived(GENERAL, flops=lambda x: 4 * prod(x))
    def std(self, x: Float, dims: Dims, keepdim: bool, correction: float) -> Float:
        """Standard deviation over ``dims``, √var, without overflow or underflow; the gradient where it is 0 is 0."""
        if 0 in x.shape:
            return self.sqrt(self.var(x, dims, keepdim, correction))
        deviation = self.center(x, dims)
        size = self.detach(self.amax(self.abs(deviation), dims, True))
        usual = self.discrete.bitwise_and(self.gt(size, 0.0), self.isfinite(size))
        size = self.where(usual, size, 1.0)
        total = self.sum(self.square(self.div(deviation, size)), dims, True)
        root = self.mul(self.sqrt(self.div(total, divisor(x.shape, dims, correction))), size)
        return root if keepdim else self.reshape(root, tuple(n for d, n in enumerate(x.shape) if d not in dims))

    @derived(GENERAL, flops=lambda x: 6 * prod(x))
    def logsumexp(self, x: Float, dims: Dims, keepdim: bool) -> Float:
        """Compute log(sum(exp(x))) over ``dims``, shifted by the maximum so that exp does not overflow."""
        shift = _shift(self, x, dims)
        shift = self.where(self.isfinite(shift), shift, 0.0)  # for infinities exp(x - x) would be NaN
        total = self.log(self.sum(self.exp(self.sub(x, shift)), dims, keepdim))
        return self.add(total, shift if keepdim else self.reshape(shift, total.shape))

    @derived(GENERAL, like="x", flops=lambda x: 7 * prod(x))
    def softmax(self, x: Float, dim: int) -> Float:
        """Softmax along ``dim``: exp(x) / sum(exp(x)), shifted by the maximum so that exp does not overflow."""
        e = self.exp(self.sub(x, _shift(self, x, (dim,))))
        return self.div(e, self.sum(e, (dim,), True))

    @derived(GENERAL, like="out", flops=lambda out: 4 * prod(out))
    def softmax_backward(self, grad: Float, out: Float, dim: int) -> Float:
        """Gradient of `softmax`: out · (grad - sum(grad · out)) along ``dim``."""
        weighted = self.mul(grad, out)
        return self.sub(weighted, self.mul(out, self.sum(weighted, (dim,), True)))

    @derived(GENERAL, like="x", flops=lambda x: 7 * prod(x))
    def log_softmax(self, x: Float, dim: int) -> Float:
        """Logarithm of the softmax along ``dim``, accurate where softmax underflows."""
        shifted = self.sub(x, _shift(self, x, (dim,)))
        return self.sub(shifted, self.log(self.sum(self.exp(shifted), (dim,), True)))

    @derived(GENERAL, like="out", flops=lambda out: 6 * prod(out))
    def log_softmax_backward(self, grad: Float, out: Float, dim: int) -> Float:
        """Gradient of `log_softmax`: grad - exp(out) · sum(grad) along ``dim``."""
        return self.sub(grad, self.mul(self.exp(out), self.sum(grad, (dim,), True)))

    @derived(GENERAL, flops=lambda x: prod(x))
    def max_dim(self, x: Number, dim: int, keepdim: bool) -> tuple[Number, Int]:
        """Maximum along ``dim`` and the index of its first occurrence."""
        return self._picked(x, dim, keepdim, self.argmax(x, dim, True))

    @derived(GENERAL, flops=lambda x: prod(x))
    def min_dim(self, x: Number, dim: int, keepdim: bool) -> tuple[Number, Int]:
        """Minimum along ``dim`` and the index of its first occurrence."""
        return self._picked(x, dim, keepdim, self.argmin(x, dim, True))

    def _picked(self, x: Number, dim: int, keepdim: bool, index: Int) -> tuple[Number, Int]:
        values = self.gather(x, dim, index)
        if keepdim:
            return values, index
        shape = x.shape[:dim] + x.shape[dim + 1 :]
        return self.reshape(values, shape), self.discrete.reshape(index, shape)

    @derived(LINEAR, flops=lambda x, out: prod(x) if x != out else 0)
    def sum_to(self, x: Value, shape: Shape) -> Value:
        """Sum x to ``shape``, the adjoint of broadcasting ``shape`` to ``x.shape``; floats keep their dtype."""
        lead = len(x.shape) - len(shape)
        repeated = tuple(d for d, n in enumerate(x.shape) if d < lead or (shape[d - lead] == 1 != n))
        return self.reshape(self.sum(x, repeated, True), shape) if repeated else x


def _numbers(b: Any, x: Float) -> tuple[Float]:
    """Return x, and 0 for NaN."""
    return (b.where(b.eq(x, x), x, 0.0),)


def divisor(shape: Shape, dims: Dims, correction: float) -> float:
    """Return the divisor of the variance over ``dims``: max(count - correction, 0)."""
    return float(max(math.prod(shape[d] for d in dims) - correction, 0))


def relative(b: Any, x: Float, dim: int, index: Int) -> Float:
    """Subtract from x its element at ``index`` along ``dim``; ``index`` has size 1 along ``dim``."""
    return b.sub(x, b.gather(x, dim, index))


def relative_softmax(b: Any, x: Float, dim: int) -> tuple[Float, Int]:
    """Return the softmax of x minus its maximum along ``dim``, and the index of that maximum.

    The maximum is subtracted differentiably. The derivative with respect to it is therefore a sum over the other
    elements, which stays accurate where the maximum has nearly all the weight and 1 - weight would cancel.
    """
    index = b.argmax(x, dim, True)
    return b.softmax(relative(b, x, dim, index), dim), index


def _shift(b: Reduction, x: Float, dims: Dims) -> Float:
    """Return the maximum over ``dims``, subtracted so that exp(x) stays in range; it cancels, so it is detached."""
    if 0 in x.shape:
        return b.full(tuple(1 if d in dims else n for d, n in enumerate(x.shape)), 0.0, x.dtype)
    return b.detach(b.amax(x, dims, True))
