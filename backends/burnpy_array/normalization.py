"""Normalisation over any dimensions, with temporaries that are written over."""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import float32
from burnpy.backend.primitives import Dims, Shape
from burnpy_array.base import ArrayBase, is_half
from burnpy_array.reduction import count
from burnpy_array.softmax import widened


class Normalization(ArrayBase):
    """16-bit floats are computed in float32."""

    def normalize(self, x: Any, weight: Any, bias: Any, dims: Dims, eps: float) -> tuple[Any, Any, Any]:
        return self._normalized(self._normalize, x.dtype, (x, weight, bias), dims, eps)

    def normalize_backward(
        self, grad: Any, x: Any, weight: Any, mean: Any, var: Any, dims: Dims, eps: float
    ) -> tuple[Any, Any, Any]:
        return self._normalized(self._normalize_backward, x.dtype, (grad, x, weight, mean, var), dims, eps)

    def rms_norm(self, x: Any, weight: Any, dims: Dims, eps: float) -> Any:
        return self._call(widened, _rms_norm, self, (dims, eps), x, weight)

    def rms_norm_backward(self, grad: Any, x: Any, weight: Any, dims: Dims, eps: float) -> tuple[Any, Any]:
        if is_half(x.dtype):
            wide = [self.cast(a, float32) for a in (grad, x, weight)]
            by_x, by_weight = self._call(_rms_norm_backward, self, wide[0], wide[1], wide[2], dims, eps)
            return self.cast(by_x, x.dtype), self.cast(by_weight, x.dtype)
        by_x, by_weight = self._call(_rms_norm_backward, self, grad, x, weight, dims, eps)
        return by_x, by_weight

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


def _rms(b: Normalization, x: Any, dims: Dims, eps: float) -> tuple[Any, Any]:
    """The root of the mean square, and memory of x's shape."""
    xp = b.xp
    square = xp.multiply(x, x)
    mean = xp.divide(b._total(square, dims, True), count(x, dims))
    return xp.sqrt(xp.add(mean, eps)), square


def _rms_norm(b: Normalization, where: tuple[Dims, float], x: Any, weight: Any) -> Any:
    root, out = _rms(b, x, *where)
    b.xp.divide(x, root, out)
    return b.xp.multiply(out, weight, out)


def _rms_norm_backward(b: Normalization, grad: Any, x: Any, weight: Any, dims: Dims, eps: float) -> tuple[Any, Any]:
    xp = b.xp
    root, normal = _rms(b, x, dims, eps)
    xp.divide(x, root, normal)
    product = xp.multiply(grad, normal)
    by_weight = b._sum_to(product, weight.shape)
    xp.multiply(product, weight, product)
    along = xp.divide(b._total(product, dims, True), count(x, dims))
    out = xp.multiply(grad, weight, product)
    xp.multiply(normal, along, normal)
    xp.subtract(out, normal, out)
    return xp.divide(out, root, out), by_weight
