"""Normalisation over any dimensions, computed in place on its temporaries.

The squares of finite numbers may overflow, and a quotient by infinity is 0. If the backend can read values without
waiting, such groups are computed from numbers scaled by a power of 2; otherwise their results are NaN.
"""

from __future__ import annotations

from typing import Any

from burnpy.backend.primitives import Dims, Shape
from burnpy_array.array_base import ArrayBase, is_half
from burnpy_array.reduction import count, exponents


class ArrayNormalization(ArrayBase):
    """Normalisation and its gradients; 16-bit floats are computed in float32."""

    def normalize(self, x: Any, weight: Any, bias: Any, dims: Dims, eps: float) -> tuple[Any, Any, Any]:
        if is_half(x.dtype):
            out, mean, var = self._in_float32(self.normalize, x, weight, bias, dims, eps)
            return out, mean, var
        return self._call(_normalize, self, x, weight, bias, dims, eps)  # type: ignore[no-any-return]  # as the function returns

    def normalize_backward(
        self, grad: Any, x: Any, weight: Any, mean: Any, var: Any, dims: Dims, eps: float
    ) -> tuple[Any, Any, Any]:
        args = grad, x, weight, mean, var, dims, eps
        if is_half(grad.dtype):
            grad_x, grad_weight, grad_bias = self._in_float32(self.normalize_backward, *args)
            return grad_x, grad_weight, grad_bias
        return self._call(_normalize_backward, self, *args)  # type: ignore[no-any-return]  # as the function returns

    def rms_norm(self, x: Any, weight: Any, dims: Dims, eps: float) -> Any:
        if is_half(x.dtype):
            return self._in_float32(self.rms_norm, x, weight, dims, eps)[0]
        return self._call(_rms_norm, self, x, weight, dims, eps)[0]

    def rms_norm_backward(self, grad: Any, x: Any, weight: Any, dims: Dims, eps: float) -> tuple[Any, Any]:
        if is_half(grad.dtype):
            grad_x, grad_weight = self._in_float32(self.rms_norm_backward, grad, x, weight, dims, eps)
            return grad_x, grad_weight
        return self._call(_rms_norm_backward, self, grad, x, weight, dims, eps)  # type: ignore[no-any-return]  # as the function returns

    def _normalize(self, x: Any, weight: Any, bias: Any, dims: Dims, eps: Any) -> tuple[Any, Any, Any]:
        """Implement `normalize` for squares that do not overflow, with one ``eps`` for all groups or one per group."""
        xp = self.xp
        mean = xp.divide(self._total(x, dims, True), count(x, dims))
        out, error = _deviations(self, x, mean, dims)
        mean = xp.add(mean, error)
        var = xp.divide(self._total(xp.multiply(out, out), dims, True), count(x, dims))
        root = _root(self, var, eps)
        if _is_of_groups(weight, root):
            xp.multiply(out, xp.divide(weight, root), out)
        else:
            xp.divide(out, root, out)
            xp.multiply(out, weight, out)
        return xp.add(out, bias, out), mean, var

    def _normalize_backward(
        self, grad: Any, x: Any, weight: Any, mean: Any, var: Any, dims: Dims, eps: Any
    ) -> tuple[Any, Any, Any]:
        """Implement `normalize_backward` for squares that do not overflow."""
        xp, n = self.xp, count(x, dims)
        scale = xp.reciprocal(_root(self, var, eps))
        normal, _ = _deviations(self, x, mean, dims)
        xp.multiply(normal, scale, normal)
        product = xp.multiply(grad, normal)
        grad_weight, grad_bias = self._sum_to(product, weight.shape), self._sum_to(grad, weight.shape)
        if _is_of_groups(weight, scale):
            along, level = [xp.divide(xp.multiply(part, weight), n) for part in (grad_weight, grad_bias)]
            out = xp.multiply(grad, weight, product)
        else:
            xp.multiply(product, weight, product)
            along = xp.divide(self._total(product, dims, True), n)
            out = xp.multiply(grad, weight, product)
            level = xp.divide(self._total(out, dims, True), n)
        xp.multiply(normal, along, normal)
        xp.subtract(out, normal, out)
        xp.subtract(out, level, out)
        return xp.multiply(out, scale, out), grad_weight, grad_bias

    def _overflowed(self, squares: Any) -> bool:
        """Return whether a mean of squares is not finite; always False if reading values would wait for the device."""
        return bool(self.eager_checks and not self.xp.isfinite(squares).all())

    def _sum_to(self, x: Any, shape: Shape) -> Any:
        lead = len(x.shape) - len(shape)
        dims = tuple(d for d, n in enumerate(x.shape) if d < lead or (shape[d - lead] == 1 != n))
        return self._total(x, dims, True).reshape(shape) if dims else x.copy()


def _is_of_groups(weight: Any, root: Any) -> bool:
    """Return whether a weight has one number for each group, as in batch norm."""
    return bool((1,) * (root.ndim - weight.ndim) + weight.shape == root.shape)


