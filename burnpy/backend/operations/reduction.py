"""Operations that reduce dimensions. ``dims`` are non-negative, ascending, without repeats; () reduces nothing."""

from __future__ import annotations

import math
from math import prod
from typing import Any

from burnpy.backend.operations import OperationsBase
from burnpy.backend.primitives import Bool, Dim, Dims, Float, Inexact, Int, Number, Real, Shape, Value
from burnpy.backend.rules import SHIFTED
from burnpy.backend.schema import GENERAL, LINEAR, NONDIFFERENTIABLE, derived, required


def with_reduced_dims(i: Any, reduced: Float, shape: Shape, dims: Dims, keepdim: bool) -> Float:
    """Return a reduction's result, or a gradient of that shape, with the reduced dimensions as size 1."""
    return reduced if keepdim else i.reshape(reduced, tuple(1 if d in dims else n for d, n in enumerate(shape)))


def sum_vjp(i: Any, g: Float, x_shape: Shape, dims: Dims, keepdim: bool) -> Float:
    """Return the gradient of a sum: g repeated over the summed dimensions."""
    if len(dims) == len(x_shape):
        return i.expand(g, x_shape)
    return i.expand(with_reduced_dims(i, g, x_shape, dims, keepdim), x_shape)


def mean_vjp(i: Any, g: Float, x_shape: Shape, dims: Dims, keepdim: bool) -> Float:
    """Return the gradient of a mean: g divided by the number of elements, and repeated over the dimensions."""
    count = math.prod([x_shape[d] for d in dims])
    return sum_vjp(i, i.mul(g, 1 / count) if count else g, x_shape, dims, keepdim)


def ties(i: Any, x: Float, out: Float, dims: Dims, keepdim: bool) -> tuple[Bool, Float]:
    """Return the ties of amax and amin: a mask of the elements equal to the extreme, or NaN; and their number."""
    extreme = i.discrete.bitwise_or(i.eq(x, with_reduced_dims(i, out, x.shape, dims, keepdim)), i.isnan(x))
    return extreme, i.sum(i.to_float(extreme, x.dtype), dims, True)


def amax_vjp(i: Any, g: Float, x: Float, out: Float, dims: Dims, keepdim: bool) -> Float:
    """g split evenly among the ties."""
    extreme, count = ties(i, x, out, dims, keepdim)
    return i.where(extreme, i.div(with_reduced_dims(i, g, x.shape, dims, keepdim), count), 0.0)


def amax_jvp(i: Any, t: Float, x: Float, out: Float, dims: Dims, keepdim: bool) -> Float:
    """Return the mean of the tangents of the ties."""
    extreme, count = ties(i, x, out, dims, keepdim)
    total = i.sum(i.where(extreme, t, 0.0), dims, True)
    return i.reshape(i.div(total, count), out.shape)


def product_of_others(i: Any, x: Float, dims: Dims) -> Float:
    """For each element the product of the others over ``dims``: exact with zeros, and so are its own derivatives. It is
    computed without division: products of halves upward in a tree, then downward each half times the product of all
    elements outside of both."""
    rest = tuple(d for d in range(len(x.shape)) if d not in dims)
    order = rest + dims
    rows, count = math.prod(x.shape[d] for d in rest), math.prod(x.shape[d] for d in dims)
    levels = [i.reshape(i.permute(x, order), (rows, count))]
    while levels[-1].shape[1] > 1:
        low, high, odd = halves(i, levels[-1])
        levels.append(i.cat([i.mul(low, high), *odd], 1))
    outside = i.full((rows, min(count, 1)), 1.0, x.dtype)
    for level in reversed(levels[:-1]):
        low, high, odd = halves(i, level)
        around, half = outside, low.shape[1]
        if odd:
            whole = slice(0, rows, 1)
            around = i.slice(outside, (whole, slice(0, half, 1)))
            odd = [i.slice(outside, (whole, slice(half, half + 1, 1)))]
        outside = i.cat([i.mul(around, high), i.mul(around, low), *odd], 1)
    back = i.reshape(outside, tuple(x.shape[d] for d in order))
    return i.permute(back, tuple(order.index(d) for d in range(len(order))))


def halves(i: Any, x: Float) -> tuple[Float, Float, list[Float]]:
    """Return the first and second half of the columns of a matrix, and the last column where their number is odd."""
    rows, count = x.shape
    whole, half = slice(0, rows, 1), count // 2
    odd = [i.slice(x, (whole, slice(count - 1, count, 1)))] if count % 2 else []
    return i.slice(x, (whole, slice(0, half, 1))), i.slice(x, (whole, slice(half, 2 * half, 1))), odd


def var_slope(i: Any, x: Float, dims: Dims, correction: float) -> Float:
    """Return the derivative of the variance with respect to each element: 2 (x - mean) / (count - correction)."""
    return i.div(i.mul(i.center(x, dims), 2.0), divisor(x.shape, dims, correction))


