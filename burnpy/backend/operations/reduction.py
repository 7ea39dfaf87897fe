"""Operations that reduce dimensions. ``dims`` are non-negative, ascending, each there once; () reduces nothing."""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import Bool, Dims, Float, Int, Number, Shape, Value
from burnpy.backend.schema import Algebra, derived, required

LINEAR, GENERAL, NONE = Algebra.LINEAR, Algebra.GENERAL, Algebra.NONDIFFERENTIABLE


class Reduction(OperationsBase):
    """Sums, products, extremes and what is made of them. Ints and bools add up in int64."""

    @required(LINEAR)
    def sum(self, x: Value, dims: Dims, keepdim: bool) -> Number:
        """The sum over ``dims``; 0 of nothing."""
        ...

    @required(GENERAL)
    def prod(self, x: Number, dims: Dims, keepdim: bool) -> Number:
        """The product over ``dims``; 1 of nothing."""
        ...

    @required(GENERAL)
    def amax(self, x: Number, dims: Dims, keepdim: bool) -> Number:
        """The largest element over ``dims``, NaN if there is one; none of them empty."""
        ...

    @required(GENERAL)
    def amin(self, x: Number, dims: Dims, keepdim: bool) -> Number:
        """The smallest element over ``dims``, NaN if there is one; none of them empty."""
        ...

    @required(NONE)
    def argmax(self, x: Number, dim: int, keepdim: bool) -> Int:
        """The index of the first largest element along ``dim``, int64; a NaN counts as largest."""
        ...

    @required(NONE)
    def argmin(self, x: Number, dim: int, keepdim: bool) -> Int:
        """The index of the first smallest element along ``dim``, int64; a NaN counts as smallest."""
        ...

    @required(NONE)
    def any(self, x: Bool, dims: Dims, keepdim: bool) -> Bool:
        """Whether any element over ``dims`` is true."""
        ...

    @required(NONE)
    def all(self, x: Bool, dims: Dims, keepdim: bool) -> Bool:
        """Whether every element over ``dims`` is true."""
        ...

    @required(LINEAR)
    def cumsum(self, x: Number, dim: int) -> Number:
        """The running sum along ``dim``; ints add up in int64."""
        ...

    @derived(LINEAR)
    def mean(self, x: Float, dims: Dims, keepdim: bool) -> Float:
        """The mean over ``dims``; NaN of nothing."""
        count = math.prod(x.shape[d] for d in dims)
        total = self.sum(x, dims, keepdim)
        return self.mul(total, 1 / count) if count else self.mul(total, math.nan)

    @derived(LINEAR)
    def center(self, x: Float, dims: Dims) -> Float:
        """x less its mean over ``dims``; exactly 0 where all are equal and finite, also where the mean is rounded."""
        deviation = self.sub(x, self.mean(x, dims, True))
        if 0 in x.shape:
            return deviation
        first = self.slice(x, tuple(slice(0, 1 if d in dims else n, 1) for d, n in enumerate(x.shape)))
        d = self.discrete
        same = d.bitwise_and(d.all(self.eq(x, first), dims, True), self.isfinite(first))
        return self.where(d.bitwise_not(same), deviation, 0.0)

    @derived(GENERAL)
    def var(self, x: Float, dims: Dims, keepdim: bool, correction: float) -> Float:
        """The sum of squared deviations from the mean over (count - correction), that at least 0."""
        total = self.sum(self.square(self.center(x, dims)), dims, keepdim)
        return self.div(total, divisor(x.shape, dims, correction))

    @derived(GENERAL)
    def std(self, x: Float, dims: Dims, keepdim: bool, correction: float) -> Float:
        """The square root of `var`, whose squares neither overflow nor underflow; its gradient is 0 where it is 0."""
        if 0 in x.shape:
            return self.sqrt(self.var(x, dims, keepdim, correction))
        deviation = self.center(x, dims)
        size = self.detach(self.amax(self.abs(deviation), dims, True))
        usual = self.discrete.bitwise_and(self.gt(size, 0.0), self.isfinite(size))
        size = self.where(usual, size, 1.0)
        total = self.sum(self.square(self.div(deviation, size)), dims, True)
        root = self.mul(self.sqrt(self.div(total, divisor(x.shape, dims, correction))), size)
        return root if keepdim else self.reshape(root, tuple(n for d, n in enumerate(x.shape) if d not in dims))

    @derived(GENERAL)
    def logsumexp(self, x: Float, dims: Dims, keepdim: bool) -> Float:
        """log(sum(exp(x))) over ``dims``, shifted by the largest element so that nothing overflows."""
        shift = _shift(self, x, dims)
        shift = self.where(self.isfinite(shift), shift, 0.0)  # of infinities exp(x - x) would be NaN
        total = self.log(self.sum(self.exp(self.sub(x, shift)), dims, keepdim))
        return self.add(total, shift if keepdim else self.reshape(shift, total.shape))

    @derived(GENERAL)
    def softmax(self, x: Float, dim: int) -> Float:
        """exp(x) over its sum along ``dim``, shifted by the largest element so that nothing overflows."""
        e = self.exp(self.sub(x, _shift(self, x, (dim,))))
        return self.div(e, self.sum(e, (dim,), True))

    @derived(GENERAL)
    def softmax_backward(self, grad: Float, out: Float, dim: int) -> Float:
        """out · (grad - sum(grad · out)): the Jacobian of softmax, which is symmetric, times grad."""
        weighted = self.mul(grad, out)
        return self.sub(weighted, self.mul(out, self.sum(weighted, (dim,), True)))

    @derived(GENERAL)
    def log_softmax(self, x: Float, dim: int) -> Float:
        """log(softmax(x)) along ``dim``, exact where softmax underflows."""
        shifted = self.sub(x, _shift(self, x, (dim,)))
        return self.sub(shifted, self.log(self.sum(self.exp(shifted), (dim,), True)))

    @derived(GENERAL)
    def log_softmax_backward(self, grad: Float, out: Float, dim: int) -> Float:
        """grad - exp(out) · sum(grad)."""
        return self.sub(grad, self.mul(self.exp(out), self.sum(grad, (dim,), True)))

    @derived(GENERAL)
    def max_dim(self, x: Number, dim: int, keepdim: bool) -> tuple[Number, Int]:
        """The first largest element along ``dim`` and its index."""
        return self._picked(x, dim, keepdim, self.argmax(x, dim, True))

    @derived(GENERAL)
    def min_dim(self, x: Number, dim: int, keepdim: bool) -> tuple[Number, Int]:
        """The first smallest element along ``dim`` and its index."""
        return self._picked(x, dim, keepdim, self.argmin(x, dim, True))

    def _picked(self, x: Number, dim: int, keepdim: bool, index: Int) -> tuple[Number, Int]:
        values = self.gather(x, dim, index)
        if keepdim:
            return values, index
        shape = x.shape[:dim] + x.shape[dim + 1 :]
        return self.reshape(values, shape), self.discrete.reshape(index, shape)

    @derived(LINEAR)
    def sum_to(self, x: Value, shape: Shape) -> Value:
        """The adjoint of broadcasting ``shape`` to ``x.shape``: sums what was repeated. Floats keep their dtype."""
        lead = len(x.shape) - len(shape)
        repeated = tuple(d for d, n in enumerate(x.shape) if d < lead or (shape[d - lead] == 1 != n))
        return self.reshape(self.sum(x, repeated, True), shape) if repeated else x


def divisor(shape: Shape, dims: Dims, correction: float) -> float:
    """By what a sum of squared deviations over ``dims`` is divided: their number less the correction, at least 0."""
    return float(max(math.prod(shape[d] for d in dims) - correction, 0))


def relative(b: Any, x: Float, dim: int, index: Int) -> Float:
    """x less its element at the index along ``dim``, of which there is one."""
    return b.sub(x, b.gather(x, dim, index))


def relative_softmax(b: Any, x: Float, dim: int) -> tuple[Float, Int]:
    """The softmax of x relative to its largest element, and where along ``dim`` that is.

    That element is subtracted with its derivative. So the derivative by it is a sum over the other elements, which
    keeps its digits where the largest has nearly all the weight, and 1 - weight has none.
    """
    index = b.argmax(x, dim, True)
    return b.softmax(relative(b, x, dim, index), dim), index


def _shift(b: Reduction, x: Float, dims: Dims) -> Float:
    """The largest elements, by which exp(x) is kept in range; it cancels out, and so has no gradient."""
    if 0 in x.shape:
        return b.full(tuple(1 if d in dims else n for d, n in enumerate(x.shape)), 0.0, x.dtype)
    return b.detach(b.amax(x, dims, True))
