"""Normalization: one operation for layer, batch, group and instance norms, which differ in the dimensions of the mean
and in the shape of the weight; the root mean square norm, which subtracts no mean; and batch norm's running statistics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from typing import Any

from burnpy.backend.dtypes import float32, int64
from burnpy.backend.operations import OperationsBase
from burnpy.backend.primitives import Dims, Float, Int, Shape
from burnpy.backend.schema import GENERAL, NONDIFFERENTIABLE, derived


def normalize_vjp(
    i: Any,
    grads: Any,
    needs: Any,
    x: Float,
    weight: Float,
    bias_shape: Shape,
    out1: Float,
    out2: Float,
    dims: Dims,
    eps: float,
) -> tuple[Float | None, ...]:
    """Return the gradients of x, weight and bias, through the result, the mean and the variance."""
    grad_out, grad_mean, grad_var = grads
    parts: list[Float | None] = [None, None, None]
    if grad_out is not None:
        parts = list(i.normalize_backward(grad_out, x, weight, out1, out2, dims, eps))
        if bias_shape != weight.shape:
            parts[2] = i.sum_to(grad_out, bias_shape)
        if grad_mean is None and grad_var is None:  # as in all layers
            return tuple(parts)
    count = math.prod(x.shape[d] for d in dims)
    for part in (
        None if grad_mean is None else i.expand(i.div(grad_mean, float(count)), x.shape),
        None if grad_var is None else i.mul(_deviations(i, x, out1, dims), i.mul(grad_var, 2 / count)),
    ):
        if part is not None:
            parts[0] = part if parts[0] is None else i.add(parts[0], part)
    return tuple([_zeros(i, x, weight, bias_shape, k) if p is None else p for k, p in enumerate(parts)])


def _zeros(i: Any, x: Float, weight: Float, bias_shape: Shape, k: int) -> Float:
    """Return a gradient of zeros, for an argument on which no used result depends."""
    return i.full((x.shape, weight.shape, bias_shape)[k], 0.0, x.dtype)


def rms_norm_vjp(i: Any, grads: Any, needs: Any, x: Float, weight: Float, dims: Dims, eps: float) -> tuple[Float, ...]:
    """Return the gradients of x and weight."""
    grad_x, grad_weight = i.rms_norm_backward(grads[0], x, weight, dims, eps)
    return grad_x, grad_weight


def shifted_dims(dims: Dims) -> Dims:
    """Return dims that skip a first dimension."""
    return tuple([dim + 1 for dim in dims])


def all_batched(b: Any, *values: Any) -> tuple[Any, ...]:
    """Wrap inner primitives with a batch dimension."""
    return tuple([b.batched(value) for value in values])


def normalize_batch(b: Any, x: Any, weight: Any, bias: Any, dims: Dims, eps: float) -> tuple[Any, ...]:
    """Normalize all examples; weight and bias broadcast."""
    ndim = len(x.shape)
    parts = b.inner.normalize(b.spread(x), b.aligned(weight, ndim), b.aligned(bias, ndim), shifted_dims(dims), eps)
    return all_batched(b, *parts)


def wide_weight(b: Any, weight: Any, ndim: int) -> Any:
    """Return a weight expanded to the batch, so that each example has a gradient of its own."""
    return b.inner.expand(b.ranked(weight, ndim), (b.size, *(1,) * (ndim - len(weight.shape)), *weight.shape))


def normalize_backward_batch(
    b: Any, grad: Any, x: Any, weight: Any, mean: Any, var: Any, dims: Dims, eps: float
) -> tuple[Any, ...]:
    """Return each example's gradients of the weight and the bias."""
    i, dims = b.inner, shifted_dims(dims)
    arrays = [b.spread(a) for a in (grad, x, mean, var)]
    grad, x, mean, var = arrays
    each = (b.size, *(1,) * (len(x.shape) - 1 - len(weight.shape)), *weight.shape)
    if weight.batched:
        grad_x, *rest = i.normalize_backward(grad, x, i.reshape(weight.value, each), mean, var, dims, eps)
    else:  # with one weight, the gradient of x is a kernel
        grad_x, _, _ = i.normalize_backward(grad, x, weight.value, mean, var, dims, eps)
        normal = i.mul(_deviations(i, x, mean, dims), _scale(i, var, eps))
        rest = [i.sum_to(part, each) for part in (i.mul(grad, normal), grad)]
    return all_batched(b, grad_x, *[i.reshape(part, (b.size, *weight.shape)) for part in rest])


