"""Normalisation over any dimensions, with temporaries that are written over."""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import float32
from burnpy.backend.primitives import Dims, Shape
from burnpy_array.base import ArrayBase, is_half
from burnpy_array.reduction import count


class Normalization(ArrayBase):
    """16-bit floats are computed in float32."""

    def normalize(self, x: Any, weight: Any, bias: Any, dims: Dims, eps: float) -> tuple[Any, Any, Any]:
        return self._normalized(self._normalize, x.dtype, (x, weight, bias), dims, eps)

    def normalize_backward(
        self, grad: Any, x: Any, weight: Any, mean: Any, var: Any, dims: Dims, eps: float
    ) -> tuple[Any, Any, Any]:
        return self._normalized(self._normalize_backward, x.dtype, (grad, x, weight, mean, var), dims, eps)

    def _normalized(self, f: Any, dtype: Any, given: tuple[Any, ...], dims: Dims, eps: float) -> tuple[Any, Any, Any]:
        """The three results of f, computed in float32 where ``dtype`` has 16 bits."""
        if not is_half(dtype):
            one, two, three = self._call(f, *given, dims, eps)
            return one, two, three
        one, two, three = self._call(f, *[self.cast(x, float32) for x in given], dims, eps)
        return self.cast(one, dtype), self.cast(two, dtype), self.cast(three, dtype)

    def _normalize(self, x: Any, weight: Any, bias: Any, dims: Dims, eps: float) -> tuple[Any, Any, Any]:
        xp = self.xp
        mean = xp.divide(self._total(x, dims, True), count(x, dims))
        out = xp.subtract(x, mean)
        var = xp.divide(self._total(xp.multiply(out, out), dims, True), count(x, dims))
        xp.divide(out, xp.sqrt(xp.add(var, eps)), out)
        xp.multiply(out, weight, out)
        return xp.add(out, bias, out), mean, var

    def _normalize_backward(
        self, grad: Any, x: Any, weight: Any, mean: Any, var: Any, dims: Dims, eps: float
    ) -> tuple[Any, Any, Any]:
        xp, n = self.xp, count(x, dims)
        scale = xp.reciprocal(xp.sqrt(xp.add(var, eps)))
        normal = xp.subtract(x, mean)
        xp.multiply(normal, scale, normal)
        product = xp.multiply(grad, normal)
        by_weight, by_bias = self._sum_to(product, weight.shape), self._sum_to(grad, weight.shape)
        xp.multiply(product, weight, product)
        along = xp.divide(self._total(product, dims, True), n)
        out = xp.multiply(grad, weight, product)
        level = xp.divide(self._total(out, dims, True), n)
        xp.multiply(normal, along, normal)
        xp.subtract(out, normal, out)
        xp.subtract(out, level, out)
        return xp.multiply(out, scale, out), by_weight, by_bias

    def _sum_to(self, x: Any, shape: Shape) -> Any:
        lead = len(x.shape) - len(shape)
        dims = tuple(d for d, n in enumerate(x.shape) if d < lead or (shape[d - lead] == 1 != n))
        return self._total(x, dims, True).reshape(shape) if dims else x.copy()