def var_vjp(i: Any, g: Float, x: Float, dims: Dims, keepdim: bool, correction: float) -> Float:
    """g times the slope."""
    return i.mul(with_reduced_dims(i, g, x.shape, dims, keepdim), var_slope(i, x, dims, correction))


def var_jvp(i: Any, t: Float, x: Float, dims: Dims, keepdim: bool, correction: float) -> Float:
    """Return the sum of each tangent times the slope."""
    return i.sum(i.mul(t, var_slope(i, x, dims, correction)), dims, keepdim)


def standardized(i: Any, x: Float, out: Float, dims: Dims) -> tuple[Float, Bool]:
    """(x - mean) over the standard deviation ``out``, or over 1 where that is 0; and where it is not."""
    spreads = i.ne(out, 0.0)
    return i.div(i.center(x, dims), i.where(spreads, out, 1.0)), spreads


def std_vjp(i: Any, g: Float, x: Float, out: Float, dims: Dims, keepdim: bool, correction: float) -> Float:
    """g (x - mean) / (count - correction) / out; where that is 0, 0 at every order."""
    g, out = (with_reduced_dims(i, a, x.shape, dims, keepdim) for a in (g, out))
    normalized, spreads = standardized(i, x, out, dims)
    return i.mul(normalized, i.where(spreads, i.div(g, divisor(x.shape, dims, correction)), 0.0))


def std_jvp(i: Any, t: Float, x: Float, out: Float, dims: Dims, keepdim: bool, correction: float) -> Float:
    """Return the sum of each tangent times (x - mean) / (count - correction) / out; likewise 0."""
    normalized, spreads = standardized(i, x, with_reduced_dims(i, out, x.shape, dims, keepdim), dims)
    total = i.div(i.sum(i.mul(t, normalized), dims, True), divisor(x.shape, dims, correction))
    return i.reshape(i.where(spreads, total, 0.0), out.shape)