def rms_norm_batch(b: Any, x: Any, weight: Any, dims: Dims, eps: float) -> Any:
    """Normalize all examples; the weight broadcasts."""
    return b.batched(b.inner.rms_norm(b.spread(x), b.aligned(weight, len(x.shape)), shifted_dims(dims), eps))


def rms_norm_backward_batch(b: Any, grad: Any, x: Any, weight: Any, dims: Dims, eps: float) -> tuple[Any, ...]:
    """Return each example's gradient of the weight."""
    wide = wide_weight(b, weight, len(x.shape))
    grad_x, grad_weight = b.inner.rms_norm_backward(b.spread(grad), b.spread(x), wide, shifted_dims(dims), eps)
    return all_batched(b, grad_x, b.inner.reshape(grad_weight, (b.size, *weight.shape)))


class Normalization(OperationsBase):
    """Normalization. Weight and bias broadcast to x and have no more dimensions; one float dtype, dims not empty.

    A mean is rounded, which may be an error larger than the deviations: it is the mean of the deviations.
    Where the squares of finite numbers overflow, a result is computed from scaled numbers, or is NaN: never 0.
    """

    @derived(
        GENERAL,
        elementwise=("weight", "bias"),
        flops=lambda x: 7 * prod(x),
        joint=normalize_vjp,
        batch=normalize_batch,
        onnx="reductions.layer_norm",
    )
    def normalize(self, x: Float, weight: Float, bias: Float, dims: Dims, eps: float) -> tuple[Float, Float, Float]:
        """Normalize: (x - mean) / √(var + eps) · weight + bias; and mean and biased variance over dims, of size 1.

        For x (N, C, …), dims 1, 2, … are a layer norm; all dims but 1, with a weight of shape (C, 1, …), a batch norm.
        Source: Ba, Kiros and Hinton, Layer Normalization, 2016; Ioffe and Szegedy, Batch Normalization, 2015.
        """
        if x.dtype.itemsize == 2:
            x_, weight_, bias_ = _in_float32(self, x, weight, bias)
            out, mean, var = self.normalize(x_, weight_, bias_, dims, eps)
            return self.cast(out, x.dtype), self.cast(mean, x.dtype), self.cast(var, x.dtype)
        mean = self.mean(x, dims, True)
        deviation = self.sub(x, mean)
        error = self.mean(deviation, dims, True)
        var = self.relu(self.sub(self.mean(self.square(deviation), dims, True), self.square(error)))
        normal = self.mul(self.sub(deviation, error), _scale(self, var, eps))
        return self.add(self.mul(normal, weight), bias), self.add(mean, error), var

    @derived(GENERAL, flops=lambda x: 13 * prod(x), batch=normalize_backward_batch)
    def normalize_backward(
        self, grad: Float, x: Float, weight: Float, mean: Float, var: Float, dims: Dims, eps: float
    ) -> tuple[Float, Float, Float]:
        """Gradients of the first result of `normalize` with respect to x, weight and bias.

        For x: (g - mean(g) - n · mean(g · n)) / √(var + eps), with g = grad · weight and n the normalized x.
        """
        if x.dtype.itemsize == 2:
            gradient, x_, weight_, mean_, var_ = _in_float32(self, grad, x, weight, mean, var)
            own = self.mean(self.square(_deviations(self, x_, mean_, dims)), dims, True)
            var_ = self.where(self.isfinite(var_), var_, own)  # in 16 bits it may have overflowed
            grad_x, grad_weight, grad_bias = self.normalize_backward(gradient, x_, weight_, mean_, var_, dims, eps)
            return self.cast(grad_x, x.dtype), self.cast(grad_weight, x.dtype), self.cast(grad_bias, x.dtype)
        scale = _scale(self, var, eps)
        deviation = self.sub(x, mean)
        weighted, error = self.mul(grad, weight), self.mean(deviation, dims, True)
        level = self.mean(weighted, dims, True)
        along = self.mul(self.sub(self.mean(self.mul(weighted, deviation), dims, True), self.mul(error, level)), scale)
        normal = self.mul(self.sub(deviation, error), scale)
        part = self.sub(self.sub(weighted, level), self.mul(normal, along))
        shape = weight.shape
        return self.mul(part, scale), self.sum_to(self.mul(grad, normal), shape), self.sum_to(grad, shape)

    @derived(
        GENERAL,
        elementwise=("weight",),
        like="x",
        flops=lambda x: 4 * prod(x),
        joint=rms_norm_vjp,
        batch=rms_norm_batch,
        onnx="reductions.rms_norm",
    )
    def rms_norm(self, x: Float, weight: Float, dims: Dims, eps: float) -> Float:
        """Root mean square norm: x / √(mean(x²) + eps) · weight, with the mean over dims.

        Source: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.
        """
        if x.dtype.itemsize == 2:
            x_, weight_ = _in_float32(self, x, weight)
            return self.cast(self.rms_norm(x_, weight_, dims, eps), x.dtype)
        scale = _scale(self, self.mean(self.square(x), dims, True), eps)
        return self.mul(self.mul(x, scale), weight)

    @derived(GENERAL, flops=lambda x: 11 * prod(x), batch=rms_norm_backward_batch)
    def rms_norm_backward(self, grad: Float, x: Float, weight: Float, dims: Dims, eps: float) -> tuple[Float, Float]:
        """Gradients of `rms_norm` with respect to x and weight.

        For x: (g - n · mean(g · n)) / √(mean(x²) + eps), with g = grad · weight and n the normalized x.
        """
        if x.dtype.itemsize == 2:
            gradient, x_, weight_ = _in_float32(self, grad, x, weight)
            grad_x, grad_weight = self.rms_norm_backward(gradient, x_, weight_, dims, eps)
            return self.cast(grad_x, x.dtype), self.cast(grad_weight, x.dtype)
        scale = _scale(self, self.mean(self.square(x), dims, True), eps)
        normal, weighted = self.mul(x, scale), self.mul(grad, weight)
        along = self.mul(normal, self.mean(self.mul(weighted, normal), dims, True))
        grad_weight = self.sum_to(self.mul(grad, normal), weight.shape)
        return self.mul(self.sub(weighted, along), scale), grad_weight

    @derived(NONDIFFERENTIABLE, flops=lambda mean: prod(mean))
    def batch_totals(self, mean: Float, var: Float, factor: float) -> Float:
        """One vector of two totals of `average_update`: mean, flat, and 1; var · factor, flat, and 1.

        Mean and variance have one shape and dtype.
        """
        flat, one = (prod(mean.shape),), self.full((1,), 1.0, mean.dtype)
        return self.cat([self.reshape(mean, flat), one, self.reshape(self.mul(var, factor), flat), one], 0)

    @derived(NONDIFFERENTIABLE, flops=4)
    def average_update(self, averages: Sequence[Float], totals: Sequence[Float], share: float) -> list[Float]:
        """Return the running averages of buffers: average · (1 - share) + mean · share.

        Each total is a vector: the sum of some values, flat, and then their number. The mean is the one by the other.
        """
        new = []
        for average, total in zip(averages, totals, strict=True):
            values, number = split_total(self, total)
            mean = self.reshape(self.div(values, number), average.shape)
            new.append(self.add(self.mul(average, 1.0 - share), self.mul(mean, share)))
        return new

    @derived(NONDIFFERENTIABLE, flops=2)
    def count_update(self, count: Int, total: Float) -> Int:
        """Add the number of values of a total, as in `average_update`, to a 0-d count of int64, rounded to an int."""
        number = self.reshape(split_total(self, total)[1], ())
        return self.discrete.add(count, self.to_int(self.round(number), int64))


def split_total(b: Any, total: Float) -> tuple[Float, Float]:
    """Split a vector into the flat sum of values and their number, of shape (1,)."""
    size = total.shape[0] - 1
    return b.slice(total, (slice(0, size, 1),)), b.slice(total, (slice(size, size + 1, 1),))


def _in_float32(b: Normalization, *arrays: Float) -> list[Float]:
    """Return arrays of 16 bits, in which squares overflow from 256 on, in float32."""
    return [b.cast(x, float32) for x in arrays]


def _deviations(b: Normalization, x: Float, mean: Float, dims: Dims) -> Float:
    """Subtract a rounded mean from x, and then its error."""
    deviation = b.sub(x, mean)
    return b.sub(deviation, b.mean(deviation, dims, True))


def _scale(b: Normalization, square: Float, eps: float) -> Float:
    """Compute 1 / √(square + eps); NaN, not 0, where the square overflowed: there inf - inf is added."""
    return b.add(b.rsqrt(b.add(square, eps)), b.sub(square, square))