def _deviations(b: ArrayBase, x: Any, mean: Any, dims: Dims) -> tuple[Any, Any]:
    """Subtract a rounded mean from x, and then its error; return the error, too."""
    deviation = b.xp.subtract(x, mean)
    error = b.xp.divide(b._total(deviation, dims, True), count(x, dims))
    return b.xp.subtract(deviation, error, deviation), error


def _root(b: ArrayBase, square: Any, eps: Any) -> Any:
    """√(square + eps); NaN where the square overflowed."""
    return b.xp.add(b.xp.sqrt(b.xp.add(square, eps)), b.xp.subtract(square, square))


class Scaled:
    """A primitive whose groups over ``dims`` are scaled by powers of 2 to magnitudes of at most 1, and eps likewise."""

    def __init__(self, b: ArrayBase, x: Any, dims: Dims, eps: float) -> None:
        xp, self.xp = b.xp, b.xp
        self.exponent = xp.maximum(exponents(b, x, dims), 0)
        self.x = self.down(x)
        self.eps = self.down(xp.full(self.exponent.shape, eps, x.dtype), 2)

    def down(self, x: Any, power: int = 1) -> Any:
        """Scale a quantity that is proportional to x ** power down, to match the scaled x."""
        return self.xp.ldexp(x, self.xp.multiply(self.exponent, -power))

    def up(self, x: Any, power: int = 1) -> Any:
        """Undo `down`."""
        return self.xp.ldexp(x, self.xp.multiply(self.exponent, power))


_plain = ArrayNormalization


def _normalize(b: ArrayNormalization, x: Any, weight: Any, bias: Any, dims: Dims, eps: float) -> tuple[Any, ...]:
    results = b._normalize(x, weight, bias, dims, eps)
    if not b._overflowed(results[2]):
        return results
    scaled = Scaled(b, x, dims, eps)
    out, mean, var = _plain._normalize(b, scaled.x, weight, bias, dims, scaled.eps)
    return out, scaled.up(mean), scaled.up(var, 2)


def _normalize_backward(
    b: ArrayNormalization, grad: Any, x: Any, weight: Any, mean: Any, var: Any, dims: Dims, eps: float
) -> tuple[Any, ...]:
    if not b._overflowed(var):
        return b._normalize_backward(grad, x, weight, mean, var, dims, eps)
    xp, scaled = b.xp, Scaled(b, x, dims, eps)
    own, n = scaled.x, count(x, dims)
    known = xp.isfinite(var)
    mean = xp.where(known, scaled.down(mean), xp.divide(b._total(own, dims, True), n))
    deviation, _ = _deviations(b, own, mean, dims)
    var = xp.where(known, scaled.down(var, 2), xp.divide(b._total(xp.multiply(deviation, deviation), dims, True), n))
    grad_x, grad_weight, grad_bias = _plain._normalize_backward(b, grad, own, weight, mean, var, dims, scaled.eps)
    return scaled.down(grad_x), grad_weight, grad_bias


def _squares(b: ArrayBase, x: Any, dims: Dims) -> tuple[Any, Any]:
    """Return the mean of the squares over ``dims``, and an array of x's shape that can be overwritten."""
    memory = b.xp.multiply(x, x)
    return b.xp.divide(b._total(memory, dims, True), count(x, dims)), memory


def _rms_norm(b: ArrayNormalization, x: Any, weight: Any, dims: Dims, eps: Any) -> tuple[Any, ...]:
    square, out = _squares(b, x, dims)
    if b._overflowed(square):
        scaled = Scaled(b, x, dims, eps)
        x, eps = scaled.x, scaled.eps
        square, out = _squares(b, x, dims)
    b.xp.divide(x, b.xp.sqrt(b.xp.add(square, eps)) if b.eager_checks else _root(b, square, eps), out)
    return (b.xp.multiply(out, weight, out),)


def _rms_norm_backward(b: ArrayNormalization, grad: Any, x: Any, weight: Any, dims: Dims, eps: Any) -> tuple[Any, ...]:
    xp = b.xp
    square, normal = _squares(b, x, dims)
    scaled = None
    if b._overflowed(square):
        scaled = Scaled(b, x, dims, eps)
        x, eps = scaled.x, scaled.eps
        square, normal = _squares(b, x, dims)
    root = xp.sqrt(xp.add(square, eps)) if b.eager_checks else _root(b, square, eps)
    xp.divide(x, root, normal)
    product = xp.multiply(grad, normal)
    grad_weight = b._sum_to(product, weight.shape)
    xp.multiply(product, weight, product)
    along = xp.divide(b._total(product, dims, True), count(x, dims))
    out = xp.multiply(grad, weight, product)
    xp.multiply(normal, along, normal)
    xp.subtract(out, normal, out)
    xp.divide(out, root, out)
    return (out if scaled is None else scaled.down(out)), grad_weight
