"""Normalisation: one operation for the layer, batch, group and instance kinds, which differ in what they take the mean
over and in the shape of their weight; and the root mean square kind, which has no mean."""

from __future__ import annotations

from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import Dims, Float
from burnpy.backend.schema import Algebra, derived

GENERAL = Algebra.GENERAL


class Normalization(OperationsBase):
    """Weight and bias broadcast to x and have no more dimensions; all floats are of one dtype, dims not empty.

    Where the squares of finite numbers overflow, a result is computed from smaller ones, or is NaN: never 0.
    """

    @derived(GENERAL)
    def normalize(self, x: Float, weight: Float, bias: Float, dims: Dims, eps: float) -> tuple[Float, Float, Float]:
        """(x - mean) / √(var + eps) · weight + bias; and the mean and the biased variance over dims, kept as 1.

        Of x (N, C, …) dims 1 … are a layer norm, all but 1 a batch norm with a weight of shape (C, 1, …).
        Source: Ba, Kiros and Hinton, Layer Normalization, 2016; Ioffe and Szegedy, Batch Normalization, 2015.
        """
        mean = self.mean(x, dims, True)
        deviation = self.sub(x, mean)
        var = self.mean(self.square(deviation), dims, True)
        normal = self.mul(deviation, _scale(self, var, eps))
        return self.add(self.mul(normal, weight), bias), mean, var

    @derived(GENERAL)
    def normalize_backward(
        self, grad: Float, x: Float, weight: Float, mean: Float, var: Float, dims: Dims, eps: float
    ) -> tuple[Float, Float, Float]:
        """The gradients of the first result by x, weight and bias.

        That by x is (g - mean(g) - n · mean(g · n)) / √(var + eps), with g = grad · weight and n the normalised x.
        """
        scale = _scale(self, var, eps)
        normal = self.mul(self.sub(x, mean), scale)
        weighted = self.mul(grad, weight)
        along = self.mul(normal, self.mean(self.mul(weighted, normal), dims, True))
        part = self.sub(self.sub(weighted, self.mean(weighted, dims, True)), along)
        shape = weight.shape
        return self.mul(part, scale), self.sum_to(self.mul(grad, normal), shape), self.sum_to(grad, shape)

    @derived(GENERAL)
    def rms_norm(self, x: Float, weight: Float, dims: Dims, eps: float) -> Float:
        """x / √(mean of x² over dims + eps) · weight.

        Source: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.
        """
        scale = _scale(self, self.mean(self.square(x), dims, True), eps)
        return self.mul(self.mul(x, scale), weight)

    @derived(GENERAL)
    def rms_norm_backward(self, grad: Float, x: Float, weight: Float, dims: Dims, eps: float) -> tuple[Float, Float]:
        """The gradients of `rms_norm` by x, as of `normalize` without its means, and by the weight."""
        scale = _scale(self, self.mean(self.square(x), dims, True), eps)
        normal, weighted = self.mul(x, scale), self.mul(grad, weight)
        along = self.mul(normal, self.mean(self.mul(weighted, normal), dims, True))
        by_weight = self.sum_to(self.mul(grad, normal), weight.shape)
        return self.mul(self.sub(weighted, along), scale), by_weight


def _scale(b: Normalization, square: Float, eps: float) -> Float:
    """1 / √(square + eps); NaN, not 0, where the square overflowed, for there infinity less itself is NaN."""
    return b.add(b.rsqrt(b.add(square, eps)), b.sub(square, square))