class Reduction(OperationsBase):
    """Sums, products, extremes and operations derived from them. Sums of ints and bools are int64."""

    @required(LINEAR, flops=lambda x: prod(x), vjp=sum_vjp, batch=SHIFTED, onnx="reductions.reduce_sum")
    def sum(self, x: Value, dims: Dims, keepdim: bool) -> Number:
        """Sum over ``dims``; 0 for no elements."""
        ...

    @derived(
        GENERAL,
        flops=lambda x: 2 * prod(x),
        vjp=lambda i, g, x, dims, keepdim: i.where(i.eq(x, x), sum_vjp(i, g, x.shape, dims, keepdim), 0.0),
        jvp=lambda i, t, x, dims, keepdim: i.sum(i.where(i.eq(x, x), t, 0.0), dims, keepdim),
        batch=SHIFTED,
    )
    def nansum(self, x: Float, dims: Dims, keepdim: bool) -> Float:
        """Sum of the elements over ``dims`` that are not NaN; 0 for none."""
        (numbers,) = self.fused(_numbers, (x,))
        return self.sum(numbers, dims, keepdim)

    @required(
        GENERAL,
        flops=lambda x: prod(x),
        vjp=lambda i, g, x, dims, keepdim: i.prod_backward(with_reduced_dims(i, g, x.shape, dims, keepdim), x, dims),
        jvp=lambda i, t, x, dims, keepdim: i.sum(i.mul(t, product_of_others(i, x, dims)), dims, keepdim),
        batch=SHIFTED,
        onnx="reductions.reduce_prod",
    )
    def prod(self, x: Number, dims: Dims, keepdim: bool) -> Number:
        """Product over ``dims``; 1 for no elements."""
        ...

    @derived(GENERAL, like="x", flops=lambda x: 4 * prod(x), batch=SHIFTED)
    def prod_backward(self, grad: Inexact, x: Inexact, dims: Dims) -> Inexact:
        """Gradient of `prod`: grad, whose ``dims`` have size 1, times the product of the other elements."""
        return self.mul(grad, product_of_others(self, x, dims))

    @required(GENERAL, flops=lambda x: prod(x), vjp=amax_vjp, jvp=amax_jvp, batch=SHIFTED, onnx="reductions.reduce_max")
    def amax(self, x: Real, dims: Dims, keepdim: bool) -> Real:
        """Maximum over ``dims``, which must not be empty; NaN if any element is NaN."""
        ...

    @required(GENERAL, flops=lambda x: prod(x), vjp=amax_vjp, jvp=amax_jvp, batch=SHIFTED, onnx="reductions.reduce_min")
    def amin(self, x: Real, dims: Dims, keepdim: bool) -> Real:
        """Minimum over ``dims``, which must not be empty; NaN if any element is NaN."""
        ...

    @required(NONDIFFERENTIABLE, flops=lambda x: prod(x), batch=SHIFTED, onnx="reductions.argmax")
    def argmax(self, x: Real, dim: Dim, keepdim: bool) -> Int:
        """Index of the first maximum along ``dim``, int64; NaN counts as the largest value."""
        ...

    @required(NONDIFFERENTIABLE, flops=lambda x: prod(x), batch=SHIFTED, onnx="reductions.argmin")
    def argmin(self, x: Real, dim: Dim, keepdim: bool) -> Int:
        """Index of the first minimum along ``dim``, int64; NaN counts as the smallest value."""
        ...

    @required(NONDIFFERENTIABLE, flops=lambda x: prod(x), batch=SHIFTED, onnx="reductions.reduce_any")
    def any(self, x: Bool, dims: Dims, keepdim: bool) -> Bool:
        """Test whether any element over ``dims`` is true."""
        ...

    @required(NONDIFFERENTIABLE, flops=lambda x: prod(x), batch=SHIFTED, onnx="reductions.reduce_all")
    def all(self, x: Bool, dims: Dims, keepdim: bool) -> Bool:
        """Test whether all elements over ``dims`` are true."""
        ...

    @derived(LINEAR, flops=lambda x: prod(x), vjp=mean_vjp, batch=SHIFTED, onnx="reductions.reduce_mean")
    def mean(self, x: Inexact, dims: Dims, keepdim: bool) -> Inexact:
        """Mean over ``dims``; NaN for no elements."""
        count = math.prod(x.shape[d] for d in dims)
        total = self.sum(x, dims, keepdim)
        return self.mul(total, 1 / count) if count else self.mul(total, math.nan)

    @derived(LINEAR, like="x", flops=lambda x: 2 * prod(x), vjp=lambda i, g, dims: i.center(g, dims), batch=SHIFTED)
    def center(self, x: Inexact, dims: Dims) -> Inexact:
        """Subtract the mean over ``dims``: x - mean(x).

        The mean of the deviations is subtracted, too: it is the error of the mean, which may be larger than the
        deviations. The result is exactly 0 where all elements are equal and finite.
        """
        deviation = self.sub(x, self.mean(x, dims, True))
        if 0 in x.shape:
            return deviation
        error = self.mean(deviation, dims, True)
        deviation = self.sub(deviation, self.where(self.isfinite(error), error, 0.0))  # of infinite numbers it is NaN
        first = self.slice(x, tuple(slice(0, 1 if d in dims else n, 1) for d, n in enumerate(x.shape)))
        d = self.discrete
        same = d.bitwise_and(d.all(self.eq(x, first), dims, True), self.isfinite(first))
        return self.where(d.bitwise_not(same), deviation, 0.0)

    @derived(GENERAL, flops=lambda x: 4 * prod(x), vjp=var_vjp, jvp=var_jvp, batch=SHIFTED)
    def var(self, x: Float, dims: Dims, keepdim: bool, correction: float) -> Float:
        """Variance over ``dims``: sum((x - mean(x))²) / max(count - correction, 0)."""
        total = self.sum(self.square(self.center(x, dims)), dims, keepdim)
        return self.div(total, divisor(x.shape, dims, correction))

    @derived(GENERAL, flops=lambda x: 4 * prod(x), vjp=std_vjp, jvp=std_jvp, batch=SHIFTED)
    def std(self, x: Float, dims: Dims, keepdim: bool, correction: float) -> Float:
        """Return the standard deviation over ``dims``, √var, without overflow or underflow.

        Its gradient is 0 where it is 0.
        """
        if 0 in x.shape:
            return self.sqrt(self.var(x, dims, keepdim, correction))
        deviation = self.center(x, dims)
        size = self.detach(self.amax(self.abs(deviation), dims, True))
        usual = self.discrete.bitwise_and(self.gt(size, 0.0), self.isfinite(size))
        size = self.where(usual, size, 1.0)
        total = self.sum(self.square(self.div(deviation, size)), dims, True)
        root = self.mul(self.sqrt(self.div(total, divisor(x.shape, dims, correction))), size)
        return root if keepdim else self.reshape(root, tuple(n for d, n in enumerate(x.shape) if d not in dims))

    @derived(GENERAL, flops=lambda x: prod(x), batch=SHIFTED)
    def max_dim(self, x: Real, dim: Dim, keepdim: bool) -> tuple[Real, Int]:
        """Maximum along ``dim`` and the index of its first occurrence."""
        return self._picked(x, dim, keepdim, self.argmax(x, dim, True))

    @derived(GENERAL, flops=lambda x: prod(x), batch=SHIFTED)
    def min_dim(self, x: Real, dim: Dim, keepdim: bool) -> tuple[Real, Int]:
        """Minimum along ``dim`` and the index of its first occurrence."""
        return self._picked(x, dim, keepdim, self.argmin(x, dim, True))

    def _picked(self, x: Real, dim: int, keepdim: bool, index: Int) -> tuple[Real, Int]:
        values = self.gather(x, dim, index)
        if keepdim:
            return values, index
        shape = x.shape[:dim] + x.shape[dim + 1 :]
        return self.reshape(values, shape), self.discrete.reshape(index, shape)

    @derived(LINEAR, flops=lambda x, out: prod(x) if x != out else 0, vjp=lambda i, g, x_shape: i.expand(g, x_shape))
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
